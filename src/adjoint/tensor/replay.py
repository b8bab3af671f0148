"""Straight-line code that runs a recorded program again.

When the same program runs with the same tensors in use, everything that `adjoint.tensor.plan.run_trace` finds out about
its tensors is the same again. `written` makes a function that only checks this, and then does what is left: it stores
addresses, calls the compiled function and gives tensors their elements. Loops over the tensors would take several times
as long.

The code for ``loss = ((x @ w - y) ** 2).sum(); loss.backward(); optimizer.step()`` followed by ``loss.item()``, without
the part on memory, is::

    def replay(trace):
        t0, t1, t2, t3, t4, t5 = trace.made
        rebound = trace.rebound
        if (
            getrefcount(t0) > 3 or getrefcount(t1) > 3 or getrefcount(t2) > 3     # not in use before, so not computed
            or t3._node is not n3 or t3._trace is not trace or ...                # the loss
            or t4._node is not n4 or t4._deferrable is not True or ...            # the gradient, which is deferred
            or t5._node is not n5 or t5._trace is not rebound or ...              # w
        ): return False
        s0, s1, s2, s3 = trace.storages
        ...
        call()
        t3._storage = o0; t3._trace = freed
        t5._storage = o1; t5._trace = None
        trace.deferred = [ref(t4)]
        ...
        return True
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Any
from weakref import ref

from adjoint.tensor.storage import COUNTED_BY_CALL, UNSEEN, copied_storage, empty_storage
from adjoint.tensor.structure import Node
from adjoint.tensor.trace import NOTHING, Recorded, Trace

__all__ = ["Outcome", "written"]

#: References to a tensor that is not in use any more, and to elements that only the trace needs, while the code looks
#: at them: by a list, by a variable, and by the call of getrefcount.
_UNUSED = _OWN = 2 + COUNTED_BY_CALL


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of a trace has found out about its tensors.

    Attributes
    ----------
    made : sequence of Tensor
        The results of the trace.
    wanted, deferred : sequence of Tensor
        Those that are computed, and gradients that are computed later if they are read.
    later : tuple of Node
        The nodes whose values may be computed later.
    freed : Trace
        The history of tensors whose graph has been used up.
    """

    made: Sequence[Recorded]
    wanted: Sequence[Recorded]
    deferred: Sequence[Recorded]
    later: tuple[Node, ...]
    freed: Trace


class _Text:
    """Lines of code and the objects that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}

    def add(self, *lines: str) -> None:
        self.lines += lines

    def name(self, prefix: str, constant: Any) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[name] = constant
        return name


def written(trace: Trace, plan: Any, outcome: Outcome, residuals: Sequence[Node]) -> Callable[[Trace], bool]:
    """The function that runs a trace of the same program; it returns False, and has done nothing, if something differs.

    Parameters
    ----------
    trace : Trace
        The trace, before the run.
    plan : Plan
        How the program runs.
    outcome : Outcome
        What was found out about the tensors.
    residuals : sequence of Node
        What the plan computes after the wanted results, for a backward pass.

    Returns
    -------
    callable
        For a program that continues others, or computes gradients that had been deferred: one that returns False.
    """
    if trace.resumed is not None or plan.repeats or any(tensor._deferrable for tensor in outcome.wanted):
        return _never
    text = _Text()
    text.names |= {"getrefcount": getrefcount, "ref": ref, "NOTHING": NOTHING, "plan": plan, "freed": outcome.freed}
    text.names |= {"call": plan.call, "slots": plan.slots, "copied": copied_storage, "empty": empty_storage}
    _write_checks(text, trace, outcome)
    _write_memory(text, plan, len(trace.storages))
    text.add("call()", "plan.has_run = True")
    _write_results(text, trace, outcome, residuals)
    text.add("return True")
    body = "".join(f"    {line}\n" for line in text.lines)
    exec(compile(f"def replay(trace):\n{body}", "<adjoint replay>", "exec"), text.names)
    replay: Callable[[Trace], bool] = text.names["replay"]
    return replay


def _never(_trace: Trace) -> bool:
    return False


def _write_checks(text: _Text, trace: Trace, outcome: Outcome) -> None:
    """Check that every result is in use, deferred or neither as before."""
    count = len(outcome.made)
    text.add("made = trace.made", f"if len(made) != {count}: return False")
    text.add(f"{_targets('t', count)} = made", "rebound = trace.rebound")
    computed, deferred = ({id(tensor) for tensor in tensors} for tensors in (outcome.wanted, outcome.deferred))
    conditions = []
    for n, tensor in enumerate(outcome.made):
        t = f"t{n}"
        if id(tensor) in computed or id(tensor) in deferred:
            owner = "trace" if tensor._trace is trace else "rebound"
            node = text.name("n", tensor._node)
            conditions.append(f"{t}._node is not {node} or {t}._trace is not {owner} or {t}._storage is not None")
            conditions.append(f"getrefcount({t}) <= {_UNUSED}")
            conditions.append(f"{t}._deferrable is not {id(tensor) in deferred}")
        else:
            conditions.append(f"getrefcount({t}) > {_UNUSED}")
    freed = "trace.freed is not None" if trace.freed is None else f"len(trace.freed or ()) != {len(trace.freed)}"
    for condition in [freed, *conditions]:
        text.add(f"if {condition}: return False")


def _write_memory(text: _Text, plan: Any, count: int) -> None:
    """Store the addresses of what the program reads and writes; results are the variables ``o0``, ``o1``, ..."""
    text.add(f"{_targets('s', count)} = trace.storages")
    for place, slot in plan.inputs:
        text.add(f"slots[{slot}] = s{place}.address")
    for n, (place, slot, spare, type_) in enumerate(plan.outputs):
        kind = text.name("k", type_)
        if place >= 0:
            text.add(f"o{n} = copied(s{place}, {kind}) if getrefcount(s{place}) > {_OWN} else s{place}")
        else:
            kept = text.name("spare", spare)
            text.add(f"for o{n} in {kept}:")
            text.add(f"    if getrefcount(o{n}) <= {_OWN} and getrefcount(o{n}.owner) <= {UNSEEN}: break")
            text.add(f"else: o{n} = plan.spared({kept}, {kind})")
        text.add(f"slots[{slot}] = o{n}.address")


def _write_results(text: _Text, trace: Trace, outcome: Outcome, residuals: Sequence[Node]) -> None:
    """Give tensors their elements, and the trace what a backward pass or a deferred gradient needs."""
    text.add("trace.made = []", "trace.rebound = NOTHING")
    places = {id(tensor): n for n, tensor in enumerate(outcome.made)}
    has_history, kept = False, []
    for n, tensor in enumerate(outcome.wanted):
        if tensor._spec.leaf:
            history = "None"
        elif tensor._node in outcome.later:
            has_history, history = True, "trace"
            kept.append(f"{text.name('n', tensor._node)}: o{n}")
        else:
            history = "freed"
        text.add(f"t{places[id(tensor)]}._storage = o{n}", f"t{places[id(tensor)]}._trace = {history}")
    nodes = text.name("n", tuple([tensor._node for tensor in outcome.wanted]))
    text.add(f"trace.ran = {nodes}", f"trace.has_history = {has_history}")
    if outcome.deferred:
        gradients = ", ".join(f"ref(t{places[id(tensor)]})" for tensor in outcome.deferred)
        text.add(f"trace.deferred = [{gradients}]")
    if not has_history and not outcome.deferred:
        text.add("trace.forget()")
        return
    kept += [f"{text.name('n', node)}: o{n}" for n, node in enumerate(residuals, len(outcome.wanted))]
    if kept:
        text.add(f"trace.kept = {{{', '.join(kept)}}}")
    text.add("entered = trace.entered")
    for n, tensor in enumerate(trace.entered):
        if tensor is not None and tensor._trace is trace and tensor._storage is not None:
            text.add(f"t = entered[{n}]", "if t._trace is trace and t._storage is not None: t._trace = None")


def _targets(prefix: str, count: int) -> str:
    return f"[{', '.join(f'{prefix}{n}' for n in range(count))}]"
