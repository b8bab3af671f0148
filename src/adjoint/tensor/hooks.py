"""Hooks: functions that see, and may replace, the gradient of a tensor during a backward pass.

A hook is Python code, so a backward pass with hooks on results of operations is recorded in stages: from the loss to
the last such result, from there, with what its hook returned, to the one before, and at last to the leaves. At each
stage, the graph is cut at the results that are done.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import Value, rebuild
from adjoint.tensor.structure import Node, spec_of
from adjoint.tensor.trace import Recorded, Trace, growing, lock
from adjoint.transforms.differentiate import cotangents

__all__ = ["Hook", "apply_hooks", "differentiated", "hooked_gradients", "register_hook", "retain_grad"]

#: What sees a gradient, and returns one in its place or None.
Hook = Callable[[Any], Any]


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
        if not isinstance(found, Recorded):
            raise TypeRuleError(f"a hook must return a tensor or None, got {kind_of(found)}; return the new gradient")
        if found._spec.type != gradient._spec.type:
            raise TypeRuleError(
                f"a hook must return a gradient of the same type, got {found._spec.type} for {gradient._spec.type}; "
                "keep shape and dtype"
            )
        gradient = found
    return gradient


def hooked_gradients(
    trace: Trace, loss: Node, seed: Node | None, passed: frozenset[Node], leaves: Sequence[Node]
) -> list[Any]:
    """The gradients of the leaves that a backward pass with hooks on results of operations reaches."""
    found = {trace.operand(tensor): tensor for tensor in trace.hooked or ()}
    hooked = {node: tensor for node, tensor in found.items() if node in passed}
    seeds: list[tuple[Node, Node | None]] = [(loss, seed)]
    cuts: list[Node] = []
    for node in sorted(hooked, key=lambda one: one.depth, reverse=True):
        tensor = hooked[node]
        (gradient,) = _stage(trace, seeds, cuts, [node])
        gradient = apply_hooks(tensor, gradient)
        if tensor._retains:
            tensor.grad = gradient
        seeds.append((node, trace.operand(gradient)))
        cuts.append(node)
    return _stage(trace, seeds, cuts, leaves)


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
