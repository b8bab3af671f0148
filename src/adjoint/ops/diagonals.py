"""Diagonals and triangles of matrices, which are the last two axes of a tensor unless others are named."""

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import as_dtype
from adjoint.ir.value import Value
from adjoint.ops.arithmetic import add
from adjoint.ops.axes import axis_of
from adjoint.ops.build import full_like
from adjoint.ops.convert import cast
from adjoint.ops.create import iota
from adjoint.ops.logic import equal, greater_equal, less_equal, where
from adjoint.ops.shape import broadcast_to, expand_dims, pad, permute, reshape, slice_axis

__all__ = ["diag_embed", "diagonal", "eye", "tril", "triu"]


def eye(rows: int, columns: int | None = None, dtype: object = "f32") -> Value:
    """A matrix with ones on the main diagonal; square by default."""
    shape = (rows, rows if columns is None else columns)
    return cast(equal(iota(shape, 0), iota(shape, 1)), as_dtype(dtype))


def tril(x: Value, diagonal: int = 0) -> Value:
    """The elements on and below a diagonal of each matrix, 0 elsewhere; positive diagonals are above the main one."""
    return _triangle("tril", x, diagonal)


def triu(x: Value, diagonal: int = 0) -> Value:
    """The elements on and above a diagonal of each matrix, 0 elsewhere; positive diagonals are above the main one."""
    return _triangle("triu", x, diagonal)


def _triangle(name: str, x: Value, diagonal: int) -> Value:
    if len(x.shape) < 2:
        raise TypeRuleError(f"{name}: the tensor must have at least 2 axes, got {x.type}; reshape it")
    compare = less_equal if name == "tril" else greater_equal
    kept = compare(iota(x.shape[-2:], 1), add(iota(x.shape[-2:], 0), diagonal))
    return where(broadcast_to(kept, x.shape), x, _zeros(x))


def _zeros(x: Value) -> Value:
    return full_like(x, False if x.dtype.kind == "b" else 0)


def diagonal(x: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """A diagonal of each matrix, as a new last axis; `offset` is positive above the main diagonal."""
    rank = len(x.shape)
    first, second = axis_of("diagonal", axis1, rank), axis_of("diagonal", axis2, rank)
    if first == second:
        raise InvalidValueError(f"diagonal: the axes must be different, got {axis1} and {axis2} for {x.type}")
    matrix = permute(x, [*(n for n in range(rank) if n not in (first, second)), first, second])
    rows, columns = matrix.shape[-2:]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = max(offset, 0) - min(offset, 0) * columns
    flat = reshape(matrix, (*matrix.shape[:-2], rows * columns))
    # In the flattened matrix, neighbours on a diagonal are `columns + 1` apart.
    if not count:
        return slice_axis(flat, -1, 0, 0)
    return slice_axis(flat, -1, start, start + (count - 1) * (columns + 1) + 1, columns + 1)


def diag_embed(x: Value, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Value:
    """Square matrices with the last axis of a tensor on a diagonal, 0 elsewhere; the inverse of `diagonal`.

    Parameters
    ----------
    x : Value
        Any tensor with an axis.
    offset : int, default 0
        Which diagonal; positive above the main one.
    axis1, axis2 : int, default -2 and -1
        Where the rows and columns of the matrices are in the result.
    """
    if not x.shape:
        raise TypeRuleError(f"diag_embed: the tensor must have an axis, got {x.type}; reshape it to [1]")
    rank, size = len(x.shape) + 1, x.shape[-1]
    first, second = axis_of("diag_embed", axis1, rank), axis_of("diag_embed", axis2, rank)
    if first == second:
        raise InvalidValueError(f"diag_embed: the axes must be different, got {axis1} and {axis2} for {x.type}")
    wide = broadcast_to(expand_dims(x, -1), (*x.shape, size))
    on = equal(iota(wide.shape, rank - 2), iota(wide.shape, rank - 1))
    none = (0,) * (rank - 2)
    low, high = (*none, max(-offset, 0), max(offset, 0)), (*none, max(offset, 0), max(-offset, 0))
    found = pad(where(on, wide, _zeros(wide)), low, high, False if x.dtype.kind == "b" else 0.0)
    rest = list(range(rank - 2))
    for at, axis in sorted(((first, rank - 2), (second, rank - 1))):
        rest.insert(at, axis)
    return permute(found, rest)
