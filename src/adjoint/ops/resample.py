"""Linear maps along single axes, given as matrices: the common part of adaptive pooling and of resizing."""

from math import prod

import numpy as np

from adjoint.ir.value import Value
from adjoint.ops.contract import matmul
from adjoint.ops.create import constant
from adjoint.ops.shape import reshape

__all__ = ["averages", "resampled", "window_bounds"]


def resampled(x: Value, axis: int, matrix: np.ndarray) -> Value:
    """The product of a matrix with every vector along an axis, which gets its number of rows."""
    lead, size, tail = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    weights = constant(matrix, x.dtype)
    if prod(tail) == 1:
        result = matmul(reshape(x, (prod(lead), size)), weights, transpose_b=True)
    else:
        result = matmul(weights, reshape(x, (prod(lead), size, prod(tail))))
    return reshape(result, (*lead, matrix.shape[0], *tail))


def window_bounds(size: int, parts: int) -> list[tuple[int, int]]:
    """Start and end of each of a number of windows that cover an axis, as adaptive pooling defines them."""
    return [(n * size // parts, -(-(n + 1) * size // parts)) for n in range(parts)]


def averages(size: int, parts: int) -> np.ndarray:
    """A matrix that averages each of these windows."""
    matrix = np.zeros((parts, size))
    for row, (start, stop) in zip(matrix, window_bounds(size, parts), strict=True):
        row[start:stop] = 1.0 / (stop - start)
    return matrix
