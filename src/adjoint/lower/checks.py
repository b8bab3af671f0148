"""Range checks of arguments: `check_range` and the ranges of indices, hoisted to before anything is modified.

An argument is checked in its own dtype, before casts that could wrap, and only where views of it are read: of the
columns of a table, only those that hold indices. Values that are computed inside the graph cannot be checked before it
runs. Operators that take indices define what they do with those that are out of range.
"""

from collections.abc import Iterator

import numpy as np

from adjoint.ir import DTYPES, Function, Value, is_float, is_param
from adjoint.kernel.program import RangeCheck
from adjoint.lower.analysis.access import access_pattern
from adjoint.ops.base import Operator
from adjoint.ops.convert import After, Cast, CheckRange

__all__ = ["range_checks"]

#: Floats in which an argument can be checked; labels in 16-bit floats are treated as computed values.
_CHECKED_FLOATS = (DTYPES["f32"], DTYPES["f64"])


def range_checks(function: Function) -> tuple[RangeCheck, ...]:
    """The conditions on a function's arguments, without those that others imply."""
    slot_of = {p: n for n, p in enumerate(function.params)}
    found: dict[RangeCheck, None] = {}
    for value in function.values():
        for operand, low, high, allow in _ranges(value):
            found.update(dict.fromkeys(_checks(operand, low, high, allow, slot_of)))
    kept = [c for c in found if not any(d is not c and _implies(d, c) for d in found)]
    return tuple(kept)


def _ranges(value: Value) -> Iterator[tuple[Value, int, int, int | None]]:
    """The ranges that an op requires: an operand, its bounds, and a value that is also allowed."""
    if isinstance(value.op, CheckRange):
        yield value.inputs[0], value.op.low, value.op.high, value.op.allow
    elif isinstance(value.op, Operator):
        sizes = value.op.index_sizes(*(v.type for v in value.inputs))
        for operand, size in zip(value.inputs, sizes, strict=True):
            if size:
                yield operand, 0, size, None


def _checks(operand: Value, low: int, high: int, allow: int | None, slot_of: dict[Value, int]) -> Iterator[RangeCheck]:
    """The check of the argument that a value is a view or conversion of, if any and if its dtype does not imply it."""
    argument, views, allowed = _argument(operand)
    if argument not in slot_of or not operand.type.size:
        return
    dtype = argument.dtype
    limits = (0, 1) if dtype == DTYPES["bool"] else None
    if dtype.kind in "iu":
        limits = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if limits is not None and low <= limits[0] and limits[1] < high:
        return
    region = _region(argument, views)
    if region is not None:
        yield RangeCheck(slot_of[argument], low, high, allowed if allow is None else allow, *region)


def _argument(value: Value) -> tuple[Value, list[Value], int | None]:
    """The parameter, or else the value, at which a chain of views and conversions starts.

    Also the views on the way, from the parameter on, and the value that the last `check_range` on the way allows.
    """
    views: list[Value] = []
    allow: int | None = None
    while not is_param(value):
        op = value.op
        if isinstance(op, CheckRange):
            allow = op.allow if allow is None else allow
        elif isinstance(op, Cast):
            if op.dtype == DTYPES["bool"] or not _checkable(value.inputs[0].dtype):
                break
        elif not isinstance(op, After):
            if len(value.inputs) != 1 or access_pattern(value).kind != "view":
                break
            views.append(value)
        value = value.inputs[0]
    return value, views[::-1], allow


def _checkable(dtype: np.dtype) -> bool:
    return not is_float(dtype) or dtype in _CHECKED_FLOATS


def _region(argument: Value, views: list[Value]) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """The positions that views of an argument read, as a start and axes; None if they are no regular grid."""
    places = np.arange(argument.type.size).reshape(argument.shape)
    for view in views:
        assert isinstance(view.op, Operator)
        places = view.op.reference(places)
    places = np.unique(places)
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
