"""Inner-product kernels: contractions whose lanes run along k.

Where the result's innermost axis is short (the taps of a convolution's weight gradient), or both operands are
contiguous along k (a matrix times a vector), each accumulator is a vector of partial sums of *one* element of the
result. A tile of `rows` by `columns` accumulators multiplies `rows` vectors of one operand by `columns` vectors of the
other. At the end the lanes of every accumulator are reduced as a tree.

Short axes that only one operand has (taps again) are looped over inside a unit of work, one block of k at a time, so
that the block stays in the first-level cache; their accumulators wait in scratch memory meanwhile. A block is as many
rows of an image, or images, as fit that cache: every tap fills and spills its accumulators once per block.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Literal

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Across, Apply, Buffer, Const, Coordinate, For, Kernel, Load, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import BOOL, I64
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_outputs
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.conversion import beforehand_cycles, convert_operands
from adjoint.lower.contractions.gemm_plan import blocks_within
from adjoint.lower.contractions.traffic import Block, line_cycles
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, ravel, tiled, unravel, vector_loops

__all__ = ["InnerProductPlan", "inner_product_kernels", "plan_inner_product"]


@dataclass(frozen=True, slots=True)
class InnerProductPlan:
    """How a contraction runs as inner products.

    Parameters
    ----------
    contraction : Contraction
        The contraction.
    rows, columns : int
        Elements of the result in a tile.
    lanes : int
        Partial sums of each element: the lanes of `adjoint.costs.MODEL`, which narrower vectors run in turns.
    along : Var
        The summed axis that lanes run along.
    inside : tuple of Var
        Axes of the result that are looped over inside a unit.
    blocks : tuple of int
        Block size of each summed axis but `along`, outermost first.
    convert_left, convert_right : bool
        Which operand of 16 bits is converted beforehand (`conversion`).
    packed : {"", "left", "right"}
        Which operand of a plain product is copied beforehand, so that it is contiguous along k as the other one is.
    cycles : float
        Estimated cycles of a plain product; 0 of other contractions.
    """

    contraction: Contraction
    rows: int
    columns: int
    lanes: int
    along: Var
    inside: tuple[Var, ...]
    blocks: tuple[int, ...]
    convert_left: bool
    convert_right: bool
    packed: Literal["", "left", "right"] = ""
    cycles: float = 0.0

    def __str__(self) -> str:
        return "inner_product"


def plan_inner_product(target: Target, c: Contraction) -> InnerProductPlan | None:
    """The plan, or None where a tile with lanes along the result is better."""
    full = costs.order_target(target).lanes(c.dtype)
    short = c.columns < costs.MIN_INNER_LANES * full
    if not (short or (not c.vector_loadable and c.rows < costs.MAX_INNER_ROWS)):
        return None
    # Stride 1 or 2; None is the stride of two fused axes, which form contiguous runs.
    near = [v for v in c.k if c.left.index.coefficient(v) == 1 and c.right.index.coefficient(v) in (1, 2, None)]
    packed = "" if near else _packed(c)
    near = near or (list(c.k) if packed else [])
    along = next((v for v in reversed(near) if v.extent >= costs.MIN_INNER_LANES * full), None)
    if along is None:
        return None
    inside = [c.n] if len(c.k) > 1 else []
    alike = [v for v in c.batch if len(c.k) > 1 and not c.left.index.coefficient(v)]
    for var in sorted(alike, key=lambda v: v.extent):
        if prod(v.extent for v in (*inside, var)) <= costs.MAX_INNER_ITERATIONS:
            inside.append(var)
    # Where there would be too few units, taps become columns of the tile.
    points = c.rows * c.batches * c.columns
    while len(inside) > 1 and points // prod(v.extent for v in inside) < costs.units(target):
        inside.pop()
    if points // prod(v.extent for v in inside) < target.cores:
        inside.clear()
    across = _column_axis(c, inside)
    registers = max(full // target.lanes(c.dtype), 1)
    wide = across.extent if across is not None else 1
    rest = points // (c.rows * wide * prod(v.extent for v in inside))
    transfers = _transfers(target, c, along, wide) if len(c.k) == 1 else (0.0, 0.0)
    products, (rows, columns) = _tile(target, c.rows, wide, registers, rest, transfers)
    others = [v for v in c.k if v is not along]
    extents = tuple(v.extent for v in others)
    step_bytes = (rows + columns) * along.extent * c.dtype.itemsize
    blocks = blocks_within(extents, step_bytes, costs.l1_bytes(target)) if inside else extents
    loaded = c.rows * c.batches * c.columns * c.depth / target.lanes(c.dtype) * costs.CONVERT_CYCLES
    return InnerProductPlan(
        contraction=c,
        rows=rows,
        columns=columns,
        lanes=full,
        along=along,
        inside=tuple(inside),
        blocks=blocks,
        convert_left=not packed and 0 < beforehand_cycles(target, c.left) < loaded / columns,
        convert_right=not packed and 0 < beforehand_cycles(target, c.right) < loaded / rows,
        packed=packed,
        cycles=_cycles(c, products * rest * ceil(along.extent / full), packed) if len(c.k) == 1 else 0.0,
    )


def _packed(c: Contraction) -> Literal["", "left", "right"]:
    """The operand of a plain product that is not contiguous along k and is small beside the other one, which is."""
    if len(c.k) != 1:
        return ""
    (k,) = c.k
    left, right = (prod(v.extent for v in c.axes if load.index.coefficient(v)) for load in (c.left, c.right))
    if c.left.index.coefficient(k) == 1 and right * costs.SMALL_BESIDE <= left:
        return "right"
    return "left" if c.right.index.coefficient(k) == 1 and left * costs.SMALL_BESIDE <= right else ""


def _cycles(c: Contraction, products: float, packed: str) -> float:
    """Cycles of a plain product: those of its multiply-adds, of adding lanes at the end, and of packing."""
    results = prod(v.extent for v in c.axes)
    load = {"left": c.left, "right": c.right}.get(packed)
    copied = prod(v.extent for v in (*c.axes, *c.k) if load.index.coefficient(v)) if load is not None else 0
    packing = costs.PACKING_CYCLES + copied * costs.GATHER_CYCLES if copied else 0.0
    return products + results * costs.REDUCE_LANES_CYCLES + packing


def _column_axis(c: Contraction, inside: list[Var] | tuple[Var, ...]) -> Var | None:
    """The axis along which the columns of a tile run: the longest of the right operand that is not inside a unit."""
    free = [v for v in (*c.batch, c.n) if v not in inside]
    only_right = [v for v in free if c.right.index.coefficient(v) and not c.left.index.coefficient(v)]
    return max(only_right, key=lambda v: v.extent, default=None)


def _transfers(target: Target, c: Contraction, along: Var, columns: int) -> tuple[float, float]:
    """Cycles to read a vector of each operand of a plain product from where it is: the left one once."""
    row = along.extent * c.dtype.itemsize
    left = 0.0 if c.rows * row <= costs.l2_bytes(target) else target.line_bytes / costs.L3_BYTES_PER_CYCLE
    return left, line_cycles(target, Block(columns, row, row))


def _tile(
    target: Target, rows: int, columns: int, registers: int, rest: int, transfers: tuple[float, float]
) -> tuple[float, tuple[int, int]]:
    """The tile with the lowest estimated cost, and that of a step, if a vector of partial sums takes so many registers.

    Each tile is `rest` units of work; `transfers` are cycles per vector of the left and of the right operand.
    """
    candidates = [
        (height, width)
        for height in range(1, min(rows, costs.MAX_INNER_TILE) + 1)
        for width in range(1, min(columns, costs.MAX_INNER_TILE) + 1)
        if (height * width + height + 1) * registers <= target.vector_registers - 1
    ]

    def cycles(tile: tuple[int, int]) -> float:
        height, width = tile
        compute = costs.multiply_add_cycles(target, height * width * registers)
        across = ceil(columns / width)
        moved = max(height, costs.FULL_STREAMS) * transfers[0] / across + width * transfers[1]
        step = max(compute, (height + width) * registers / target.load_units, target.fma_latency, moved)
        tiles = ceil(rows / height) * across
        return tiles * (step + costs.EXPOSED_TRANSFERS * moved) * costs.idle(target, tiles * rest)

    best = min(candidates, key=lambda t: (cycles(t), -t[0] * t[1]), default=(1, 1))
    return cycles(best), best


def inner_product_kernels(context: Context, group: Group, plan: InnerProductPlan) -> list[Kernel]:
    """The kernels of a contraction as inner products: conversions where planned, and the products."""
    kernels, c = convert_operands(context, group, plan.contraction, plan.convert_left, plan.convert_right)
    if plan.packed == "left":
        kernel, copied = _pack_along(context, group, c, c.left, "left")
        kernels, c = [kernel], replace(c, left=copied)
    elif plan.packed == "right":
        kernel, copied = _pack_along(context, group, c, c.right, "right")
        kernels, c = [kernel], replace(c, right=copied)
    return [*kernels, _Builder(context, group, replace(plan, contraction=c)).kernel()]


def _pack_along(context: Context, group: Group, c: Contraction, load: Load, role: str) -> tuple[Kernel, Load]:
    """The kernel that copies an operand of a plain product so that it is contiguous along k, and the copy."""
    (k,) = c.k
    own = tuple(v for v in c.axes if load.index.coefficient(v))
    size = prod(v.extent for v in own)
    packed = Buffer(f"{context.name_of(group)}_{role}", c.dtype, size * k.extent, "arena")
    unit = Var("u", size)

    def copy(step: Index, _: Index) -> tuple[Stmt, ...]:
        source = c.element(load, {**unravel(own, as_index(unit)), k: step})
        return (Store(((packed, as_index(unit) * k.extent + step, source),)),)

    body = vector_loops(k.extent, context.target.lanes(c.dtype), copy)
    kernel = finish_kernel(context, packed.name, group.members[:1], unit, body, 0)
    place = ravel(own, {v: as_index(v) for v in own})
    return kernel, Load(packed, place * k.extent + as_index(k))


@dataclass(frozen=True, slots=True)
class _Builder:
    context: Context
    group: Group
    plan: InnerProductPlan

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    def kernel(self) -> Kernel:
        c, plan = self.c, self.plan
        across = _column_axis(c, plan.inside)
        outer = [v for v in (*c.batch, c.n) if v not in plan.inside and v is not across]
        wide = across.extent if across is not None else 1
        row_blocks, column_blocks = ceil(c.rows / plan.rows), ceil(wide / plan.columns)
        unit = Var("u", prod(v.extent for v in outer) * row_blocks * column_blocks)
        flat = as_index(unit)
        column_block, flat = flat % column_blocks, flat // column_blocks
        row_block, flat = flat % row_blocks, flat // row_blocks
        at = unravel(outer, flat)

        def rows(height: int, row: Index) -> tuple[Stmt, ...]:
            def columns(width: int, column: Index) -> tuple[Stmt, ...]:
                return self._tile(at, across, height, row, width, column)

            return tiled(column_block, wide, plan.columns, columns)

        body = tiled(row_block, c.rows, plan.rows, rows)
        points = prod(v.extent for v in c.axes)
        zero = {v: as_index(0) for v in c.axes}
        after = self._epilogue(zero, Buffer("result", c.dtype, 1, "register"))
        work = 2.0 * points * c.depth + flops_of([v for _, _, v in after.targets]) * points
        return finish_kernel(self.context, self.context.name_of(self.group), self.group.members, unit, body, work)

    def _tile(
        self, at: Mapping[Var, Index], across: Var | None, height: int, row: Index, width: int, column: Index
    ) -> tuple[Stmt, ...]:
        """All products of a unit: a tile, for every iteration of the axes inside the unit."""
        c, plan = self.c, self.plan
        lanes = plan.lanes
        acc = Buffer("acc", c.dtype, height * width * lanes, "register")
        taps = prod(v.extent for v in plan.inside)
        sums = Buffer("sums", c.dtype, taps * acc.size, "scratch")
        walk = {v: Var(v.name, v.extent) for v in plan.inside}
        tap = ravel(plan.inside, {v: as_index(w) for v, w in walk.items()})
        others = [v for v in c.k if v is not plan.along]
        names = [v.name.replace("r", "k") for v in others]
        iterations = [Var(f"{name}b", v.extent // b) for name, v, b in zip(names, others, plan.blocks, strict=True)]
        steps = [Var(name, b) for name, b in zip(names, plan.blocks, strict=True)]

        def place(i: Index, j: Index) -> dict[Var, Index]:
            where = {**at, **{v: as_index(w) for v, w in walk.items()}}
            if c.m is not None:
                where[c.m] = row + i
            if across is not None:
                where[across] = column + j
            for var, iteration, step in zip(others, iterations, steps, strict=True):
                where[var] = as_index(iteration) * step.extent + as_index(step)
            return where

        def move(to: Buffer, to_start: Index, source: Buffer, source_start: Index) -> tuple[Stmt, ...]:
            part, lane = Var("a", acc.size // lanes), Var("l", lanes)
            spot = as_index(part) * lanes + as_index(lane)
            store = Store(((to, to_start + spot, Load(source, source_start + spot)),))
            return (For(part, (For(lane, (store,), "vector"),), "unroll"),)

        multiply = nest(steps, self._multiply(acc, height, width, place))
        end = self._end(acc, height, width, place)
        if not plan.inside:
            return (*_clear(acc, lanes), *multiply, *end)
        base = tap * acc.size
        zero = Const(0.0, acc.dtype)
        clear = vector_loops(sums.size, lanes, lambda s, _: (Store(((sums, s, zero),)),))
        once = (*move(acc, as_index(0), sums, base), *multiply, *move(sums, base, acc, as_index(0)))
        loop = nest([*iterations, *walk.values()], once)
        # The epilogue loops over the same taps again.
        finish_taps = nest(list(walk.values()), (*move(acc, as_index(0), sums, base), *end))
        return (*clear, *loop, *finish_taps)

    def _multiply(
        self,
        acc: Buffer,
        height: int,
        width: int,
        place: Callable[[Index, Index], dict[Var, Index]],
    ) -> tuple[Stmt, ...]:
        """The loop along the axis of the lanes: multiply-adds into the accumulators."""
        c, plan = self.c, self.plan

        def vector(along: Index, active: int) -> tuple[Stmt, ...]:
            # Lanes past the end add zeros: cheaper than masking their accumulators.
            beyond = active < plan.lanes and all(e.index.coefficient(plan.along) == 1 for e in (c.left, c.right))
            i, j, lane = Var("i", height), Var("j", width), Var("l", plan.lanes if beyond else active)
            where = {**place(as_index(i), as_index(j)), plan.along: along + as_index(lane)}
            spot = (as_index(i) * width + as_index(j)) * plan.lanes + as_index(lane)
            inside = Apply("lt", (Coordinate(as_index(lane), I64), Const(active, I64)), BOOL) if beyond else None
            factors = [c.element(load, where, inside) for load in (c.left, c.right)]
            product = Apply("fma", (*factors, Load(acc, spot)), acc.dtype)
            store = Store(((acc, spot, product),))
            return (For(i, (For(j, (For(lane, (store,), "vector"),), "unroll"),), "unroll"),)

        whole, rest = divmod(plan.along.extent, plan.lanes)
        chunk = Var("v", whole)
        loops: list[Stmt] = [For(chunk, vector(as_index(chunk) * plan.lanes, plan.lanes))] if whole else []
        if rest:
            loops.extend(vector(as_index(whole * plan.lanes), rest))
        return tuple(loops)

    def _end(
        self, acc: Buffer, height: int, width: int, place: Callable[[Index, Index], dict[Var, Index]]
    ) -> tuple[Stmt, ...]:
        """Reduce the lanes of each accumulator, and apply the epilogue."""
        lanes = self.plan.lanes
        i, j, lane = Var("i", height), Var("j", width), Var("l", lanes)
        part = Buffer("part", acc.dtype, lanes, "register")
        result = Buffer("result", acc.dtype, 1, "register")
        start = (as_index(i) * width + as_index(j)) * lanes
        pick = Store(((part, as_index(lane), Load(acc, start + as_index(lane))),))
        combine = Store(((result, as_index(0), Across("add", part, lanes, lanes)),))
        epilogue = self._epilogue(place(as_index(i), as_index(j)), result)
        body = (For(lane, (pick,), "vector"), combine, epilogue)
        return (For(i, (For(j, body, "unroll"),), "unroll"),)

    def _epilogue(self, at: Mapping[Var, Index], result: Buffer) -> Store:
        assert self.group.root is not None
        where = {**{v: as_index(0) for v in self.c.axes}, **at}
        inliner = group_inliner(self.context, self.group)
        inliner.bind(self.group.root, Load(result, as_index(0)))
        return store_outputs(self.context, self.group, inliner, self.c.index(where))


def _clear(acc: Buffer, lanes: int) -> tuple[Stmt, ...]:
    part, lane = Var("a", acc.size // lanes), Var("l", lanes)
    store = Store(((acc, as_index(part) * lanes + as_index(lane), Const(0.0, acc.dtype)),))
    return (For(part, (For(lane, (store,), "vector"),), "unroll"),)
