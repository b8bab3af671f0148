"""`mindspore.Tensor`: makes adjoint's tensors with MindSpore's arguments."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.compat.uncovered import uncovered
from adjoint.ir import as_dtype
from adjoint.tensor.tensor import Tensor as Native
from adjoint.tensor.tensor import from_array

__all__ = ["Tensor"]


class _AnyTensor(type):
    """Every tensor of adjoint is an instance."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Native)


class Tensor(metaclass=_AnyTensor):
    """``Tensor(input_data, dtype, shape, init)``: an `adjoint.Tensor`.

    Parameters
    ----------
    input_data : Tensor, numpy.ndarray, number, or nested list of numbers, optional
        Its elements; Python's floats become float32 and integers int64.
    dtype : dtype, optional
        Their type.
    shape : int or sequence of int, optional
        Without data: the shape.
    init : Initializer, optional
        Without data: what fills it.
    """

    def __new__(  # type: ignore[misc]  # every tensor is an instance
        cls, input_data: Any = None, dtype: Any = None, shape: int | Sequence[int] | None = None, init: Any = None
    ) -> Native:
        """An `adjoint.Tensor`."""
        if input_data is None and init is not None:
            filled: Native = init((shape,) if isinstance(shape, int) else tuple(shape or ()), dtype)
            return filled
        given = input_data.asnumpy() if isinstance(input_data, Native) else input_data
        array = np.array(given if given is not None else [])
        if dtype is not None:
            array = array.astype(as_dtype(dtype))
        elif array.dtype == np.float64 and not isinstance(given, np.ndarray | np.generic):
            array = array.astype(np.float32)
        return from_array(array, copy=False)

    @staticmethod
    def from_numpy(array: np.ndarray) -> Native:
        """A tensor that shares the memory of an array."""
        return from_array(array, copy=False)


__getattr__ = uncovered(__name__, {}, "adjoint.Tensor")
