"""New parameters and buffers of layers, with the dtype and the device that the layer was given."""

import numpy as np

from adjoint.tensor.environment import check_device, dtype_of, get_default_dtype
from adjoint.tensor.making import from_array
from adjoint.tensor.random import host_normal, host_uniform
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["drawn", "drawn_normal", "filled", "filled_buffer", "own_dtype"]


def own_dtype(device: object, dtype: object) -> np.dtype:
    """The dtype of a layer's parameters; raises unless the device is the CPU."""
    check_device(device)
    return dtype_of(dtype) or get_default_dtype()


def drawn(shape: tuple[int, ...], bound: float, dtype: np.dtype) -> Parameter:
    """A parameter drawn evenly from ``[-bound, bound)``."""
    return Parameter(from_array(host_uniform(shape, -bound, bound, dtype), copy=False))


def drawn_normal(shape: tuple[int, ...], dtype: np.dtype) -> Parameter:
    """A parameter drawn from the standard normal distribution."""
    return Parameter(from_array(host_normal(shape, 0.0, 1.0, dtype), copy=False))


def filled(shape: tuple[int, ...], value: float, dtype: np.dtype) -> Parameter:
    """A parameter of one value."""
    return Parameter(from_array(np.full(shape, value, dtype), copy=False))


def filled_buffer(shape: tuple[int, ...], value: float, dtype: np.dtype) -> Tensor:
    """A tensor of one value, without a gradient."""
    return from_array(np.full(shape, value, dtype), copy=False)
