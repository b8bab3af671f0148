"""The loop nest of a GEMM: row blocks and panels around a register tile (`register_tile`), and packing where planned.

Without packing, a unit of work is one tile of the result. With packing, a unit is a column panel (or a row group of
it): for each block of k it packs the columns of the right operand into scratch memory and sweeps its rows over them;
or a chunk of several panels, which stays in the second-level cache, while each block of rows meets all of them.
With several blocks of k, partial sums are spilled to scratch memory in between, and the epilogue follows the last one.

Where sums over a long k are few, both operands are read in place, block by block of k: all tiles of a unit meet a block
while the next one is prefetched, row by row, and their sums wait in scratch memory.

With few rows, the right operand is read once, and from memory at the rate at which its rows stream. Then a unit is as
many columns as have their sums in the first-level cache, and a few steps of k at a time update all of them.
"""

from collections.abc import Callable
from dataclasses import replace
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import (
    Buffer,
    Const,
    For,
    Kernel,
    Stmt,
    When,
)
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.conversion import convert_operands
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.contractions.gemm_prefetch import BlockPrefetch, GemmPrefetch, TileOrigin, slots_of
from adjoint.lower.contractions.loop_order import loop_order, packed_order
from adjoint.lower.contractions.packing import pack_columns, pack_left, pack_panel
from adjoint.lower.contractions.register_tile import KBlock, RegisterTile
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, tiled, unravel

__all__ = ["gemm_kernels"]


def gemm_kernels(context: Context, group: Group, plan: GemmPlan) -> list[Kernel]:
    """The kernels of a plan: conversion and packing of whole operands where planned, and the GEMM."""
    kernels, c = convert_operands(context, group, plan.contraction, plan.convert_left, plan.convert_right)
    plan = replace(plan, contraction=c)
    if plan.form.left == "whole":
        packing, packed = pack_left(context, group, plan)
        kernels.append(packing)
        plan = replace(plan, contraction=packed)
    if plan.form.right == "whole":
        packing, packed = pack_columns(context, group, plan)
        kernels.append(packing)
        plan = replace(plan, contraction=packed)
    tiles = RegisterTile(context, group, plan, Var("s", plan.tile.stack))
    builder = GemmBuilder(context, group, plan, tiles)
    made = {"panels": builder.packed_kernel, "updates": builder.updated_kernel, "blocks": builder.blocked_kernel}
    kernels.append(made.get(plan.form.right, builder.in_place_kernel)())
    return kernels


@dataclass(frozen=True, slots=True)
class _Units:
    """The units of a kernel whose units are chunks of columns, or row groups of these.

    Parameters
    ----------
    unit : Var
        Counts them.
    per_group : int
        Blocks of rows in a group.
    at : dict
        Coordinates of a unit on the axes of the batch.
    part, panel : Index
        Its group and its chunk.
    following : tuple
        The coordinates, the group and the chunk of the next unit.
    """

    unit: Var
    per_group: int
    at: dict[Var, Index]
    part: Index
    panel: Index
    following: tuple[dict[Var, Index], Index, Index]


@dataclass(frozen=True, slots=True)
class GemmBuilder:
    """Builds the loop nest of one contraction around its register tiles."""

    context: Context
    group: Group
    plan: GemmPlan
    tiles: RegisterTile

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    # Without packing: a unit is a tile

    def in_place_kernel(self) -> Kernel:
        """Each unit is one tile of the result, from operands in place."""
        blocks = ceil(self.c.rows / self.plan.tile.rows)
        panels = ceil(self.c.columns / self.plan.columns)
        unit = Var("u", self.c.batches // self.plan.tile.stack * blocks * panels)
        # The axes of units: blocks of rows, panels of columns in two levels, and the batch.
        l2_panels, stack = self.plan.l2_panels, self.plan.tile.stack
        axes = Var("block", blocks), Var("slab", panels // l2_panels), Var("panel", l2_panels)
        order = loop_order(self.plan, *axes)
        stacked = self.c.batch[-1] if stack > 1 else None
        counters = {v: Var(v.name, v.extent // stack) if v is stacked else v for v in order}

        def place_of(number: Index, neighbour: Index) -> tuple[Index, Index, dict[Var, Index]]:
            """The row block, the panel and the other axes of a unit."""
            found = unravel(list(counters.values()), number)
            at = {v: found[counter] for v, counter in counters.items()}
            block, panel = at.pop(axes[0]), at.pop(axes[1]) * l2_panels + at.pop(axes[2])
            return block, panel, at if stacked is None else at | {stacked: at[stacked] * stack + neighbour}

        def origin(number: Index) -> TileOrigin:
            block, panel, at = place_of(number, as_index(0))
            return block * self.plan.tile.rows, panel * self.plan.columns, at

        block, panel, at = place_of(as_index(unit), as_index(self.tiles.neighbour))
        # The axis of the operand that consecutive units share: row blocks, or slabs of panels.
        shared = order.index(axes[0] if self.plan.order == "rows" else axes[1])
        inside = prod(counters[v].extent for v in order[shared + 1 :])
        hints = GemmPrefetch(self.context, self.group, self.plan)

        def strip(rows: int, row: Index) -> tuple[Stmt, ...]:
            def tile(columns: int, column: Index) -> tuple[Stmt, ...]:
                prefetch = hints.in_place((rows, columns), origin, unit, inside)
                return self.tiles.tile((rows, columns), row, column, at, None, prefetch)

            return tiled(panel, self.c.columns, self.plan.columns, tile)

        body = tiled(block, self.c.rows, self.plan.tile.rows, strip)
        return self._finish(unit, body)

    def updated_kernel(self) -> Kernel:
        """Each unit is a chunk of columns, whose sums are updated by a few steps of k at a time."""
        c, plan = self.c, self.plan
        size = plan.columns * plan.wide
        chunk = Var("chunk", ceil(c.columns / size))
        order = (*c.batch, chunk)
        unit = Var("u", prod(v.extent for v in order))
        at = unravel(order, as_index(unit))
        here, rows = at.pop(chunk), c.rows

        def whole(columns: int, column: Index) -> tuple[Stmt, ...]:
            width = -(-columns // plan.lanes) * plan.lanes
            sums = Buffer("sums", c.dtype, rows * width, "scratch")
            keep = self.tiles.spilled(sums, as_index(0), column, width)

            def update(start: Index, steps: int, first: bool, last: bool) -> tuple[Stmt, ...]:
                """Add the products of some steps of k to all sums."""
                panel, block = Var("p", ceil(columns / plan.columns)), KBlock(start, (steps,))
                begin = self.tiles.clear if first else keep(store=False)
                end = self.tiles.store_point(at) if last else keep(store=True)

                def tile(some: int, place: Index) -> tuple[Stmt, ...]:
                    acc, row = self.tiles.registers(rows, some), as_index(0)
                    return (
                        *self.tiles.unrolled_tile(acc, rows, some, row, column + place, begin, whole=True),
                        *self.tiles.multiply(acc, rows, some, row, column + place, at, block, None),
                        *self.tiles.unrolled_tile(acc, rows, some, row, column + place, end, whole=not last),
                    )

                return nest([panel], tiled(as_index(panel), columns, plan.columns, tile))

            return self._blocks(update)

        return self._finish(unit, tiled(here, c.columns, size, whole))

    # With sums in memory or packing: a unit is a chunk of columns, or a row group of it

    def _units(self) -> "_Units":
        """The units of a plan with row groups."""
        c, plan = self.c, self.plan
        panels = ceil(c.columns / (plan.columns * plan.wide))
        blocks = ceil(c.rows / plan.tile.rows)
        per_group = ceil(blocks / plan.groups)
        unit = Var("u", c.batches * panels * ceil(blocks / per_group))
        axes = Var("panel", panels), Var("part", ceil(blocks / per_group))
        order = packed_order(self.context.target, plan, *axes)
        at, then = (unravel(order, number) for number in (as_index(unit), (as_index(unit) + 1) % unit.extent))
        panel, part = map(at.pop, axes)
        later = tuple(map(then.pop, axes))
        return _Units(unit, per_group, at, part, panel, (then, later[1], later[0]))

    def blocked_kernel(self) -> Kernel:
        """Each unit accumulates its sums block by block of k, from operands in place."""
        c, plan, units = self.c, self.plan, self._units()
        hints = BlockPrefetch(self.context, self.group, plan)
        down, height = Var("b", units.per_group), units.per_group * plan.tile.rows

        def whole(columns: int, column: Index) -> tuple[Stmt, ...]:
            width = -(-columns // plan.lanes) * plan.lanes
            first_row, beside = units.part * height, Var("p", ceil(columns / plan.columns))
            sums = Buffer("sums", c.dtype, height * width, "scratch")
            keep = self.tiles.spilled(sums, first_row, column, width)
            share = as_index(down) * beside.extent + as_index(beside), units.per_group * beside.extent

            def block(start: Index, steps: int, first: bool, last: bool) -> tuple[Stmt, ...]:
                """Add the products of a block of k to all sums."""
                if last:
                    at, part, panel = units.following
                    place = part * height, panel * (plan.columns * plan.wide), at, as_index(0)
                else:
                    place = first_row, column, units.at, start + steps
                fresh = hints.block(place, (height, columns), share)

                begin = self.tiles.clear if first else keep(store=False)
                steps_here = KBlock(start, (steps,))

                def tile(size: tuple[int, int], row: Index, here: Index) -> tuple[Stmt, ...]:
                    acc = self.tiles.registers(*size)
                    spill = self.tiles.unrolled_tile(acc, *size, row, here, keep(store=True), whole=True)
                    regions = [*(hints.epilogue(size, (row, here, units.at)) if last else ()), *fresh]
                    prefetch = slots_of(regions, c, steps)
                    return (
                        *self.tiles.unrolled_tile(acc, *size, row, here, begin, whole=True),
                        *self.tiles.multiply(acc, *size, row, here, units.at, steps_here, prefetch),
                        *(self.tiles.stored(acc, size, row, here, units.at) if last else spill),
                    )

                def strip(rows: int, row: Index) -> tuple[Stmt, ...]:
                    def across(own: int, x: Index) -> tuple[Stmt, ...]:
                        return tile((rows, own), row, column + x)

                    return nest([beside], tiled(as_index(beside), columns, plan.columns, across))

                return self._rows(units.part, down, strip)

            return self._blocks(block)

        return self._finish(units.unit, tiled(units.panel, c.columns, plan.columns * plan.wide, whole))

    def packed_kernel(self) -> Kernel:
        """Each unit is a column panel, packed block by block of k, or a row group of it."""
        c, plan = self.c, self.plan
        units = self._units()
        per_group, at, part = units.per_group, units.at, units.part
        then, _, following = units.following
        hints = GemmPrefetch(self.context, self.group, plan)

        def whole(columns: int, column: Index) -> tuple[Stmt, ...]:
            width = -(-columns // plan.lanes) * plan.lanes
            # Layout of a panel: [tile, k, column].
            beside, pitch = Var("beside", ceil(columns / plan.columns)), min(plan.columns, width)
            panel_memory = Buffer("panel", c.dtype, plan.block * beside.extent * pitch, "scratch")
            spilled = Buffer("sums", c.dtype, per_group * plan.tile.rows * width, "scratch")
            first_row, sweep = part * (per_group * plan.tile.rows), Var("b", per_group)

            def segment(start: Index, extent: int, first: bool, last: bool) -> tuple[Stmt, ...]:
                """Pack a block of k and sweep the rows over it."""
                split = not (first and last)
                extents = (extent,) if split else tuple(v.extent for v in c.k)
                block = KBlock(start, extents, panel_memory, pitch, as_index(beside) * extent)

                def tile(size: tuple[int, int], row: Index, here: Index) -> tuple[Stmt, ...]:
                    acc = self.tiles.registers(*size)
                    keep = self.tiles.spilled(spilled, first_row, column, width)
                    begin = self.tiles.clear if first else keep(store=False)
                    spill = self.tiles.unrolled_tile(acc, *size, row, here, keep(store=True), whole=True)
                    end = self.tiles.stored(acc, size, row, here, at) if last else spill
                    down, tiles = (row - first_row) // plan.tile.rows, per_group * beside.extent
                    iteration = as_index(beside) * per_group + down
                    if plan.chunks:
                        iteration = down * beside.extent + as_index(beside)
                    if last:
                        fresh = hints.panel(then, following * (plan.columns * plan.wide), columns, as_index(0))
                    else:
                        fresh = hints.panel(at, column, columns, start + extent)
                    mine = fresh.share(iteration, tiles) if fresh is not None else None
                    if last:
                        share = (as_index(beside), beside.extent) if plan.chunks else (as_index(0), 1)
                        prefetch = hints.packed(size, (row, here, at), (start, extent), mine, share)
                    else:
                        prefetch = slots_of([mine], c, extent)
                    return (
                        *self.tiles.unrolled_tile(acc, *size, row, here, begin, whole=True),
                        *self.tiles.multiply(acc, *size, row, here, at, block, prefetch),
                        *end,
                    )

                def across(rows: int, row: Index) -> tuple[Stmt, ...]:
                    """All tiles of a block of rows."""
                    body = tiled(
                        as_index(beside), columns, plan.columns, lambda own, x: tile((rows, own), row, column + x)
                    )
                    return nest([beside], body)

                def down(own: int, x: Index) -> tuple[Stmt, ...]:
                    """All tiles of a panel."""
                    return self._rows(part, sweep, lambda rows, row: tile((rows, own), row, column + x))

                packing = pack_panel(plan, at, panel_memory, column, columns, pitch, start, extent if split else 0)
                if plan.chunks:
                    return (*packing, *self._rows(part, sweep, across))
                return (*packing, *nest([beside], tiled(as_index(beside), columns, plan.columns, down)))

            return self._blocks(segment)

        return self._finish(units.unit, tiled(units.panel, c.columns, plan.columns * plan.wide, whole))

    def _blocks(self, segment: Callable[[Index, int, bool, bool], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """The blocks of k: each from its first step on, of so many steps, and whether it is the first and the last."""
        depth, block = self.c.depth, self.plan.block
        if block >= depth:
            return segment(as_index(0), depth, True, True)
        between = ceil(depth / block) - 2
        loops = [*segment(as_index(0), block, True, False)]
        if between:
            iteration = Var("kb", between)
            loops.append(For(iteration, segment((as_index(iteration) + 1) * block, block, False, False)))
        done = (between + 1) * block
        return (*loops, *segment(as_index(done), depth - done, False, True))

    def _rows(self, part: Index, sweep: Var, tile: Callable[[int, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """Sweep the row blocks of a row group."""
        blocks = ceil(self.c.rows / self.plan.tile.rows)
        block = part * sweep.extent + as_index(sweep)
        body = tiled(block, self.c.rows, self.plan.tile.rows, tile)
        if blocks % sweep.extent:
            body = (When(block, 0, blocks, body),)
        return nest([sweep], body)

    def _finish(self, unit: Var, body: tuple[Stmt, ...]) -> Kernel:
        points = self.c.batches * self.c.rows * self.c.columns
        zero = {v: as_index(0) for v in self.c.batch}
        after = self.tiles.epilogue(zero, as_index(0), as_index(0), Const(0.0, self.c.dtype))
        work = 2.0 * points * self.c.depth + flops_of([v for _, _, v in after.targets]) * points
        return finish_kernel(self.context, self.context.name_of(self.group), self.group.members, unit, body, work)
