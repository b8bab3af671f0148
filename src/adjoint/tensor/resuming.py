"""Continuing traces that have been run, so that their operations can be differentiated.

A tensor that requires gradients keeps the trace that made it. `resume` makes such a trace the thread's own again, with
the results that are still in use as tensors that enter it. `revive` does the same for gradients that have been
deferred. If the trace was itself computed from tensors with a history in other traces, their programs are joined into
one.
"""

from collections.abc import Hashable, Iterable
from typing import Any

from adjoint.ir import Value, rebuild
from adjoint.tensor.plan import FREED
from adjoint.tensor.storage import Storage
from adjoint.tensor.structure import Node
from adjoint.tensor.trace import Recorded, Trace, growing, lock, state

__all__ = ["absorbed", "has_histories", "resume", "revive"]


def has_histories(trace: Trace) -> bool:
    """Whether tensors have entered a trace that require gradients and are results of operations in other traces."""
    return trace.joins and any(not tensor._spec.leaf for tensor in trace.entered if tensor is not None)


def resume(trace: Trace) -> Trace:
    """Let the thread continue a trace that has been run, together with those that it depends on."""
    made = state.trace = _continued(trace)
    return made


def revive(tensors: Iterable[Recorded]) -> None:
    """Let gradients that were deferred when their trace was run be results of one that continues it."""
    for tensor in tensors:
        trace = tensor._trace
        if tensor._storage is None and isinstance(trace, Trace) and trace.deferred is not None:
            _revive(trace)


def _revive(trace: Trace) -> None:
    made = _continued(trace)
    moved = (made.resumed or {})[trace]
    deferred = [reference() for reference in trace.deferred or ()]
    for tensor in deferred:
        if tensor is not None and tensor._storage is None and tensor._trace is trace:
            tensor._node = moved.get(tensor._node, tensor._node)
            tensor._trace = made
            made.made.append(tensor)
            if tensor._spent:
                trace.last.late = True
                trace.last.recent = (None, None)
    trace.deferred = None
    if not trace.has_history:
        trace.forget()


#: Most operations that are moved to another trace.
_MOST_MOVED = 64


def absorbed(trace: Trace, waiting: Trace) -> bool:
    """Move the operations of the thread's trace to one that waits, if they are few and contain no backward pass.

    An operation on tensors of both can then be recorded there, and the thread continues with an empty trace. Traces
    with backward passes stay apart, so that programs do not grow with the number of batches whose gradients are
    accumulated.
    """
    if (
        trace.outer is not None
        or trace.node.depth > _MOST_MOVED
        or any(part.done or part.resumed is not None or part.known is not None for part in (trace, waiting))
        or trace.freed is not None
        or trace.hooked is not None
        # A tensor that has been rebound since.
        or any(t._storage is not s for t, s in zip(trace.entered, trace.storages, strict=True))
    ):
        return False
    moved: dict[Node, Node] = {}
    for node in trace.node.path():
        if node.index >= 0:
            moved[node] = waiting.operand(trace.entered[node.index])
        elif node.key is not None:
            moved[node] = _appended(waiting, node, moved)
            moved |= zip(node.items, moved[node].items, strict=True)
    for tensor in trace.made:
        if tensor._trace is trace and tensor._storage is None:
            tensor._trace, tensor._node = waiting, moved[tensor._node]
            waiting.made.append(tensor)
    trace.made = []
    trace.done = True
    return True


def _continued(trace: Trace) -> Trace:
    """A trace that continues one that has been run, together with those that it depends on."""
    if trace.freed is None:
        trace.freed = []
    made = Trace(trace.last, state.grad)
    made.resumed = {trace: {}}
    made.freed, made.hooked = trace.freed, trace.hooked
    kept = dict(trace.kept or {})
    if has_histories(trace):
        made = Trace(growing.root, state.grad)
        made.resumed, made.freed, kept = {}, [], {}
        _join(made, trace, kept)
    else:
        made.entered, made.storages = list(trace.entered), list(trace.storages)
        made.known = _known(trace)
    _enter_kept(made, kept)
    return made


def _known(trace: Trace) -> dict[Hashable, Node]:
    """The nodes of the tensors that entered a trace and still have the elements that they had."""
    known = dict(trace.known or {})
    for node in trace.last.inputs():
        tensor = trace.entered[node.index]
        if tensor._storage is trace.storages[node.index] and node.spec is tensor._spec:
            known.setdefault(id(tensor), node)
    return known


def _enter_kept(made: Trace, kept: dict[Node, Storage]) -> None:
    """Let results of earlier runs enter a trace."""
    key = ("resume", *kept)
    with lock:
        node = made.node.children.get(key)
        if node is None:
            node = Node(made.node)
            node.kept = {one: len(made.storages) + n for n, one in enumerate(kept)}
            growing.count_node()
            node = made.node.child(key, node)
    made.node = node
    made.entered += [None] * len(kept)
    made.storages += kept.values()


def _join(made: Trace, trace: Trace, kept: dict[Node, Storage]) -> dict[Node, Node]:
    """Append the operations of a trace to another one; returns where its nodes are there."""
    resumed: Any = made.resumed
    if trace in resumed:
        return resumed[trace]  # type: ignore[no-any-return]
    moved: dict[Node, Node] = {}
    for node in trace.last.path():
        if node.index >= 0:
            moved[node] = _entered(made, trace, node, kept)
        elif node.key is not None and not node.kept:
            moved |= {one: _entered(made, trace, one, kept) for one in node.enters}
            moved[node] = _appended(made, node, moved)
            moved |= zip(node.items, moved[node].items, strict=True)
    resumed[trace] = moved
    kept |= {moved[node]: storage for node, storage in (trace.kept or {}).items() if node in moved}
    if trace.hooked:
        made.hooked = [*(made.hooked or ()), *trace.hooked]
    if trace.freed and made.freed is not None:
        made.freed += [frozenset(moved[node] for node in freed if node in moved) for freed in trace.freed]
    return moved


def _entered(made: Trace, trace: Trace, node: Node, kept: dict[Node, Storage]) -> Node:
    """The node, in the joined trace, of a tensor that entered one of its parts."""
    tensor = trace.entered[node.index]
    owner, spec = tensor._trace, node.spec or tensor._spec
    if not tensor._spec.leaf and isinstance(owner, Trace) and owner is not FREED:
        return _join(made, owner, kept)[tensor._node]
    if made.known is None:
        made.known = {}
    storage = trace.storages[node.index]
    same: Hashable = (id(storage), spec)  # a parameter and its detach() have the same elements
    known = made.known.get(same)
    if known is None:
        with lock:
            known = made.node.children.get(spec) or made._argument(spec, tensor._label)
        made.node = known
        made.entered.append(tensor)
        made.storages.append(storage)
        made.known[same] = known
        if tensor._storage is storage and tensor._spec is spec:
            made.known[id(tensor)] = known
    return known


def _appended(made: Trace, node: Node, moved: dict[Node, Node]) -> Node:
    """An operation of one of the parts, on the operands of the joined trace."""
    given: Any = node.key
    parts = (*given, *node.enters)
    key: Hashable = tuple(moved.get(part, part) if isinstance(part, Node) else part for part in parts)
    found = made.node.children.get(key)
    if found is None:
        with lock:
            known = {one.graph: moved[one].graph for one in node.operands if one in moved}
            found = Node(made.node, node.spec, operands=tuple(moved.get(one, one) for one in node.operands))
            if node.value is not None:
                found.value = _moved(node.value, known)
            items = []
            for item in node.items:
                reads = tuple(moved.get(one, one) for one in item.operands)
                one = Node(found, item.spec, _moved(item.graph, known), reads)
                one.made = item.made
                items.append(one)
            found.items = tuple(items)
            found.rebinds = tuple((moved.get(a, a), moved.get(b, b)) for a, b in node.rebinds)
            growing.count_node()
            found = made.node.child(key, found)
    made.node = found
    return found


def _moved(value: Value, known: dict[Value, Value]) -> Value:
    """A graph value computed from other operands."""
    return rebuild((value,), lambda _value, _inputs: None, known)[0]
