"""Kernels of groups without a root: every point of the iteration space on its own, in vectors."""

from collections.abc import Callable, Sequence
from math import prod

from adjoint.kernel.index import Index, Var, as_index, unflatten
from adjoint.kernel.ir import Kernel, Stmt, Store, When
from adjoint.lower.emit import (
    Context,
    axes_index,
    collapse,
    finish,
    group_puller,
    indices_of,
    stores,
    vector_loops,
    work_of,
)
from adjoint.lower.fuse import Group
from adjoint.lower.pull import output_vars

__all__ = ["map_kernel", "points_kernel"]

#: Vectors of the innermost axis in a unit of work, where the axis is longer.
_VECTORS_PER_UNIT = 32


def map_kernel(context: Context, group: Group) -> Kernel:
    """The kernel of an elementwise group."""

    def point(index: tuple[Index, ...]) -> Store:
        return stores(context, group, group_puller(context, group), index)

    return points_kernel(context, group, output_vars(group.shape), point)


def points_kernel(
    context: Context, group: Group, vars_: Sequence[Var], point: Callable[[tuple[Index, ...]], Store]
) -> Kernel:
    """The kernel that does `point` at every place of some axes, given outermost first.

    Neighbouring axes that all operands walk alike become one; the innermost is cut in vectors.
    """
    probe = point(tuple(as_index(v) for v in vars_))
    runs = collapse(vars_, indices_of([probe])) if vars_ else [[]]
    extents = [prod(v.extent for v in run) for run in runs]
    width = extents[-1]
    lanes = max(context.target.lanes(b.dtype) for b, _, _ in probe.targets)
    lanes = min(lanes, max(context.target.vector_bytes // 4, 1))
    chunk = width if width <= 2 * _VECTORS_PER_UNIT * lanes else _VECTORS_PER_UNIT * lanes
    chunks = -(-width // chunk) if width else 0
    rows = prod(extents[:-1])
    unit = Var("u", rows * chunks)
    outer = as_index(unit) // max(chunks, 1)
    piece = as_index(unit) % max(chunks, 1)
    outer_at = unflatten(outer, extents[:-1])

    def vector(inner: Index, _: Index) -> tuple[Stmt, ...]:
        return (point(axes_index(runs, (*outer_at, inner)) if vars_ else ()),)

    body = vector_loops(chunk, lanes, vector, piece * chunk)
    if width % max(chunk, 1):
        last = vector_loops(width % chunk, lanes, vector, (chunks - 1) * chunk)
        body = (When(piece, 0, chunks - 1, body, last),)
    return finish(context, context.name_of(group), group.members, unit, body, work_of(probe, rows * width))
