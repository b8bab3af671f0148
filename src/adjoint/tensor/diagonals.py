"""Diagonals and triangles of matrices, and grids."""

from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Value
from adjoint.ops.axes import axis_of
from adjoint.tensor.aliases import viewed
from adjoint.tensor.joining import atleast_1d
from adjoint.tensor.record import operation
from adjoint.tensor.shapes import expand, permute, reshape, transpose
from adjoint.tensor.views import SELECT

__all__ = [
    "diag",
    "diagonal",
    "meshgrid",
    "tril",
    "triu",
]


@operation
def tril(input: Value, diagonal: int = 0) -> Value:
    """The elements on and below a diagonal of each matrix; 0 elsewhere."""
    return ops.tril(input, diagonal)


@operation
def triu(input: Value, diagonal: int = 0) -> Value:
    """The elements on and above a diagonal of each matrix; 0 elsewhere."""
    return ops.triu(input, diagonal)


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A diagonal of each matrix, as a new last axis. It is a view that cannot be changed in place."""
    rank = len(input.shape)
    first, second = axis_of("diagonal", dim1, rank), axis_of("diagonal", dim2, rank)
    x = permute(input, [*(n for n in range(rank) if n not in (first, second)), first, second])
    rows, columns = x.shape[-2:]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = max(offset, 0) - min(offset, 0) * columns
    # In the flattened matrix, neighbours on a diagonal are `columns + 1` apart.
    flat = reshape(x, (*x.shape[:-2], rows * columns))
    parts = [(0, n, 1) for n in flat.shape[:-1]]
    stop = start + (count - 1) * (columns + 1) + 1 if count else start
    return viewed(SELECT, flat, (*parts, (start, stop, columns + 1)))


_diagonal_matrix = operation(ops.diag_embed)


def diag(input: Any, diagonal: int = 0) -> Any:
    """The matrix with a vector on a diagonal, or a diagonal of a matrix."""
    if len(input.shape) == 1:
        return _diagonal_matrix(input, diagonal)
    return _diagonal_of(input, diagonal)


_diagonal_of = diagonal


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Vectors expanded to the grid of all their combinations.

    Parameters
    ----------
    *tensors : Tensor
        Vectors or scalars, or one sequence of them.
    indexing : {"ij", "xy"}, default "ij"
        Whether the first vector changes along the first axis, or along the second.
    """
    if indexing not in ("ij", "xy"):
        raise InvalidValueError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    vectors = [atleast_1d(one) for one in given]
    shape = tuple(one.shape[0] for one in vectors)
    grids = tuple(
        expand(reshape(one, [-1 if n == axis else 1 for n in range(len(shape))]), shape)
        for axis, one in enumerate(vectors)
    )
    return tuple(transpose(grid, 0, 1) for grid in grids) if indexing == "xy" and len(shape) > 1 else grids
