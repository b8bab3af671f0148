"""Dead kernel elimination: kernels whose results nobody reads, such as padding that all readers do without.

Before::

    kernel p: computes %p
      4 units, on one thread; 0 flops, 32 bytes
      reads x f32[4] by 1; writes p f32[4] arena by 1
      for u in 0..4 units:
        p[u] = x[u]

    kernel q: computes %q
      4 units, on one thread; 4 flops, 32 bytes
      reads p f32[4] arena by 1; writes q f32[4] arena by 1
      for u in 0..4 units:
        q[u] = neg(p[u])

    kernel y: computes %y
      4 units, on one thread; 4 flops, 32 bytes
      reads x f32[4] by 1; writes result0 f32[4] by 1
      for u in 0..4 units:
        result0[u] = abs(x[u])

After::

    kernel y: computes %y
      4 units, on one thread; 4 flops, 32 bytes
      reads x f32[4] by 1; writes result0 f32[4] by 1
      for u in 0..4 units:
        result0[u] = abs(x[u])

The graph has no dead values, but a kernel may read what another one of its values is computed from: a depthwise
convolution reads the image, rather than its copy with a border (`adjoint.lower.contractions.depthwise_lanes`).
"""

from collections.abc import Sequence

from adjoint.kernel.ir import Buffer, Kernel

__all__ = ["eliminate_dead_kernels"]


def eliminate_dead_kernels(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels that write results, or what a kernel after them reads, in the same order.

    Kernels are given in an executable order.
    """
    out: list[Kernel] = []
    read: set[Buffer] = set()
    for kernel in reversed(kernels):
        # A kernel that writes nothing is that of an empty result.
        if not kernel.writes or any(buffer.space != "arena" or buffer in read for buffer in kernel.writes):
            out.append(kernel)
            read.update(kernel.reads)
    return out[::-1]
