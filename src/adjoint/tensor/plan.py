"""Running of recorded programs: which results are wanted, the compiled function for them, and its memory.

A program is compiled once for each set of wanted results, which belongs to the last node of the program. Running it
again takes the addresses of the tensors that entered, and of the memory of the results. A tensor that is rebound to a
result, as parameters are by an optimizer, gives its memory to it, unless another tensor still needs the elements.

Gradients are deferred when a program is run for something else, such as the loss: before ``optimizer.step()``, which
then computes them in the program that uses them, and after it, since ``zero_grad()`` usually removes them without their
having been read. What they depend on is kept as long as they exist; `adjoint.tensor.resuming.revive` computes them.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from sys import getrefcount
from typing import Any
from weakref import ref

from adjoint.compiler import CompileOptions
from adjoint.compiler import compile as compile_function
from adjoint.ir import Function, TensorType, Value, param, rebuild, toposort
from adjoint.tensor.checking import nan_mode, refuse_nan
from adjoint.tensor.explain import log
from adjoint.tensor.replay import BANKS, Outcome, Replay, written
from adjoint.tensor.residuals import learn_residuals
from adjoint.tensor.storage import COUNTED_BY_CALL, UNSEEN, Storage, copied_storage, empty_storage
from adjoint.tensor.structure import Node
from adjoint.tensor.trace import NOTHING, Recorded, Trace, fresh_trace, is_plain_view, state

__all__ = ["FREED", "Plan", "options", "planned", "program", "run_trace"]

#: References to a tensor that is not in use any more while the results of a trace are examined: by `Trace.made`, by the
#: loop variable, and by the call of getrefcount.
_UNUSED = 2 + COUNTED_BY_CALL
#: References to elements that only the trace needs: by `Trace.storages`, by a variable, and by the call of getrefcount.
_OWN = 2 + COUNTED_BY_CALL

#: Held while a program runs.
_running = threading.RLock()

#: The position of traces that have been run, where nothing is known: if another thread has run a trace that this one
#: records, the next operation finds out.
_ENDED = Node(None)

#: The history of tensors whose graph a backward pass has used up.
FREED = Trace(Node(None), True)
FREED.done = True


class _Options:
    """How programs are compiled, and how many are kept."""

    def __init__(self) -> None:
        self.compile = CompileOptions()
        self.most_plans = 256
        self.plans: OrderedDict[tuple[int, Any], tuple[Node, Any]] = OrderedDict()

    def keep(self, node: Node, key: Any) -> None:
        """Count a plan; if there are too many, forget the oldest that has not run lately: second-chance replacement."""
        self.plans[id(node), key] = (node, key)
        while len(self.plans) > self.most_plans:
            place, (old, forgotten) = self.plans.popitem(last=False)
            plan = (old.plans or {}).get(forgotten)
            if plan is None:
                continue
            if plan.has_run:
                plan.has_run = False
                self.plans[place] = (old, forgotten)
            else:
                del old.plans[forgotten]  # type: ignore[union-attr]
                plan.is_kept = False
                old.recent = (None, None)


options = _Options()


def run_trace(trace: Trace, needed: Iterable[Recorded] = ()) -> None:
    """Compute the pending results of a trace that are in use, and give their tensors the elements.

    Parameters
    ----------
    trace : Trace
        The trace; nothing happens if it has been run.
    needed : iterable of Tensor
        What it is run for. Unless there are gradients among them, gradients are deferred.
    """
    if state.trace is trace:
        fresh_trace()
    with _running:
        if trace.done:
            return
        trace.done = True
        node = trace.last = trace.node
        trace.node = _ENDED
        computes = False
        for tensor in needed:
            if tensor._deferrable and tensor._trace is trace:
                computes = True
        try:
            source = node.recent[1] if node.followers is None else node.followers
            if source is None or source.replay is None or computes or nan_mode.on or not source.replay(trace):
                _run_examined(trace, computes)
        except BaseException as error:
            _undo(trace, error)
            raise


def _run_examined(trace: Trace, computes: bool) -> None:
    """Find out which results of a trace are wanted, compile the program for them if it is new, and run it.

    Parameters
    ----------
    trace : Trace
        The trace.
    computes : bool
        Whether gradients are not deferred.
    """
    node, rebound = trace.last, trace.rebound
    made: list[Any] = trace.made
    wanted: list[Any] = []
    deferred: list[Any] = []
    for tensor in made:
        if getrefcount(tensor) > _UNUSED and tensor._storage is None:
            owner = tensor._trace
            if owner is trace or owner is rebound:
                if tensor._deferrable and not computes and not (node.late and tensor._spent):
                    deferred.append(tensor)
                else:
                    wanted.append(tensor)
    if deferred:
        trace.deferred = [ref(tensor) for tensor in deferred]
    if wanted:
        nodes = trace.ran = tuple([tensor._node for tensor in wanted])
        later = tuple([tensor._node for tensor in deferred])
        for tensor in wanted:
            if not tensor._spec.leaf and not trace.has_used_up(tensor._node):
                trace.has_history = True
                later += (tensor._node,)
        results: list[Storage] | None = None
        kept: tuple[Node, ...] = ()
        if deferred and node.followers is not None and not nan_mode.on:
            outcome = Outcome(made, wanted, deferred, later, FREED)
            results = node.followers.run(trace, outcome)
        if results is None:
            kept = () if node.residuals is None else node.residuals.get(nodes, ())
            key = (nodes, kept, later)
            is_known = node.recent[0] == key
            plan = planned(trace, key, nodes + kept, later)
            if is_known and plan.replay is None:
                plan.replay = written(trace, plan, Outcome(made, wanted, deferred, later, FREED), kept)
            if nan_mode.on:
                refuse_nan(plan.function, [trace.storages[n].array for n in plan.places], options.compile)  # type: ignore[union-attr]
            results = plan.run(trace.storages)
        _deliver(trace, wanted, results, kept)
    trace.made = []
    trace.rebound = NOTHING  # which refers to the trace


def _undo(trace: Trace, error: BaseException) -> None:
    """Give the tensors that a program rebinds their old values back, since it cannot be compiled or run."""
    for tensor, storage in zip(trace.entered, trace.storages, strict=True):
        if tensor is not None and tensor._storage is None:
            tensor._storage, tensor._trace = storage, None
    trace.failure = error


def planned(trace: Trace, key: Any, wanted: tuple[Node, ...], later: tuple[Node, ...]) -> "Plan":
    """How to run the program of a trace, compiled if it is new.

    Parameters
    ----------
    trace : Trace
        The trace.
    key : tuple
        What distinguishes the plan among those of the program.
    wanted, later : tuple of Node
        See `Plan`.
    """
    node = trace.last
    known, plan = node.recent  # comparing keys takes less time than hashing them
    if known != key:
        plan = None if node.plans is None else node.plans.get(key)
        if plan is None:
            plan = _made_plan(trace, key, wanted, later)
        node.recent = key, plan
    found: Plan = plan
    return found


def _made_plan(trace: Trace, key: Any, wanted: tuple[Node, ...], later: tuple[Node, ...]) -> "Plan":
    start = time.perf_counter()
    node = trace.last
    plan = Plan(node, wanted, later)
    if node.plans is None:
        node.plans = {}
    node.plans[key] = plan
    options.keep(node, key)
    for resumed, moved in (trace.resumed or {}).items():
        if not moved:
            learn_residuals(resumed, plan.function)
    plan.number = log.compiled(node, time.perf_counter() - start)
    return plan


def _deliver(trace: Trace, wanted: list[Any], results: list[Storage], residuals: tuple[Node, ...]) -> None:
    """Give tensors their elements. Those with a history keep the trace, and the trace what a backward pass needs."""
    for tensor, storage in zip(wanted, results, strict=False):
        tensor._storage = storage
        if tensor._spec.leaf:
            tensor._trace = None
        elif not trace.has_history or trace.has_used_up(tensor._node):
            tensor._trace = FREED
    if not trace.has_history and trace.deferred is None:
        trace.forget()
        return
    if trace.has_history or residuals:
        trace.kept = {t._node: storage for t, storage in zip(wanted, results, strict=False) if t._trace is trace}
        trace.kept |= zip(residuals, results[len(wanted) :], strict=True)
    for n, tensor in enumerate(trace.entered):
        # A gradient that entered, and has got a new value that is deferred, is still to be found in the trace.
        if tensor is None or tensor._storage is None:
            continue
        if tensor._trace is trace:
            tensor._trace = None  # so that the leaf does not keep the trace
        if tensor._trace is None and is_plain_view(tensor):
            trace.let_go(n)


def program(
    node: Node, wanted: Iterable[Node], later: Iterable[Node] = (), name: str = "program"
) -> tuple[Function, dict[Value, int]]:
    """The function that computes the values of some nodes of the program that ends at a node.

    Parameters
    ----------
    node : Node
        The last node of the program.
    wanted : iterable of Node
        What to compute.
    later : iterable of Node
        What may have to be computed from the same tensors afterwards, whose memory is therefore not given to results.
    name : str, default "program"
        The name of the function.

    Returns
    -------
    function : Function
        Its parameters are the tensors that enter the program and are needed, and results of earlier runs. The attribute
        ``donate`` says which of them give their memory to a result.
    places : dict of Value to int
        For each parameter, its position among the program's tensors.
    """
    wanted = tuple(wanted)
    path = node.path()
    places = {n.graph: n.index for n in node.inputs()}
    kept: dict[Value, Value] = {}
    for entry in path:
        for one, place in entry.kept.items():
            value = param(f"kept{place}", one.graph.shape, one.graph.dtype)
            kept[one.graph] = value
            places[value] = place
    results = rebuild(tuple(n.graph for n in wanted), lambda _value, _inputs: None, kept)
    needed = set(toposort(results))
    taken = _donations(path)
    used_later = set(toposort(n.graph for n in later))
    donors = {taken[n].graph: i for i, n in enumerate(wanted) if n in taken and taken[n].graph not in used_later}
    params = tuple(p for p in places if p in needed or p in donors)
    donate = tuple((p.label, donors[p]) for p in params if p in donors)
    return Function(name, params, results, {"donate": donate} if donate else {}), places


def _donations(path: Iterable[Node]) -> dict[Node, Node]:
    """For each node that a tensor was rebound to, the node of the tensor that entered, whose memory it takes."""
    origin: dict[Node, Node] = {}
    for node in path:
        for old, new in node.rebinds:
            start = origin.pop(old, old)
            if start.index >= 0:
                origin[new] = start
    return origin


class Plan:
    """A compiled program for one list of wanted results.

    Parameters
    ----------
    node : Node
        The last node of the program.
    wanted : tuple of Node
        The nodes whose results are wanted; one may occur several times.
    later : tuple of Node
        The nodes whose results may be wanted afterwards.
    """

    def __init__(self, node: Node, wanted: tuple[Node, ...], later: tuple[Node, ...] = ()) -> None:
        distinct = tuple(dict.fromkeys(wanted))
        #: For each wanted result, its position among the distinct ones; None if all are distinct.
        self._places = None if len(distinct) == len(wanted) else [distinct.index(n) for n in wanted]
        self.function, places = program(node, distinct, later)
        #: For each parameter of the function, its position among the tensors that entered.
        self.places = [places[p] for p in self.function.params]
        executable = compile_function(self.function, options=options.compile)
        self.entry = executable[self.function.name]
        self.invocation = self.entry.invocation()
        slots = {a.name: a.slot for a in self.entry.arguments}
        donated: dict[str, int] = dict(self.function.attrs.get("donate", ()))  # type: ignore[arg-type]
        self.inputs = [(places[p], slots[p.label]) for p in self.function.params if p.label not in donated]
        by_result = {donated[p.label]: places[p] for p in self.function.params if p.label in donated}
        #: For each result: the position of the tensor whose memory it takes, or -1, its slot and its type.
        self.outputs: list[tuple[int, int, TensorType]] = []
        for i, (value, result) in enumerate(zip(self.function.results, self.entry.results, strict=True)):
            self.outputs.append((by_result.get(i, -1), result.slot, value.type))
        #: Memory for the other results. It is used again when no tensor has it any more, by every other run, because a
        #: loop usually still holds the last results while it computes the next.
        self._banks: list[list[Storage]] = []
        self._own = [type_ for place, _, type_ in self.outputs if place < 0]
        #: The size of the results in bytes.
        self.bytes = sum(type_.nbytes for _, _, type_ in self.outputs)
        self.slots, self.call = self.invocation.slots, self.invocation.call
        #: Runs a trace with the same tensors in use; None until it is worth writing.
        self.replay: Replay | None = None
        #: Whether it is among the plans that are kept.
        self.is_kept = True
        #: Its number among the compilations of this process.
        self.number = 0
        #: Whether it has run since plans were last counted; true at first, because it is about to.
        self.has_run = True

    def run(self, storages: list[Storage | None]) -> list[Storage]:
        """Run on the elements of the tensors that entered the program; returns those of the results."""
        self.has_run = True
        slots = self.slots
        results: list[Storage] = []
        append = results.append
        for place, slot in self.inputs:
            slots[slot] = storages[place].address  # type: ignore[union-attr]
        bank = self.next_bank()
        following = 0
        for place, slot, type_ in self.outputs:
            if place < 0:
                storage = bank[following]
                if getrefcount(storage) > _OWN or getrefcount(storage.owner) > UNSEEN:  # somebody looks at it
                    storage = bank[following] = empty_storage(type_)
                following += 1
            else:
                storage = storages[place]  # type: ignore[assignment]
                if getrefcount(storage) > _OWN:  # another tensor needs these elements
                    storage = copied_storage(storage, type_)
            slots[slot] = storage.address
            append(storage)
        self.call()
        return results if self._places is None else [results[place] for place in self._places]

    @property
    def repeats(self) -> bool:
        """Whether a result is wanted several times."""
        return self._places is not None

    def next_bank(self) -> list[Storage]:
        """The memory that the results of the next run take, unless it is in use."""
        banks = self._banks
        bank = [empty_storage(type_) for type_ in self._own] if len(banks) < BANKS else banks.pop(0)
        banks.append(bank)
        return bank
