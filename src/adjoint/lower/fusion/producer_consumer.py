"""Producer-consumer fusion of consecutive kernels over the same rows: softmax, normalizations, losses, their gradients.

Before::

    kernel m: computes %m
      4 units, on one thread; 16 flops, 80 bytes
      reads x f32[16]; writes m f32[4] arena; registers s f32[1]
      for u in 0..4 units:
        s[0] = -inf
        for l in 0..4:
          s[0] = max(s[0], x[u*4 + l])
        m[u] = s[0]

    kernel y: computes %y
      4 units, on one thread; 16 flops, 144 bytes
      reads x f32[16], m f32[4] arena; writes y f32[16]
      for u in 0..4 units:
        for l in 0..4 vector:
          y[u*4 + l] = sub(x[u*4 + l], m[u])

After::

    kernel y: computes %m, %y
      4 units, on one thread; 32 flops, 144 bytes
      reads x f32[16], m f32[4] arena; writes m f32[4] arena, y f32[16]; registers s f32[1]
      for u in 0..4 units:
        s[0] = -inf
        for l in 0..4:
          s[0] = max(s[0], x[u*4 + l])
        m[u] = s[0]
        for l in 0..4 vector:
          y[u*4 + l] = sub(x[u*4 + l], m[u])

Rows then stay in the first-level cache, and a barrier is saved. This is legal where units are independent: of every
buffer that both kernels use and one writes, each unit uses a part of its own. Long rows are left alone: two kernels
that stream are as fast, and the hardware prefetcher follows one with many operands less well.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Kernel, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.lower.analysis.footprint import accesses, every_index, reads_memory, unit_footprints

__all__ = ["fuse_producers"]


def fuse_producers(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Append each kernel to the one before it, where both walk the same rows.

    Kernels keep their order: moving one up would extend the live ranges of its results.
    """
    out: list[Kernel] = []
    theirs: _Uses | None = None
    for kernel in kernels:
        mine = _Uses.of(kernel)
        if theirs is not None and _fits(out[-1], theirs, kernel, mine):
            out[-1] = _fused(out[-1], kernel)
            theirs = _Uses.of(out[-1])
        else:
            out.append(kernel)
            theirs = mine
    return out


@dataclass(frozen=True, slots=True)
class _Uses:
    """Accesses to buffers that are not private: indices by buffer, and which buffers are written."""

    indices: dict[Buffer, list[Index]]
    reads: frozenset[Buffer]
    writes: frozenset[Buffer]
    statements: int
    plain: bool

    @classmethod
    def of(cls, kernel: Kernel) -> "_Uses":
        indices: dict[Buffer, list[Index]] = {}
        statements = list(walk(kernel.body))
        plain = True
        for buffer, index in accesses(statements):
            indices.setdefault(buffer, []).append(index)
        for index in every_index(statements):
            plain = plain and not reads_memory(index)
        return cls(indices, frozenset(kernel.reads), frozenset(kernel.writes), len(statements), plain)


def _fits(first: Kernel, theirs: _Uses, second: Kernel, mine: _Uses) -> bool:
    """Whether the second kernel reads what the first one writes, and units of both are independent."""
    units = second.unit.extent
    if (
        units < 2
        or first.unit.extent != units
        or not mine.plain
        or theirs.statements + mine.statements > costs.MAX_PRODUCER_STATEMENTS
    ):
        return False
    links = theirs.writes & mine.reads
    if not links or any(b.nbytes > costs.MAX_LINK_BYTES * units for b in links):
        return False
    shared = [b for b in mine.indices if b in theirs.indices and (b in mine.writes or b in theirs.writes)]
    return all(_same_footprint(first.unit, theirs.indices[b], second.unit, mine.indices[b], b) for b in shared)


def _same_footprint(first: Var, theirs: Sequence[Index], second: Var, mine: Sequence[Index], buffer: Buffer) -> bool:
    """Whether all accesses of a buffer agree on a unit's own part, and it is a short one."""
    sizes = {*unit_footprints(first, theirs), *unit_footprints(second, mine)}
    return len(sizes) == 1 and 0 < max(sizes) * buffer.dtype.itemsize <= costs.MAX_ROW_BYTES


def _fused(first: Kernel, second: Kernel) -> Kernel:
    at = {second.unit: as_index(first.unit)}
    body = (*first.body, *rewritten(second.body, index=lambda index: index.substitute(at)))
    bare = Kernel(second.name, first.unit, body)
    moved = sum(b.nbytes for b in dict.fromkeys((*bare.reads, *bare.writes)))
    return Kernel(
        second.name,
        first.unit,
        body,
        (*first.values, *second.values),
        first.flops + second.flops,
        moved,
        first.parallel or second.parallel,
    )
