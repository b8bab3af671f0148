"""Dependences: an order of kernels that respects them, and the barriers between kernels.

Buffers that are updated in place add anti-dependences: everything that reads the old contents runs before the kernel
that overwrites them. Where that closes a cycle, the update goes to a buffer of its own and is copied at the end.

Before::

    kernel new_w: computes %new_w
      4 units, on one thread; 4 flops, 48 bytes
      reads w f32[4] by 1, dw f32[4] arena by 1; writes w f32[4] by 1
      for u in 0..4 units:
        w[u] = sub(w[u], dw[u])

    kernel dw: computes %dw
      4 units, on one thread; 4 flops, 48 bytes
      reads x f32[4] by 1, w f32[4] by 1; writes dw f32[4] arena by 1
      for u in 0..4 units:
        dw[u] = mul(x[u], w[u])

After::

    kernel dw: computes %dw
      4 units, on one thread; 4 flops, 48 bytes
      reads x f32[4] by 1, w f32[4] by 1; writes dw f32[4] arena by 1
      for u in 0..4 units:
        dw[u] = mul(x[u], w[u])

    kernel new_w: computes %new_w
      4 units, on one thread; 4 flops, 48 bytes
      reads w f32[4] by 1, dw f32[4] arena by 1; writes w f32[4] by 1
      for u in 0..4 units:
        w[u] = sub(w[u], dw[u])
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from adjoint import costs
from adjoint.kernel.ir import Across, Buffer, Kernel, Load, Stmt, Store, postorder, roots_of, walk
from adjoint.kernel.regions import Nested, Place, Region, Test, expanded, memory_of, places_of
from adjoint.lower.analysis.footprint import reads_memory

__all__ = ["barriers", "circular_updates", "claimed_kernels", "order_kernels", "read_elsewhere"]


class _Dependences:
    """The order in which kernels can run: Kahn's algorithm, which goes on after dependences have been taken out.

    An edge ``after[i]`` to `j` says that kernel `i` runs before `j`, and because of which update in place; None if `j`
    reads what `i` writes.
    """

    def __init__(self, kernels: Sequence[Kernel], updated: frozenset[Buffer]) -> None:
        writer = {b: i for i, k in enumerate(kernels) for b in k.writes}
        self.after: list[list[tuple[int, Buffer | None]]] = [[] for _ in kernels]
        for i, kernel in enumerate(kernels):
            for buffer in kernel.reads:
                if writer.get(buffer, i) == i:
                    continue
                if buffer in updated:
                    self.after[i].append((writer[buffer], buffer))
                else:
                    self.after[writer[buffer]].append((i, None))
        self._waits = [0] * len(kernels)
        for edges in self.after:
            for j, _ in edges:
                self._waits[j] += 1

    def order(self) -> list[int]:
        """The kernels that are in no cycle and behind none, in an order that follows the given one where it can."""
        return self._from([i for i, count in enumerate(self._waits) if count == 0])

    def without(self, buffer: Buffer) -> list[int]:
        """Take out the dependences of an update; the kernels that can run now, too."""
        ready = []
        for edges in self.after:
            for j, why in edges:
                if why is buffer:
                    self._waits[j] -= 1
                    if self._waits[j] == 0:
                        ready.append(j)
            edges[:] = [edge for edge in edges if edge[1] is not buffer]
        return self._from(sorted(ready))

    def reaches(self, start: int, ends: set[int]) -> bool:
        """Whether one of some kernels has to run after another."""
        seen, stack = {start}, [start]
        while stack:
            i = stack.pop()
            if i in ends:
                return True
            more = {j for j, _ in self.after[i]} - seen
            seen |= more
            stack += more
        return False

    def _from(self, ready: list[int]) -> list[int]:
        """The kernels that can run from sorted ones that are ready; their edges are used up."""
        order: list[int] = []
        while ready:
            i = heappop(ready)
            order.append(i)
            for j, _ in self.after[i]:
                self._waits[j] -= 1
                if self._waits[j] == 0:
                    heappush(ready, j)
            self.after[i] = []
        return order


def circular_updates(kernels: Sequence[Kernel], updated: frozenset[Buffer]) -> frozenset[Buffer]:
    """In-place updates to give up so that an order exists: again and again the smallest that is part of a cycle."""
    found = _Dependences(kernels, updated)
    given_up: set[Buffer] = set()
    placed = set(found.order())
    while len(placed) < len(kernels):
        stuck = [i for i in range(len(kernels)) if i not in placed]
        candidates = [(b, i) for i in stuck for b in kernels[i].writes if b in updated - given_up]
        # A cycle has an update in it, as kernels without updates are in an order.
        buffer = next(
            buffer
            for buffer, updater in sorted(candidates, key=lambda candidate: candidate[0].nbytes)
            if found.reaches(updater, {i for i in stuck if i != updater and buffer in kernels[i].reads})
        )
        given_up.add(buffer)
        placed.update(found.without(buffer))
    return frozenset(given_up)


def read_elsewhere(kernels: Sequence[Kernel], updated: frozenset[Buffer]) -> frozenset[Buffer]:
    """In-place updates to give up because their kernel reads old elements that it may have overwritten.

    An update in place reads the elements that it writes, in the same statement, as ``w[i] = w[i] - g[i]`` does.
    ``w[i] = w[7 - i]`` would find elements that have been written already, and so would sums in memory, which begin
    with ``w[i] = 0``.
    """
    found = set()
    for kernel in kernels:
        if isinstance(kernel, Nested):
            continue
        statements = list(walk(kernel.body))
        for buffer in updated.intersection(kernel.reads, kernel.writes):
            if not all(_updates_elements(statement, buffer) for statement in statements):
                found.add(buffer)
    return frozenset(found)


def _updates_elements(statement: Stmt, buffer: Buffer) -> bool:
    """Whether a statement reads exactly the elements of a buffer that it writes, at positions known beforehand."""
    targets = statement.targets if isinstance(statement, Store) else ()
    written = {index for b, index, _ in targets if b is buffer}
    read = [e for e in postorder(roots_of(statement)) if isinstance(e, Load | Across) and e.buffer is buffer]
    if any(isinstance(e, Across) for e in read) or any(map(reads_memory, written)):
        return False
    return {e.index for e in read if isinstance(e, Load)} == written


def order_kernels(kernels: Sequence[Kernel], updated: frozenset[Buffer]) -> list[Kernel]:
    """The kernels in an order that respects their dependences."""
    order = _Dependences(kernels, updated).order()
    assert len(order) == len(kernels), "circular updates are given up beforehand"
    return [kernels[i] for i in order]


def barriers(
    kernels: Sequence[Kernel], offsets: Mapping[Buffer, int], regions: Sequence[Region] = ()
) -> frozenset[int]:
    """Positions of kernels before which threads must synchronize.

    A kernel must wait for what it reads, and may not overwrite memory that others still read or wrote: memory, not
    buffers, since buffers with disjoint live ranges may share a place in the arena. Serial kernels, which all run on
    the first thread, need not wait for each other.

    A loop is a few of its iterations one after the other. Rows of a buffer are taken for the whole. Threads always
    synchronize before they read the test of a region.
    """
    order = expanded(len(kernels), regions)
    places = places_of(regions)
    found: frozenset[int] = frozenset()
    while True:
        more = _barriers(kernels, order, offsets, places, found)
        if more == found or not regions:
            return more
        found = more


def _barriers(
    kernels: Sequence[Kernel],
    order: Sequence[int | Test],
    offsets: Mapping[Buffer, int],
    places: Mapping[Buffer, Place],
    given: frozenset[int],
) -> frozenset[int]:
    """The barriers of an order, in which a kernel may occur several times, besides those that are given."""
    found = set(given)
    # The buffers since the last barrier, each with whether only serial kernels use it.
    written: dict[Buffer, bool] = {}
    read: dict[Buffer, bool] = {}
    spans = {buffer: (start, start + buffer.nbytes) for buffer, start in offsets.items()}

    def clash(mine: Sequence[Buffer], others: Mapping[Buffer, bool], alone: bool) -> bool:
        for buffer in mine:
            if buffer in others and not (alone and others[buffer]):
                return True
            if buffer not in spans:
                continue
            start, end = spans[buffer]
            for other, was_alone in others.items():
                if other in spans and not (alone and was_alone):
                    low, high = spans[other]
                    if start < high and low < end:
                        return True
        return False

    for position in order:
        if isinstance(position, Test):
            assert position.region.test is not None
            written, read = {}, dict.fromkeys(memory_of(position.region.test, places), False)
            continue
        kernel = kernels[position]
        alone = not kernel.parallel
        reads, writes = kernel.reads, kernel.writes
        if places:
            reads, writes = (tuple(m for b in buffers for m in memory_of(b, places)) for buffers in (reads, writes))
        if position in given or clash((*reads, *writes), written, alone) or clash(writes, read, alone):
            found.add(position)
            written, read = {}, {}
        written.update((b, alone and written.get(b, True)) for b in writes)
        read.update((b, alone and read.get(b, True)) for b in reads)
    return frozenset(found)


def claimed_kernels(
    kernels: Sequence[Kernel], barriers: frozenset[int], regions: Sequence[Region] = ()
) -> frozenset[int]:
    """Positions of kernels that take long enough for threads to claim their units (`adjoint.codegen.claims`).

    Claims are cleared before the barrier that precedes a kernel; a loop or branch might skip it, or repeat the kernel.
    """
    inside = {p for region in regions for p in range(region.start, region.stop)}
    found = set()
    cleared = False
    for position, kernel in enumerate(kernels):
        if position in barriers:
            cleared = position not in inside
        divisible = kernel.parallel and kernel.until is None and position not in inside
        if cleared and divisible and costs.is_claimed(kernel.flops, kernel.bytes):
            found.add(position)
    return frozenset(found)
