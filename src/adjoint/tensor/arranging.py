"""Tensors taken apart, put together and rearranged, beyond `adjoint.tensor.shapes` and `adjoint.tensor.joining`."""

from collections.abc import Sequence
from itertools import combinations as choices
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Value
from adjoint.ops.axes import axis_of
from adjoint.tensor.arithmetic import times
from adjoint.tensor.diagonals import diag, meshgrid
from adjoint.tensor.joining import atleast_2d, cat, each_of_several, flip, stack
from adjoint.tensor.making import from_array
from adjoint.tensor.promotion import promoted
from adjoint.tensor.reading import Reading
from adjoint.tensor.record import operation
from adjoint.tensor.shapes import common_shape, narrow, ravel, reshape, transpose

__all__ = [
    "atleast_3d",
    "block_diag",
    "cartesian_prod",
    "column_stack",
    "combinations",
    "cross",
    "diag_embed",
    "diagflat",
    "dsplit",
    "hsplit",
    "kron",
    "rot90",
    "row_stack",
    "tensor_split",
    "vsplit",
]


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Parts along an axis, of which the first ones may be longer by one, or that end at positions.

    Parameters
    ----------
    input : Tensor
        Any tensor with axes.
    indices_or_sections : int, sequence of int or Tensor
        The number of parts, or where they end; a tensor is read.
    dim : int, default 0
        The axis.
    """
    at = axis_of("tensor_split", dim, len(input.shape))
    size = input.shape[at]
    if isinstance(indices_or_sections, Reading):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1:
            raise InvalidValueError(f"tensor_split: the number of parts must be positive, got {count}; pass at least 1")
        each, more = divmod(size, count)
        ends = np.cumsum([each + (n < more) for n in range(count - 1)]).tolist()
    else:
        ends = [slice(None, int(end)).indices(size)[1] for end in indices_or_sections]
    starts = [0, *ends]
    return tuple(
        narrow(input, at, start, max(stop - start, 0)) for start, stop in zip(starts, [*ends, size], strict=True)
    )


def _split_along(name: str, x: Any, parts: Any, dim: int, rank: int) -> tuple[Any, ...]:
    if len(x.shape) < rank:
        raise TypeRuleError(f"{name}: the tensor must have at least {rank} axes, got shape {tuple(x.shape)}")
    if isinstance(parts, int) and (parts < 1 or x.shape[dim] % parts):
        raise InvalidValueError(
            f"{name}: the parts must be equal, got {parts} parts of axis {dim} with {x.shape[dim]} elements; use "
            "tensor_split"
        )
    return tensor_split(x, parts, dim)


def hsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Parts along the second axis, of vectors along the first: equal ones, or that end at positions."""
    return _split_along("hsplit", input, indices_or_sections, 0 if len(input.shape) == 1 else 1, 1)


def vsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Parts along the first axis: equal ones, or that end at positions."""
    return _split_along("vsplit", input, indices_or_sections, 0, 2)


def dsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Parts along the third axis: equal ones, or that end at positions."""
    return _split_along("dsplit", input, indices_or_sections, 2, 3)


@each_of_several
def atleast_3d(input: Any) -> Any:
    """`input`, with axes so that it has three: a vector along the second, a matrix along the first two.

    Of several tensors, a tuple.
    """
    shape = tuple(input.shape)
    if len(shape) > 2:
        return input
    return reshape(input, (*shape, 1) if len(shape) == 2 else (1, prod(shape), 1))


def column_stack(tensors: Sequence[Any]) -> Any:
    """Tensors joined along the second axis, vectors and scalars as columns."""
    return cat([one if len(one.shape) > 1 else reshape(one, (prod(one.shape), 1)) for one in tensors], 1)


def row_stack(tensors: Sequence[Any]) -> Any:
    """Tensors joined along the first axis, vectors as rows."""
    return cat([atleast_2d(one) for one in tensors], 0)


def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """The elements turned by k quarters, from the first of two axes towards the second."""
    rank = len(input.shape)
    if len(dims) != 2:
        raise InvalidValueError(f"rot90: dims must be two axes, got {tuple(dims)}; pass two")
    first, second = (axis_of("rot90", n, rank) for n in dims)
    if first == second:
        raise InvalidValueError(f"rot90: dims must be two different axes, got {tuple(dims)}; pass two")
    turns = k % 4
    if turns == 0:
        return flip(input, ())
    if turns == 2:
        return flip(input, (first, second))
    return flip(transpose(input, first, second), (first if turns == 1 else second,))


@operation
def diag_embed(input: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """Matrices with the last axis of a tensor on a diagonal, 0 elsewhere; they are the axes `dim1` and `dim2`."""
    return ops.diag_embed(input, offset, dim1, dim2)


def diagflat(input: Any, offset: int = 0) -> Any:
    """The matrix with all elements on a diagonal."""
    return diag(ravel(input), offset)


@operation
def _blocks(tensors: Sequence[Value]) -> Value:
    given = promoted(*tensors)
    blocks = [x if len(x.shape) == 2 else ops.reshape(x, (1, x.type.size)) for x in given]
    width, before, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(ops.pad(x, (0, before), (0, after), False if x.dtype == np.bool_ else 0))
        before += x.shape[1]
    return ops.concat(rows, axis=0)


def block_diag(*tensors: Any) -> Any:
    """The matrix with matrices along its diagonal; vectors and scalars count as rows."""
    if not tensors:
        raise InvalidValueError("block_diag: at least one matrix is required, got none; pass one")
    for one in tensors:
        if len(one.shape) > 2:
            raise TypeRuleError(f"block_diag: blocks must be matrices, got shape {tuple(one.shape)}; use cat and stack")
    return _blocks(tuple(tensors))


def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of an element of each vector, one per row, the last vector changing fastest."""
    if len(tensors) == 1:
        return tensors[0]
    return stack([ravel(grid) for grid in meshgrid(*tensors, indexing="ij")], 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices of r elements of a vector, one per row, in the order of their positions.

    Parameters
    ----------
    input : Tensor
        A vector.
    r : int, default 2
        How many.
    with_replacement : bool, default False
        Whether an element may be chosen again.
    """
    if len(input.shape) != 1 or r < 0:
        raise InvalidValueError(
            f"combinations: the tensor must be a vector and r at least 0, got shape {tuple(input.shape)} and {r}"
        )
    function = combinations_with_replacement if with_replacement else choices
    places = list(function(range(input.shape[0]), r))
    if not places or not r:
        return reshape(narrow(input, 0, 0, 0), (0, r) if r else (0,))
    ids = np.array(places, np.int64)
    return input[ids] if isinstance(input, Value) else input[from_array(ids)]


@operation
def kron(input: Value, other: Value) -> Value:
    """The Kronecker product: each element of one tensor times the whole other one; leading axes of size 1 are added."""
    x, y = promoted(input, other)
    rank = max(len(x.shape), len(y.shape))
    first, second = ((1,) * (rank - len(v.shape)) + v.shape for v in (x, y))
    left = ops.reshape(x, [n for size in first for n in (size, 1)])
    right = ops.reshape(y, [n for size in second for n in (1, size)])
    product = times(*ops.broadcast(left, right))
    return ops.reshape(product, [a * b for a, b in zip(first, second, strict=True)])


@operation
def cross(input: Value, other: Value, dim: int | None = None) -> Value:
    """The cross product of vectors of 3 elements along an axis; operands broadcast.

    Parameters
    ----------
    input, other : Tensor
        With as many axes.
    dim : int, optional
        The axis; default: the first one of size 3.
    """
    x, y = promoted(input, other)
    shape = common_shape("cross", [x.shape, y.shape])
    if dim is None:
        dim = next((n for n, size in enumerate(shape) if size == 3), None)
    at = None if dim is None else axis_of("cross", dim, len(shape))
    if at is None or shape[at] != 3:
        raise TypeRuleError(f"cross: the axis must have 3 elements, got {x.type} and {y.type} with dim {dim}")
    x, y = (ops.broadcast_to(v, shape) for v in (x, y))

    def turned(v: Value, by: int) -> Value:
        parts = [ops.slice_axis(v, at, n, n + 1) for n in range(3)]
        return ops.concat([*parts[by:], *parts[:by]], axis=at)

    return ops.subtract(ops.multiply(turned(x, 1), turned(y, 2)), ops.multiply(turned(x, 2), turned(y, 1)))


@operation
def unfold(input: Value, dimension: int, size: int, step: int) -> Value:
    """All windows of a size along an axis, `step` apart, along a new last axis.

    Unlike in PyTorch, it is a copy.
    """
    rank = len(input.shape)
    x = input if rank else ops.reshape(input, (1,))
    at = axis_of("unfold", dimension, max(rank, 1))
    length = x.shape[at]
    if not 0 <= size <= length or step < 1:
        raise InvalidValueError(
            f"unfold: windows must have at most {length} elements and be at least 1 apart, got {size} and {step}"
        )
    count = (length - size) // step + 1
    if not rank:
        return ops.slice_axis(x, 0, 0, size)
    if size == step or count == 1:  # windows that do not overlap
        parts = ops.slice_axis(x, at, 0, count * size)
        split = ops.reshape(parts, (*x.shape[:at], count, size, *x.shape[at + 1 :]))
        return ops.permute(split, [*range(at + 1), *range(at + 2, rank + 1), at + 1])
    windows = [ops.slice_axis(x, at, n, n + (count - 1) * step + 1, step) for n in range(size)]
    if not windows:
        return ops.reshape(ops.slice_axis(x, at, 0, 0), (*x.shape[:at], count, *x.shape[at + 1 :], 0))
    return ops.stack(windows, -1)
