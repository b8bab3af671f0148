"""What a program keeps for a backward pass that follows after it has been run.

If the loss is read between the forward and the backward pass, the forward pass runs as a program of its own. The first
time, the backward pass computes what it needs of it again. `learn_residuals` notes these values with the forward
program, which from then on returns them too.

Cheap values, such as a bias repeated for every row, are computed again from what they are made of.
"""

from adjoint.ir import Function, Value, is_param, toposort
from adjoint.ops.calls import TupleGet
from adjoint.ops.control import Scan
from adjoint.ops.convert import Cast, StopGradient
from adjoint.ops.create import Constant, Full, Iota
from adjoint.ops.shape import BroadcastTo, Flip, Permute, Reshape, Slice
from adjoint.tensor.structure import Node, spec_of
from adjoint.tensor.trace import Trace

__all__ = ["frontier", "learn_residuals"]

#: Operators whose results are computed again rather than kept.
_CHEAP = (BroadcastTo, Cast, Constant, Flip, Full, Iota, Permute, Reshape, Slice, StopGradient)


def learn_residuals(trace: Trace, function: Function) -> None:
    """Note with a program that has been run which of its values the function of a later program computes again."""
    node = trace.last
    known = dict(node.residuals or {})
    if trace.ran in known:
        return
    values = frontier(function, set(toposort(one.graph for one in trace.ran)))
    known[trace.ran] = tuple(Node(None, spec_of(value.type), value) for value in values)
    node.residuals = known
    node.recent = (None, None)


def frontier(function: Function, forward: set[Value]) -> list[Value]:
    """The values of `forward` that others in a function read, without parameters and cheap values."""
    values = function.values()
    forward = _with_items(values, forward)
    needed = dict.fromkeys(operand for v in values if v not in forward for operand in v.inputs if operand in forward)
    stack, found = list(needed), dict[Value, None]()
    seen = set(stack)
    while stack:
        value = stack.pop()
        if is_param(value):
            continue
        if not isinstance(value.op, _CHEAP):
            found[value] = None
            continue
        for operand in value.inputs:
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return [value for value in values if value in found]


def _with_items(values: list[Value], forward: set[Value]) -> set[Value]:
    """The values of a forward pass with the results of its loops, also those that only the derivative reads.

    The derivative of a loop contains the loop again, with more outputs; in one program, both are one loop.
    """
    found = set(forward)
    loops = {_loop(v) for v in forward if isinstance(v.op, Scan)}
    for value in values:
        again = isinstance(value.op, Scan) and _loop(value) in loops
        if again or (isinstance(value.op, TupleGet) and value.inputs[0] in found):
            found.add(value)
    return found


def _loop(value: Value) -> tuple[object, ...]:
    """What loops have in common that become one."""
    op = value.op
    assert isinstance(op, Scan)
    return value.inputs, op.length, op.consts, op.carries, op.reverse
