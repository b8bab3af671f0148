"""New parameters and buffers of layers, with the dtype and the device that the layer was given."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import index
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, described, kind_of
from adjoint.tensor.environment import check_device, dtype_of, get_default_dtype
from adjoint.tensor.making import from_array
from adjoint.tensor.random import host_normal, host_uniform
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = [
    "check_sizes",
    "drawn",
    "drawn_normal",
    "filled",
    "filled_buffer",
    "own_dtype",
    "require_tensor",
    "undrawn",
    "wants_draws",
]


#: Whether new parameters are drawn.
_DRAWN: ContextVar[bool] = ContextVar("adjoint_drawn", default=True)


@contextmanager
def undrawn() -> Iterator[None]:
    """A context in which new parameters that would be drawn are zeros, because they are going to be loaded."""
    token = _DRAWN.set(False)
    try:
        yield
    finally:
        _DRAWN.reset(token)


def wants_draws() -> bool:
    """Whether new parameters are drawn: False within `undrawn`."""
    return _DRAWN.get()


def check_sizes(layer: str, **sizes: Any) -> None:
    """Raise unless the sizes of a layer, by the names of its parameters, are integers of at least 0."""
    for name, size in sizes.items():
        try:
            number = index(size)
        except TypeError:
            raise TypeRuleError(
                f"{layer}: {name} must be an integer, got {_shown(size)}; pass a whole number, such as a // b"
            ) from None
        if number < 0:
            raise InvalidValueError(f"{layer}: {name} must be at least 0, got {number}; pass a size")


def require_tensor(layer: str, given: Any) -> None:
    """Raise unless a layer is called with a tensor."""
    if not hasattr(given, "shape"):
        fix = "does the layer before it return its result?" if given is None else "convert it with adjoint.tensor"
        raise TypeRuleError(f"{layer}: the input must be a tensor, got {_shown(given)}; {fix}")


def _shown(given: Any) -> str:
    return described(given) if isinstance(given, int | float | str) else kind_of(given)


def own_dtype(device: object, dtype: object) -> np.dtype:
    """The dtype of a layer's parameters; raises unless the device is the CPU."""
    check_device(device)
    return dtype_of(dtype) or get_default_dtype()


def drawn(shape: tuple[int, ...], bound: float, dtype: np.dtype) -> Parameter:
    """A parameter drawn evenly from ``[-bound, bound)``."""
    made = host_uniform(shape, -bound, bound, dtype) if wants_draws() else np.zeros(shape, dtype)
    return Parameter(from_array(made, copy=False))


def drawn_normal(shape: tuple[int, ...], dtype: np.dtype) -> Parameter:
    """A parameter drawn from the standard normal distribution."""
    made = host_normal(shape, 0.0, 1.0, dtype) if wants_draws() else np.zeros(shape, dtype)
    return Parameter(from_array(made, copy=False))


def filled(shape: tuple[int, ...], value: float, dtype: np.dtype) -> Parameter:
    """A parameter of one value."""
    return Parameter(from_array(np.full(shape, value, dtype), copy=False))


def filled_buffer(shape: tuple[int, ...], value: float, dtype: np.dtype) -> Tensor:
    """A tensor of one value, without a gradient."""
    return from_array(np.full(shape, value, dtype), copy=False)
