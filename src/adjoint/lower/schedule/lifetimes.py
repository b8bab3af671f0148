"""An order of kernels in which less memory is live at once, for a memory budget that the usual order exceeds.

Kernels on which nothing waits for long run early in the usual order, which follows the stages of the graph: what they
write then occupies memory until the backward pass reads it. Moving such a kernel to just before its first reader, or a
last reader to before the peak, costs nothing but locality: the kernels stay the same, and so do the results.

Legal where dependences are respected: reads after writes, writes after reads, and writes after writes.

Before::

    kernel a: computes %a
      8 units, on one thread; 8 flops, 64 bytes
      reads x f32[8] by 1; writes a f32[8] arena by 1
      for u in 0..8 units:
        a[u] = neg(x[u])

    kernel b: computes %b
      8 units, on one thread; 8 flops, 64 bytes
      reads x f32[8] by 1; writes b f32[8] arena by 1
      for u in 0..8 units:
        b[u] = abs(x[u])

    kernel c: computes %c
      8 units, on one thread; 8 flops, 64 bytes
      reads b f32[8] arena by 1; writes c f32[8] arena by 1
      for u in 0..8 units:
        c[u] = neg(b[u])

    kernel y: computes %y
      8 units, on one thread; 8 flops, 96 bytes
      reads a f32[8] arena by 1, c f32[8] arena by 1; writes result0 f32[8] by 1
      for u in 0..8 units:
        result0[u] = add(a[u], c[u])

After::

    kernel b: computes %b
      8 units, on one thread; 8 flops, 64 bytes
      reads x f32[8] by 1; writes b f32[8] arena by 1
      for u in 0..8 units:
        b[u] = abs(x[u])

    kernel c: computes %c
      8 units, on one thread; 8 flops, 64 bytes
      reads b f32[8] arena by 1; writes c f32[8] arena by 1
      for u in 0..8 units:
        c[u] = neg(b[u])

    kernel a: computes %a
      8 units, on one thread; 8 flops, 64 bytes
      reads x f32[8] by 1; writes a f32[8] arena by 1
      for u in 0..8 units:
        a[u] = neg(x[u])

    kernel y: computes %y
      8 units, on one thread; 8 flops, 96 bytes
      reads a f32[8] arena by 1, c f32[8] arena by 1; writes result0 f32[8] by 1
      for u in 0..8 units:
        result0[u] = add(a[u], c[u])
"""

from collections.abc import Iterator, Sequence

from adjoint.kernel.ir import Buffer, Kernel

__all__ = ["live_bytes", "shorten_lifetimes"]


def shorten_lifetimes(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels in an order whose peak of live bytes is at most that of the given one.

    One kernel at a time is moved from one side of the peak to the other, as long as this lowers the peak, or with equal
    peaks the next highest number of live bytes.
    """
    after = _dependences(kernels)
    touched = [frozenset(b for b in (*k.reads, *k.writes) if b.space == "arena") for k in kernels]
    order = list(range(len(kernels)))
    live = _live([touched[i] for i in order])
    while True:
        orders = _moves(order, live, touched, after)
        tried = [(sorted(_live([touched[i] for i in new]), reverse=True), new) for new in orders]
        best = min(tried, default=None)
        if best is None or best[0] >= sorted(live, reverse=True):
            return [kernels[i] for i in order]
        order = best[1]
        live = _live([touched[i] for i in order])


def live_bytes(kernels: Sequence[Kernel]) -> list[int]:
    """Number of arena bytes that are live while each kernel runs."""
    return _live([frozenset(b for b in (*k.reads, *k.writes) if b.space == "arena") for k in kernels])


def _moves(
    order: Sequence[int], live: Sequence[int], touched: Sequence[frozenset[Buffer]], after: Sequence[frozenset[int]]
) -> Iterator[list[int]]:
    """Orders in which one kernel has moved to the other side of the peak, or away from the peak if it was there."""
    peak = live.index(max(live, default=0)) if live else 0
    place = {kernel: position for position, kernel in enumerate(order)}
    before: list[list[int]] = [[] for _ in order]
    for kernel, later in enumerate(after):
        for other in later:
            before[other].append(kernel)
    for position, kernel in enumerate(order):
        if not touched[kernel]:
            continue
        latest = min((place[k] for k in after[kernel]), default=len(order)) - 1
        earliest = max((place[k] for k in before[kernel]), default=-1) + 1
        if position <= peak <= latest and position < latest:
            yield [*order[:position], *order[position + 1 : latest + 1], kernel, *order[latest + 1 :]]
        to = earliest if position == peak else peak
        if position >= peak >= earliest and to < position:
            yield [*order[:to], kernel, *order[to:position], *order[position + 1 :]]


def _live(touched: Sequence[frozenset[Buffer]]) -> list[int]:
    """Bytes that are live at each position, from the first to the last kernel that touches them."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for position, buffers in enumerate(touched):
        for buffer in buffers:
            first.setdefault(buffer, position)
            last[buffer] = position
    change = [0] * (len(touched) + 1)
    for buffer, position in first.items():
        change[position] += buffer.nbytes
        change[last[buffer] + 1] -= buffer.nbytes
    total, live = 0, []
    for amount in change[: len(touched)]:
        total += amount
        live.append(total)
    return live


def _dependences(kernels: Sequence[Kernel]) -> list[frozenset[int]]:
    """For each kernel, those that must stay behind it."""
    after: list[set[int]] = [set() for _ in kernels]
    writer: dict[Buffer, int] = {}
    readers: dict[Buffer, list[int]] = {}
    for position, kernel in enumerate(kernels):
        for buffer in kernel.reads:
            if buffer in writer:
                after[writer[buffer]].add(position)
        for buffer in kernel.writes:
            for earlier in (*readers.get(buffer, ()), *((writer[buffer],) if buffer in writer else ())):
                after[earlier].add(position)
            writer[buffer] = position
            readers[buffer] = []
        for buffer in kernel.reads:
            readers.setdefault(buffer, []).append(position)
    return [frozenset(later - {position}) for position, later in enumerate(after)]
