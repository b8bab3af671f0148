"""Producer-consumer fusion of consecutive kernels over the same rows: softmax, normalizations, losses, their gradients.

Before::

    kernel m: computes %m
      4 units, on one thread; 16 flops, 80 bytes
      reads x f32[16] by 4; writes m f32[4] arena by 1; registers s f32[1]
      for u in 0..4 units:
        s[0] = -inf
        for l in 0..4:
          s[0] = max(s[0], x[u*4 + l])
        m[u] = s[0]

    kernel y: computes %y
      4 units, on one thread; 16 flops, 144 bytes
      reads x f32[16] by 4, m f32[4] arena by 1; writes y f32[16] by 4
      for u in 0..4 units:
        for l in 0..4 vector:
          y[u*4 + l] = sub(x[u*4 + l], m[u])

After::

    kernel y: computes %m, %y
      4 units, on one thread; 32 flops, 144 bytes
      reads x f32[16] by 4, m f32[4] arena by 1; writes m f32[4] arena by 1, y f32[16] by 4; registers s f32[1]
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

from adjoint import costs
from adjoint.kernel.index import as_index
from adjoint.kernel.ir import Kernel, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.lower.analysis.footprint import joint_tiles

__all__ = ["fuse_producers"]


def fuse_producers(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Append each kernel to the one before it, where both walk the same rows.

    Kernels keep their order: moving one up would extend the live ranges of its results.
    """
    out: list[Kernel] = []
    sizes: list[int] = []
    for kernel in kernels:
        statements = sum(1 for _ in walk(kernel.body))
        if out and sizes[-1] + statements <= costs.MAX_PRODUCER_STATEMENTS and _fits(out[-1], kernel):
            out[-1] = _fused(out[-1], kernel)
            sizes[-1] += statements
        else:
            out.append(kernel)
            sizes.append(statements)
    return out


def _fits(first: Kernel, second: Kernel) -> bool:
    """Whether the second kernel reads what the first one writes, and units of both are independent."""
    units = second.unit.extent
    links = set(first.writes) & set(second.reads)
    if units < 2 or first.unit.extent != units or not links:
        return False
    if any(b.nbytes > costs.MAX_LINK_BYTES * units for b in links):
        return False
    written = {*first.writes, *second.writes}
    shared = {*first.reads, *first.writes} & {*second.reads, *second.writes} & written
    return all(
        0 < first.tile(b) * b.dtype.itemsize <= costs.MAX_ROW_BYTES and first.tile(b) == second.tile(b) for b in shared
    )


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
        joint_tiles((first, second), (1, 1)),
    )
