"""A tensor that one kernel makes for the units of another is made in those units, in cache: an image, padded.

::

    for u in 0..64 units:                                 for u in 0..8 units:
      for l in 0..8192: p[u*8192 + l] = x[u*8192 + l]       for u.1 in 0..8:
    for u in 0..8 units:                              ->      for l in 0..8192:
      for l in 0..65536:                                        p[u.1*8192 + l] = x[u*65536 + u.1*8192 + l]
        s[0] = s[0] + p[u*65536 + l]                        for l in 0..65536: s[0] = s[0] + p[l]
      y[u] = s[0]                                           y[u] = s[0]

What went out to memory and came back stays in the second-level cache, and threads need not meet in between. That is
right where units of the second kernel read parts of their own, units of the first one write parts of those, and nobody
else reads the tensor. It is done where the tensor is larger than a cache and what a unit reads of it is not. If units
asked for the next one's part ahead, they ask for what that is made of.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, For, Kernel, Prefetch, Stmt, When, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.lower.analysis.footprint import accesses, every_index, reads_memory, unit_footprints

__all__ = ["compute_at"]

#: Bytes of a tensor that does not stay in a second-level cache, and of a part that does.
_L2_BYTES, _FOOTPRINT_BYTES = 1024 * 1024, 384 * 1024


def compute_at(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Put kernels into the units of the only ones that read what they make, where it is worth it.

    Kernels are given and returned in an order in which they can run.
    """
    out, position = list(kernels), 0
    while position < len(out):
        producer = out[position]
        readers = [n for n, k in enumerate(out) if n > position and any(b in k.reads for b in producer.writes)]
        made = _computed_at(producer, out[position + 1 : readers[0] + 1]) if len(readers) == 1 else None
        if made is None:
            position += 1
        else:
            out[readers[0]] = made
            del out[position]
    return out


def _computed_at(producer: Kernel, later: Sequence[Kernel]) -> Kernel | None:
    """The last of those kernels with the first one in its units, or None where that cannot be or does not pay."""
    consumer, units = later[-1], later[-1].unit.extent
    if len(producer.writes) != 1 or producer.writes[0].space != "arena" or not consumer.parallel:
        return None
    (buffer,) = producer.writes
    if buffer.nbytes < _L2_BYTES or buffer in consumer.writes or buffer in producer.reads:
        return None
    # What it reads must be the same there.
    if any(b in k.writes for k in later for b in producer.reads):
        return None
    wrote, read = _footprint(producer, buffer), _footprint(consumer, buffer)
    if not wrote or wrote * producer.unit.extent != buffer.size or read * units != buffer.size or read % wrote:
        return None
    if read * buffer.dtype.itemsize > _FOOTPRINT_BYTES:
        return None
    return _with_producer_inside(producer, consumer, buffer, read)


def _footprint(kernel: Kernel, buffer: Buffer) -> int:
    """Elements of a buffer that are a unit's own: ``unit * size + something below size``; 0 where there are none."""
    statements = list(walk(kernel.body))
    if any(reads_memory(index) for index in every_index(statements)):
        return 0
    sizes = set(unit_footprints(kernel.unit, [index for other, index in accesses(statements) if other is buffer]))
    return sizes.pop() if len(sizes) == 1 else 0


def _with_producer_inside(producer: Kernel, consumer: Kernel, buffer: Buffer, part: int) -> Kernel:
    near, unit = Buffer(buffer.name, buffer.dtype, part, "scratch"), consumer.unit
    turn = Var("u", producer.unit.extent // unit.extent)

    def move(other: Buffer, index: Index) -> tuple[Buffer, Index]:
        return (near, index + as_index(unit) * -part) if other is buffer else (other, index)

    at = {producer.unit: as_index(unit) * turn.extent + as_index(turn)}
    making = rewritten(producer.body, index=lambda index: index.substitute(at), move=move)
    using = rewritten(
        _prefetching_sources(consumer.body, _ProducerPrefetch.of(producer, consumer, buffer, part)), move=move
    )
    body = (For(turn, making), *using)
    bare = Kernel(consumer.name, unit, body)
    moved = sum(b.nbytes for b in dict.fromkeys((*bare.reads, *bare.writes)))
    values = (*producer.values, *consumer.values)
    return Kernel(consumer.name, unit, body, values, producer.flops + consumer.flops, moved, consumer.parallel)


@dataclass(frozen=True, slots=True)
class _ProducerPrefetch:
    """What is asked for ahead instead of a buffer: what it is made of, by the next unit.

    `part` elements of the buffer are a unit's own, and so many of each source.
    """

    buffer: Buffer
    unit: Var
    part: int
    sources: tuple[tuple[Buffer, int], ...]

    @classmethod
    def of(cls, producer: Kernel, consumer: Kernel, buffer: Buffer, part: int) -> "_ProducerPrefetch":
        turns = producer.unit.extent // consumer.unit.extent
        parts = [(b, _footprint(producer, b) * turns) for b in producer.reads if b.nbytes >= _L2_BYTES]
        return cls(buffer, consumer.unit, part, tuple((b, size) for b, size in parts if size))

    def replacement(self, prefetch: Prefetch) -> tuple[Stmt, ...]:
        """As many lines of the next unit's part of each source; nothing where a unit asks for more of its own part."""
        rest = prefetch.index + as_index(self.unit) * -self.part
        if rest.low >= 0 and rest.high < self.part:
            return ()
        ahead = as_index(self.unit) + 1
        return tuple(Prefetch(b, prefetch.index + ahead * (size - self.part), False) for b, size in self.sources)


def _prefetching_sources(body: Iterable[Stmt], prefetch: _ProducerPrefetch) -> tuple[Stmt, ...]:
    """Statements that ask for the sources of a buffer, not for it."""
    out: list[Stmt] = []
    for statement in body:
        if isinstance(statement, Prefetch) and statement.buffer is prefetch.buffer:
            out += prefetch.replacement(statement)
        elif isinstance(statement, For):
            inner = _prefetching_sources(statement.body, prefetch)
            if inner:
                out.append(For(statement.var, inner, statement.kind))
        elif isinstance(statement, When):
            then, other = (
                _prefetching_sources(statement.then, prefetch),
                _prefetching_sources(statement.other, prefetch),
            )
            if then or other:
                out.append(When(statement.index, statement.low, statement.high, then, other))
        else:
            out.append(statement)
    return tuple(out)
