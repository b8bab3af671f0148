"""Packing: copies of an operand in the order in which register tiles read it, as a whole or panel by panel.

Rows whose distance is a multiple of 4 KiB map to one set of the first-level cache and evict each other; packed side by
side they do not (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008).
"""

from dataclasses import replace
from itertools import chain
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, For, Kernel, Load, Stmt, Store
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, ravel, tiled, unravel, unroll_around, vector_loops

__all__ = ["pack_columns", "pack_left", "pack_panel"]


def pack_left(context: Context, group: Group, plan: GemmPlan) -> tuple[Kernel, Contraction]:
    """Pack the left operand into row panels: ``[batch, block of rows, k, row]``."""
    c = plan.contraction
    m = c.m
    assert m is not None
    batch = tuple(v for v in c.batch if c.left.index.coefficient(v))
    height, blocks = plan.tile.rows, ceil(c.rows / plan.tile.rows)
    packed = Buffer(
        f"{context.name_of(group)}_left", c.dtype, prod(v.extent for v in batch) * blocks * c.depth * height, "arena"
    )
    # Blocks side by side share cache lines and pages.
    together = 1
    if abs(c.left.index.coefficient(m) or 0) == 1:
        together = min(ceil(costs.PACKED_RUN_BYTES / (height * c.left.dtype.itemsize)), blocks)
    runs = ceil(blocks / together)
    unit = Var("u", prod(v.extent for v in batch) * runs)
    run, at = as_index(unit) % runs, unravel(batch, as_index(unit) // runs)
    steps = [Var(v.name, v.extent) for v in c.k]
    k = {v: as_index(s) for v, s in zip(c.k, steps, strict=True)}

    def copy(rows: int, first: Index) -> tuple[Stmt, ...]:
        def block(number: int) -> tuple[Stmt, ...]:
            def body(row: Index, _: Index) -> tuple[Stmt, ...]:
                source = c.element(c.left, {**at, **k, m: first + number * height + row})
                at_block = ravel(batch, at) * blocks + run * together + number
                return (Store(((packed, (at_block * c.depth + ravel(c.k, k)) * height + row, source),)),)

            return vector_loops(min(height, rows - number * height), context.target.lanes(c.dtype), body)

        return nest(steps, tuple(chain.from_iterable(map(block, range(ceil(rows / height))))))

    body = tiled(run, c.rows, together * height, copy)
    kernel = finish_kernel(context, packed.name, group.members[:1], unit, body, 0)
    row = as_index(m)
    where = {v: as_index(v) for v in (*batch, *c.k)}
    index = (ravel(batch, where) * blocks + row // height) * c.depth + ravel(c.k, where)
    return kernel, replace(c, left=Load(packed, index * height + row % height))


def pack_columns(context: Context, group: Group, plan: GemmPlan) -> tuple[Kernel, Contraction]:
    """Pack the right operand into column panels: ``[batch, panel, k, column]``."""
    c = plan.contraction
    batch = tuple(v for v in c.batch if c.right.index.coefficient(v))
    width, panels = plan.columns, ceil(c.columns / plan.columns)
    size = prod(v.extent for v in batch) * panels * c.depth * width
    packed = Buffer(f"{context.name_of(group)}_right", c.dtype, size, "arena")
    unit = Var("u", prod(v.extent for v in batch) * panels)
    panel, at = as_index(unit) % panels, unravel(batch, as_index(unit) // panels)
    steps = [Var(v.name, v.extent) for v in c.k]
    k = {v: as_index(s) for v, s in zip(c.k, steps, strict=True)}

    def copy(columns: int, first: Index) -> tuple[Stmt, ...]:
        def body(column: Index, _: Index) -> tuple[Stmt, ...]:
            source = c.element(c.right, {**at, **k, c.n: first + column})
            place = (as_index(unit) * c.depth + ravel(c.k, k)) * width + column
            return (Store(((packed, place, source),)),)

        return nest(steps, vector_loops(columns, plan.lanes, body))

    body = tiled(panel, c.columns, width, copy)
    kernel = finish_kernel(context, packed.name, group.members[:1], unit, body, 0)
    where = {v: as_index(v) for v in (*batch, *c.k)}
    index = (ravel(batch, where) * panels + as_index(c.n) // width) * c.depth + ravel(c.k, where)
    return kernel, replace(c, right=Load(packed, index * width + as_index(c.n) % width))


def pack_panel(
    plan: GemmPlan,
    at: dict[Var, Index],
    panel: Buffer,
    column: Index,
    columns: int,
    width: int,
    start: Index,
    extent: int,
) -> tuple[Stmt, ...]:
    """Pack columns into scratch memory with contiguous lanes; transposes squares in registers where k is contiguous."""
    c = plan.contraction
    lanes, load, beside = plan.lanes, c.right, Var("beside", plan.wide)
    own, pitch = columns // beside.extent, width // beside.extent

    def copies(k: dict[Var, Index], at_k: Index) -> tuple[Stmt, ...]:
        def body(inside: Index, _: Index) -> tuple[Stmt, ...]:
            where = {**at, **k, c.n: column + as_index(beside) * own + inside}
            place = (as_index(beside) * extent + at_k) * pitch + inside
            return (Store(((panel, place, c.element(load, where)),)),)

        return nest([beside], vector_loops(own, lanes, body))

    if not extent:
        if len(c.k) != 1:
            steps = {v: Var(v.name, v.extent) for v in c.k}
            k = {v: as_index(w) for v, w in steps.items()}
            loop = copies(k, ravel(c.k, k))
            for var in reversed(c.k):
                loop = (For(steps[var], loop),)
            return loop
        extent = c.depth
    (k_var,) = c.k
    transposes = load.index.coefficient(k_var) == 1 and columns >= lanes and lanes > 1
    square = lanes if transposes else 1
    out: list[Stmt] = []
    many, rest = divmod(extent, square)
    if many:
        step, inner = Var("k", many), Var("i", square)
        at_k = as_index(step) * square + as_index(inner)
        body = copies({k_var: start + at_k}, at_k)
        if square > 1:
            body = tuple(unroll_around(inner, statement) for statement in body)
        out.append(For(step, body))
    if rest:
        step = Var("k", rest)
        at_k = as_index(step) + many * square
        out.append(For(step, copies({k_var: start + at_k}, at_k)))
    return tuple(out)
