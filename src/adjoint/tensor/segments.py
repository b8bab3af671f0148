"""Functions of positions that PyTorch does not have: coordinates, computed slices, segments of rows, sparse products.

They are those of `adjoint.ops`, for tensors.
"""

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.ir import Value
from adjoint.tensor.record import operation

__all__ = [
    "coo_matmul",
    "csr_matmul",
    "dynamic_slice",
    "dynamic_update_slice",
    "gather_nd",
    "scatter_nd",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_sum",
]


@operation
def gather_nd(input: Value, index: Value) -> Value:
    """Elements, or parts, at coordinates along the last axis: ``result[i] = input[index[i, 0], index[i, 1], ...]``."""
    return ops.gather_nd(input, index)


@operation
def scatter_nd(index: Value, src: Value, shape: Sequence[int]) -> Value:
    """Zeros of a shape with elements, or parts, added at coordinates along the last axis of `index`."""
    return ops.scatter_nd(index, src, tuple(shape))


@operation
def dynamic_slice(input: Value, starts: Any, sizes: Sequence[int]) -> Value:
    """A part of a tensor, of a given shape, that begins at computed positions, as in JAX.

    Parameters
    ----------
    input : Tensor
        Any tensor.
    starts : Tensor or sequence of Tensor and int
        One per axis. Negative ones count from the end, and then they are clipped so that the part is inside.
    sizes : sequence of int
        The shape of the part.
    """
    return ops.dynamic_slice(input, starts, sizes)


@operation
def dynamic_update_slice(input: Value, update: Value, starts: Any) -> Value:
    """`input` with a part replaced that begins at computed positions; they are as in `dynamic_slice`."""
    return ops.dynamic_update_slice(input, update, starts)


@operation
def segment_sum(input: Value, index: Value, segments: int) -> Value:
    """The sums of the rows with the same number in `index`, for the numbers up to `segments`; 0 without rows."""
    return ops.segment_sum(input, index, segments)


@operation
def segment_mean(input: Value, index: Value, segments: int) -> Value:
    """The means of the rows with the same number in `index`, for the numbers up to `segments`; 0 without rows."""
    return ops.segment_mean(input, index, segments)


@operation
def segment_max(input: Value, index: Value, segments: int) -> Value:
    """The maxima of the rows with the same number in `index`; the least number of the dtype without rows."""
    return ops.segment_max(input, index, segments)


@operation
def segment_min(input: Value, index: Value, segments: int) -> Value:
    """The minima of the rows with the same number in `index`; the greatest number of the dtype without rows."""
    return ops.segment_min(input, index, segments)


@operation
def coo_matmul(rows: Value, columns: Value, values: Value, dense: Value, size: int) -> Value:
    """A sparse matrix of `size` rows, given by the coordinates of its values, times a dense matrix or vector."""
    return ops.coo_matmul(rows, columns, values, dense, size)


@operation
def csr_matmul(crow_indices: Value, col_indices: Value, values: Value, dense: Value) -> Value:
    """A sparse matrix in compressed rows times a dense matrix or vector."""
    return ops.csr_matmul(crow_indices, col_indices, values, dense)
