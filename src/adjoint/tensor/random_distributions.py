"""Random tensors of further distributions: `poisson`, and elements drawn in place, by `adjoint.ops.random`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Value, is_float
from adjoint.tensor.generator import Generator
from adjoint.tensor.random import next_key
from adjoint.tensor.record import entry_of, operation, record
from adjoint.tensor.trace import Recorded, state

__all__ = ["DistributionMethods", "drawn", "drawn_classes", "poisson"]

#: The functions of `ops.random` that take no parameters of the distribution, and those that do.
_STANDARD = {
    name: getattr(ops.random, name) for name in ("cauchy", "exponential", "gumbel", "laplace", "normal", "uniform")
}
_OF_PARAMETERS = {
    name: getattr(ops.random, name)
    for name in ("beta", "dirichlet", "gamma", "geometric", "poisson", "truncated_normal")
}


@operation
def _standard(key: Value, name: str, shape: tuple[int, ...], dtype: np.dtype) -> Value:
    made: Value = _STANDARD[name](key, shape, dtype)
    return made


@operation
def _affine(key: Value, name: str, loc: float, scale: float, shape: tuple[int, ...], dtype: np.dtype) -> Value:
    return ops.add(ops.multiply(_STANDARD[name](key, shape, dtype), scale), loc)


@operation
def _log_normal(key: Value, mean: float, std: float, shape: tuple[int, ...], dtype: np.dtype) -> Value:
    return ops.exp(ops.add(ops.multiply(ops.random.normal(key, shape, dtype), std), mean))


@operation
def _of_parameters(key: Value, name: str, shape: tuple[int, ...], dtype: np.dtype, *parameters: Value) -> Value:
    made: Value = _OF_PARAMETERS[name](key, *parameters, shape=shape, dtype=dtype)
    return made


@operation
def _classes(key: Value, logits: Value, shape: tuple[int, ...]) -> Value:
    return ops.random.categorical(key, logits, -1, shape)


_STANDARD_ENTRY, _AFFINE, _LOG_NORMAL, _OF, _CLASSES = (
    entry_of(f) for f in (_standard, _affine, _log_normal, _of_parameters, _classes)
)


def drawn(
    name: str, shape: Sequence[int], dtype: np.dtype, *parameters: Any, generator: Generator | None = None
) -> Any:
    """Random numbers of a distribution of `ops.random`, by its name, with tensors as parameters if it takes any."""
    key = next_key(generator)
    if parameters:
        return record(_OF, (key, name, tuple(shape), dtype, *parameters))
    return record(_STANDARD_ENTRY, (key, name, tuple(shape), dtype))


def drawn_classes(logits: Any, shape: Sequence[int]) -> Any:
    """Indices along the last axis of logits, with their probabilities; the shape ends with that of the other axes."""
    return record(_CLASSES, (next_key(), logits, tuple(shape)))


def poisson(input: Any, generator: Generator | None = None) -> Any:
    """Random numbers of the Poisson distribution with the rates that the elements state, in the tensor's dtype.

    Parameters
    ----------
    input : Tensor
        Rates, float, from 0.
    generator : Generator, optional
        Default: the one that `manual_seed` seeds.
    """
    type_ = input._spec.type
    if not is_float(type_.dtype):
        raise TypeRuleError(f"poisson: the rates must have a float dtype, got {type_}; convert them with float()")
    return drawn("poisson", type_.shape, type_.dtype, input, generator=generator)


class DistributionMethods(Recorded):
    """The part of `Tensor` that draws elements of further distributions in place."""

    def _redrawn(self, name: str, made: Any) -> Any:
        spec = self._spec
        if spec.requires_grad and spec.leaf and state.grad:
            raise InvalidValueError(
                f"{name}: a leaf that requires a gradient cannot be changed in place, got {spec.type}; do it within "
                "no_grad()"
            )
        return self.copy_(made)  # type: ignore[attr-defined]

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Any:
        """Replace the elements by floats of the Cauchy distribution with this median and scale."""
        type_ = self._spec.type
        args = (next_key(generator), "cauchy", float(median), float(sigma), type_.shape, type_.dtype)
        return self._redrawn("cauchy_", record(_AFFINE, args))

    def log_normal_(self, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Any:
        """Replace the elements by floats whose logarithms have a normal distribution with this mean and deviation."""
        type_ = self._spec.type
        args = (next_key(generator), float(mean), float(std), type_.shape, type_.dtype)
        return self._redrawn("log_normal_", record(_LOG_NORMAL, args))

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Any:
        """Replace the elements by numbers of trials up to the first success of probability `p`: 1 or more."""
        if not 0 < p < 1:
            raise InvalidValueError(f"geometric_: p must be between 0 and 1, got {p!r}; pass a probability")
        type_ = self._spec.type
        made = record(_OF, (next_key(generator), "geometric", type_.shape, type_.dtype, float(p)))
        return self._redrawn("geometric_", made)
