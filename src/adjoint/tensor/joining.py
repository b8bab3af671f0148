"""Tensors joined, repeated, reversed and rolled: copies, unlike the views of `adjoint.tensor.shapes`."""

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Value, dtype_name
from adjoint.ops.axes import axis_of
from adjoint.tensor.indexing import getitem
from adjoint.tensor.making import from_array
from adjoint.tensor.promotion import promoted
from adjoint.tensor.reading import Reading
from adjoint.tensor.record import operation
from adjoint.tensor.scalar_axes import as_vector
from adjoint.tensor.shapes import ravel, reshape, sizes_of, unsqueeze

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "cat",
    "concat",
    "concatenate",
    "dstack",
    "each_of_several",
    "flip",
    "fliplr",
    "flipud",
    "hstack",
    "repeat",
    "repeat_interleave",
    "roll",
    "stack",
    "tile",
    "vstack",
]


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


def each_of_several(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Let a function of a tensor take several, or a sequence of them, and return a tuple."""

    @wraps(function)
    def called(*tensors: Any) -> Any:
        if len(tensors) == 1 and not isinstance(tensors[0], list | tuple):
            return function(tensors[0])
        return tuple(map(function, tensors[0] if len(tensors) == 1 else tensors))

    return called


@each_of_several
def atleast_1d(input: Any) -> Any:
    """`input`, with an axis if it has none; of several tensors, a tuple."""
    return input if input.shape else reshape(input, (1,))


@each_of_several
def atleast_2d(input: Any) -> Any:
    """`input`, with leading axes so that it has two; of several tensors, a tuple."""
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


def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element repeated along an axis, or of the flattened tensor.

    Parameters
    ----------
    input : Tensor
        Any tensor; without `repeats`, the repeats of the positions from 0 on.
    repeats : int or Tensor
        How often: a number for all, or one for each position along the axis. A tensor is read.
    dim : int, optional
        The axis.
    output_size : int, optional
        The size of the axis of the result, which is known anyway.
    """
    if repeats is None:
        input, repeats, dim = from_array(np.arange(input.shape[0])), input, 0
    x = as_vector(ravel(input) if dim is None else input)
    at = axis_of("repeat_interleave", dim or 0, len(x.shape))
    if isinstance(repeats, Reading):
        given = repeats.elements().array
        counts = np.broadcast_to(given, (x.shape[at],)) if given.size == 1 else given
        if counts.shape != (x.shape[at],) or counts.dtype.kind not in "iu" or (counts < 0).any():
            raise TypeRuleError(
                f"repeat_interleave: repeats must be an integer of at least 0 for each of {x.shape[at]} positions, "
                f"got {dtype_name(counts.dtype)} of shape {given.shape}; reshape or convert them"
            )
        made = getitem(x, (*(slice(None),) * at, from_array(np.repeat(np.arange(x.shape[at]), counts))))
    else:
        made = _repeat_interleave(x, repeats, at)
    if output_size not in (None, made.shape[at]):
        raise InvalidValueError(
            f"repeat_interleave: output_size must be the sum of repeats, {made.shape[at]}, got {output_size}; omit it"
        )
    return made


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


concat, concatenate = cat, cat
