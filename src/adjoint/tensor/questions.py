"""Functions that answer questions about tensors without reading their elements."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import as_dtype, is_float
from adjoint.tensor.promotion import common_dtype, result_dtype
from adjoint.tensor.size import Size
from adjoint.tensor.trace import Recorded

__all__ = [
    "broadcast_shapes",
    "is_complex",
    "is_floating_point",
    "is_nonzero",
    "is_same_size",
    "is_tensor",
    "numel",
    "promote_types",
    "result_type",
]


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


def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    return bool(tuple(input.shape) == tuple(other.shape))


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape to which shapes broadcast.

    Raises
    ------
    TypeRuleError
        If they do not.
    """
    try:
        return Size(np.broadcast_shapes(*((n,) if isinstance(n, int) else tuple(n) for n in shapes)))
    except ValueError:
        given = ", ".join(str(list(n) if isinstance(n, Sequence) else [n]) for n in shapes)
        raise TypeRuleError(f"broadcast_shapes: sizes must be equal or 1, got {given}; reshape one") from None


def promote_types(type1: Any, type2: Any) -> np.dtype:
    """The dtype of an operation on tensors of two dtypes, neither of them a scalar."""
    return common_dtype(as_dtype(type1), as_dtype(type2))


def result_type(tensor1: Any, tensor2: Any) -> np.dtype:
    """The dtype of an operation on two tensors or numbers."""
    return result_dtype((tensor1, tensor2))
