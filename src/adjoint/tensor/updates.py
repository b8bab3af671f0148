"""The update of parameters by an optimizer, as one entry of a recorded program."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from adjoint.errors import located, user_line
from adjoint.ir import is_param
from adjoint.tensor.aliases import refresh_views
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.record import operands
from adjoint.tensor.storage import COUNTED_BY_CALL
from adjoint.tensor.structure import Node, spec_of
from adjoint.tensor.trace import Recorded, Trace, growing, lock

__all__ = ["clear_gradients", "record_step"]

#: References to a gradient that nobody else holds while it is examined: by the parameter, by a variable, and by the
#: call of getrefcount.
_UNSEEN = 2 + COUNTED_BY_CALL


def record_step(
    optimizer: Any,
    params: Sequence[Recorded],
    grads: Sequence[Recorded],
    states: Sequence[Recorded],
    hypers: Sequence[Recorded],
) -> None:
    """Record the update of parameters and rebind them, and the optimizer's state, to the new values.

    Parameters
    ----------
    optimizer : Optimizer
        Hashable; equal optimizers record the same entry. Its `init`, `hyper` and `apply` describe the update.
    params, grads : sequence of Tensor
        The parameters and their gradients.
    states : sequence of Tensor
        The optimizer's state for these parameters, in the order of ``optimizer.init``.
    hypers : sequence of Tensor
        The hyperparameters, scalars, in the order of ``optimizer.hyper``.
    """
    trace, nodes = operands((*params, *grads, *states, *hypers))
    key: tuple[Hashable, ...] = ("step", optimizer, *nodes)
    node = trace.node.children.get(key)
    if node is None:
        node = _made_step(trace.node, key, optimizer, nodes, (len(params), len(states)))
    trace.node = node
    items = iter(node.items)
    for group in (params, states):
        for tensor in group:
            trace.rebind(tensor, next(items))
    for grad in grads:
        grad._spent = True
    refresh_views(params)


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


def _made_step(parent: Node, key: Hashable, optimizer: Any, nodes: Sequence[Any], counts: tuple[int, int]) -> Node:
    with lock, located(user_line() or ""):
        count, states = counts
        names = [f"p{n}" for n in range(count)]
        values = [n.graph for n in nodes]
        types = {name: value.type for name, value in zip(names, values[:count], strict=True)}
        params = dict(zip(names, values[:count], strict=True))
        grads = dict(zip(names, values[count : 2 * count], strict=True))
        specs = optimizer.init(types)
        state_values = dict(zip((s.name for s in specs), values[2 * count : 2 * count + states], strict=True))
        hyper = dict(zip((s.name for s in optimizer.hyper(types)), values[2 * count + states :], strict=True))
        new_params, new_states = optimizer.apply(params, grads, state_values, hyper)
        node = Node(parent, operands=tuple(nodes))
        news = [
            new if is_param(new) else new.named(f"{p.label}_new")  # a frozen parameter is its own new value
            for p, new in zip(values, new_params.values(), strict=False)
        ]
        results = [*news, *new_states.values()]
        node.items = tuple(Node(node, spec_of(v.type), v, node.operands) for v in results)
        olds = [*nodes[:count], *nodes[2 * count : 2 * count + states]]
        node.rebinds = tuple(zip(olds, node.items, strict=True))
        growing.count_node()
        return parent.child(key, node)
