"""Straight-line code that runs a recorded program again.

When the same program runs with the same tensors in use, everything that `adjoint.tensor.plan.run_trace` finds out about
its tensors is the same again. `written` makes a function that only checks this, and then does what is left: it stores
addresses, calls the compiled function and gives tensors their elements. Loops over the tensors would take several times
as long.

For ``loss = ((x @ w - y) ** 2).sum(); loss.backward(); optimizer.step(); loss.item()`` the code is, in outline::

    def replay(trace):
        [t0, t1, t2, t3, t4, t5] = trace.made
        rebound = trace.rebound
        if getrefcount(t0) > 3: return False                # x @ w, which nobody uses any more
        if t3._node is not n3 or t3._trace is not trace ...: return False                # the loss
        if t4._node is not n4 or t4._deferrable is not True ...: return False            # the gradient
        if t5._node is not n5 or t5._trace is not rebound ...: return False              # w
        [s0, s1, s2, s3] = trace.storages
        [o0] = bank = next_bank()                           # memory for the loss
        store(slots, 0, s0.address, s1.address, ...)        # x, w, y, the learning rate and the loss
        call()
        t3._storage = o0
        t5._storage = s1                                    # w has its memory again
        trace.deferred = [ref(t4)]                          # the gradient is computed if it is read
        return True
"""

from collections.abc import Callable, Sequence
from itertools import cycle
from struct import Struct
from sys import getrefcount
from typing import Any
from weakref import ref

from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.storage import COUNTED_BY_CALL, UNSEEN, copied_storage, empty_storage
from adjoint.tensor.straight_line import StraightLine, targets
from adjoint.tensor.structure import Node
from adjoint.tensor.trace import NOTHING, Recorded, Trace, is_plain_view

__all__ = ["BANKS", "Outcome", "Replay", "written", "written_ahead"]

#: References to a tensor that is not in use any more, and to elements that only the trace needs, while the code looks
#: at them: by a list, by a variable, and by the call of getrefcount.
_UNUSED = _OWN = 2 + COUNTED_BY_CALL

#: Number of runs of a program whose results' memory is kept for later ones.
BANKS = 2

#: Runs a trace and returns True; or returns False, and has done nothing, if something differs.
Replay = Callable[[Trace], bool]


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


def _begun(plan: Any) -> StraightLine:
    """A function with nothing in it yet."""
    return StraightLine(
        "replay",
        "trace",
        {
            "NOTHING": NOTHING,
            "call": plan.call,
            "copied": copied_storage,
            "empty": empty_storage,
            "getrefcount": getrefcount,
            "plan": plan,
            "ref": ref,
            "slots": plan.slots,
        },
    )


def written(trace: Trace, plan: Any, outcome: Outcome, residuals: Sequence[Node]) -> Replay:
    """The function that runs a trace of the same program.

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
    text = _begun(plan)
    _write_checks(text, trace, outcome)
    _write_call(text, plan)
    _write_results(text, trace, outcome, residuals)
    return text.function()


def written_ahead(trace: Trace, plan: Any, outcome: Outcome, followers: Any, updates: Sequence[Any]) -> Replay:
    """The function that runs a trace of the same program together with updates that are expected to follow.

    Parameters
    ----------
    trace, plan, outcome
        As for `written`; the plan computes the results of the updates too.
    followers : Followers
        Decides whether they are still expected, and takes their results.
    updates : sequence of Update
        The updates.
    """
    if trace.resumed is not None or plan.repeats or any(tensor._deferrable for tensor in outcome.wanted):
        return _never
    text = _begun(plan)
    text.names["followers"] = followers
    kind = text.name("expected", followers.expected)
    text.refuse_if("not followers.are_expected()")
    _write_checks(text, trace, outcome)
    places = {id(tensor): n for n, tensor in enumerate(outcome.made)}
    count, result = len(trace.storages), len(outcome.wanted)
    expected = []
    for k, update in enumerate(updates):
        text.add(f"u{k} = {text.name('update', ref(update))}()")
        text.refuse_if(f"u{k} is None or len(u{k}.params) != {len(update.params)}")
        state, nodes = [], []
        text.add(f"{targets(f'p{k}_', len(update.params))} = u{k}.params")
        for n, param in enumerate(update.params):
            p, s, t = f"p{k}_{n}", f"s{param._node.index}", f"t{places[id(param._grad)]}"
            text.refuse_if(f"{p}._grad is not {t} or {p}._trace is not trace or {p}._storage is not {s}")
            state.append(s)
            nodes.append(param._grad._node)
        text.add(f"{targets('h', len(update.held))} = u{k}.held")
        for n, tensor in enumerate(update.held):
            s = f"s{count}"
            text.add(f"{s} = h{n}._storage")
            text.refuse_if(
                f"{s} is None or {s}.shared or h{n}._trace is trace or h{n}._spec is not "
                f"{text.name('spec', tensor._spec)}"
            )
            state.append(s)
            count += 1
        own = len(update.changed)
        results = ", ".join(f"o{n}" for n in range(result, result + own))
        gradients = text.name("n", tuple(nodes))
        expected.append(f"{kind}(u{k}, [{', '.join(state)}], {gradients}, [{results}])")
        result += own
    _write_call(text, plan)
    text.add(f"trace.speculation = followers.expect([{', '.join(reversed(expected))}])")
    _write_results(text, trace, outcome, ())
    return text.function()


def _never(_trace: Trace) -> bool:
    return False


def _write_checks(text: StraightLine, trace: Trace, outcome: Outcome) -> None:
    """Check that every result is in use, deferred or neither as before."""
    count = len(outcome.made)
    text.add("made = trace.made")
    text.refuse_if(f"len(made) != {count} or not plan.is_kept")
    text.add("used = trace.freed")
    text.refuse_if("used is not None" if trace.freed is None else f"used is None or len(used) != {len(trace.freed)}")
    text.add(f"{targets('t', count)} = made", "rebound = trace.rebound")
    computed, deferred = ({id(tensor) for tensor in tensors} for tensors in (outcome.wanted, outcome.deferred))
    for n, tensor in enumerate(outcome.made):
        t = f"t{n}"
        if id(tensor) not in computed and id(tensor) not in deferred:
            text.refuse_if(f"getrefcount({t}) > {_UNUSED}")
            continue
        owner = "trace" if tensor._trace is trace else "rebound"
        node = text.name("n", tensor._node)
        text.refuse_if(
            f"{t}._node is not {node} or {t}._trace is not {owner} or {t}._storage is not None "
            f"or getrefcount({t}) <= {_UNUSED} or {t}._deferrable is not {id(tensor) in deferred}"
        )
    text.add(f"{targets('s', len(trace.storages))} = trace.storages")


def _write_call(text: StraightLine, plan: Any) -> None:
    """Store the addresses of what the program reads and writes, the variables ``o0``, ``o1``, ..., and call it."""
    addresses = {slot: f"s{place}.address" for place, slot in plan.inputs}
    text.names["next_bank"] = cycle([plan.next_bank() for _ in range(BANKS)]).__next__
    text.add("bank = next_bank()")
    own = [n for n, (place, _, _) in enumerate(plan.outputs) if place < 0]
    text.add(f"[{', '.join(f'o{n}' for n in own)}] = bank")
    for n, (place, slot, type_) in enumerate(plan.outputs):
        kind = text.name("type", type_)
        if place >= 0:
            text.add(f"o{n} = copied(s{place}, {kind}) if getrefcount(s{place}) > {_OWN} else s{place}")
        else:
            text.add(f"if getrefcount(o{n}) > {_OWN} or getrefcount(o{n}.owner) > {UNSEEN}:")
            text.add(f"    o{n} = bank[{own.index(n)}] = empty({kind})")
        addresses[slot] = f"o{n}.address"
    # One call for all of them: to store them one by one would take more than twice as long.
    text.names["store"] = Struct(f"{len(addresses)}Q").pack_into
    text.add(f"store(slots, 0, {', '.join(addresses[slot] for slot in range(len(addresses)))})")
    text.add("call()", "plan.has_run = True")


def _write_results(text: StraightLine, trace: Trace, outcome: Outcome, residuals: Sequence[Node]) -> None:
    """Give tensors their elements, and the trace what a backward pass or a deferred gradient needs."""
    text.add("made.clear()", "trace.rebound = NOTHING")
    places = {id(tensor): n for n, tensor in enumerate(outcome.made)}
    freed = text.name("freed", outcome.freed)
    has_history, kept = False, []
    for n, tensor in enumerate(outcome.wanted):
        if tensor._spec.leaf:
            history = "None"
        elif tensor._node in outcome.later:
            has_history, history = True, "trace"
            kept.append(f"{text.name('n', tensor._node)}: o{n}")
        else:
            history = freed
        t = f"t{places[id(tensor)]}"
        text.add(f"{t}._storage = o{n}", f"{t}._trace = {history}")
    text.add(f"trace.ran = {text.name('ran', tuple([tensor._node for tensor in outcome.wanted]))}")
    if has_history:
        text.add("trace.has_history = True")
    if outcome.deferred:
        gradients = ", ".join(f"ref(t{places[id(tensor)]})" for tensor in outcome.deferred)
        text.add(f"trace.deferred = [{gradients}]")
    elif not has_history:
        text.add("trace.forget()")
        return
    kept += [f"{text.name('n', node)}: o{n}" for n, node in enumerate(residuals, len(outcome.wanted))]
    if kept:
        text.add(f"trace.kept = {{{', '.join(kept)}}}")
    text.add("entered = trace.entered")
    for n, tensor in enumerate(trace.entered):
        if tensor is not None and tensor._trace is trace and tensor._storage is not None:
            text.add(f"t = entered[{n}]", "if t._trace is trace and t._storage is not None: t._trace = None")
        if tensor is not None and is_plain_view(tensor):
            text.add(f"t = entered[{n}]", f"if t._trace is None and t._storage is not None: trace.let_go({n})")
