"""Axis arguments as users write them (negative, one or several, None) and as operators store them."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from adjoint.errors import IndexRangeError, InvalidValueError

__all__ = ["Axes", "axes_of", "axis_of", "bad_axes", "fill", "shifted", "without"]

T = TypeVar("T")

#: An axis argument of a constructor: None (all axes), one axis, or several; negative axes count from the end.
Axes = int | Sequence[int] | None


def axis_of(name: str, axis: int, rank: int) -> int:
    """`axis` counted from the start; `name` is the constructor, for the error message.

    Raises
    ------
    InvalidValueError
        If it is not an integer.
    IndexRangeError
        If a tensor of that rank has no such axis.
    """
    if not hasattr(axis, "__index__"):
        raise InvalidValueError(f"{name}: an axis must be an integer, got {axis!r}; pass one such as 0 or -1")
    if not -rank <= axis < rank:
        allowed = f"-{rank} to {rank - 1}" if rank else "none: a scalar has no axes"
        raise IndexRangeError(f"{name}: axis {axis} is out of range for rank {rank}; use {allowed}")
    return int(axis) % rank


def axes_of(name: str, axes: Axes, rank: int) -> tuple[int, ...]:
    """`axes` counted from the start, in ascending order; None means all axes.

    Raises
    ------
    InvalidValueError
        If an axis does not exist or is repeated.
    """
    if axes is None:
        return tuple(range(rank))
    given = tuple(axes) if isinstance(axes, Iterable) else (axes,)
    found = tuple(sorted(axis_of(name, axis, rank) for axis in given))
    if len(set(found)) != len(found):
        raise InvalidValueError(f"{name}: axes must be distinct, got {given}; remove the repeated one")
    return found


def bad_axes(axes: Sequence[int], rank: int) -> str:
    """Why `axes` are not distinct ascending axes of a tensor of that rank, or ``""`` if they are."""
    if any(not 0 <= axis < rank for axis in axes):
        return f"axes must be from 0 to {rank - 1} at rank {rank}" if rank else "a scalar has no axes"
    if list(axes) != sorted(set(axes)):
        return "axes must be distinct and ascending"
    return ""


def without(shape: Sequence[int], axes: Iterable[int]) -> tuple[int, ...]:
    """The shape with `axes` removed."""
    gone = set(axes)
    return tuple(size for axis, size in enumerate(shape) if axis not in gone)


def fill(rest: Sequence[T], axes: Sequence[int], taken: Sequence[T]) -> tuple[T, ...]:
    """The inverse of `without`: `taken` at the ascending `axes`, and `rest` in order at the others."""
    result = list(rest)
    for axis, item in zip(axes, taken, strict=True):
        result.insert(axis, item)
    return tuple(result)


def shifted(axes: Iterable[int]) -> tuple[int, ...]:
    """The same axes of a tensor that has one more axis in front."""
    return tuple(axis + 1 for axis in axes)
