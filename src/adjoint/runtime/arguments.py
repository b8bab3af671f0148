"""Arguments of an entry point: accepted or refused, with the fix that the given array suggests."""

import math
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError, plural
from adjoint.kernel.program import Argument

__all__ = [
    "accept",
    "as_array",
    "axes_fix",
    "dtype_fix",
    "in_other_order",
    "is_one_hot",
    "miscounted",
    "refuse_swapped",
]

#: Most arguments for which all orders are tried, to find those that were exchanged.
_ORDERED = 5


def miscounted(entry: str, arguments: Sequence[Argument], given: Sequence[Any]) -> TypeRuleError:
    """The error for a wrong number of arguments."""
    names = ", ".join(a.name for a in arguments) or "none"
    got, fix = str(len(given)), "give it all of them" if len(given) < len(arguments) else "leave out the others"
    if len(given) == 1 and isinstance(given[0], tuple | list) and len(given[0]) == len(arguments):
        got, fix = f"a {type(given[0]).__name__} of {len(arguments)}", f"unpack it, as in {entry}(*batch)"
    return TypeRuleError(f"{entry} takes {plural(len(arguments), 'argument')} ({names}), got {got}; {fix}")


def as_array(entry: str, name: str, given: Any) -> np.ndarray:
    """The argument of that name as an array of any type; raises if it is none."""
    try:
        return np.asarray(given)
    except ValueError as error:  # nested lists of different lengths
        raise TypeRuleError(
            f"{entry}: {name} must be an array, got nested lists of different lengths; make them equal"
        ) from error


def accept(entry: str, argument: Argument, given: Any) -> np.ndarray:
    """The argument as an array that the step can read, copied only if its layout requires it."""
    array = as_array(entry, argument.name, given)
    if array.shape != argument.shape:
        raise TypeRuleError(
            f"{entry}: {argument.name} must have shape {argument.shape}, got {array.shape}; "
            f"{_shape_fix(argument, array)}"
        )
    if array.dtype != argument.dtype:
        if isinstance(given, np.ndarray | np.generic) or not np.can_cast(array.dtype, argument.dtype, "same_kind"):
            fix = dtype_fix(argument.dtype, array.dtype)
            raise TypeRuleError(f"{entry}: {argument.name} must be {argument.dtype}, got {array.dtype}; {fix}")
        array = array.astype(argument.dtype)
    return np.require(array, requirements=("C", "A"))


def _shape_fix(argument: Argument, array: np.ndarray) -> str:
    if is_one_hot(array, argument.shape, argument.dtype):
        return (
            "for one-hot rows, take argmax over the last axis, or train on float targets (probabilities) by giving "
            "their type in loss_args"
        )
    if array.ndim == len(argument.shape) and array.shape[1:] == argument.shape[1:]:
        rows = plural(argument.shape[0], "row")
        return f"pass {rows} at a time, or build the model for this batch size"
    fix = axes_fix(argument.name, argument.shape, array.shape)
    if fix or array.size == math.prod(argument.shape):
        return fix or "reshape it"
    return "reshape it, or build the model for this shape"


def axes_fix(name: str, wanted: Sequence[int], given: Sequence[int]) -> str:
    """The fix for an array of rows that only lacks an axis, has one too many, or has its axes in another order.

    A reshape of images with the channels last would fit as well, but mix up their elements.

    Parameters
    ----------
    name : str
        Name of the array.
    wanted, given : sequence of int
        The shapes, of which the first axes are the rows, of any number.

    Returns
    -------
    str
        The fix, or "" if there is none of this kind.
    """
    wanted, given = tuple(wanted), tuple(given)
    rows = wanted[1:]
    if given == rows:
        return f"pass {name}[None] if it is a single row"
    if len(given) == len(wanted) == 2 and given[0] == wanted[1]:
        return f"transpose it, {name}.T"
    moved = _moved_channels(rows, given[1:])
    if moved:
        return f"{moved[0]}, pass {name}.transpose{moved[1]}"
    moved = _moved_channels(rows, given)
    if moved:
        return f"{moved[0]} and it is a single row, pass {name}[None].transpose{moved[1]}"
    for axis in range(1, len(wanted)):
        if wanted[axis] == 1 and (*wanted[1:axis], *wanted[axis + 1 :]) == given[1:]:
            return f"add the axis that is missing, {name}[{':, ' * axis}None]"
    for axis in range(1, len(given)):
        if given[axis] == 1 and (*given[1:axis], *given[axis + 1 :]) == rows:
            return f"remove its axis of size 1, {name}.squeeze({axis})"
    if len(rows) == 1 and len(given) > 2 and math.prod(given[1:]) == rows[0]:
        return f"flatten its rows, {name}.reshape(len({name}), -1)"
    return ""


def _moved_channels(wanted: tuple[int, ...], given: tuple[int, ...]) -> tuple[str, tuple[int, ...]] | None:
    """A condition and the order of the axes, with that of the rows, in which a row of the given shape fits."""
    count = len(given)
    if count < 2 or count != len(wanted):
        return None
    for what, order in (("last", (0, count, *range(1, count))), ("first", (0, *range(2, count + 1), 1))):
        if tuple(given[axis - 1] for axis in order[1:]) == wanted:
            return f"if its channels are {what}", order
    return None


def dtype_fix(wanted: np.dtype, given: np.dtype) -> str:
    """The fix for an array of another dtype."""
    convert = f".astype({wanted.name!r})"
    if given == np.uint8 and wanted.kind == "f":
        return f"convert it with {convert}, and divide images by 255"
    return f"convert it with {convert}"


def is_one_hot(array: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether an array is one-hot along its last axis, where class indices of that shape and dtype are expected."""
    if dtype.kind not in "iu" or array.shape[:-1] != shape or array.dtype.kind not in "iufb" or not array.size:
        return False
    return bool(np.all((array == 0) | (array == 1)) and np.all(array.sum(axis=-1) == 1))


def in_other_order(count: int, fits: Callable[[int, int], bool]) -> tuple[int, ...] | None:
    """The order in which given arrays fit: for each place, the number of the array; None if there is no such order.

    Parameters
    ----------
    count : int
        Number of places and arrays.
    fits : callable
        Whether a place takes an array, both by number.
    """
    if count > _ORDERED:
        return None
    orders = (order for order in permutations(range(count)) if order != tuple(range(count)))
    return next((order for order in orders if all(fits(n, i) for n, i in enumerate(order))), None)


def refuse_swapped(entry: str, arguments: Sequence[Argument], arrays: Sequence[Any]) -> None:
    """Raise if the arrays fit the arguments in another order than the given one."""
    if not all(isinstance(x, np.ndarray) for x in arrays):
        return
    order = in_other_order(
        len(arrays),
        lambda n, i: arrays[i].shape == arguments[n].shape and arrays[i].dtype == arguments[n].dtype,
    )
    if order is not None:
        names = [a.name for a in arguments]
        given = [names[order.index(n)] for n in range(len(names))]
        raise TypeRuleError(
            f"{entry}: arguments must be in the order ({', '.join(names)}), got arrays that fit "
            f"({', '.join(given)}); exchange them"
        )
