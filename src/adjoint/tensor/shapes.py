"""Shapes of tensors: views in another shape or order, parts, joins and repetitions.

Those that are views in PyTorch share their elements with their operand here too (`adjoint.tensor.aliases`).
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import index as as_integer
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ops.axes import axes_of, axis_of
from adjoint.tensor.aliases import viewed
from adjoint.tensor.views import DETACH, EXPAND, PERMUTE, RESHAPE, SELECT

__all__ = [
    "broadcast_tensors",
    "broadcast_to",
    "chunk",
    "detach",
    "expand",
    "flatten",
    "moveaxis",
    "movedim",
    "narrow",
    "permute",
    "ravel",
    "reshape",
    "select",
    "split",
    "split_with_sizes",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "transpose",
    "unbind",
    "unflatten",
    "unsqueeze",
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
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    return viewed(RESHAPE, input, _completed(input.shape, wanted) if -1 in wanted else wanted)


@lru_cache(maxsize=4096)  # it takes as long as recording the operation, and is the same in every iteration
def _completed(shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with its unknown size, -1, if there is one that fits; otherwise as it is."""
    known = prod(size for size in wanted if size != -1)
    count = prod(shape)
    if wanted.count(-1) == 1 and known and not count % known:
        return tuple(count // known if size == -1 else size for size in wanted)
    return wanted


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
    return viewed(PERMUTE, input, _exchanged(len(input.shape), dim0, dim1))


@lru_cache
def _exchanged(rank: int, dim0: int, dim1: int) -> tuple[int, ...]:
    order = list(range(rank))
    if rank or dim0 not in (0, -1) or dim1 not in (0, -1):
        first, second = axis_of("transpose", dim0, rank), axis_of("transpose", dim1, rank)
        order[first], order[second] = second, first
    return tuple(order)


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
    return viewed(SELECT, input, _narrowed(tuple(input.shape), dim, as_integer(start), length))


@lru_cache(1024)
def _narrowed(shape: tuple[int, ...], dim: int, start: int, length: int) -> tuple[tuple[int, int, int], ...]:
    at = axis_of("narrow", dim, len(shape))
    size = shape[at]
    first = start + size if start < 0 else start
    if not 0 <= first <= first + length <= size:
        raise InvalidValueError(
            f"narrow: start and length must select part of axis {dim} with {size} elements, got {start} and {length}"
        )
    parts = [(0, n, 1) for n in shape]
    parts[at] = (first, first + length, 1)
    return tuple(parts)


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


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Parts of given sizes along an axis: `split`."""
    return split(input, list(split_sizes), dim)


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


swapaxes, swapdims, moveaxis = transpose, transpose, movedim
