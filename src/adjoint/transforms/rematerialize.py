"""Recomputation: values kept for the backward pass are computed again there, so that their memory is free meanwhile.

Before::

    func @main(%x: f32[8,4], %w: f32[4,4], %v: f32[4,4]) -> (f32[4,4], f32[4,4]) {
      %a: f32[8,4] = matmul(%x, %w) {transpose_a = False, transpose_b = False}
      %h: f32[8,4] = tanh(%a)
      %y: f32[8,4] = matmul(%h, %v) {transpose_a = False, transpose_b = False}
      %z: f32[8,4] = matmul(%y, %v) {transpose_a = False, transpose_b = False}
      %dw: f32[4,4] = matmul(%x, %z) {transpose_a = True, transpose_b = False}
      %dv: f32[4,4] = matmul(%h, %z) {transpose_a = True, transpose_b = False}
      return %dw, %dv
    }

After::

    func @main(%x: f32[8,4], %w: f32[4,4], %v: f32[4,4]) -> (f32[4,4], f32[4,4]) {
      %a: f32[8,4] = matmul(%x, %w) {transpose_a = False, transpose_b = False}
      %h: f32[8,4] = tanh(%a)
      %y: f32[8,4] = matmul(%h, %v) {transpose_a = False, transpose_b = False}
      %z: f32[8,4] = matmul(%y, %v) {transpose_a = False, transpose_b = False}
      %dw: f32[4,4] = matmul(%x, %z) {transpose_a = True, transpose_b = False}
      %5: f32[8,4] = after(%x, %z)
      %6: f32[4,4] = after(%w, %z)
      %a_again: f32[8,4] = matmul(%5, %6) {transpose_a = False, transpose_b = False}
      %h_again: f32[8,4] = tanh(%a_again)
      %dv: f32[4,4] = matmul(%h_again, %z) {transpose_a = True, transpose_b = False}
      return %dw, %dv
    }

While ``%z`` is computed, three values of 128 bytes were live, and now there are two. The identity ``after`` stands
between the second computation and what it reads. It names what the first late reader waits for anyway; without it
the second computation could run as early as the first.

Which values: those that live through the stage of the peak (see `Liveness`) and are not read in it. Of these the one
whose second computation costs the fewest operations for what it saves, bytes times stages, is taken first: so
elementwise chains come before contractions. Its cost includes the values that are computed again for it. A choice
that does not lower memory is dropped. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, keep every
n-th layer; here layers are not known, and the same pattern comes out where they are alike.
"""

from collections.abc import Iterable, Iterator, Mapping

from adjoint.errors import located
from adjoint.ir import Function, Value, is_param
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.control import is_control
from adjoint.ops.convert import after
from adjoint.transforms.liveness import Liveness, Work, work_of

__all__ = ["rematerializations", "rematerialize"]

#: Recomputed values, each with the users that read the second copy.
_Late = Mapping[Value, frozenset[Value]]


def rematerialize(function: Function, budget: int) -> Function:
    """Recompute values until the peak of live bytes is within a budget, or nothing more helps.

    Parameters
    ----------
    function : Function
        A graph without calls whose results are distinct values that it computes, as returned by `separate_results`, and
        after `cse`, which would undo the recomputation.
    budget : int
        Maximum number of live bytes, not counting parameters and results, as estimated by `Liveness`.

    Returns
    -------
    Function
        Same name, parameters, attributes and meaning; the function itself if it is within the budget.
    """
    made = function
    for peak, step in rematerializations(function):
        made = step
        if peak <= budget:
            break
    return made


def rematerializations(function: Function) -> Iterator[tuple[int, Function]]:
    """The function with more and more recomputed values, each time with its peak in bytes; initially unchanged.

    The peaks never increase. The sequence ends when nothing more helps. Nothing is recomputed in functions with loops
    or branches.
    """
    if any(map(is_control, function.values())):
        yield 0, function
        return
    works = {value: work_of(value) for value in function.values()}
    original = _Original(Liveness(function, works))
    now = _Rewritten(original.live, {}, {v: v for v in original.live.order})
    refused: set[Value] = set()
    yield now.live.peak, function
    while (choice := _cheapest(original, now, refused)) is not None:
        value, readers = choice
        tried = _rewrite(original, {**now.late, value: readers}, works)
        if tried is None or sorted(tried.live.live, reverse=True) >= sorted(now.live.live, reverse=True):
            refused.add(value)
            continue
        now = tried
        yield now.live.peak, now.live.function


class _Original:
    """The original graph, and the values from which each of its values can be recomputed."""

    def __init__(self, live: Liveness) -> None:
        self.live = live
        self._inner: dict[Value, list[Value]] = {}

    def inner(self, value: Value) -> list[Value]:
        """The value and everything computed on the way to it from memory, inputs before users."""
        if value not in self._inner:
            found = {value}
            pending = [value]
            while pending:
                for operand in pending.pop().inputs:
                    if operand not in found and not self._is_start(operand):
                        found.add(operand)
                        pending.append(operand)
            self._inner[value] = sorted(found, key=self.live.place.__getitem__)
        return self._inner[value]

    def starts(self, value: Value) -> list[Value]:
        """The inputs of `inner`: values in memory, constants, and views of parameters."""
        inner = self.inner(value)
        inside = set(inner)
        return list(dict.fromkeys(v for u in inner for v in u.inputs if v not in inside))

    def _is_start(self, value: Value) -> bool:
        if self.live.is_kept(value):
            return True
        return self.live.is_view(value) and all(is_param(v) for v in self.live.sources(value))


@dataclass(frozen=True)
class _Rewritten:
    """The graph with some values recomputed.

    Attributes
    ----------
    live : Liveness
        Live ranges of the new graph.
    late : mapping
        The recomputed values.
    new : dict
        The first copy of each value of the original graph.
    """

    live: Liveness
    late: _Late
    new: dict[Value, Value]


def _cheapest(original: _Original, now: _Rewritten, refused: set[Value]) -> tuple[Value, frozenset[Value]] | None:
    """The next value to recompute, and the users of its second copy; None if there is none."""
    live = now.live
    peak = live.live.index(live.peak)
    of_new = {new: old for old, new in now.new.items()}
    cost: dict[Value, float] = {}
    best: tuple[float, Value, frozenset[Value]] | None = None
    for value in original.live.order:
        copy = now.new[value]
        if value in refused or not original.live.is_stored(value):
            continue
        starts = original.starts(value)
        cost[value] = sum(live.works[v].flops for v in original.inner(value))
        cost[value] += sum(cost[v] for v in starts if v in now.late)
        # A first copy without users has been removed.
        if value in now.late or copy not in live.stage or not live.stage[copy] < peak < live.last[copy]:
            continue
        stages = [live.stage[r] for r in live.readers[copy]]
        if peak in stages:
            continue
        readers = frozenset(of_new[r] for r in live.readers[copy] if live.stage[r] > peak and r in of_new)
        if any(original.live.stage[r] <= original.live.stage[value] for r in readers):
            continue
        saved = value.type.nbytes - _longer(now, starts, peak)
        gap = min(s for s in stages if s > peak) - max([live.stage[copy], *(s for s in stages if s < peak)])
        if saved > 0 and (best is None or cost[value] / (saved * gap) < best[0]):
            best = cost[value] / (saved * gap), value, readers
    return None if best is None else best[1:]


def _longer(now: _Rewritten, starts: list[Value], stage: int) -> int:
    """Bytes of values that would be live in a stage because something is recomputed from them later."""
    live = now.live
    copies = [now.new[v] for v in starts if v not in now.late]
    kept = [v for v in copies if v in live.stage and live.is_stored(v)]
    return sum(v.type.nbytes for v in kept if live.last[v] < stage)


def _due(original: _Original, late: _Late) -> dict[Value, Value]:
    """For each recomputed value, the first of its users in the original graph."""
    live = original.live
    users: dict[Value, list[Value]] = {value: list(readers) for value, readers in late.items()}
    first: dict[Value, Value] = {}
    for value in sorted(late, key=live.place.__getitem__, reverse=True):
        first[value] = min(users[value], key=lambda r: (live.stage[r], live.place[r]))
        for start in original.starts(value):
            if start in late:
                users[start].append(first[value])
    return first


def _trigger(original: _Original, late: _Late, value: Value, reader: Value) -> Value | None:
    """The newest value that the first late user depends on anyway, from an earlier stage."""
    live = original.live
    stage = live.stage[reader]
    seen: dict[Value, None] = {reader: None}
    pending = [reader]
    while pending:
        current = pending.pop()
        for start in original.starts(current):
            if start not in seen and current not in late.get(start, frozenset()):
                seen[start] = None
                if live.stage[start] == stage:
                    pending.append(start)
    found = [v for v in seen if live.is_stored(v) and live.stage[value] < live.stage[v] < stage]
    return max(found, key=lambda v: (live.stage[v], live.place[v]), default=None)


def _rewrite(original: _Original, late: _Late, works: dict[Value, Work]) -> _Rewritten | None:
    """The graph in which the values of `late` are recomputed; None if one has no trigger.

    Values are created in the order of their stages, a second copy at the beginning of the stage that first needs it. It
    depends on a value of an earlier stage, so no cycle can arise.
    """
    live = original.live
    due = _due(original, late)
    triggers = {value: _trigger(original, late, value, reader) for value, reader in due.items()}
    maker = _Maker(original, late, works)
    steps = [(live.stage[v], 1, live.place[v], v) for v in live.order]
    steps += [(live.stage[due[v]], 0, live.place[v], v) for v in late]
    for _, first, _, value in sorted(steps):
        if first:
            maker.compute(value)
            continue
        trigger = triggers[value]
        if trigger is None:
            return None
        maker.compute_again(value, trigger)
    function = live.function
    results = tuple(maker.new[r] for r in function.results)
    made = Function(function.name, function.params, results, function.attrs)
    return _Rewritten(Liveness(made, works), late, maker.new)


class _Maker:
    """Builds the values of the new graph."""

    def __init__(self, original: _Original, late: _Late, works: dict[Value, Work]) -> None:
        self.new: dict[Value, Value] = {}
        self._original = original
        self._late = late
        self._works = works
        self._again: dict[Value, Value] = {}
        self._waiting: dict[tuple[Value, Value], Value] = {}
        self._inside: dict[tuple[Value, Value], Value] = {}
        self._readers = frozenset().union(*late.values())

    def compute(self, value: Value) -> None:
        """Create the first copy."""
        operands = self._late_operands(value) if value in self._readers else self.new
        self.new[value] = self._known(value, value.with_inputs(tuple(operands[v] for v in value.inputs)))

    def compute_again(self, value: Value, trigger: Value) -> None:
        """Create the second copy, from second copies and values in memory, ordered after the trigger."""
        made: dict[Value, Value] = {}
        for start in self._original.starts(value):
            made[start] = self._again[start] if start in self._late else self._wait(start, trigger)
        for inner in self._original.inner(value):
            if (inner, trigger) not in self._inside:
                again = inner.with_inputs(tuple(made[v] for v in inner.inputs))
                if again is not inner or inner.label:
                    again = again.named(f"{inner.label}_again" if inner.label else "")
                self._inside[inner, trigger] = self._known(inner, again)
            made[inner] = self._inside[inner, trigger]
        self._again[value] = made[value]

    def _late_operands(self, reader: Value) -> dict[Value, Value]:
        """The operands of a late user: second copies, also behind views."""
        live = self._original.live
        views: set[Value] = set()
        pending = [reader]
        while pending:
            for operand in pending.pop().inputs:
                if live.is_view(operand) and operand not in views:
                    views.add(operand)
                    pending.append(operand)
        found: dict[Value, Value] = {}
        for value in sorted({*views, *reader.inputs, *_inputs(views)}, key=live.place.__getitem__):
            if reader in self._late.get(value, frozenset()):
                found[value] = self._again[value]
            elif value in views and any(found[v] is not self.new[v] for v in value.inputs):
                again = value.with_inputs(tuple(found[v] for v in value.inputs))
                found[value] = self._known(value, again.named(value.label))
            else:
                found[value] = self.new[value]
        return found

    def _wait(self, value: Value, trigger: Value) -> Value:
        copy = self.new[value]
        if not value.inputs and not is_param(value):
            return copy  # constants need no memory
        if (value, trigger) not in self._waiting:
            with located(value.line):
                made = self._waiting[value, trigger] = after(copy, self.new[trigger])
            self._works[made] = Work("view", 0.0)
        return self._waiting[value, trigger]

    def _known(self, value: Value, copy: Value) -> Value:
        """The copy of a value, which takes as much work."""
        self._works[copy] = self._works[value]
        return copy


def _inputs(values: Iterable[Value]) -> Iterator[Value]:
    for value in values:
        yield from value.inputs
