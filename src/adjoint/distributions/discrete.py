"""Distributions of truth and of classes."""

from typing import Any

from adjoint import ops
from adjoint.distributions.base import Distribution, parameters
from adjoint.errors import InvalidValueError
from adjoint.ir import Value, is_float
from adjoint.tensor.random import bernoulli
from adjoint.tensor.random_distributions import drawn_classes
from adjoint.tensor.record import operation
from adjoint.tensor.shapes import broadcast_to

__all__ = ["Bernoulli", "Categorical"]


@operation
def _logit(p: Value) -> Value:
    return ops.subtract(ops.log(p), ops.log1p(ops.negative(p)))


@operation
def _bernoulli_log_prob(logits: Value, value: Value) -> Value:
    """``value * logits - log(1 + exp(logits))``, as the binary cross-entropy computes it."""
    logits, value = ops.broadcast(logits, value)
    return ops.negative(ops.add(ops.multiply(ops.subtract(1.0, value), logits), ops.softplus(ops.negative(logits))))


@operation
def _chosen(logs: Value, value: Value) -> Value:
    """The elements of logarithms at class indices, along the last axis."""
    ids = ops.cast(value, "i64") if is_float(value.dtype) else value
    batch = logs.shape[:-1]
    size = len(ids.shape) - len(batch)
    lead = ids.shape[: max(size, 0)]
    shape = (*lead, *batch)
    wide = ops.broadcast_to(logs, (*shape, logs.shape[-1]))
    return ops.take_along_last(wide, ops.broadcast_to(ids, shape))


@operation
def _entropy(logs: Value) -> Value:
    p = ops.exp(logs)
    return ops.negative(ops.sum(ops.where(ops.greater(p, 0.0), ops.multiply(p, logs), 0.0), -1))


def _one_of(name: str, probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise InvalidValueError(
            f"{name}: there must be either probs or logits, got {'none' if probs is None else 'both'}; pass one"
        )


class Bernoulli(Distribution):
    """0 or 1.

    Parameters
    ----------
    probs : Tensor or float, optional
        The probability of 1.
    logits : Tensor or float, optional
        Its logit, instead.

    Raises
    ------
    InvalidValueError
        Unless there is one of them.
    """

    def __init__(self, probs: Any = None, logits: Any = None) -> None:
        _one_of("Bernoulli", probs, logits)
        if probs is not None:
            (self.probs,) = parameters("Bernoulli", probs)
            self.logits = _logit(self.probs)
        else:
            (self.logits,) = parameters("Bernoulli", logits)
            self.probs = self.logits.sigmoid()
        self.batch_shape = tuple(self.probs.shape)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.probs

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.probs * (1 - self.probs)

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        return bernoulli(broadcast_to(self.probs, shape))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability."""
        return _bernoulli_log_prob(self.logits, value)

    def entropy(self) -> Any:
        """The entropy."""
        return -_bernoulli_log_prob(self.logits, self.probs)


class Categorical(Distribution):
    """Class indices, with probabilities along the last axis.

    Parameters
    ----------
    probs : Tensor, optional
        Probabilities, which need not be normalized.
    logits : Tensor, optional
        Their logarithms, instead.

    Raises
    ------
    InvalidValueError
        Unless there is one of them.
    """

    def __init__(self, probs: Any = None, logits: Any = None) -> None:
        _one_of("Categorical", probs, logits)
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
            self.logits = self.probs.log()
        else:
            self.logits = logits.log_softmax(-1)
            self.probs = self.logits.exp()
        self.batch_shape = tuple(self.logits.shape[:-1])

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        return drawn_classes(self.logits, shape)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability of class indices."""
        return _chosen(self.logits, value)

    def entropy(self) -> Any:
        """The entropy."""
        return _entropy(self.logits)
