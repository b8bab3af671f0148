"""Hooks: functions that see, and may replace, gradients during a backward pass: of a tensor, or of several at once.

A hook is Python code, so a backward pass with hooks on results of operations is recorded in stages: from the loss to
the last such result, from there, with what its hook returned, to the one before, and at last to the leaves. At each
stage, the graph is cut at the results that are done.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import Value, apply, rebuild
from adjoint.ops.shape import Reshape
from adjoint.tensor.resuming import resume
from adjoint.tensor.structure import Node, Operation, spec_of
from adjoint.tensor.trace import Recorded, Trace, growing, lock
from adjoint.transforms.differentiate import cotangents

__all__ = [
    "SAME",
    "Hook",
    "apply_hooks",
    "checked_gradient",
    "differentiated",
    "hook_together",
    "hooked_gradients",
    "register_hook",
    "retain_grad",
]

#: What sees a gradient, and returns one in its place or None.
Hook = Callable[[Any], Any]


def _same(*values: Value) -> tuple[Value, ...]:
    """The values themselves, as results of an operation of their own, where the graph can be cut."""
    return tuple(apply(Reshape(value.shape), value) for value in values)


#: Makes tensors of their own of some tensors, as a boundary of a part of the graph.
SAME = Operation(_same)


class _Together:
    """Results of one operation whose gradients one function sees together.

    Parameters
    ----------
    tensors : sequence of Tensor
        The results. Others are kept in their place, which nobody else uses, so that they need no elements.
    hook : callable
        Takes the gradients, None for those of results that the backward pass does not reach; returns as many.
    """

    def __init__(self, tensors: Sequence[Recorded], hook: Callable[[list[Any]], Sequence[Any]]) -> None:
        self.hook = hook
        self.places: list[Recorded] = []
        for tensor in tensors:
            place = Recorded()
            place._spec, place._trace, place._node = tensor._spec, tensor._trace, tensor._node
            self.places.append(place)


def hook_together(tensors: Sequence[Recorded], hook: Callable[[list[Any]], Sequence[Any]]) -> None:
    """Call a function with the gradients of the results of one operation, before anything they flow on to is computed.

    Parameters
    ----------
    tensors : sequence of Tensor
        All or some results of one operation; those that require no gradient are never reached.
    hook : callable
        Takes the gradients, None for those of tensors that a backward pass does not reach; returns as many.
    """
    trace = tensors[0]._trace
    trace.hooked = [*(trace.hooked or ()), _Together(tensors, hook)]


class Registration:
    """A registered hook.

    Parameters
    ----------
    hooks : dict
        The hooks of the tensor.
    key : int
        Its key there.
    """

    def __init__(self, hooks: dict[int, Hook], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Remove the hook."""
        self._hooks.pop(self._key, None)


def register_hook(tensor: Recorded, hook: Hook) -> Registration:
    """Call `hook` with the gradient of a tensor in every backward pass that reaches it.

    Raises
    ------
    InvalidValueError
        If the tensor does not require a gradient.
    """
    _require_gradient("register_hook", tensor)
    if tensor._hooks is None:
        tensor._hooks = {}
    key = max(tensor._hooks, default=-1) + 1
    tensor._hooks[key] = hook
    _note(tensor)
    return Registration(tensor._hooks, key)


def retain_grad(tensor: Recorded) -> None:
    """Let a backward pass set ``grad`` of a result of operations too.

    Raises
    ------
    InvalidValueError
        If the tensor does not require a gradient.
    """
    _require_gradient("retain_grad", tensor)
    if not tensor._spec.leaf:
        tensor._retains = True
        _note(tensor)


def _require_gradient(what: str, tensor: Recorded) -> None:
    if not tensor._spec.requires_grad:
        raise InvalidValueError(
            f"{what}: the tensor must require a gradient, got {tensor._spec.type} that does not; set requires_grad=True"
        )


def _note(tensor: Recorded) -> None:
    """Let the trace of a result of operations know that its gradient is wanted."""
    trace = tensor._trace
    if not tensor._spec.leaf and isinstance(trace, Trace):
        trace.hooked = [*(trace.hooked or ()), tensor]


def apply_hooks(tensor: Recorded, gradient: Any) -> Any:
    """The gradient of a tensor after its hooks."""
    for hook in list((tensor._hooks or {}).values()):
        found = hook(gradient)
        if found is None:
            continue
        gradient = checked_gradient(found, gradient)
    return gradient


def checked_gradient(found: Any, gradient: Any) -> Any:
    """What a hook has returned in place of a gradient.

    Raises
    ------
    TypeRuleError
        If it is not a tensor of the same type.
    """
    if not isinstance(found, Recorded):
        raise TypeRuleError(f"a hook must return a tensor or None, got {kind_of(found)}; return the new gradient")
    if found._spec.type != gradient._spec.type:
        raise TypeRuleError(
            f"a hook must return a gradient of the same type, got {found._spec.type} for {gradient._spec.type}; "
            "keep shape and dtype"
        )
    return found


def hooked_gradients(
    trace: Trace, loss: Node, seed: Node | None, passed: frozenset[Node], leaves: Sequence[Node]
) -> tuple[Trace, list[Any]]:
    """The gradients of the leaves that a backward pass with hooks on results of operations reaches, and their trace.

    A hook that reads a value runs the trace. The backward pass goes on in one that continues it.
    """
    hooked: dict[tuple[Node, ...], Any] = {}
    for one in trace.hooked or ():
        nodes = tuple(trace.operand(x) for x in (one.places if isinstance(one, _Together) else (one,)))
        if any(node in passed for node in nodes):
            hooked[nodes] = one
    seeds: list[tuple[Node, Node | None]] = [(loss, seed)]
    cuts: list[Node] = []
    order = sorted(hooked, key=lambda nodes: nodes[0].depth, reverse=True)
    moved: dict[Node, Node] = {}
    for nodes in order:
        reached = [moved.get(node, node) for node in nodes if node in passed]
        trace.has_history = True  # if a hook reads something, the rest is still to be differentiated
        gradients = _hooked_stage(trace, seeds, cuts, reached, hooked[nodes], [node in passed for node in nodes])
        trace.has_history = trace.done
        if trace.done:  # a hook has read something
            for gradient in gradients:
                gradient.elements()
            ended, trace = trace, resume(trace)
            now = (trace.resumed or {})[ended]
            if now:
                every = {*(n for pair in seeds for n in pair), *leaves, *(n for each in order for n in each)} - {None}
                moved = {node: now.get(moved.get(node, node), moved.get(node, node)) for node in every if node}
                seeds = [(now.get(a, a), b if b is None else now.get(b, b)) for a, b in seeds]
                cuts = [now.get(one, one) for one in cuts]
                reached = [now.get(one, one) for one in reached]
        seeds += [(node, trace.operand(new)) for node, new in zip(reached, gradients, strict=True)]
        cuts += reached
    return trace, _stage(trace, seeds, cuts, [moved.get(leaf, leaf) for leaf in leaves])


def _hooked_stage(
    trace: Trace,
    seeds: Sequence[tuple[Node, Node | None]],
    cuts: Sequence[Node],
    reached: Sequence[Node],
    hooked: Any,
    present: Sequence[bool],
) -> list[Any]:
    """The gradients of the nodes that are reached, of a tensor or of several `_Together`, after the hooks."""
    gradients = _stage(trace, seeds, cuts, reached)
    if isinstance(hooked, _Together):
        rest = iter(gradients)
        given = hooked.hook([next(rest) if here else None for here in present])
        return [new for new, here in zip(given, present, strict=True) if here]
    gradients = [apply_hooks(hooked, gradients[0])]
    if hooked._retains:
        hooked._grad = gradients[0]
    return gradients


def _stage(
    trace: Trace, seeds: Sequence[tuple[Node, Node | None]], cuts: Sequence[Node], wanted: Sequence[Node]
) -> list[Any]:
    """Record the gradients of some nodes, given those of others where the graph is cut."""
    given = tuple(node for pair in seeds for node in pair)
    key: tuple[Hashable, ...] = ("stage", *given, "wanted", *wanted)
    node = trace.node.children.get(key)
    if node is None:
        with lock:
            node = differentiated(trace.node, seeds, wanted, False, cuts)
            growing.count_node()
            node = trace.node.child(key, node)
    trace.node = node
    return [trace.result(item) for item in node.items]


def differentiated(
    parent: Node,
    seeds: Sequence[tuple[Node, Node | None]],
    wanted: Sequence[Node],
    create_graph: bool,
    cuts: Sequence[Node] = (),
) -> Node:
    """A node whose items are the derivatives with respect to the wanted nodes, those that are zero marked unused.

    Nothing flows through the nodes in `cuts`, except what starts there.
    """
    pairs = []
    for result, seed in seeds:
        value = result.graph
        ct = ops.full_like(value, 1.0) if seed is None else seed.graph
        pairs.append((_cut(value, [one.graph for one in cuts if one is not result]), ct))
    found = cotangents(pairs, [n.graph for n in wanted])
    operands = tuple(n for pair in seeds for n in pair if n is not None)
    node = Node(parent, operands=operands)
    items = []
    for one, made in zip(wanted, found, strict=True):
        value = ops.full_like(one.graph, 0.0) if made is None else made if create_graph else ops.stop_gradient(made)
        item = Node(node, spec_of(value.type, create_graph, leaf=not create_graph), value, (*operands, *wanted))
        item.made = "unused" if made is None else None
        items.append(item)
    node.items = tuple(items)
    return node


def _cut(value: Value, at: Sequence[Value]) -> Value:
    """The value of a graph through whose values `at` no gradient flows."""
    return (
        rebuild((value,), lambda _value, _inputs: None, {one: ops.stop_gradient(one) for one in at})[0] if at else value
    )
