"""Range checks of arguments: `check_range` and the ranges of indices, hoisted to before anything is modified.

An argument is checked in its own dtype, before casts that could wrap, and only where views of it are read: of the
columns of a table, only those that hold indices. Values that are computed inside the graph cannot be checked before it
runs. Operators that take indices define what they do with those that are out of range.

The body of a scan always runs, so what it reads of a constant or of rows is checked in the operand, for all iterations.
Carries are computed; branches and the bodies of `while_loop` may not run.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from adjoint.ir import DTYPES, Function, Value, is_float, is_param
from adjoint.kernel.program import RangeCheck
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import access_pattern
from adjoint.ops.base import Operator
from adjoint.ops.calls import TupleGet
from adjoint.ops.control import Control, Scan
from adjoint.ops.convert import After, Cast, CheckRange

__all__ = ["range_checks"]

#: Floats in which an argument can be checked; labels in 16-bit floats are treated as computed values.
_CHECKED_FLOATS = (DTYPES["f32"], DTYPES["f64"])


#: A view of an array of positions.
_View = Callable[[np.ndarray], np.ndarray]


def range_checks(function: Function) -> tuple[RangeCheck, ...]:
    """The conditions on a function's arguments, without those that others imply."""
    slot_of = {p: n for n, p in enumerate(function.params)}
    found: dict[RangeCheck, None] = {}
    for value in function.values():
        for required in _ranges(value):
            found.update(dict.fromkeys(_checks(required, slot_of)))
    kept = [c for c in found if not any(d is not c and _implies(d, c) for d in found)]
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class _Range:
    """What an op requires of an operand, or of a view of it: bounds, and a value that is also allowed."""

    operand: Value
    low: int
    high: int
    allow: int | None = None
    views: tuple[_View, ...] = ()


def _ranges(value: Value) -> Iterator[_Range]:
    """The ranges that an op requires."""
    if isinstance(value.op, CheckRange):
        yield _Range(value.inputs[0], value.op.low, value.op.high, value.op.allow)
    elif isinstance(value.op, Scan):
        yield from _ranges_of_body(value.op, value.inputs)
    elif isinstance(value.op, Operator):
        sizes = value.op.index_sizes(*(v.type for v in value.inputs))
        for operand, size in zip(value.inputs, sizes, strict=True):
            if size:
                yield _Range(operand, 0, size)


def _ranges_of_body(op: Scan, operands: Sequence[Value]) -> Iterator[_Range]:
    """What a body requires of the constants of a loop, and of the rows of stacked inputs."""
    number_of = {p: n for n, p in enumerate(op.body.params)}
    for value in op.body.values():
        for required in _ranges(value):
            argument, views, allowed = _argument(required.operand)
            number = number_of.get(argument)
            if number is None or op.consts <= number < op.consts + op.carries:
                continue
            views = (*views, *required.views)
            whole: tuple[_View, ...] = views if number < op.consts or not views else (partial(_each_row, views),)
            allow = allowed if required.allow is None else required.allow
            yield _Range(operands[number], required.low, required.high, allow, whole)


def _each_row(views: Sequence[_View], places: np.ndarray) -> np.ndarray:
    """Views of every row of an array of positions."""
    return np.stack([_viewed(views, row) for row in places])


def _viewed(views: Sequence[_View], places: np.ndarray) -> np.ndarray:
    for view in views:
        places = view(places)
    return places


def _checks(required: _Range, slot_of: dict[Value, int]) -> Iterator[RangeCheck]:
    """The check of the argument that a value is a view or conversion of, if any and if its dtype does not imply it."""
    low, high = required.low, required.high
    argument, views, allowed = _argument(required.operand)
    if argument not in slot_of or not required.operand.type.size:
        return
    dtype = argument.dtype
    limits = (0, 1) if dtype == DTYPES["bool"] else None
    if dtype.kind in "iu":
        limits = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if limits is not None and low <= limits[0] and limits[1] < high:
        return
    region = _region(argument, (*views, *required.views))
    if region is not None:
        yield RangeCheck(slot_of[argument], low, high, allowed if required.allow is None else required.allow, *region)


def _argument(value: Value) -> tuple[Value, tuple[_View, ...], int | None]:
    """The parameter, or else the value, at which a chain of views and conversions starts.

    Also the views on the way, from the parameter on, and the value that the last `check_range` on the way allows.
    """
    views: list[_View] = []
    allow: int | None = None
    while not is_param(value):
        op = value.op
        if isinstance(op, CheckRange):
            allow = op.allow if allow is None else allow
        elif isinstance(op, Cast):
            if op.dtype == DTYPES["bool"] or not _checkable(value.inputs[0].dtype):
                break
        elif not isinstance(op, After):
            if len(value.inputs) != 1 or isinstance(op, TupleGet | Control) or access_pattern(value).kind != "view":
                break
            assert isinstance(op, Operator)
            views.append(op.reference)
        value = value.inputs[0]
    return value, tuple(views[::-1]), allow


def _checkable(dtype: np.dtype) -> bool:
    return not is_float(dtype) or dtype in _CHECKED_FLOATS


def _region(argument: Value, views: Sequence[_View]) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """The positions that views of an argument read, as a start and axes; None if they are no regular grid."""
    read = np.zeros(argument.type.size, np.bool_)
    read[_viewed(views, np.arange(argument.type.size).reshape(argument.shape))] = True
    places = np.flatnonzero(read)
    start, axes = int(places[0]), []
    while len(places) > 1:
        step = np.diff(places)
        ends = np.flatnonzero(step != step[0])
        count = int(ends[0]) + 1 if len(ends) else len(places)
        rows = places.reshape(-1, count) if len(places) % count == 0 else None
        if rows is None or np.any(np.diff(rows, axis=1) != step[0]):
            return None
        axes.append((count, int(step[0])))
        places = rows[:, 0]
    return start, tuple(axes[::-1])


def _implies(one: RangeCheck, other: RangeCheck) -> bool:
    """Whether elements that satisfy a check satisfy another check of the same elements."""
    same = (one.slot, one.start, one.axes) == (other.slot, other.start, other.axes)
    extra = one.allow is None or one.allow == other.allow or other.low <= one.allow < other.high
    return same and other.low <= one.low and one.high <= other.high and extra
