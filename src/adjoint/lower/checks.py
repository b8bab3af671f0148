"""Range checks of arguments: `check_range` hoisted out of the graph, to where nothing has been modified yet."""

from adjoint.ir import Function, Value, is_param
from adjoint.kernel.program import RangeCheck
from adjoint.lower.analysis.access import access_pattern
from adjoint.ops.convert import Cast, CheckRange

__all__ = ["range_checks"]


def range_checks(function: Function) -> tuple[RangeCheck, ...]:
    """What a function's arguments must satisfy.

    A check of a parameter, or of a view or conversion of one, becomes a check of the argument. A check of a
    computed value does nothing in compiled code: whatever it guards reads inside its tensor all the same.
    """
    slot_of = {p: n for n, p in enumerate(function.params)}
    found: dict[RangeCheck, None] = {}
    for value in function.values():
        if isinstance(value.op, CheckRange):
            argument = _argument(value.inputs[0])
            if argument in slot_of:
                found[RangeCheck(slot_of[argument], value.op.low, value.op.high, value.op.allow)] = None
    return tuple(found)


def _argument(value: Value) -> Value:
    """The parameter that a chain of views and conversions starts from, or what it does start from."""
    while not is_param(value) and len(value.inputs) == 1:
        if access_pattern(value).kind != "view" and not isinstance(value.op, Cast):
            break
        value = value.inputs[0]
    return value
