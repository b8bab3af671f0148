"""Functions that answer questions about tensors without reading their elements."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir import is_float
from adjoint.tensor.promotion import result_dtype
from adjoint.tensor.trace import Recorded

__all__ = ["is_complex", "is_floating_point", "is_nonzero", "is_tensor", "numel", "result_type"]


def is_tensor(obj: object) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Recorded)


def is_floating_point(input: Any) -> bool:
    """Whether the dtype of a tensor is float."""
    return is_float(input.dtype)


def is_complex(input: Any) -> bool:  # noqa: ARG001
    """False: there are no complex dtypes."""
    return False


def is_nonzero(input: Any) -> bool:
    """Whether the only element of a tensor is not zero: reads it."""
    if input.numel() != 1:
        raise InvalidValueError(
            f"is_nonzero: the tensor must have one element, got {input.numel()}; use any() or all()"
        )
    return bool(input)


def numel(input: Any) -> int:
    """The number of elements of a tensor."""
    count: int = input.numel()
    return count


def result_type(tensor1: Any, tensor2: Any) -> np.dtype:
    """The dtype of an operation on two tensors or numbers."""
    return result_dtype((tensor1, tensor2))
