"""Memory planning: the arena is one block of memory, in which buffers with disjoint live ranges share places.

Before::

    kernel y: computes %a, %y
      4 units, shared by threads; 8 flops, 64 bytes
      reads x f32[4] by 1, a f32[4] arena by 1; writes a f32[4] arena by 1, y f32[4] by 1
      for u in 0..4 units:
        a[u] = neg(x[u])
        y[u] = abs(a[u])

    kernel z: computes %b, %z
      4 units, shared by threads; 8 flops, 64 bytes
      reads x f32[4] by 1, b f32[4] arena by 1; writes b f32[4] arena by 1, z f32[4] by 1
      for u in 0..4 units:
        b[u] = abs(x[u])
        z[u] = neg(b[u])

After::

    program main
      slot 0: x f32[4]
      slot 1: y f32[4]
      slot 2: z f32[4]
      arena at 0: a f32[4] arena
      arena at 0: b f32[4] arena
      arena of 64 bytes; 0 bytes of scratch for each thread
      barriers before: z
"""

from collections.abc import Mapping, Sequence

from adjoint import costs
from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.program import ALIGNMENT
from adjoint.kernel.regions import Region, memory_of, places_of

__all__ = ["plan_arena"]


def plan_arena(
    kernels: Sequence[Kernel], thorough: bool = False, regions: Sequence[Region] = ()
) -> tuple[dict[Buffer, int], int, int]:
    """Offsets of arena buffers, the size of the arena, and the peak of live bytes, a lower bound of it.

    First fit, largest first: each buffer goes to the lowest offset that is free during its whole live range. With
    `thorough`, other orders are tried too, and the smallest arena is taken.

    What a region accesses of the outside lives as long as the region; buffers of its own die in each iteration.
    """
    lives = _live_ranges(kernels, regions)
    orders = [sorted(lives, key=lambda b: (-b.nbytes, lives[b]))]
    if thorough:
        length = {b: last - first + 1 for b, (first, last) in lives.items()}
        orders.append(sorted(lives, key=lambda b: (-length[b], -b.nbytes, lives[b])))
        orders.append(sorted(lives, key=lambda b: (-length[b] * b.nbytes, lives[b])))
    return min((_first_fit(order, lives) for order in orders), key=lambda plan: plan[1])


def _live_ranges(kernels: Sequence[Kernel], regions: Sequence[Region]) -> dict[Buffer, tuple[int, int]]:
    """The first and the last position at which each arena buffer is needed."""
    places = places_of(regions)
    lives: dict[Buffer, tuple[int, int]] = {}

    def touch(buffer: Buffer, start: int, end: int) -> None:
        for memory in memory_of(buffer, places) if places else (buffer,):
            if memory.space == "arena":
                first, last = lives.get(memory, (start, end))
                lives[memory] = (min(first, start), max(last, end))

    for position, kernel in enumerate(kernels):
        for buffer in (*kernel.writes, *kernel.reads):
            touch(buffer, position, position)
    for region in regions:
        for buffer in region.held():
            touch(buffer, region.start, region.stop - 1)
    return lives


def _first_fit(order: Sequence[Buffer], lives: Mapping[Buffer, tuple[int, int]]) -> tuple[dict[Buffer, int], int, int]:
    """Offsets of buffers that are placed in an order, the end of the last, and the peak of live bytes."""
    placed: list[tuple[int, int, int, int]] = []  # start, end, first, last
    offsets: dict[Buffer, int] = {}
    for buffer in order:
        size = -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT + (
            costs.STAGGER_LINES * ALIGNMENT if buffer.nbytes >= costs.STAGGERED_BYTES else 0
        )
        born, dies = lives[buffer]
        start = 0
        for low, high, theirs, their_end in sorted(placed):
            if their_end < born or dies < theirs:
                continue
            if start + size <= low:
                break
            start = max(start, high)
        offsets[buffer] = start
        placed.append((start, start + size, born, dies))
    total = max((end for _, end, _, _ in placed), default=0)
    return offsets, total, _most_live(placed)


def _most_live(placed: Sequence[tuple[int, int, int, int]]) -> int:
    change: dict[int, int] = {}
    for start, end, born, dies in placed:
        change[born] = change.get(born, 0) + end - start
        change[dies + 1] = change.get(dies + 1, 0) - (end - start)
    live = most = 0
    for position in sorted(change):
        live += change[position]
        most = max(most, live)
    return most
