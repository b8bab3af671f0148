"""Windows over the last two axes, for convolution and pooling."""

from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import TensorType

__all__ = ["Pair", "fields", "images", "pair", "positions"]

#: A number for the rows of an image and one for its columns.
Pair = tuple[int, int]

#: What to pass instead of the words that other frameworks take.
_FIXES = {
    ("padding", "same"): "for stride 1 and a window of odd size k, pass (k - 1) // 2",
    ("padding", "valid"): "pass 0",
}


def pair(name: str, what: str, value: int | Sequence[int], least: int) -> Pair:
    """A constructor's argument that is one number for both axes, or a pair; `name` is the constructor.

    Raises
    ------
    InvalidValueError
        If it is anything else, or less than `least`.
    """
    items = value if isinstance(value, Iterable) else (value, value)
    given = tuple(items)
    if not _is_pair(given, least):
        raise InvalidValueError(
            f"{name}: {what} must be an integer of at least {least}, or a pair for rows and columns, got {value!r}; "
            f"{_FIXES.get((what, value), 'correct it') if isinstance(value, str) else 'correct it'}"
        )
    return given[0], given[1]


def _is_pair(value: Any, least: int) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= least for n in value)
    )


def fields(name: str, least: int, **given: tuple[int, ...]) -> None:
    """Raise if attributes of the operator called `name` are not two integers of at least `least`."""
    for field, value in given.items():
        if not _is_pair(value, least):
            raise TypeRuleError(f"{name}: {field} must be two integers of at least {least}, got {value!r}; correct it")


def images(name: str, what: str, x: TensorType) -> None:
    """Raise if an operand does not have four axes."""
    if x.rank != 4:
        raise TypeRuleError(f"{name}: {what} must have 4 axes, got {x}; reshape it, with size 1 for missing axes")


def positions(
    name: str, size: Sequence[int], window: Pair, stride: Pair, padding: Pair = (0, 0), dilation: Pair = (1, 1)
) -> Pair:
    """Number of windows along the rows and the columns of an image.

    ``(size + 2 * padding - (window - 1) * dilation - 1) // stride + 1`` along each axis; incomplete windows at the end
    do not count.

    Raises
    ------
    TypeRuleError
        If not a single window fits.
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
