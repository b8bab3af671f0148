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


def _edges(
    kernels: Sequence[Kernel], updated: frozenset[Buffer], given_up: frozenset[Buffer] = frozenset()
) -> tuple[list[set[int]], list[int]]:
    """Successors of each kernel, and its number of predecessors.

    Updates that are given up add no edges: their new contents will go to buffers that nothing reads.
    """
    writer = {b: i for i, k in enumerate(kernels) for b in k.writes if b not in updated}
    updater = {b: i for i, k in enumerate(kernels) for b in k.writes if b in updated - given_up}
    after: list[set[int]] = [set() for _ in kernels]
    for i, kernel in enumerate(kernels):
        for buffer in kernel.reads:
            if buffer in writer and writer[buffer] != i:
                after[writer[buffer]].add(i)
            if buffer in updater and updater[buffer] != i:
                after[i].add(updater[buffer])
    waits = [0] * len(kernels)
    for successors in after:
        for j in successors:
            waits[j] += 1
    return after, waits


def _sort(
    kernels: Sequence[Kernel], updated: frozenset[Buffer], given_up: frozenset[Buffer] = frozenset()
) -> tuple[list[int], list[int]]:
    """A topological order that follows the given one where it can, and the kernels that are left in cycles."""
    after, waits = _edges(kernels, updated, given_up)
    ready = [i for i, count in enumerate(waits) if count == 0]
    order: list[int] = []
    while ready:
        i = heappop(ready)
        order.append(i)
        for j in after[i]:
            waits[j] -= 1
            if waits[j] == 0:
                heappush(ready, j)
    placed = set(order)
    return order, [i for i in range(len(kernels)) if i not in placed]


def circular_updates(kernels: Sequence[Kernel], updated: frozenset[Buffer]) -> frozenset[Buffer]:
    """In-place updates to give up so that an order exists."""
    given_up: frozenset[Buffer] = frozenset()
    while True:
        _, stuck = _sort(kernels, updated, given_up)
        if not stuck:
            return given_up
        candidates = [b for i in stuck for b in kernels[i].writes if b in updated - given_up]
        given_up |= {min(candidates, key=lambda b: b.nbytes)}


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
    order, stuck = _sort(kernels, updated)
    assert not stuck, "circular updates are given up beforehand"
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
