"""Serialization of small programs: threads share none of the kernels, if waking them would take longer than it saves.

Before::

    kernel y: computes %y
      16 units, shared by threads; 16384 flops, 65536 bytes
      reads x f32[8192] by 512; writes result0 f32[8192] by 512
      for u in 0..16 units:
        for i in 0..32:
          for l in 0..16 vector:
            result0[u*512 + i*16 + l] = neg(x[u*512 + i*16 + l])

After::

    kernel y: computes %y
      16 units, on one thread; 16384 flops, 65536 bytes
      reads x f32[8192] by 512; writes result0 f32[8192] by 512
      for u in 0..16 units:
        for i in 0..32:
          for l in 0..16 vector:
            result0[u*512 + i*16 + l] = neg(x[u*512 + i*16 + l])

Whether a kernel is worth a barrier depends on that kernel; whether other threads take part in a step at all, on all of
them. A program with loops or branches stays as it is, because its kernels may run many times.
"""

from collections.abc import Sequence
from dataclasses import replace

from adjoint import costs
from adjoint.kernel.ir import Kernel
from adjoint.kernel.regions import Nested
from adjoint.kernel.target import Target

__all__ = ["serialize_small"]


def serialize_small(kernels: Sequence[Kernel], target: Target) -> list[Kernel]:
    """The kernels of a whole program, on one thread if all of them together are too short to share."""
    if any(isinstance(kernel, Nested) for kernel in kernels):
        return list(kernels)
    flops, moved = sum(kernel.flops for kernel in kernels), sum(kernel.bytes for kernel in kernels)
    if costs.is_launched(flops, moved, target):
        return list(kernels)
    return [replace(kernel, parallel=False) for kernel in kernels]
