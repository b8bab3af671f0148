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

A kernel may move up to its producer past a few others, such as an optimizer's update of a gain, whose gradient the
producer has begun to add up. Its operands then die as much earlier as its results live longer.
"""

from collections.abc import Iterator, Sequence

from adjoint import costs
from adjoint.kernel.index import as_index
from adjoint.kernel.ir import Kernel, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.lower.analysis.footprint import joint_tiles

__all__ = ["fuse_producers"]


def fuse_producers(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Append each kernel to its producer, where both walk the same rows and little lies between them."""
    out: list[Kernel] = []
    sizes: list[int] = []
    for kernel in kernels:
        statements = sum(1 for _ in walk(kernel.body))
        for position in _movable_to(out, kernel):
            if sizes[position] + statements <= costs.MAX_PRODUCER_STATEMENTS and _fits(out[position], kernel):
                out[position] = _fused(out[position], kernel)
                sizes[position] += statements
                break
        else:
            out.append(kernel)
            sizes.append(statements)
    return out


def _movable_to(before: Sequence[Kernel], kernel: Kernel) -> Iterator[int]:
    """Positions of the kernels after which a kernel could run, the last first."""
    for position in range(len(before) - 1, max(len(before) - 2 - costs.MAX_PASSED_KERNELS, -1), -1):
        yield position
        passed = before[position]
        if {*passed.writes} & {*kernel.reads, *kernel.writes} or {*kernel.writes} & {*passed.reads}:
            return


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
