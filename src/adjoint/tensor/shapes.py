"""Shapes of tensors: views in another shape or order, parts, joins and repetitions.

Those that are views in PyTorch share their elements with their operand here too (`adjoint.tensor.aliases`).
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Value
from adjoint.ops.axes import axes_of, axis_of
from adjoint.tensor.aliases import viewed
from adjoint.tensor.promotion import promoted
from adjoint.tensor.record import operation
from adjoint.tensor.views import DETACH, EXPAND, PERMUTE, RESHAPE, SELECT

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "broadcast_tensors",
    "broadcast_to",
    "cat",
    "chunk",
    "concat",
    "concatenate",
    "detach",
    "diag",
    "diagonal",
    "dstack",
    "expand",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "hstack",
    "meshgrid",
    "movedim",
    "narrow",
    "permute",
    "ravel",
    "repeat",
    "repeat_interleave",
    "reshape",
    "roll",
    "select",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "swapdims",
    "t",
    "tile",
    "transpose",
    "tril",
    "triu",
    "unbind",
    "unflatten",
    "unsqueeze",
    "vstack",
]


def sizes_of(given: Sequence[Any]) -> tuple[int, ...]:
    """A shape given as ``(2, 3)`` or as ``((2, 3),)``."""
    if len(given) == 1 and isinstance(given[0], list | tuple):
        given = given[0]
    return tuple(int(size) for size in given)


def reshape(input: Any, shape: Sequence[int]) -> Any:
    """The same elements, in row-major order, in another shape; one size may be -1.

    It shares its elements with `input` if PyTorch's does: unless they would have to be moved in memory.
    """
    wanted = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
    if -1 in wanted:
        known = prod(size for size in wanted if size != -1)
        count = prod(input.shape)
        if wanted.count(-1) == 1 and known and not count % known:
            wanted = tuple(count // known if size == -1 else size for size in wanted)
    return viewed(RESHAPE, input, wanted)


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The axes from `start_dim` to `end_dim` merged into one; a scalar becomes a vector."""
    shape = input.shape
    if not shape:
        return reshape(input, (1,))
    first, last = axis_of("flatten", start_dim, len(shape)), axis_of("flatten", end_dim, len(shape))
    if first > last:
        raise InvalidValueError(f"flatten: start_dim must not be after end_dim, got {start_dim} and {end_dim}")
    return reshape(input, (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]))


def ravel(input: Any) -> Any:
    """All elements as a vector."""
    return reshape(input, (prod(input.shape),))


def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """One axis split into several; one of `sizes` may be -1."""
    at, shape = axis_of("unflatten", dim, len(input.shape)), input.shape
    known = prod(size for size in sizes if size != -1)
    parts = [shape[at] // known if size == -1 and known else size for size in sizes]
    if prod(parts) != shape[at]:
        raise InvalidValueError(
            f"unflatten: the sizes must have a product of {shape[at]}, the size of axis {dim}, got {tuple(sizes)}"
        )
    return reshape(input, (*shape[:at], *parts, *shape[at + 1 :]))


def unsqueeze(input: Any, dim: int) -> Any:
    """A new axis of size 1 at `dim`; negative counts from the end of the result."""
    at = axis_of("unsqueeze", dim, len(input.shape) + 1)
    return reshape(input, (*input.shape[:at], 1, *input.shape[at:]))


def squeeze(input: Any, dim: int | Sequence[int] | None = None) -> Any:
    """Without the axes of size 1, or without those of them that are given; other axes stay."""
    axes = axes_of("squeeze", dim, len(input.shape)) if input.shape else ()
    return reshape(input, [size for n, size in enumerate(input.shape) if size != 1 or n not in axes])


def permute(input: Any, dims: Sequence[int]) -> Any:
    """The axes in another order: axis ``n`` of the result is axis ``dims[n]`` of `input`."""
    rank = len(input.shape)
    order = tuple(axis_of("permute", n, rank) for n in dims)
    if len(order) != rank or len(set(order)) != rank:
        raise InvalidValueError(
            f"permute: dims must contain each axis of the tensor once, got {tuple(dims)} at rank {rank}; correct them"
        )
    return viewed(PERMUTE, input, order)


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two axes exchanged."""
    rank = len(input.shape)
    order = list(range(rank))
    if rank or dim0 not in (0, -1) or dim1 not in (0, -1):
        first, second = axis_of("transpose", dim0, rank), axis_of("transpose", dim1, rank)
        order[first], order[second] = second, first
    return viewed(PERMUTE, input, tuple(order))


def t(input: Any) -> Any:
    """The transpose of a matrix; vectors and scalars stay as they are."""
    if len(input.shape) > 2:
        raise TypeRuleError(f"t: the tensor must have at most 2 axes, got {len(input.shape)}; use transpose(-2, -1)")
    return viewed(PERMUTE, input, tuple(reversed(range(len(input.shape)))))


def movedim(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Axes moved to other positions; the others keep their order."""
    rank = len(input.shape)
    start = [axis_of("movedim", n, rank) for n in ((source,) if isinstance(source, int) else source)]
    end = [axis_of("movedim", n, rank) for n in ((destination,) if isinstance(destination, int) else destination)]
    order = [n for n in range(rank) if n not in start]
    for at, axis in sorted(zip(end, start, strict=True)):
        order.insert(at, axis)
    return permute(input, order)


def detach(input: Any) -> Any:
    """The same elements without a history: no gradient flows through it."""
    return viewed(DETACH, input, None)


def expand(input: Any, *sizes: Any) -> Any:
    """Axes of size 1, and new leading ones, repeated without a copy; -1 keeps a size."""
    wanted, shape = sizes_of(sizes), input.shape
    missing = len(wanted) - len(shape)
    if missing >= 0:
        wanted = tuple(shape[n - missing] if size == -1 and n >= missing else size for n, size in enumerate(wanted))
    return viewed(RESHAPE if wanted == tuple(shape) else EXPAND, input, wanted)


def broadcast_to(input: Any, size: Sequence[int]) -> Any:
    """`expand` to a shape."""
    return expand(input, tuple(size))


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Tensors expanded to a common shape."""
    shape = common_shape("broadcast_tensors", [one.shape for one in tensors])
    return tuple(expand(one, shape) for one in tensors)


def common_shape(name: str, shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The shape that all of these are broadcast to."""
    try:
        return np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        raise TypeRuleError(
            f"{name}: shapes must broadcast, with sizes aligned at the last axis equal or 1, got "
            f"{' and '.join(str(tuple(shape)) for shape in shapes)}; reshape one of them"
        ) from None


def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    """`length` elements along an axis, from `start` on."""
    at = axis_of("narrow", dim, len(input.shape))
    size = input.shape[at]
    first = start + size if start < 0 else start
    if not 0 <= first <= first + length <= size:
        raise InvalidValueError(
            f"narrow: start and length must select part of axis {dim} with {size} elements, got {start} and {length}"
        )
    parts = [(0, n, 1) for n in input.shape]
    parts[at] = (first, first + length, 1)
    return viewed(SELECT, input, tuple(parts))


def select(input: Any, dim: int, index: int) -> Any:
    """One element along an axis, without the axis."""
    at = axis_of("select", dim, len(input.shape))
    size = input.shape[at]
    if not -size <= index < size:
        raise InvalidValueError(f"select: the index must be from {-size} to {size - 1} on axis {dim}, got {index}")
    parts: list[Any] = [(0, n, 1) for n in input.shape]
    parts[at] = int(index) % size
    return viewed(SELECT, input, tuple(parts))


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """All elements along an axis, without the axis."""
    return tuple(select(input, dim, n) for n in range(input.shape[axis_of("unbind", dim, len(input.shape))]))


def split(tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Parts along an axis: of a size, of which the last may be smaller, or of given sizes."""
    size = tensor.shape[axis_of("split", dim, len(tensor.shape))]
    if isinstance(split_size_or_sections, int):
        each = split_size_or_sections
        if each <= 0:
            raise InvalidValueError(f"split: the size of a part must be positive, got {each}; pass at least 1")
        sections = [min(each, size - start) for start in range(0, size, each)] or [0]
    else:
        sections = [int(n) for n in split_size_or_sections]
        if sum(sections) != size:
            raise InvalidValueError(
                f"split: the sizes of the parts must add up to {size}, the size of axis {dim}, got {tuple(sections)}"
            )
    starts = np.cumsum([0, *sections[:-1]]).tolist()
    return tuple(narrow(tensor, dim, start, count) for start, count in zip(starts, sections, strict=True))


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most `chunks` parts of equal size along an axis, of which the last may be smaller."""
    if chunks <= 0:
        raise InvalidValueError(f"chunk: the number of parts must be positive, got {chunks}; pass at least 1")
    size = input.shape[axis_of("chunk", dim, len(input.shape))]
    return split(input, max(1, -(-size // chunks)), dim)


def _cat(tensors: Sequence[Value], dim: int = 0) -> Value:
    kept = [one for one in tensors if one.shape != (0,)] or list(tensors)[:1]
    return ops.concat(_alike("cat", kept), axis=dim)


def _alike(name: str, tensors: Sequence[Value]) -> list[Value]:
    if not tensors:
        raise InvalidValueError(f"{name}: at least one tensor is required, got none; pass one")
    return promoted(*tensors)


_joined = operation(_cat)


def cat(tensors: Sequence[Any], dim: int = 0, *, axis: int | None = None) -> Any:
    """Tensors joined along an axis; of different dtypes, in their common one."""
    return _joined(tuple(tensors), dim if axis is None else axis)


def _stack(tensors: Sequence[Value], dim: int = 0) -> Value:
    return ops.stack(_alike("stack", tensors), dim)


_stacked = operation(_stack)


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors of one shape joined along a new axis."""
    return _stacked(tuple(tensors), dim)


def atleast_1d(input: Any) -> Any:
    """`input`, with an axis if it has none."""
    return input if input.shape else reshape(input, (1,))


def atleast_2d(input: Any) -> Any:
    """`input`, with leading axes so that it has two."""
    return input if len(input.shape) > 1 else reshape(input, (1, prod(input.shape)))


def hstack(tensors: Sequence[Any]) -> Any:
    """Tensors joined along the second axis, vectors along the first."""
    made = [atleast_1d(one) for one in tensors]
    return cat(made, 0 if len(made[0].shape) == 1 else 1)


def vstack(tensors: Sequence[Any]) -> Any:
    """Tensors joined along the first axis, vectors as rows."""
    return cat([atleast_2d(one) for one in tensors], 0)


def dstack(tensors: Sequence[Any]) -> Any:
    """Tensors joined along the third axis."""
    made = [atleast_2d(one) for one in tensors]
    return cat([unsqueeze(one, 2) if len(one.shape) == 2 else one for one in made], 2)


@operation
def _repeat(input: Value, sizes: Sequence[int]) -> Value:
    shape = (1,) * (len(sizes) - len(input.shape)) + input.shape
    pairs = [n for size, count in zip(shape, sizes, strict=True) for n in (count, size)]
    ones = [n for size in shape for n in (1, size)]
    spread = ops.broadcast_to(ops.reshape(input, ones), pairs)
    return ops.reshape(spread, [size * count for size, count in zip(shape, sizes, strict=True)])


def repeat(input: Any, *repeats: Any) -> Any:
    """The whole tensor repeated along each axis, as often as given; more numbers than axes add leading ones."""
    counts = sizes_of(repeats)
    if len(counts) < len(input.shape):
        raise InvalidValueError(
            f"repeat: there must be a number for every axis, got {counts} at rank {len(input.shape)}; use tile, or "
            "pass 1 for axes that stay"
        )
    return _repeat(input, counts)


def tile(input: Any, dims: Sequence[int]) -> Any:
    """The whole tensor repeated; as `repeat`, but fewer numbers than axes belong to the last ones."""
    counts = sizes_of(dims)
    return _repeat(input, (1,) * (len(input.shape) - len(counts)) + counts)


@operation
def _repeat_interleave(input: Value, repeats: int, dim: int) -> Value:
    shape = input.shape
    wide = ops.broadcast_to(ops.expand_dims(input, dim + 1), (*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    return ops.reshape(wide, (*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]))


def repeat_interleave(input: Any, repeats: int, dim: int | None = None) -> Any:
    """Each element repeated along an axis, or of the flattened tensor."""
    if not isinstance(repeats, int):
        raise TypeRuleError("repeat_interleave: repeats must be an int, because shapes are static; use index_select")
    x = ravel(input) if dim is None else input
    return _repeat_interleave(x, repeats, axis_of("repeat_interleave", dim or 0, len(x.shape)))


@operation
def flip(input: Value, dims: int | Sequence[int]) -> Value:
    """The elements in reverse order along axes: a copy."""
    return ops.flip(input, dims)


def flipud(input: Any) -> Any:
    """The rows in reverse order."""
    return flip(input, (0,))


def fliplr(input: Any) -> Any:
    """The columns in reverse order."""
    return flip(input, (1,))


@operation
def roll(input: Value, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Value:
    """Elements moved along axes; those that leave at the end enter at the start. Without `dims`, of all elements."""
    x = ops.flatten(input) if dims is None else input
    moves = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    axes = (0,) if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    for move, axis in zip(moves, axes, strict=True):
        at = axis_of("roll", axis, len(x.shape))
        cut = -move % x.shape[at] if x.shape[at] else 0
        if cut:
            ends = ops.slice_axis(x, at, cut, x.shape[at]), ops.slice_axis(x, at, 0, cut)
            x = ops.concat(ends, axis=at)
    return ops.reshape(x, input.shape)


@operation
def tril(input: Value, diagonal: int = 0) -> Value:
    """The elements on and below a diagonal of each matrix; 0 elsewhere."""
    return _triangle("tril", input, lambda row, column: ops.less_equal(column, ops.add(row, diagonal)))


@operation
def triu(input: Value, diagonal: int = 0) -> Value:
    """The elements on and above a diagonal of each matrix; 0 elsewhere."""
    return _triangle("triu", input, lambda row, column: ops.greater_equal(column, ops.add(row, diagonal)))


def _triangle(name: str, x: Value, keeps: Any) -> Value:
    if len(x.shape) < 2:
        raise TypeRuleError(f"{name}: the tensor must have at least 2 axes, got {x.type}; reshape it")
    kept = keeps(ops.iota(x.shape[-2:], 0), ops.iota(x.shape[-2:], 1))
    return ops.where(ops.broadcast_to(kept, x.shape), x, ops.full_like(x, False if x.dtype == np.bool_ else 0))


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


@operation
def _diagonal_matrix(input: Value, diagonal: int) -> Value:
    size = input.shape[0] + abs(diagonal)
    low, high = [max(-diagonal, 0), max(diagonal, 0)], [max(diagonal, 0), max(-diagonal, 0)]
    shape = (input.shape[0], input.shape[0])
    on = ops.equal(ops.iota(shape, 0), ops.iota(shape, 1))
    spread = ops.broadcast_to(ops.expand_dims(input, 1), shape)
    found = ops.pad(ops.where(on, spread, ops.full_like(spread, 0)), low, high, 0)
    return ops.reshape(found, (size, size))


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


concat, concatenate, swapaxes, swapdims = cat, cat, transpose, transpose
