"""Distributions of real numbers."""

from math import e, log, pi, sqrt
from typing import Any

from adjoint import ops
from adjoint.distributions.base import Distribution, digamma, log_gamma, parameters
from adjoint.tensor.random_distributions import drawn
from adjoint.tensor.record import operation

__all__ = ["Beta", "Exponential", "Gamma", "Laplace", "Normal", "Uniform"]


def _standard(name: str, shape: tuple[int, ...], like: Any) -> Any:
    return drawn(name, shape, like._spec.type.dtype)


class Normal(Distribution):
    """The normal distribution.

    Parameters
    ----------
    loc, scale : Tensor or float
        Mean and standard deviation.
    """

    has_rsample = True

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = parameters("Normal", loc, scale)
        self.batch_shape = tuple(self.loc.shape)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.scale

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.scale**2

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        return self.loc + self.scale * _standard("normal", shape, self.loc)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -(((value - self.loc) / self.scale) ** 2) / 2 - self.scale.log() - log(2 * pi) / 2

    def cdf(self, value: Any) -> Any:
        """The distribution function."""
        return (((value - self.loc) / (self.scale * sqrt(2))).erf() + 1) / 2

    def entropy(self) -> Any:
        """``log(scale * sqrt(2 * pi * e))``."""
        return self.scale.log() + log(2 * pi * e) / 2


class Uniform(Distribution):
    """The uniform distribution in ``[low, high)``.

    Parameters
    ----------
    low, high : Tensor or float
        The bounds.
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = parameters("Uniform", low, high)
        self.batch_shape = tuple(self.low.shape)

    @property
    def mean(self) -> Any:
        """The mean."""
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Any:
        """The variance."""
        return (self.high - self.low) ** 2 / 12

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        return self.low + (self.high - self.low) * _standard("uniform", shape, self.low)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density: minus infinity outside of the bounds."""
        inside = (value >= self.low) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self) -> Any:
        """``log(high - low)``."""
        return (self.high - self.low).log()


class Exponential(Distribution):
    """The exponential distribution.

    Parameters
    ----------
    rate : Tensor or float
        The inverse of the mean.
    """

    has_rsample = True

    def __init__(self, rate: Any) -> None:
        (self.rate,) = parameters("Exponential", rate)
        self.batch_shape = tuple(self.rate.shape)

    @property
    def mean(self) -> Any:
        """The mean."""
        return 1 / self.rate

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.rate**-2

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        return _standard("exponential", shape, self.rate) / self.rate

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, for values of at least 0."""
        return self.rate.log() - self.rate * value

    def entropy(self) -> Any:
        """``1 - log(rate)``."""
        return 1 - self.rate.log()


class Laplace(Distribution):
    """The Laplace distribution.

    Parameters
    ----------
    loc, scale : Tensor or float
        The mean, and the mean absolute deviation from it.
    """

    has_rsample = True

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = parameters("Laplace", loc, scale)
        self.batch_shape = tuple(self.loc.shape)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variance."""
        return 2 * self.scale**2

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        return self.loc + self.scale * _standard("laplace", shape, self.loc)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def entropy(self) -> Any:
        """``1 + log(2 * scale)``."""
        return 1 + (2 * self.scale).log()


class Gamma(Distribution):
    """The gamma distribution.

    Parameters
    ----------
    concentration, rate : Tensor or float
        The shape parameter, and the inverse of the scale.
    """

    has_rsample = True

    def __init__(self, concentration: Any, rate: Any) -> None:
        self.concentration, self.rate = parameters("Gamma", concentration, rate)
        self.batch_shape = tuple(self.rate.shape)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration / self.rate

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.concentration / self.rate**2

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        return drawn("gamma", shape, self.rate._spec.type.dtype, self.concentration) / self.rate

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, for positive values."""
        a = self.concentration
        return a * self.rate.log() + (a - 1) * value.log() - self.rate * value - log_gamma(a)

    def entropy(self) -> Any:
        """The entropy."""
        a = self.concentration
        return a - self.rate.log() + log_gamma(a) + (1 - a) * digamma(a)


class Beta(Distribution):
    """The beta distribution.

    Parameters
    ----------
    concentration1, concentration0 : Tensor or float
        The shape parameters, of which the first is greater where values are close to 1.
    """

    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any) -> None:
        self.concentration1, self.concentration0 = parameters("Beta", concentration1, concentration0)
        self.batch_shape = tuple(self.concentration1.shape)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self) -> Any:
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def log_normalizer(self) -> Any:
        """The logarithm of the beta function of the parameters."""
        a, b = self.concentration1, self.concentration0
        return log_gamma(a) + log_gamma(b) - log_gamma(a + b)

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        dtype = self.concentration1._spec.type.dtype
        return drawn("beta", shape, dtype, self.concentration1, self.concentration0)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, for values between 0 and 1."""
        a, b = self.concentration1, self.concentration0
        return (a - 1) * value.log() + (b - 1) * _log1p(-value) - self.log_normalizer()

    def entropy(self) -> Any:
        """The entropy."""
        a, b = self.concentration1, self.concentration0
        inner = (a - 1) * digamma(a) + (b - 1) * digamma(b) - (a + b - 2) * digamma(a + b)
        return self.log_normalizer() - inner


_log1p: Any = operation(ops.log1p)
