"""Coalescing of serial kernels: small kernels that run on one thread become one, such as updates of biases and scales.

Before::

    kernel a: computes %a
      1 units, on one thread; 8 flops, 64 bytes
      reads p f32[8]; writes a f32[8] arena
      for u in 0..1 units:
        for l in 0..8 vector:
          a[l] = add(p[l], 1.0)

    kernel result: computes %b
      4 units, on one thread; 8 flops, 64 bytes
      reads a f32[8] arena by 2; writes result f32[8] by 2
      for u in 0..4 units:
        for l in 0..2 vector:
          result[u*2 + l] = mul(a[u*2 + l], 2.0)

After::

    kernel a_and_1: computes %a, %b
      1 units, on one thread; 16 flops, 128 bytes
      reads p f32[8], a f32[8] arena; writes a f32[8] arena, result f32[8]
      for u in 0..1 units:
        for l in 0..8 vector:
          a[l] = add(p[l], 1.0)
        for u.1 in 0..4:
          for l in 0..2 vector:
            result[u.1*2 + l] = mul(a[u.1*2 + l], 2.0)

One thread runs them in order, so that one may read what another wrote, and each computes what it did before, to the
bit.

In an *interval* between two barriers, no kernel depends on another one unless one thread runs both. So a serial kernel
may be anywhere in its interval, or in a later one if everything that waits for it at a barrier comes after that:
existing barriers suffice. Kernels are gathered in the fewest intervals: where one of them cannot be deferred further,
all that are ready join it. None moves to an earlier interval, which would extend the live ranges of its results.
Deferring extends those of its operands; a kernel is deferred only as far as peak memory stays the same.

Updates of parameters and states are gathered separately: they can wait for the end of the step, and a profile then
tells them from the computation of gradients. Long code that several kernels share is not coalesced: it is compiled once
and called by each.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from adjoint import costs
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, For, Kernel, Stmt, Store, When, postorder, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.kernel.structure import structures
from adjoint.lower.analysis.footprint import every_index, reads_memory

__all__ = ["coalesce_serial"]


def coalesce_serial(kernels: Sequence[Kernel], updated: Collection[Buffer]) -> list[Kernel]:
    """Gather small serial kernels where they may run together, and make each such run one kernel.

    Parameters
    ----------
    kernels : sequence of Kernel
        In an executable order.
    updated : collection of Buffer
        Parameters and states that are updated in place.

    Returns
    -------
    list of Kernel
        In an executable order too, with no more barriers than before.
    """
    dependences = _dependences(kernels)
    intervals = _intervals(kernels, dependences)
    sizes = _sizes(kernels)
    latest = _latest(kernels, dependences, intervals, sizes)
    updates: list[bool] = []
    for i, kernel in enumerate(kernels):
        mine = any(b in updated for b in kernel.writes) or any(updates[j] for j in dependences[i])
        updates.append(mine and not kernel.parallel)
    places = list(intervals)
    for kind in (False, True):
        _gather([i for i in sizes if updates[i] == kind], places, latest, dependences)

    def when(i: int) -> tuple[int, bool]:
        # Serial kernels first in their interval: their operands are dead before parallel kernels allocate.
        return places[i], kernels[i].parallel

    out: list[Kernel] = []
    for _, together in groupby(sorted(range(len(kernels)), key=when), key=when):
        runs = _runs(together, dependences, sizes, updates)
        out += [_coalesced([kernels[i] for i in run], updates[run[0]]) for run in runs]
    return out


def _sizes(kernels: Sequence[Kernel]) -> dict[int, float]:
    """For each kernel that may be coalesced, the fraction of a coalesced kernel that it takes up."""
    small = {
        i: _instructions(kernel.body)
        for i, kernel in enumerate(kernels)
        if not kernel.parallel and kernel.bytes <= costs.MAX_COALESCED_BYTES
    }
    long_ones = [i for i, count in small.items() if count > costs.MAX_DUPLICATED_INSTRUCTIONS]
    long = dict(zip(long_ones, structures([kernels[i] for i in long_ones]), strict=True))
    times = Counter(long.values())
    return {
        i: count / costs.MAX_COALESCED_INSTRUCTIONS + kernels[i].bytes / costs.MAX_COALESCED_BYTES
        for i, count in small.items()
        if i not in long or times[long[i]] == 1
    }


def _dependences(kernels: Sequence[Kernel]) -> list[set[int]]:
    """For each kernel, the earlier ones that it depends on: true, anti- and output dependences."""
    writer: dict[Buffer, int] = {}
    readers: dict[Buffer, list[int]] = {}
    out: list[set[int]] = []
    for i, kernel in enumerate(kernels):
        mine = {writer[b] for b in (*kernel.reads, *kernel.writes) if b in writer}
        mine.update(j for b in kernel.writes for j in readers.pop(b, ()))
        out.append(mine)
        for b in kernel.writes:
            writer[b] = i
        for b in kernel.reads:
            readers.setdefault(b, []).append(i)
    return out


def _intervals(kernels: Sequence[Kernel], dependences: Sequence[set[int]]) -> list[int]:
    """For each kernel, the number of barriers before it, as far as dependences require them."""
    out: list[int] = []
    start = count = 0
    for i, kernel in enumerate(kernels):
        if any(j >= start and (kernel.parallel or kernels[j].parallel) for j in dependences[i]):
            start, count = i, count + 1
        out.append(count)
    return out


def _latest(
    kernels: Sequence[Kernel], dependences: Sequence[set[int]], intervals: Sequence[int], movable: Collection[int]
) -> list[int]:
    """The last interval in which each kernel may run; its own for those that do not move."""
    latest = [intervals[-1] if i in movable else own for i, own in enumerate(intervals)]
    memory = _Memory(kernels, intervals)
    for i in reversed(range(len(kernels))):
        if i in movable:
            latest[i] = memory.keep(kernels[i].reads, intervals[i], latest[i])
        limit = intervals[i] - 1 if kernels[i].parallel else latest[i]
        for j in dependences[i]:
            latest[j] = min(latest[j], limit)
    return latest


class _Memory:
    """Live ranges of arena buffers, by interval."""

    def __init__(self, kernels: Sequence[Kernel], intervals: Sequence[int]) -> None:
        since: dict[Buffer, int] = {}
        self._until: dict[Buffer, int] = {}
        for kernel, at in zip(kernels, intervals, strict=True):
            for buffer in (*kernel.writes, *kernel.reads):
                if buffer.space == "arena":
                    since.setdefault(buffer, at)
                    self._until[buffer] = at
        self._live = [0] * (intervals[-1] + 1 if intervals else 0)
        for buffer, start in since.items():
            for at in range(start, self._until[buffer] + 1):
                self._live[at] += buffer.nbytes
        self._peak = max(self._live, default=0)

    def keep(self, buffers: Sequence[Buffer], start: int, end: int) -> int:
        """Extend live ranges from interval `start` towards `end`, as far as peak memory permits; the last reached."""
        mine = [buffer for buffer in buffers if buffer.space == "arena"]
        for at in range(start + 1, end + 1):
            longer = [buffer for buffer in mine if self._until[buffer] < at]
            more = sum(buffer.nbytes for buffer in longer)
            if self._live[at] + more > self._peak:
                return at - 1
            self._live[at] += more
            self._until.update(dict.fromkeys(longer, at))
        return end


def _gather(which: Sequence[int], places: list[int], latest: Sequence[int], dependences: Sequence[set[int]]) -> None:
    """Move kernels to the fewest intervals, none before its own nor before what it depends on."""
    for i in which:
        places[i] = max(places[i], *(places[j] for j in dependences[i])) if dependences[i] else places[i]
    left = which
    while left:
        end = min(latest[i] for i in left)
        together = [i for i in left if places[i] <= end]
        left = [i for i in left if places[i] > end]
        place = max(places[i] for i in together)
        for i in together:
            places[i] = place


def _runs(
    intervals: Iterable[int], dependences: Sequence[set[int]], sizes: Mapping[int, float], updates: Sequence[bool]
) -> Iterator[list[int]]:
    """The kernels of an interval: small ones together, until they are needed, full, or all; others by themselves."""
    waiting: dict[bool, list[int]] = {False: [], True: []}

    def leave(kind: bool) -> Iterator[list[int]]:
        # Updates may depend on other kernels, but not the other way round.
        for k in (False, kind):
            if waiting[k]:
                yield waiting[k]
                waiting[k] = []

    for i in intervals:
        if i in sizes:
            mine = waiting[updates[i]]
            if mine and sizes[i] + sum(sizes[j] for j in mine) > 1:
                yield from leave(updates[i])
            waiting[updates[i]].append(i)
        else:
            needed = [kind for kind, kept in waiting.items() if not dependences[i].isdisjoint(kept)]
            if needed:
                yield from leave(max(needed))
            yield [i]
    yield from leave(True)


def _instructions(body: Sequence[Stmt]) -> int:
    """Approximate number of instructions of statements."""
    count = 0
    for statement in body:
        if isinstance(statement, For):
            count += _instructions(statement.body) * (statement.var.extent if statement.kind == "unroll" else 1)
        elif isinstance(statement, When):
            count += _instructions(statement.then) + _instructions(statement.other)
        elif isinstance(statement, Store):
            count += len(postorder([v for _, _, v in statement.targets])) + len(statement.targets)
    return count


def _coalesced(members: Sequence[Kernel], updates: bool) -> Kernel:
    """Consecutive kernels as one: all units of each, one kernel after the other."""
    if len(members) == 1:
        return members[0]
    body = tuple(s for kernel in members for s in _all_units(kernel))
    bare = Kernel("", Var("u", 1), body)
    longest = max(members, key=lambda kernel: costs.nanoseconds(kernel.flops, kernel.bytes))
    return Kernel(
        "updates" if updates else f"{longest.name}_and_{len(members) - 1}",
        bare.unit,
        body,
        tuple(value for kernel in members for value in kernel.values),
        sum(kernel.flops for kernel in members),
        sum(b.nbytes for b in (*bare.reads, *bare.writes)),
        parallel=False,
    )


def _all_units(kernel: Kernel) -> tuple[Stmt, ...]:
    unit = kernel.unit
    if unit.extent == 1 and not any(map(reads_memory, every_index(list(walk(kernel.body))))):
        return rewritten(kernel.body, index=lambda index: index.substitute({unit: as_index(0)}))
    return (For(unit, kernel.body),)
