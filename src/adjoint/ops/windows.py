"""Windows over the last axes, for convolution and pooling."""

from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import TensorType

__all__ = ["Pair", "fields", "images", "numbers", "positions"]

#: A number for the rows of an image and one for its columns; for volumes three numbers, planes first.
Pair = tuple[int, ...]

#: What a number for each axis is called, by the number of axes.
_EACH = {1: "a sequence of one", 2: "a pair for rows and columns", 3: "three for planes, rows and columns"}

#: How many integers there are, in words.
_COUNT = {1: "one integer", 2: "two integers", 3: "three integers"}


def numbers(name: str, what: str, value: int | Sequence[int], least: int, axes: int = 2) -> Pair:
    """A constructor's argument that is one number, or a sequence of one, for all axes, or one number for each.

    `name` is the constructor.

    Raises
    ------
    InvalidValueError
        If it is anything else, or less than `least`.
    """
    given = tuple(value) if isinstance(value, Iterable) else (value,)
    given = given * axes if len(given) == 1 else given
    if not _is_numbers(given, least, axes):
        raise InvalidValueError(
            f"{name}: {what} must be an integer of at least {least}, or {_EACH[axes]}, got {value!r}; correct it"
        )
    return given


def _is_numbers(value: Any, least: int, axes: int) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == axes
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= least for n in value)
    )


def fields(name: str, least: int, axes: int = 2, **given: tuple[int, ...]) -> None:
    """Raise if attributes of the operator called `name` are not integers of at least `least`, one per axis."""
    for field, value in given.items():
        if not _is_numbers(value, least, axes):
            raise TypeRuleError(
                f"{name}: {field} must be {_COUNT[axes]} of at least {least}, got {value!r}; correct it"
            )


def images(name: str, what: str, x: TensorType, axes: int = 2) -> None:
    """Raise if an operand does not have two axes besides those of an image (of four in all) or a volume."""
    if x.rank != axes + 2:
        raise TypeRuleError(
            f"{name}: {what} must have {axes + 2} axes, got {x}; reshape it, with size 1 for missing axes"
        )


def positions(
    name: str,
    size: Sequence[int],
    window: Pair,
    stride: Pair,
    padding: Pair | None = None,
    dilation: Pair | None = None,
) -> Pair:
    """Number of windows along each axis of an image; without padding and dilation unless given.

    ``(size + 2 * padding - (window - 1) * dilation - 1) // stride + 1`` along each axis; incomplete windows at the end
    do not count.

    Raises
    ------
    TypeRuleError
        If not a single window fits.
    """
    found = []
    around, apart = padding or (0,) * len(size), dilation or (1,) * len(size)
    for n, k, s, p, d in zip(size, window, stride, around, apart, strict=True):
        room = n + 2 * p - (k - 1) * d - 1
        if room < 0:
            raise TypeRuleError(
                f"{name}: windows must fit into the padded image, got windows that span {(k - 1) * d + 1} on an axis "
                f"of {n} padded by {p} on both sides; pad more or use a smaller window"
            )
        found.append(room // s + 1)
    return tuple(found)
