"""Axis arguments as people write them (negative, one or many, None) and as operators hold them."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from adjoint.errors import InvalidValueError

__all__ = ["Axes", "axes_of", "axis_of", "bad_axes", "fill", "without"]

T = TypeVar("T")

#: What a constructor takes for axes: all of them, one, or several; negative ones count from the end.
Axes = int | Sequence[int] | None


def axis_of(name: str, axis: int, rank: int) -> int:
    """`axis` counted from the start, for the constructor called `name`.

    Raises
    ------
    InvalidValueError
        If a tensor of that rank has no such axis.
    """
    if not -rank <= axis < rank:
        allowed = f"-{rank} to {rank - 1}" if rank else "none: a scalar has no axes"
        raise InvalidValueError(f"{name}: axis {axis} is out of range for rank {rank}; use {allowed}")
    return int(axis) % rank


def axes_of(name: str, axes: Axes, rank: int) -> tuple[int, ...]:
    """`axes` counted from the start, in ascending order; None is every axis.

    Raises
    ------
    InvalidValueError
        If an axis does not exist or is named twice.
    """
    if axes is None:
        return tuple(range(rank))
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    found = tuple(sorted(axis_of(name, axis, rank) for axis in given))
    if len(set(found)) != len(found):
        raise InvalidValueError(f"{name}: axes must be distinct, got {given}; remove the repeated one")
    return found


def bad_axes(axes: Sequence[int], rank: int) -> str:
    """What keeps `axes` from being distinct ascending axes of a tensor of that rank, or ``""``."""
    if any(not 0 <= axis < rank for axis in axes):
        return f"axes must be from 0 to {rank - 1} at rank {rank}" if rank else "a scalar has no axes"
    if list(axes) != sorted(set(axes)):
        return "axes must be distinct and ascending"
    return ""


def without(shape: Sequence[int], axes: Iterable[int]) -> tuple[int, ...]:
    """The shape that is left when `axes` are taken out."""
    gone = set(axes)
    return tuple(size for axis, size in enumerate(shape) if axis not in gone)


def fill(rest: Sequence[T], axes: Sequence[int], taken: Sequence[T]) -> tuple[T, ...]:
    """What `without` came from: `taken` at the ascending `axes`, `rest` in order at the others."""
    result = list(rest)
    for axis, item in zip(axes, taken, strict=True):
        result.insert(axis, item)
    return tuple(result)
