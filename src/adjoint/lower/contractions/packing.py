"""Packing: copies of an operand in the order in which register tiles read it, as a whole or panel by panel.

Rows whose distance is a multiple of 4 KiB map to one set of the first-level cache and evict each other; packed side by
side they do not (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008).
"""

from dataclasses import replace
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, For, Kernel, Load, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.contractions.contraction import Contraction, in_arithmetic, transposed_along, transposed_run
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, pieces, ravel, tiled, unravel, unroll_around, vector_loops

__all__ = ["pack_along", "pack_columns", "pack_left", "pack_panel"]


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
    # A unit copies a block of rows; or, where the rows of a step lie side by side, a few steps of all blocks.
    streams = len(c.k) == 1 and abs(c.left.index.coefficient(m) or 0) == 1
    parts = ceil(c.depth / costs.PACKED_STEPS) if streams else blocks
    unit = Var("u", prod(v.extent for v in batch) * parts)
    piece, at = as_index(unit) % parts, unravel(batch, as_index(unit) // parts)

    def copy(rows: int, block: Index, k: dict[Var, Index]) -> tuple[Stmt, ...]:
        def body(row: Index, _: Index) -> tuple[Stmt, ...]:
            source = c.element(c.left, {**at, **k, m: block * height + row})
            place = (ravel(batch, at) * blocks + block) * c.depth + ravel(c.k, k)
            return (Store(((packed, place * height + row, source),)),)

        return vector_loops(rows, context.target.lanes(c.dtype), body)

    def one_block(rows: int, _: Index) -> tuple[Stmt, ...]:
        steps = [Var(v.name, v.extent) for v in c.k]
        return nest(steps, copy(rows, piece, {v: as_index(s) for v, s in zip(c.k, steps, strict=True)}))

    def some_steps(count: int, first: Index) -> tuple[Stmt, ...]:
        (whole, rest), step = divmod(c.rows, height), Var(c.k[0].name, count)
        block, k = Var("block", whole), {c.k[0]: first + as_index(step)}
        loops = nest([block, step], copy(height, as_index(block), k)) if whole else ()
        return (*loops, *nest([step], copy(rest, as_index(whole), k))) if rest else loops

    body = tiled(piece, c.depth, costs.PACKED_STEPS, some_steps) if streams else tiled(piece, c.rows, height, one_block)
    kernel = finish_kernel(context, packed.name, group.members[:1], unit, body, 0)
    row = as_index(m)
    where = {v: as_index(v) for v in (*batch, *c.k)}
    index = (ravel(batch, where) * blocks + row // height) * c.depth + ravel(c.k, where)
    return kernel, replace(c, left=Load(packed, index * height + row % height))


def pack_columns(context: Context, group: Group, plan: GemmPlan) -> tuple[Kernel, Contraction]:
    """Pack the right operand into column panels: ``[batch, panel, k, column]``.

    A unit packs a panel; or a part of one, along the outermost axis of k, if there are too few of them.
    """
    c = plan.contraction
    batch = tuple(v for v in c.batch if c.right.index.coefficient(v))
    width, panels = plan.columns, ceil(c.columns / plan.columns)
    number = prod(v.extent for v in batch) * panels
    packed = Buffer(f"{context.name_of(group)}_right", c.dtype, number * c.depth * width, "arena")
    part, inner = _packed_part(context.target, plan, number), prod(v.extent for v in c.k[1:])
    parts = ceil(c.k[0].extent / part) if part else 1
    unit = Var("u", number * parts)
    whole, piece = as_index(unit) // parts, as_index(unit) % parts
    panel, at = whole % panels, unravel(batch, whole // panels)

    def copy(columns: int, first: Index) -> tuple[Stmt, ...]:
        def some(steps: int, start: Index) -> tuple[Stmt, ...]:
            place = (whole * c.depth + start * inner) * width
            return pack_panel(plan, at, packed, first, columns, width, start, steps, place)

        if part:
            return tiled(piece, c.k[0].extent, part, some)
        return pack_panel(plan, at, packed, first, columns, width, as_index(0), 0, whole * (c.depth * width))

    kernel = finish_kernel(context, packed.name, group.members[:1], unit, tiled(panel, c.columns, width, copy), 0)
    where = {v: as_index(v) for v in (*batch, *c.k)}
    index = (ravel(batch, where) * panels + as_index(c.n) // width) * c.depth + ravel(c.k, where)
    return kernel, replace(c, right=Load(packed, index * width + as_index(c.n) % width))


def _packed_part(target: Target, plan: GemmPlan, panels: int) -> int:
    """Steps of the outermost axis of k that a unit packs of so many panels; 0 for all."""
    c, fewest = plan.contraction, costs.least_units(target)
    if not c.k or panels >= fewest or target.cores == 1:
        return 0
    # Squares are transposed along runs of steps: a part has several of them.
    least = ceil(costs.TRANSPOSED_SQUARES * plan.lanes / prod(v.extent for v in c.k[1:]))
    part = max(ceil(c.k[0].extent / ceil(fewest / panels)), least)
    return part if part < c.k[0].extent else 0


def pack_along(context: Context, group: Group, c: Contraction, load: Load, role: str) -> tuple[Kernel, Load]:
    """The kernel that copies an operand of a plain product so that it is contiguous along k, and the copy.

    Squares are transposed in registers, if the operand has another axis along which it is contiguous: a unit copies a
    few squares along k. Otherwise it copies a row.
    """
    (k,), lanes = c.k, context.target.lanes(c.dtype)
    own = tuple(v for v in c.axes if load.index.coefficient(v))
    packed = Buffer(f"{context.name_of(group)}_{role}", c.dtype, prod(v.extent for v in own) * k.extent, "arena")
    beside = transposed_along(load, own, k)
    height, width = (lanes, costs.TRANSPOSED_SQUARES * lanes) if beside is not None else (1, k.extent)
    blocks = tuple(Var(v.name, ceil(v.extent / height)) if v is beside else v for v in own)
    axes = (*blocks, Var("piece", ceil(k.extent / width)))
    unit = Var("u", prod(v.extent for v in axes))
    at = unravel(axes, as_index(unit))
    piece, corner = at.pop(axes[-1]), {v: at[block] for v, block in zip(own, blocks, strict=True)}

    def copy(spot: dict[Var, Index], steps: int, first: Index) -> tuple[Stmt, ...]:
        def body(step: Index, _: Index) -> tuple[Stmt, ...]:
            place = ravel(own, spot) * k.extent + first + step
            return (Store(((packed, place, c.element(load, {**spot, k: first + step})),)),)

        return vector_loops(steps, lanes, body)

    def rows(count: int, row: Index) -> tuple[Stmt, ...]:
        inner = Var("i", count)
        spot = corner if beside is None else {**corner, beside: row + as_index(inner)}

        def some(steps: int, first: Index) -> tuple[Stmt, ...]:
            loops = copy(spot, steps, first)
            return loops if beside is None else tuple(unroll_around(inner, statement) for statement in loops)

        return tiled(piece, k.extent, width, some)

    body = rows(1, as_index(0)) if beside is None else tiled(corner[beside], beside.extent, height, rows)
    kernel = finish_kernel(context, packed.name, group.members[:1], unit, body, 0)
    place = ravel(own, {v: as_index(v) for v in own})
    return kernel, Load(packed, place * k.extent + as_index(k))


def pack_panel(
    plan: GemmPlan,
    at: dict[Var, Index],
    panel: Buffer,
    column: Index,
    columns: int,
    pitch: int,
    start: Index,
    extent: int,
    place: Index | None = None,
) -> tuple[Stmt, ...]:
    """Pack columns with contiguous lanes into a panel: ``[tile, k, column]``.

    `extent` steps of the outermost axis of k from `start` on; all of them if it is 0. The panel begins at `place` of
    its buffer, and `pitch` elements are from one step to the next.
    """
    c = plan.contraction
    steps = extent * prod(v.extent for v in c.k[1:]) if extent else c.depth
    origin = as_index(0) if place is None else place
    packed: list[Stmt] = []
    for first, many, own in pieces(columns, plan.columns):
        beside = Var("beside", many)
        corner = column + first + as_index(beside) * own
        spot = origin + (as_index(beside) + first // plan.columns) * steps * pitch
        packed += _pack_tiles(plan, at, panel, beside, (corner, own), (start, extent), (spot, pitch))
    return tuple(packed)


def _pack_tiles(
    plan: GemmPlan,
    at: dict[Var, Index],
    panel: Buffer,
    beside: Var,
    across: tuple[Index, int],
    along: tuple[Index, int],
    to: tuple[Index, int],
) -> tuple[Stmt, ...]:
    """Pack tiles `beside` each other, of equal width; squares are transposed along runs of steps.

    `across` are the first column and the columns of a tile, `along` the first step of the outermost axis of k and the
    number of its steps (0: all), `to` the place in the panel and the pitch of its rows.
    """
    c, load, lanes = plan.contraction, plan.contraction.right, plan.lanes
    (column, own), (start, extent), (origin, pitch) = across, along, to
    blocks = tuple(v.extent for v in c.k)
    if extent:
        blocks = (extent, *blocks[1:])
    kept, run, stride = transposed_run(load, c.k, blocks)
    steps = tuple(Var(v.name, block) for v, block in zip(c.k[:kept], blocks, strict=False))
    base = {**at, **dict.fromkeys(c.k, as_index(0)), **dict(zip(c.k, map(as_index, steps), strict=False))}
    if extent:
        base[c.k[0]] = base[c.k[0]] + start

    def copies(step: Index) -> tuple[Stmt, ...]:
        def body(inside: Index, _: Index) -> tuple[Stmt, ...]:
            source = load.index.substitute({**base, c.n: column + inside}) + step * stride
            before = ravel(steps, {s: as_index(s) for s in steps}) * run + step
            spot = origin + before * pitch + inside
            return (Store(((panel, spot, in_arithmetic(Load(load.buffer, source))),)),)

        if square == 1 or own < lanes or not own % lanes:
            return nest([beside], vector_loops(own, lanes, body))
        # The last square overlaps the one before.
        lane = Var("l", lanes)
        last = For(lane, body(as_index(lane) + (own - lanes), as_index(lane)), "vector")
        return nest([beside], (*vector_loops(own - own % lanes, lanes, body), last))

    # Of a run that is shorter than a vector, squares lack columns.
    square = min(lanes, run) if min(own, run) >= costs.MIN_RUN else 1
    many, rest = divmod(run, square)
    loops: list[Stmt] = []
    if many:
        iteration, inner = Var("k", many), Var("i", square)
        body = copies(as_index(iteration) * square + as_index(inner))
        if square > 1:
            body = tuple(unroll_around(inner, statement) for statement in body)
        loops.append(For(iteration, body))
    if rest:
        iteration = Var("i", square)
        last = copies(as_index(iteration) + (run - square))
        loops += (unroll_around(iteration, statement) for statement in last)
    return nest(steps, tuple(loops))
