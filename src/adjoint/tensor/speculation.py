"""Speculative execution: the update of parameters, computed when the loss is read before it.

In ``loss.backward(); total += loss.item(); optimizer.step()`` the loss is read when the update has not been recorded.
If only the forward pass ran then, everything that the backward pass needs of it would have to be stored, and the two
could not be scheduled as one program. So if an update came next the last time, the whole step runs at once. Its results
are new parameters and states in memory of their own, beside the old ones, and ``optimizer.step()`` only has to exchange
them. If something else happens instead, they are dropped: gradients are then computed again from what entered the
program, as they are after any other run that deferred them.
"""

from collections.abc import Sequence
from typing import Any
from weakref import ref

from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.aliases import refresh_views
from adjoint.tensor.plan import planned
from adjoint.tensor.replay import Outcome, Replay, written_ahead
from adjoint.tensor.step_entry import Update, step_entry
from adjoint.tensor.storage import Storage
from adjoint.tensor.structure import Node
from adjoint.tensor.trace import Recorded, Trace

__all__ = ["Followers", "Speculation"]

#: Most bytes of new parameters and states, which are held in memory together with the old ones: as much as several
#: caches of the last level. Where there are more, the forward pass that is computed again is a small part of the memory
#: that a step moves.
MOST_BYTES = 1 << 26

#: How many right predictions outweigh a wrong one, whose work was in vain. Their balance is bounded on both sides, so
#: that a change of the loop soon counts.
_COST_OF_MISS = 2


@dataclass(frozen=True, slots=True)
class Expected:
    """An update that is expected, and its results.

    Attributes
    ----------
    update : Update
        The update.
    storages : list of Storage
        The elements that the results depend on: of the parameters, and of what the optimizer holds.
    gradients : tuple of Node
        The nodes of the gradients.
    results : list of Storage
        The new elements of `Update.changed`.
    """

    update: Update
    storages: list[Any]
    gradients: tuple[Node, ...]
    results: list[Storage]


class Speculation:
    """Updates whose results are there before ``step()`` has been called.

    Parameters
    ----------
    waiting : list of Expected
        The updates, the last one first.

    Attributes
    ----------
    used : bool
        Whether all of them have been called for.
    """

    def __init__(self, waiting: list[Expected]) -> None:
        self.used = False
        self._waiting = waiting

    def deliver(self, trace: Trace, update: Update, grads: Sequence[Recorded]) -> bool:
        """Give parameters and states their new elements; False if this is not the update that was predicted.

        Parameters
        ----------
        trace : Trace
            The trace that was run ahead.
        update : Update
            The update that is called for.
        grads : sequence of Tensor
            Its gradients.
        """
        if not self._waiting:
            return False
        expected = self._waiting[-1]
        if update is not expected.update or not _is_unchanged(expected, trace, grads):
            self._waiting = []
            return False
        self._waiting.pop()
        self.used = not self._waiting
        for tensor, storage in zip(update.changed, expected.results):  # noqa: B905 - see `Trace.takes`
            tensor._storage = storage
            tensor._trace = None
        for grad in grads:
            grad._spent = True
        refresh_views(update.params)
        return True


def _is_unchanged(expected: Expected, trace: Trace, grads: Sequence[Recorded]) -> bool:
    update = expected.update
    for tensor, storage in zip((*update.params, *update.held), expected.storages):  # noqa: B905 - see `Trace.takes`
        if tensor._storage is not storage:
            return False
    for grad, node in zip(grads, expected.gradients):  # noqa: B905 - see `Trace.takes`
        if grad._node is not node or grad._trace is not trace:
            return False
    return True


class Followers:
    """The updates that came right after a program that had been run for something else, such as the loss.

    Attributes
    ----------
    replay : callable or None
        Runs a trace of the program together with the updates, if its tensors are in use as before.
    expected : type
        The class of what `expect` takes.
    """

    expected = Expected

    def __init__(self) -> None:
        self.replay: Replay | None = None
        self._updates: list[ref[Update]] = []
        self._balance = 0
        self._last: Speculation | None = None
        self._recent: Any = None

    def add(self, update: Update) -> None:
        """Note an update that has followed."""
        known = [found for one in self._updates if (found := one()) is not None]
        if update in known:
            self._balance += self._balance < 0
        else:
            self._updates = [ref(one) for one in (*known, update)]
            self.replay = None

    def are_expected(self) -> bool:
        """Whether the updates have followed often enough when they had been computed before."""
        last, self._last = self._last, None
        if last is not None:
            change = 1 if last.used else -_COST_OF_MISS
            self._balance = min(max(self._balance + change, -_COST_OF_MISS), _COST_OF_MISS)
        return self._balance >= 0

    def expect(self, waiting: list[Expected]) -> Speculation:
        """Note results that should be called for next."""
        self._last = Speculation(waiting)
        return self._last

    def run(self, trace: Trace, outcome: Outcome) -> list[Storage] | None:
        """Run a trace together with the updates; None if that is not possible, or has been in vain too often.

        Parameters
        ----------
        trace : Trace
            The trace, which keeps the results of the updates.
        outcome : Outcome
            Which of its tensors are computed.

        Returns
        -------
        list of Storage or None
            The elements of the wanted tensors.
        """
        live = [update for one in self._updates if (update := one()) is not None]
        # Other models of the same structure have updates here too.
        updates = [update for update in live if _is_ready(trace, update)]
        if not updates or not self.are_expected():
            return None
        grads = [[param._grad for param in update.params] for update in updates]
        ahead = Trace(trace.last, False)
        ahead.entered, ahead.storages = list(trace.entered), list(trace.storages)
        items: list[Node] = []
        for update, own in zip(updates, grads, strict=True):
            entry = step_entry(ahead, update, [tensor._node for tensor in (*update.params, *own)])
            if entry is None:
                return None
            ahead.node = entry
            items += entry.items
        ahead.last = ahead.node
        nodes = (*[tensor._node for tensor in outcome.wanted], *items)
        plan = planned(ahead, (nodes, (), nodes), nodes, nodes)
        if plan.bytes > MOST_BYTES:
            self._balance = -1
            return None
        if plan is self._recent and (self.replay is None or len(live) < len(self._updates)):
            self.replay = written_ahead(trace, plan, outcome, self, updates)
            self._updates = [ref(update) for update in live]
        self._recent = plan
        results = plan.run(ahead.storages)
        count = len(outcome.wanted)
        waiting = []
        for update, own in zip(updates, grads, strict=True):
            size = len(update.changed)
            storages = [tensor._storage for tensor in (*update.params, *update.held)]
            nodes_of_grads = tuple([grad._node for grad in own])
            waiting.append(Expected(update, storages, nodes_of_grads, results[count : count + size]))
            count += size
        trace.speculation = self.expect(waiting[::-1])
        return results[: len(outcome.wanted)]


def _is_ready(trace: Trace, update: Update) -> bool:
    """Whether parameters are those that entered a trace, and their gradients are pending there."""
    for param in update.params:
        grad = param._grad
        if grad is None or grad._trace is not trace or grad._storage is not None or param._trace is not trace:
            return False
        if param._storage is None or param._storage is not trace.storages[param._node.index]:
            return False
    return True
