"""Distributions whose random numbers are made of gamma variables, and have their gradients."""

from math import inf, log, nan, pi
from typing import Any

from adjoint import ops
from adjoint.distributions.base import Distribution, digamma, log_gamma, parameters
from adjoint.distributions.continuous import Gamma
from adjoint.tensor.random_distributions import drawn
from adjoint.tensor.record import operation

__all__ = ["Chi2", "Dirichlet", "StudentT"]

_log1p: Any = operation(ops.log1p)


@operation
def _chosen(condition: Any, then: Any, other: Any) -> Any:
    return ops.where(condition, then, other)


class Chi2(Gamma):
    """The chi-squared distribution: that of the sum of squares of standard normal numbers.

    Parameters
    ----------
    df : Tensor or float
        The number of degrees of freedom.
    """

    def __init__(self, df: Any) -> None:
        (self.df,) = parameters("Chi2", df)
        super().__init__(self.df / 2, 0.5)


class StudentT(Distribution):
    """Student's t-distribution.

    Parameters
    ----------
    df : Tensor or float
        The number of degrees of freedom.
    loc, scale : Tensor or float, default 0.0 and 1.0
        What numbers of the standard distribution are multiplied by, and what is added to them.
    """

    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> None:
        self.df, self.loc, self.scale = parameters("StudentT", df, loc, scale)
        self.batch_shape = tuple(self.df.shape)

    @property
    def mean(self) -> Any:
        """The mean, NaN for up to one degree of freedom."""
        return _chosen(self.df > 1, self.loc, nan)

    @property
    def variance(self) -> Any:
        """The variance: infinity for up to two degrees of freedom, and NaN for up to one."""
        finite = self.scale**2 * self.df / (self.df - 2)
        return _chosen(self.df > 2, finite, _chosen(self.df > 1, finite * 0 + inf, nan))

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        dtype = self.df._spec.type.dtype
        square = drawn("gamma", shape, dtype, self.df / 2) * 2
        return self.loc + self.scale * drawn("normal", shape, dtype) * (self.df / square).sqrt()

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        half = self.df / 2
        y = (value - self.loc) / self.scale
        total = self.scale.log() + self.df.log() / 2 + log(pi) / 2 + log_gamma(half) - log_gamma(half + 0.5)
        return -(half + 0.5) * _log1p(y**2 / self.df) - total

    def entropy(self) -> Any:
        """The entropy."""
        half = self.df / 2
        beta = log_gamma(half) + log(pi) / 2 - log_gamma(half + 0.5)
        return self.scale.log() + (half + 0.5) * (digamma(half + 0.5) - digamma(half)) + self.df.log() / 2 + beta


class Dirichlet(Distribution):
    """The Dirichlet distribution of points whose coordinates are positive and add up to 1.

    Parameters
    ----------
    concentration : Tensor
        The shape parameters, along the last axis.
    """

    has_rsample = True

    def __init__(self, concentration: Any) -> None:
        (self.concentration,) = parameters("Dirichlet", concentration)
        shape = tuple(self.concentration.shape)
        self.batch_shape, self.event_shape = shape[:-1], shape[-1:]

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def variance(self) -> Any:
        """The variance of each coordinate."""
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def log_normalizer(self) -> Any:
        """The logarithm of the beta function of the parameters."""
        return log_gamma(self.concentration).sum(-1) - log_gamma(self.concentration.sum(-1))

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        return drawn("dirichlet", shape, self.concentration._spec.type.dtype, self.concentration)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        return ((self.concentration - 1) * value.log()).sum(-1) - self.log_normalizer()

    def entropy(self) -> Any:
        """The entropy."""
        a, total = self.concentration, self.concentration.sum(-1)
        rest = ((a - 1) * digamma(a)).sum(-1)
        return self.log_normalizer() + (total - self.event_shape[0]) * digamma(total) - rest
