"""What optimizers do to parameters: their update, and removing gradients."""

from collections import Counter
from collections.abc import Iterable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from adjoint.tensor.aliases import refresh_views
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.record import operands
from adjoint.tensor.speculation import Followers
from adjoint.tensor.step_entry import Update, step_entry
from adjoint.tensor.step_replay import written_step
from adjoint.tensor.storage import COUNTED_BY_CALL
from adjoint.tensor.structure import Node
from adjoint.tensor.trace import Recorded, Trace

__all__ = ["clear_gradients", "record_step"]

#: References to a gradient that nobody else holds while it is examined: by the parameter, by a variable, and by the
#: call of getrefcount.
_UNSEEN = 2 + COUNTED_BY_CALL


def record_step(update: Update, grads: Sequence[Recorded]) -> None:
    """Record the update of parameters and rebind them, and the optimizer's state, to the new values.

    Parameters
    ----------
    update : Update
        The parameters and the optimizer.
    grads : sequence of Tensor
        The gradients of the parameters.
    """
    owner = grads[0]._trace
    if owner is not None and owner.speculation is not None and owner.speculation.deliver(owner, update, grads):
        return
    repeat = update.repeat
    if repeat is not None and owner.__class__ is Trace and repeat(owner, grads):
        return
    params = update.params
    trace, nodes = operands((*params, *grads), hint=owner)
    if trace.resumed is not None:
        _learn(trace, update)
    entry: Any = step_entry(trace, update, nodes)
    if entry is None:
        trace, nodes = operands((*params, *grads, *update.held))
        entry = step_entry(trace, update, nodes)
    is_repeated = entry is update.entry
    if is_repeated and entry.enters:
        update.repeat = written_step(update, entry)
    update.entry = entry
    trace.node = entry
    trace.rebind(update.changed, entry.items)
    for grad in grads:
        grad._spent = True
    for param in params:
        if param._alias is not None:
            refresh_views(params)
            break


def _learn(trace: Trace, update: Update) -> None:
    """Note with a program that has been run that an update comes next, if nothing else came before."""
    node: Any = trace.node
    while node.index >= 0 or _marker(node) == "step":
        node = node.parent
    ran = node.parent
    if _marker(node) == "resume" and any(ran is resumed.last for resumed in trace.resumed or ()):
        if ran.followers is None:
            ran.followers = Followers()
        ran.followers.add(update)


def _marker(node: Node) -> object:
    return node.key[0] if isinstance(node.key, tuple) else None


def clear_gradients(params: Iterable[Recorded], set_to_none: bool) -> None:
    """Remove the gradients of parameters, or set those that there are to zeros, as ``zero_grad`` does.

    A gradient that is also held elsewhere is set to zeros in place. Otherwise, zeros take its place, because then
    nothing has to know its value.
    """
    if set_to_none:
        for param in params:
            param._grad = None
        return
    found = [param for param in params if param._grad is not None]
    owners = {param._grad._trace for param in found if isinstance(param._grad._trace, Trace)}
    listed = Counter(id(tensor) for owner in owners for tensor in (*owner.entered, *owner.made))
    for param in found:
        grad = param._grad
        alias = grad._alias
        has_views = alias is not None and bool(alias.steps or alias.group.alive(grad))
        if has_views or getrefcount(grad) > _UNSEEN + listed[id(grad)]:
            with no_grad():
                grad.zero_()
        else:
            param._grad = from_array(np.zeros(param._spec.type.shape, param._spec.type.dtype))
