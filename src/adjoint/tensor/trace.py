"""Traces: the programs that threads record, and when they run.

A `Trace` is a position in the trie of `adjoint.tensor.structure` together with the tensors that entered the program
and those that it makes. Operations on tensors are appended to the thread's trace (`adjoint.tensor.record`); reading a
tensor that has no elements yet runs the trace that it belongs to (`adjoint.tensor.plan`).

After ``backward()`` a thread continues with a new trace. The old one waits, because what becomes of the gradients
decides what has to be computed: it takes ``optimizer.step()``, and runs when one of its tensors is read, or used in a
program that cannot be part of it.
"""

import threading
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from typing import Any, ClassVar

from adjoint.ir import Value, param
from adjoint.tensor.storage import Storage
from adjoint.tensor.structure import Node, Spec

__all__ = [
    "LONGEST",
    "NOTHING",
    "Rebound",
    "Recorded",
    "Trace",
    "forget_entry",
    "fresh_trace",
    "growing",
    "is_plain_view",
    "lock",
    "settle",
    "state",
]

#: Most operations of a trace; a longer one is run. It bounds the size of a compiled function, and so the pause of a
#: loop that reads nothing, to about a second (Emerald Rapids). Deep networks have less than half as many.
LONGEST = 4_000

#: Held while the trie grows and while plans are made.
lock = threading.RLock()


_new = object.__new__


class Recorded:
    """The part of a tensor that recording needs. A tensor without `_storage` is pending: it has no elements yet."""

    #: The class of results, which derives from this one.
    result: ClassVar[Any] = None

    _spec: Spec
    _storage: Storage | None = None
    #: The trace that computes it, or in which it was last used; None for elements without a history.
    _trace: Any = None
    _node: Node
    _label: str = ""
    #: Functions that see its gradient, by number.
    _hooks: dict[int, Callable[[Any], Any]] | None = None
    #: Whether a backward pass sets the gradient of this result of operations.
    _retains: bool = False
    #: Whether it is the gradient of a leaf, and whether an optimizer has used it.
    _deferrable: bool = False
    _spent: bool = False
    _grad: Any = None
    #: Its place among the tensors that share elements with it (`adjoint.tensor.aliases`); None if there are none.
    _alias: Any = None


class Rebound:
    """Stands for a trace in leaves that require gradients and have got a new value in it.

    Using such a leaf where gradients are recorded runs the trace first, so that it is a leaf again.
    """

    __slots__ = ("trace",)

    speculation = None

    def __init__(self, trace: Any) -> None:
        self.trace = trace


#: The `rebound` of traces in which nothing has been rebound.
NOTHING = Rebound(None)


class Trace:
    """One program being recorded.

    Attributes
    ----------
    node : Node
        The last operation.
    last : Node
        After the run: the last operation.
    grad : bool
        Whether gradients are recorded.
    kind : type
        The class of results.
    entered : list of Tensor
        The tensors that entered, by `Node.index`.
    storages : list of Storage or None
        Their elements at that time; None for tensors of an outer trace.
    made : list of Tensor
        The results. Those that are still in use when the trace runs get elements.
    known : dict of int to Node
        The nodes of tensors that entered and whose `_trace` is another one, by the id of the tensor.
    joins : bool
        Whether results of operations in other traces have entered, which require gradients.
    rebound : Rebound
        See there.
    resumed : dict of Trace to dict
        The traces, already run, whose operations this one continues, and where their nodes are in this one.
    ran : tuple of Node
        After the run: the nodes whose results were wanted.
    outer : Trace or None
        The trace in which a function is being traced; None for a trace that can run.
    compiled : bool
        Whether its program takes the place of the function that is being traced.
    done : bool
        Whether it has been run.
    deferred : list of weak references to Tensor
        After the run: the gradients that were not computed.
    has_history : bool
        After the run: whether results can be differentiated.
    freed : list of sets of Node
        What backward passes have used up.
    hooked : list of Tensor
        The results whose gradients hooks want to see.
    kept : dict of Node to Storage
        After the run: the results of tensors with a history.
    failure : BaseException or None
        Why it could not be run.
    speculation : Speculation or None
        After the run: the results of updates that are expected to follow.
    """

    last: Node
    ran: tuple[Node, ...] = ()
    deferred: list[Any] | None = None
    has_history: bool = False
    kept: dict[Node, Storage] | None = None
    failure: BaseException | None = None
    #: How many tensors had entered when the labels of their nodes were last collected, and the labels.
    _labels: tuple[int, set[str]] = (-1, set())

    def __init__(self, node: Node, grad: bool) -> None:
        self.node = node
        self.grad = grad
        self.done = False
        self.entered: list[Any] = []
        self.storages: list[Storage | None] = []
        self.made: list[Any] = []
        # Found faster here than in a class, and looked at in every operation.
        self.kind = Recorded.result
        self.outer: Trace | None = None
        self.known: dict[Hashable, Node] | None = None
        self.resumed: dict[Trace, dict[Node, Node]] | None = None
        self.rebound = NOTHING
        self.freed: list[frozenset[Node]] | None = None
        self.hooked: list[Any] | None = None
        self.joins = False
        self.speculation: Any = None
        self.compiled = False

    def operand(self, tensor: Recorded) -> Any:
        """The node of a tensor in this trace, which it enters if needed; None if it must be settled first."""
        owner = tensor._trace
        if owner is self:
            return tensor._node
        storage = tensor._storage
        spec = tensor._spec
        if storage is not None and spec.leaf and self.resumed is None and self.outer is None:
            if storage.shared:
                return self._copied_operand(tensor, storage)
            node = self.node.children.get(spec)
            if node is None:
                node = self._argument(spec, tensor._label)
            self.node = node
            self.entered.append(tensor)
            self.storages.append(storage)
            tensor._trace = self
            tensor._node = node
            return node
        if self.resumed is not None and owner in self.resumed:
            return self.resumed[owner].get(tensor._node, tensor._node)
        if storage is not None or (self.outer is not None and self.is_inside(owner)):
            shared = storage is not None and storage.shared and self.outer is None
            if self.known is not None:
                node = self.known.get(id(tensor))
                if node is not None and node.spec is spec and not self._is_outdated(node, storage, shared):
                    return node
            node = self.node.children.get(spec)
            if node is None:
                node = self._argument(spec, tensor._label)
            self.node = node
            self.entered.append(tensor)
            self.storages.append(storage.snapshot() if shared else storage)  # type: ignore[union-attr]
            if spec.leaf and self.outer is None and not shared:
                tensor._trace = self
                tensor._node = node
            else:  # the tensor keeps its history
                if tensor._trace is None and self.outer is None:  # it has none; `show` finds programs from here
                    tensor._node = node
                if self.known is None:
                    self.known = {}
                self.known[id(tensor)] = node
                self.joins = self.joins or not spec.leaf
            return node
        if owner is self.rebound:
            return None if self.grad and self.outer is None else tensor._node
        return None

    def _copied_operand(self, tensor: Recorded, storage: Storage) -> Node:
        """The node of a leaf whose elements NumPy may change at any time, so that a copy of them enters."""
        spec = tensor._spec
        known = self.known
        if known is None:
            known = self.known = {}
        node = known.get(id(tensor))
        if node is not None and node.spec is spec and not self._is_outdated(node, storage, shared=True):
            return node
        elements = storage.snapshot()
        node = self.node.children.get(spec)
        if node is None:
            node = self._argument(spec, tensor._label)
        self.node = node
        self.entered.append(tensor)
        self.storages.append(elements)
        if elements is storage:  # nobody else sees them any more
            tensor._trace = self
            tensor._node = node
        else:
            if tensor._trace is None:  # it has no history; `show` finds programs from here
                tensor._node = node
            known[id(tensor)] = node
        return node

    def has_used_up(self, node: Node) -> bool:
        """Whether a backward pass has used up a result."""
        if self.freed is not None:
            for freed in self.freed:
                if node in freed:
                    return True
        return False

    def forget(self) -> None:
        """Drop what only a trace that continues this one would need."""
        self.entered = []
        self.storages = []
        self.known = self.kept = None

    def let_go(self, place: int) -> None:
        """Refer to another tensor, with the same elements, instead of one that entered.

        A view such as ``w.data`` would otherwise count as one in use, which follows changes of ``w``, for as long as
        this trace is kept for the history of one of its results.
        """
        tensor = self.entered[place]
        made = self.entered[place] = _new(self.kind)
        made._spec, made._storage, made._label = tensor._spec, self.storages[place], tensor._label

    def _is_outdated(self, node: Node, storage: Any, shared: bool) -> bool:
        """Whether a tensor has other elements than when it entered: new ones, or changed ones shared with NumPy."""
        if node.index < 0:
            return False
        entered: Any = self.storages[node.index]
        if not shared:
            return entered is not storage
        return bool(entered.array.tobytes() != storage.array.tobytes())

    def is_inside(self, owner: object) -> bool:
        """Whether this traces a function called while `owner` is recorded."""
        outer = self.outer
        while outer is not None:
            if owner is outer or owner is outer.rebound:
                return True
            outer = outer.outer
        return False

    def _argument(self, spec: Spec, label: str) -> Node:
        with lock:
            parent = Node(None) if self.done else self.node
            count, taken = self._labels
            if count != len(self.entered) or self.done:
                taken = {node.graph.label for node in parent.inputs()}
            value = _parameter(spec, label, len(self.entered), taken)
            taken.add(value.label)
            self._labels = len(self.entered) + 1, taken
            growing.count_node()
            return parent.child(spec, Node(parent, spec, value, (), len(self.entered)))

    def takes(self, tensors: Sequence[Recorded], nodes: Sequence[Node]) -> bool:
        """Let leaves enter as the nodes that an entry of the program has for them; False if one has to by itself.

        They have elements and have not been used in this trace, as the state of an optimizer, which only it uses. To
        let each of them enter by itself would take several times as long.
        """
        if self.resumed is not None or self.outer is not None:
            return False
        storages: list[Storage | None] = []
        for tensor, node in zip(tensors, nodes):  # noqa: B905 - a keyword would double the time of the call
            storage = tensor._storage
            if storage is None or storage.shared or tensor._trace is self or tensor._spec is not node.spec:
                return False
            storages.append(storage)
        self.entered += tensors
        self.storages += storages
        return True

    def arguments(self, tensors: Iterable[Recorded]) -> tuple[Node, ...]:
        """Nodes for leaves that would enter next, for `takes`."""
        taken = {one.graph.label for one in self.node.inputs()}
        found = []
        for index, tensor in enumerate(tensors, len(self.entered)):
            value = _parameter(tensor._spec, tensor._label, index, taken)
            taken.add(value.label)
            found.append(Node(None, tensor._spec, value, (), index))
        return tuple(found)

    def result(self, node: Node) -> Any:
        """A new tensor with the value of a node of this trace."""
        tensor = _new(self.kind)
        tensor._spec = node.spec
        tensor._storage = None
        tensor._deferrable = False
        tensor._trace = self
        tensor._node = node
        self.made.append(tensor)
        return tensor

    def rebind(self, tensors: Iterable[Recorded], nodes: Iterable[Node]) -> None:
        """Give tensors the values of nodes of this trace, as operations in place do."""
        rebound = self.rebound
        for tensor, node in zip(tensors, nodes):  # noqa: B905 - see `takes`
            spec = tensor._spec
            owner = tensor._trace
            if tensor._storage is not None or not (owner is self or (owner is rebound and owner is not NOTHING)):
                self.made.append(tensor)
                tensor._storage = None
            tensor._node = node
            if spec.requires_grad and spec.leaf:
                if rebound is NOTHING:
                    rebound = self.rebound = _new(Rebound)
                    rebound.trace = self
                tensor._trace = rebound
            else:
                tensor._trace = self
                tensor._spec = node.spec  # type: ignore[assignment]


def is_plain_view(tensor: Recorded) -> bool:
    """Whether a tensor shares elements with a tensor that it was made from, and does not require a gradient."""
    return tensor._alias is not None and bool(tensor._alias.steps) and not tensor._spec.requires_grad


def _parameter(spec: Spec, label: str, index: int, taken: Container[str]) -> Value:
    """The graph value of a tensor that enters a program, under a name of its own."""
    name = label or f"x{index}"
    while name in taken:
        name += "_"
    return param(name, spec.type.shape, spec.type.dtype)


class _Growing:
    """The root of the trie. It is replaced when there are too many nodes, so that memory stays bounded."""

    #: Most nodes; each takes about a kilobyte with its graph value.
    most = 100_000

    def __init__(self) -> None:
        self.root = Node(None)
        self.count = 0
        #: The operations whose numbers have varied, with the lines of the user's code.
        self.varying: set[tuple[Any, str | None]] = set()

    def count_node(self) -> None:
        """Count a new node; if there are too many, programs that begin later begin with an empty trie."""
        self.count += 1
        if self.count > self.most:
            self.root, self.count = Node(None), 0
            self.varying = set()


growing = _Growing()


class _State(threading.local):
    """What a thread records, and whether it records gradients."""

    def __init__(self) -> None:
        self.grad = True
        self.trace = Trace(growing.root, True)


state = _State()


def fresh_trace() -> Trace:
    """Let the thread continue with a new, empty trace beside the present one, and return it."""
    made = Trace(growing.root, state.grad)
    outer = state.trace.outer
    if outer is not None:
        made.outer = outer
    state.trace = made
    return made


def forget_entry(tensor: Recorded) -> None:
    """Let a tensor whose type or elements have been replaced enter the program again when it is used next."""
    if state.trace.known is not None:
        state.trace.known.pop(id(tensor), None)


def settle(tensors: Iterable[Recorded], run: Callable[[Trace], None]) -> Trace:
    """The trace in which an operation on these tensors can be recorded.

    It is the thread's own, unless that is empty and the pending tensors among the operands all belong to one other
    trace, which then takes the operation. Otherwise the other traces are run.

    Parameters
    ----------
    tensors : iterable of Tensor
        The operands.
    run : callable
        Runs a trace.
    """
    trace = state.trace
    if trace.done or (trace.node.depth > LONGEST and trace.outer is None):
        run(trace)
        trace = fresh_trace()
    owners = dict.fromkeys(owner for owner in [_waited_for(trace, t) for t in tensors] if owner is not None)
    if len(owners) == 1 and trace.node.parent is None and trace.outer is None:
        (owner,) = owners
        if isinstance(owner, Trace) and not owner.done:
            owner.grad = state.grad
            return owner
    for owner in owners:
        waiting: Any = owner.trace if isinstance(owner, Rebound) else owner
        if waiting is state.trace:
            fresh_trace()
        run(waiting)
    return state.trace


def _waited_for(trace: Trace, tensor: Recorded) -> "Trace | Rebound | None":
    """What has to run before a pending tensor can be an operand in a trace; None if nothing has to."""
    owner: Trace | Rebound | None = tensor._trace
    if tensor._storage is not None or owner is trace or trace.is_inside(owner):
        return None
    if trace.resumed is not None and owner in trace.resumed:
        return None
    if isinstance(owner, Rebound) and not (state.grad and trace.outer is None):
        return None if owner.trace is trace else owner.trace
    return owner
