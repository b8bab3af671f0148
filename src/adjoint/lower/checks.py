"""Range checks of arguments: `check_range` hoisted out of the graph, to before anything is modified."""

from adjoint.ir import Function, Value, is_param
from adjoint.kernel.program import RangeCheck
from adjoint.lower.analysis.access import access_pattern
from adjoint.ops.convert import Cast, CheckRange

__all__ = ["range_checks"]


def range_checks(function: Function) -> tuple[RangeCheck, ...]:
    """The conditions on a function's arguments."""
    slot_of = {p: n for n, p in enumerate(function.params)}
    found: dict[RangeCheck, None] = {}
    for value in function.values():
        if isinstance(value.op, CheckRange):
            argument = _argument(value.inputs[0])
            if argument in slot_of:
                found[RangeCheck(slot_of[argument], value.op.low, value.op.high, value.op.allow)] = None
    return tuple(found)


def _argument(value: Value) -> Value:
    """The parameter, or else the value, at which a chain of views and conversions starts."""
    while not is_param(value) and len(value.inputs) == 1:
        if access_pattern(value).kind != "view" and not isinstance(value.op, Cast):
            break
        value = value.inputs[0]
    return value
