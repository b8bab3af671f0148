"""Windows that slide over the last two axes: what convolution and pooling share."""

from collections.abc import Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import TensorType

__all__ = ["Pair", "fields", "images", "pair", "positions"]

#: One number for the rows of an image and one for its columns.
Pair = tuple[int, int]


def pair(name: str, what: str, value: int | Sequence[int], least: int) -> Pair:
    """An argument of the constructor called `name`: one number for both axes, or one for each.

    Raises
    ------
    InvalidValueError
        If it is anything else, or below `least`.
    """
    given = (value, value) if isinstance(value, int) else tuple(value)
    if not _is_pair(given, least):
        raise InvalidValueError(
            f"{name}: {what} must be an integer of at least {least}, or a pair for rows and columns, got {value!r}; "
            "correct it"
        )
    return given[0], given[1]


def _is_pair(value: Any, least: int) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= least for n in value)
    )


def fields(name: str, least: int, **given: tuple[int, ...]) -> None:
    """Refuse attributes of the operator called `name` that are not two integers of at least `least`."""
    for field, value in given.items():
        if not _is_pair(value, least):
            raise TypeRuleError(f"{name}: {field} must be two integers of at least {least}, got {value!r}; correct it")


def images(name: str, what: str, x: TensorType) -> None:
    """Refuse an operand that has not four axes."""
    if x.rank != 4:
        raise TypeRuleError(f"{name}: {what} must have 4 axes, got {x}; reshape it, with size 1 for missing axes")


def positions(
    name: str, size: Sequence[int], window: Pair, stride: Pair, padding: Pair = (0, 0), dilation: Pair = (1, 1)
) -> Pair:
    """How many windows there are along the rows and the columns of an image.

    ``(size + 2 * padding - (window - 1) * dilation - 1) // stride + 1`` along each axis: windows that would reach
    beyond the end are left out.

    Raises
    ------
    TypeRuleError
        If not even one fits.
    """
    found = []
    for n, k, s, p, d in zip(size, window, stride, padding, dilation, strict=True):
        room = n + 2 * p - (k - 1) * d - 1
        if room < 0:
            raise TypeRuleError(
                f"{name}: windows must fit into the padded image, got windows that span {(k - 1) * d + 1} on an axis "
                f"of {n} padded by {p} on both sides; pad more or use a smaller window"
            )
        found.append(room // s + 1)
    return found[0], found[1]
