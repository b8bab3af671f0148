"""Padding with elements of the tensor itself: reflected, repeated or from the other end."""

from collections.abc import Sequence

from adjoint.errors import InvalidValueError
from adjoint.ir.value import Value
from adjoint.ops.shape import broadcast_to, concat, flip, slice_axis

__all__ = ["pad_mode"]


def pad_mode(x: Value, low: Sequence[int], high: Sequence[int], mode: str) -> Value:
    """`x` with elements of its own added before and after, along every axis in turn; `pad` adds a number.

    The gradient of an element is the sum over its copies.

    Parameters
    ----------
    x : Value
        Any dtype.
    low, high : sequence of int
        Number of elements before and after, one per axis.
    mode : {"reflect", "replicate", "circular"}
        "reflect" mirrors at the outermost elements, which are not repeated; "replicate" repeats them; "circular"
        continues from the other end.

    Raises
    ------
    InvalidValueError
        If the mode is unknown, or an axis is too short: "reflect" adds fewer elements than there are, "circular" at
        most as many.
    """
    if mode not in ("reflect", "replicate", "circular"):
        raise InvalidValueError(
            f"pad: the mode must be constant, reflect, replicate, circular, got {mode!r}; use one of them"
        )
    if len(low) != len(x.shape) or len(high) != len(x.shape):
        raise InvalidValueError(
            f"pad: low and high must have one number per axis, got {list(low)} and {list(high)} for {x.type}; pass "
            f"{len(x.shape)} each"
        )
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before or after:
            x = _padded(x, axis, before, after, mode)
    return x


def _padded(x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    size = x.shape[axis]
    most = {"reflect": size - 1, "replicate": max(before, after) if size else 0, "circular": size}[mode]
    if max(before, after) > most or min(before, after) < 0:
        raise InvalidValueError(
            f"pad: with mode {mode!r}, an axis of {size} can get 0 to {max(most, 0)} elements, got {before} and "
            f"{after}; pad less"
        )

    def part(start: int, stop: int) -> Value:
        return slice_axis(x, axis, start, stop)

    if mode == "reflect":
        ends = flip(part(1, 1 + before), axis), flip(part(size - 1 - after, size - 1), axis)
    elif mode == "circular":
        ends = part(size - before, size), part(0, after)
    else:
        shapes = [(*x.shape[:axis], count, *x.shape[axis + 1 :]) for count in (before, after)]
        ends = broadcast_to(part(0, 1), shapes[0]), broadcast_to(part(size - 1, size), shapes[1])
    return concat([each for each in (ends[0], x, ends[1]) if each.shape[axis]], axis=axis)
