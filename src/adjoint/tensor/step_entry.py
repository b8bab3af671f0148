"""The update of parameters by an optimizer, as one entry of a recorded program."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from adjoint.errors import located, user_line
from adjoint.ir import is_param
from adjoint.tensor.structure import Node, spec_of
from adjoint.tensor.trace import Recorded, Trace, growing, lock

__all__ = ["Update", "step_entry"]


class Update:
    """Parameters that an optimizer updates together.

    Parameters
    ----------
    optimizer : Optimizer
        Hashable; equal optimizers record the same entry. Its `init`, `hyper` and `apply` describe the update.
    params : sequence of Tensor
        The parameters.
    states : sequence of Tensor
        The optimizer's state for these parameters, in the order of ``optimizer.init``.
    hypers : sequence of Tensor
        The hyperparameters, scalars, in the order of ``optimizer.hyper``.
    """

    __slots__ = ("__weakref__", "changed", "entry", "held", "optimizer", "params", "repeat")

    def __init__(
        self, optimizer: Any, params: Sequence[Recorded], states: Sequence[Recorded], hypers: Sequence[Recorded]
    ) -> None:
        self.optimizer = optimizer
        self.params = params
        #: The tensors that get new values, and those that the optimizer holds.
        self.changed = (*params, *states)
        self.held = (*states, *hypers)
        #: The entry of the last step, and what records the entry that comes most of the time (`written_step`).
        self.entry: Node | None = None
        self.repeat: Callable[[Trace, Sequence[Recorded]], bool] | None = None


def step_entry(trace: Trace, update: Update, nodes: Sequence[Node]) -> Node | None:
    """The entry of an update in a trace, after the tensors of the optimizer have entered that; None if one cannot.

    Parameters
    ----------
    trace : Trace
        The trace.
    update : Update
        The update.
    nodes : sequence of Node
        The parameters, then their gradients. What the optimizer holds enters with the entry, unless their nodes follow.
    """
    together = len(nodes) == 2 * len(update.params)
    key: tuple[Hashable, ...] = ("step", update.optimizer, *nodes)
    node = trace.node.children.get(key)
    if node is None:
        if trace.outer is not None and together:
            return None
        node = _made_entry(trace, key, update, trace.arguments(update.held) if together else ())
    return None if together and not trace.takes(update.held, node.enters) else node


def _made_entry(trace: Trace, key: tuple[Any, ...], update: Update, enters: tuple[Node, ...]) -> Node:
    with lock, located(user_line() or ""):
        parent, optimizer = trace.node, update.optimizer
        nodes: list[Node] = [*key[2:], *enters]
        values = [n.graph for n in nodes]
        count, states = len(update.params), len(update.changed) - len(update.params)
        names = [f"p{n}" for n in range(count)]
        types = {name: value.type for name, value in zip(names, values[:count], strict=True)}
        params = dict(zip(names, values[:count], strict=True))
        grads = dict(zip(names, values[count : 2 * count], strict=True))
        specs = optimizer.init(types)
        state_values = dict(zip((s.name for s in specs), values[2 * count : 2 * count + states], strict=True))
        hyper = dict(zip((s.name for s in optimizer.hyper(types)), values[2 * count + states :], strict=True))
        new_params, new_states = optimizer.apply(params, grads, state_values, hyper)
        node = Node(parent, operands=tuple(nodes))
        node.enters = enters
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
