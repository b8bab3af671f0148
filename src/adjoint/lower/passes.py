"""The kernel passes in order, each from a list of kernels to a list of kernels.

::

    order_kernels           an executable order that respects dependences
    eliminate_dead_kernels  only those whose results are read
    compute_at              a producer computed in the units of its only consumer
    fuse_horizontally       neighbors over the same loops share their loads
    fuse_producers          neighbors over the same rows become one kernel
    unroll_and_jam          several short rows per unit
    serialize_small         a program too short for several threads stays on one
    coalesce_serial         runs of small single-threaded kernels become one kernel
    name_kernels            names that no two kernels share
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.fusion.compute_at import compute_at
from adjoint.lower.fusion.horizontal import fuse_horizontally
from adjoint.lower.fusion.producer_consumer import fuse_producers
from adjoint.lower.schedule.coalescing import coalesce_serial
from adjoint.lower.schedule.dead_kernels import eliminate_dead_kernels
from adjoint.lower.schedule.order import order_kernels
from adjoint.lower.schedule.serialize_small import serialize_small
from adjoint.lower.schedule.unroll_and_jam import unroll_and_jam

__all__ = ["KERNEL_PASSES", "PassContext", "name_kernels"]


@dataclass(frozen=True, slots=True)
class PassContext:
    """What kernel passes know besides the kernels.

    Parameters
    ----------
    target : Target
        The CPU.
    updated : frozenset of Buffer
        The buffers of parameters that are updated in place.
    whole : bool
        Whether the kernels are a whole program, rather than the body of a loop or branch.
    """

    target: Target
    updated: frozenset[Buffer]
    whole: bool = True


def name_kernels(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels with unique names: a number is appended to a name that an earlier kernel has.

    Before::

        kernel y: computes %1
          4 units, on one thread; 4 flops, 32 bytes
          reads x f32[4] by 1; writes y f32[4] by 1
          for u in 0..4 units:
            y[u] = neg(x[u])

        kernel y: computes %2
          4 units, on one thread; 4 flops, 32 bytes
          reads x f32[4] by 1; writes z f32[4] by 1
          for u in 0..4 units:
            z[u] = abs(x[u])

    After::

        kernel y: computes %1
          4 units, on one thread; 4 flops, 32 bytes
          reads x f32[4] by 1; writes y f32[4] by 1
          for u in 0..4 units:
            y[u] = neg(x[u])

        kernel y_1: computes %2
          4 units, on one thread; 4 flops, 32 bytes
          reads x f32[4] by 1; writes z f32[4] by 1
          for u in 0..4 units:
            z[u] = abs(x[u])
    """
    seen: dict[str, int] = {}
    out = []
    for kernel in kernels:
        count = seen.get(kernel.name, 0)
        seen[kernel.name] = count + 1
        out.append(replace(kernel, name=f"{kernel.name}_{count}") if count else kernel)
    return out


#: Kernel passes by name, in order.
KERNEL_PASSES: dict[str, Callable[[Sequence[Kernel], PassContext], list[Kernel]]] = {
    "order_kernels": lambda kernels, context: order_kernels(kernels, context.updated),
    "eliminate_dead_kernels": lambda kernels, _: eliminate_dead_kernels(kernels),
    "compute_at": lambda kernels, context: compute_at(kernels, context.target),
    "fuse_horizontally": lambda kernels, context: fuse_horizontally(kernels, context.target),
    "fuse_producers": lambda kernels, _: fuse_producers(kernels),
    "unroll_and_jam": lambda kernels, context: [unroll_and_jam(kernel, context.target) for kernel in kernels],
    "serialize_small": lambda kernels, context: (
        serialize_small(kernels, context.target) if context.whole else list(kernels)
    ),
    "coalesce_serial": lambda kernels, context: coalesce_serial(kernels, context.updated),
    "name_kernels": lambda kernels, _: name_kernels(kernels),
}
