"""Producer-consumer fusion across loop nests (Halide's `compute_at`): units of the consumer compute what they read.

Padding is an example: the units that convolve an image pad what they read of it. Here, units add up what was copied.

Before::

    kernel p: computes %p
      64 units, shared by threads; 0 flops, 4194304 bytes
      reads x f32[524288] by 8192; writes p f32[524288] arena by 8192
      for u in 0..64 units:
        for l in 0..8192:
          p[u*8192 + l] = x[u*8192 + l]

    kernel y: computes %y
      16 units, shared by threads; 524288 flops, 2097216 bytes
      reads p f32[524288] arena by 32768; writes y f32[16] by 1; registers s f32[1]
      for u in 0..16 units:
        s[0] = 0.0
        for l in 0..32768:
          s[0] = add(s[0], p[u*32768 + l])
        y[u] = s[0]

After::

    kernel y: computes %p, %y
      16 units, shared by threads; 524288 flops, 2097216 bytes
      reads x f32[524288] by 32768; writes y f32[16] by 1; registers s f32[1]; scratch p f32[32768]
      for u in 0..16 units:
        for u.1 in 0..4:
          for l in 0..8192:
            p[u.1*8192 + l] = x[u*32768 + u.1*8192 + l]
        s[0] = 0.0
        for l in 0..32768:
          s[0] = add(s[0], p[l])
        y[u] = s[0]

The tensor in between, ``p``, then stays in the second-level cache, and a barrier is saved. This is legal where each
unit of the consumer reads a part of its own, units of the producer write parts of those, and nothing else reads the
tensor. It is done where the tensor is larger than a cache and the part that a unit reads is not. Where units prefetched
the next unit's part of the tensor, they prefetch the next unit's part of the producer's operands instead. Consecutive
units that read the same part, such as those of one image, become one unit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from adjoint import costs
from adjoint.kernel.index import Index, Quotient, Var, as_index
from adjoint.kernel.ir import Buffer, For, Kernel, Prefetch, Stmt, When, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.footprint import accesses, joint_tiles, with_tiles

__all__ = ["compute_at"]


def compute_at(kernels: Sequence[Kernel], target: Target) -> list[Kernel]:
    """Move producers into the units of their only consumers, where that pays off.

    Kernels are given and returned in an executable order.
    """
    out = list(kernels)
    while True:
        # A producer that several kernels read has one consumer once they are in the same.
        found = _pass(out, target)
        if len(found) == len(out):
            return found
        out = found


def _pass(kernels: Sequence[Kernel], target: Target) -> list[Kernel]:
    """Move each producer that has one consumer, from the first to the last."""
    out, position = list(kernels), 0
    while position < len(out):
        producer = out[position]
        buffer = _moved(producer, target)
        readers = [n for n in range(position + 1, len(out)) if buffer in out[n].reads] if buffer is not None else []
        made = None
        if buffer is not None and len(readers) == 1:
            made = _computed_at(producer, buffer, out[position + 1 : readers[0] + 1], target)
        if made is None:
            position += 1
        else:
            out[readers[0]] = made
            del out[position]
    return out


def _moved(producer: Kernel, target: Target) -> Buffer | None:
    """The only buffer that a producer writes, if moving it into the units of a consumer may pay off."""
    if len(producer.writes) != 1 or producer.writes[0].space != "arena":
        return None
    (buffer,) = producer.writes
    return buffer if buffer.nbytes >= costs.l2_bytes(target) and buffer not in producer.reads else None


def _computed_at(producer: Kernel, buffer: Buffer, later: Sequence[Kernel], target: Target) -> Kernel | None:
    """The last of the later kernels with the producer in its units; None where that is illegal or does not pay off."""
    consumer = later[-1]
    if not consumer.parallel or buffer in consumer.writes:
        return None
    # The producer's operands must be unchanged until there.
    if any(b in k.writes for k in later for b in producer.reads):
        return None
    for apart in (producer, *_grouped(producer, _shared_by(producer, buffer), target)):
        wrote = apart.tile(buffer)
        if not wrote or wrote * apart.unit.extent != buffer.size:
            continue
        sizes = {*_shared_by(consumer, buffer), wrote // max(consumer.tile(buffer), 1)}
        for grouped in (consumer, *_grouped(consumer, sizes, target)):
            read = grouped.tile(buffer)
            whole = read * grouped.unit.extent == buffer.size and read % wrote == 0
            if whole and read * buffer.dtype.itemsize <= costs.unit_part_bytes(target):
                return _with_producer_inside(apart, grouped, buffer, read, target)
    return None


def _shared_by(kernel: Kernel, buffer: Buffer) -> set[int]:
    """Numbers of consecutive units that may access the same part of a buffer."""
    indices = [index for other, index in accesses(list(walk(kernel.body))) if other is buffer]
    atoms = {atom for index in indices for atom, _ in index.terms if isinstance(atom, Quotient)}
    return {atom.by for atom in atoms if atom.of.terms == as_index(kernel.unit).terms}


def _grouped(kernel: Kernel, sizes: Iterable[int], target: Target) -> Iterator[Kernel]:
    """The kernel with so many units in one, as far as enough units are left."""
    for many in sorted(sizes):
        units, rest = divmod(kernel.unit.extent, max(many, 1))
        if many > 1 and not rest and units >= costs.units(target):
            unit, part = Var(kernel.unit.name, units), Var("part", many)
            body = _substituted(kernel.body, {kernel.unit: as_index(unit) * many + as_index(part)})
            yield with_tiles(replace(kernel, unit=unit, body=(For(part, body),)))


def _substituted(body: Iterable[Stmt], at: Mapping[Var, Index]) -> tuple[Stmt, ...]:
    """Statements with other indices in place of variables."""
    return rewritten(body, index=lambda index: index.substitute(at))


def _with_producer_inside(producer: Kernel, consumer: Kernel, buffer: Buffer, part: int, target: Target) -> Kernel:
    near, unit = Buffer(buffer.name, buffer.dtype, part, "scratch"), consumer.unit
    iteration = Var("u", producer.unit.extent // unit.extent)

    def move(other: Buffer, index: Index) -> tuple[Buffer, Index]:
        return (near, index + as_index(unit) * -part) if other is buffer else (other, index)

    at = {producer.unit: as_index(unit) * iteration.extent + as_index(iteration)}
    produce = rewritten(_substituted(producer.body, at), move=move)
    consume = rewritten(
        _prefetching_sources(consumer.body, _ProducerPrefetch.of(producer, consumer, buffer, part, target)), move=move
    )
    body = (For(iteration, produce), *consume)
    bare = Kernel(consumer.name, unit, body)
    moved = sum(b.nbytes for b in dict.fromkeys((*bare.reads, *bare.writes)))
    values = (*producer.values, *consumer.values)
    tiles = joint_tiles((producer, consumer), (iteration.extent, 1))
    return Kernel(
        consumer.name,
        unit,
        body,
        values,
        producer.flops + consumer.flops,
        moved,
        consumer.parallel,
        tuple((b, size) for b, size in tiles if b is not buffer),
    )


@dataclass(frozen=True, slots=True)
class _ProducerPrefetch:
    """Prefetches of what a buffer is computed from, by the next unit, in place of prefetches of the buffer.

    `part` elements of the buffer are a unit's own, and so many of each source.
    """

    buffer: Buffer
    unit: Var
    part: int
    sources: tuple[tuple[Buffer, int], ...]

    @classmethod
    def of(cls, producer: Kernel, consumer: Kernel, buffer: Buffer, part: int, target: Target) -> "_ProducerPrefetch":
        iterations = producer.unit.extent // consumer.unit.extent
        parts = [(b, producer.tile(b) * iterations) for b in producer.reads if b.nbytes >= costs.l2_bytes(target)]
        return cls(buffer, consumer.unit, part, tuple((b, size) for b, size in parts if size))

    def replacement(self, prefetch: Prefetch) -> tuple[Stmt, ...]:
        """As many lines of the next unit's part of each source; nothing for prefetches within a unit's own part."""
        rest = prefetch.index + as_index(self.unit) * -self.part
        if rest.low >= 0 and rest.high < self.part:
            return ()
        ahead = as_index(self.unit) + 1
        return tuple(Prefetch(b, prefetch.index + ahead * (size - self.part), False) for b, size in self.sources)


def _prefetching_sources(body: Iterable[Stmt], prefetch: _ProducerPrefetch) -> tuple[Stmt, ...]:
    """Statements that prefetch the sources of a buffer in place of the buffer."""
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
