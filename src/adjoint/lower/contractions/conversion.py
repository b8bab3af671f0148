"""Operands of 16 bits, which are computed with in float32: converted where they are loaded, or beforehand as a whole.

A conversion where an element is loaded is repeated at each use, in the innermost loop, where it competes with
multiply-adds. It is free of other costs, so it suits operands that are used once or are packed anyway. An operand that
is used many times in place is converted beforehand, by a kernel of its own, to float32 elements in the same order::

    for u in 0..64 units:
      for v in 0..64:
        for l in 0..16 vector:
          left[u*1024 + v*16 + l] = cast(x[u*1024 + v*16 + l])
"""

from dataclasses import replace

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Kernel, Load, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lower.analysis.inlining import compute_dtype
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.contractions.contraction import Contraction, in_arithmetic
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import tiled, vector_loops

__all__ = ["beforehand_cycles", "convert_operand", "convert_operands", "element_cycles", "packing_cycles"]


def beforehand_cycles(target: Target, load: Load) -> float:
    """Cycles to convert an operand beforehand; 0 for one that needs no conversion."""
    dtype = compute_dtype(load.dtype)
    if load.dtype == dtype:
        return 0.0
    return costs.conversion_cycles(target, _span(load), target.lanes(dtype), load.dtype.itemsize + dtype.itemsize)


def element_cycles(load: Load) -> float:
    """Cycles to convert an element that is loaded by itself, to be broadcast; 0 for an operand of 32 bits or more."""
    return costs.CONVERT_ELEMENT_CYCLES.get(load.dtype.name, 0.0)


def packing_cycles(load: Load, lanes: int) -> float:
    """Cycles per element that an operand's conversion adds to packing it; 0 for one that needs no conversion."""
    return 0.0 if load.dtype == compute_dtype(load.dtype) else costs.CONVERT_CYCLES / lanes


def convert_operand(context: Context, group: Group, load: Load, role: str) -> tuple[Kernel, Load]:
    """The kernel that converts what an operand reads of its buffer, and the operand in terms of the result."""
    dtype, size, first = compute_dtype(load.dtype), _span(load), load.index.low
    converted = Buffer(f"{context.name_of(group)}_{role}", dtype, size, "arena")
    lanes = context.target.lanes(dtype)
    chunk = costs.COPY_VECTORS * lanes
    unit = Var("u", -(-size // chunk))

    def convert(count: int, start: Index) -> tuple[Stmt, ...]:
        def body(at: Index, _: Index) -> tuple[Stmt, ...]:
            return (Store(((converted, at, in_arithmetic(Load(load.buffer, at + first))),)),)

        return vector_loops(count, lanes, body, start)

    body = tiled(as_index(unit), size, chunk, convert)
    kernel = finish_kernel(context, converted.name, group.members[:1], unit, body, 0)
    return kernel, Load(converted, load.index - first)


def convert_operands(
    context: Context, group: Group, c: Contraction, left: bool, right: bool
) -> tuple[list[Kernel], Contraction]:
    """The kernels that convert the operands that are to be converted, and the contraction of the results."""
    kernels = []
    if left:
        kernel, converted = convert_operand(context, group, c.left, "left")
        kernels.append(kernel)
        c = replace(c, left=converted)
    if right:
        kernel, converted = convert_operand(context, group, c.right, "right")
        kernels.append(kernel)
        c = replace(c, right=converted)
    return kernels, c


def _span(load: Load) -> int:
    """Elements from the first to the last that an operand reads."""
    return load.index.high - load.index.low + 1
