"""Straight-line code that records the update of an optimizer again.

In the usual loop the entry of ``optimizer.step()`` follows the same entry in every iteration, on the same parameters.
`written_step` makes a function that checks this and does what `adjoint.tensor.updates.record_step` would do. For one
parameter and a learning rate it is, in outline::

    def repeat(trace, grads):
        if trace.node is not parent or ...: return False       # another program, or the thread has recorded something
        [p0] = params
        if p0._node is not n1 or p0._trace is not trace ...: return False
        [g0] = grads
        if g0._node is not n2 or g0._trace is not trace ...: return False
        [h0] = held
        s0 = h0._storage
        if s0 is None or s0.shared ...: return False           # the learning rate
        trace.node = entry
        trace.entered += held
        trace.storages += [s0]
        trace.made += changed
        p0._storage = None; p0._node = n3; p0._trace = rebound
        g0._spent = True
        return True
"""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.tensor.step_entry import Update
from adjoint.tensor.straight_line import StraightLine, targets
from adjoint.tensor.structure import Node
from adjoint.tensor.trace import NOTHING, Rebound, Recorded, Trace, state

__all__ = ["written_step"]


def written_step(update: Update, entry: Node) -> Callable[[Trace, Sequence[Recorded]], bool] | None:
    """The function that records an update again.

    Parameters
    ----------
    update : Update
        The update, whose parameters are leaves that require gradients.
    entry : Node
        Its entry, with which the tensors that the optimizer holds enter.

    Returns
    -------
    callable or None
        Takes the trace of the gradients, and the gradients; returns False, and has done nothing, if something differs.
        None for parameters that do not require gradients any more.
    """
    if not all(param._spec.requires_grad and param._spec.leaf for param in update.params):
        return None
    text = StraightLine(
        "repeat",
        "trace, grads",
        {
            "NOTHING": NOTHING,
            "Rebound": Rebound,
            "changed": update.changed,
            "entry": entry,
            "held": update.held,
            "params": tuple(update.params),
            "parent": entry.parent,
            "state": state,
        },
    )
    count = len(update.params)
    text.add("current = state.trace")
    text.refuse_if("trace.node is not parent or current.node.parent is not None or current.outer is not None")
    text.refuse_if("trace.resumed is not None or trace.outer is not None")
    text.add(
        f"{targets('p', count)} = params", f"{targets('g', count)} = grads", f"{targets('h', len(update.held))} = held"
    )
    for n, (param, node) in enumerate(zip(update.params, entry.operands, strict=False)):
        at, spec = text.name("n", node), text.name("spec", param._spec)
        text.refuse_if(f"p{n}._node is not {at} or p{n}._trace is not trace or p{n}._storage is None")
        text.refuse_if(f"p{n}._spec is not {spec} or p{n}._alias is not None")
    for n, node in enumerate(entry.operands[count : 2 * count]):
        text.refuse_if(
            f"g{n}._node is not {text.name('n', node)} or g{n}._trace is not trace or g{n}._alias is not None"
        )
    for n, node in enumerate(entry.enters):
        text.add(f"s{n} = h{n}._storage")
        text.refuse_if(f"s{n} is None or s{n}.shared or h{n}._trace is trace or h{n}._spec is not {_spec(text, node)}")
    text.add("trace.node = entry", "trace.grad = state.grad", "trace.entered += held", "trace.made += changed")
    text.add(f"trace.storages += {targets('s', len(update.held))}", "rebound = trace.rebound")
    text.add("if rebound is NOTHING: rebound = trace.rebound = Rebound(trace)")
    for n, item in enumerate(entry.items[:count]):
        text.add(f"p{n}._storage = None", f"p{n}._node = {text.name('n', item)}", f"p{n}._trace = rebound")
    for n, item in enumerate(entry.items[count:]):
        text.add(f"h{n}._storage = None", f"h{n}._node = {text.name('n', item)}", f"h{n}._trace = trace")
        if item.spec is not entry.enters[n].spec:
            text.add(f"h{n}._spec = {_spec(text, item)}")
    text.add(*[f"g{n}._spent = True" for n in range(count)])
    return text.function()


def _spec(text: StraightLine, node: Any) -> str:
    return text.name("spec", node.spec)
