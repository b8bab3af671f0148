"""The loop nest of a GEMM: a register tile, row blocks and panels around it, and packing before it where planned.

Without packing, a unit of work is one tile of the result. With packing, a unit is a column panel (or a row group of
it): for each block of k it packs the columns of the right operand into scratch memory and sweeps its rows over them;
with several blocks of k, partial sums are spilled to scratch memory in between, and the epilogue follows the last one.

With few rows, the right operand is read once, and from memory at the rate at which its rows stream. Then a unit is as
many columns as have their sums in the first-level cache, and a few steps of k at a time update all of them.
"""

from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index, flatten
from adjoint.kernel.ir import (
    Apply,
    Buffer,
    Const,
    Coordinate,
    Expr,
    For,
    Kernel,
    Load,
    Stmt,
    Store,
    When,
)
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import BOOL, I64
from adjoint.lower.context import Context, finish_kernel, store_result
from adjoint.lower.contractions.contraction import Contraction, contiguous_run
from adjoint.lower.contractions.conversion import convert_operands
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.contractions.gemm_prefetch import GemmPrefetch, PrefetchSlots, TileOrigin, slots_of
from adjoint.lower.contractions.loop_order import loop_order, packed_order
from adjoint.lower.contractions.packing import pack_columns, pack_left, pack_panel
from adjoint.lower.contractions.turned_results import is_turned, turned_results
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, tiled, unravel, vector_runs

__all__ = ["GemmBuilder", "Point", "gemm_kernels"]

#: What a tile does at one of its points: accumulators, place in them, row and column of the result.
Point = Callable[[Buffer, Index, Index, Index], Store]


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
    builder = GemmBuilder(context, group, plan, Var("s", plan.tile.stack))
    made = {"panels": builder.packed_kernel, "updates": builder.updated_kernel}
    kernels.append(made.get(plan.form.right, builder.in_place_kernel)())
    return kernels


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of k: where the outermost summed axis starts, the extent of every axis, and the packed panel, if any.

    `width` is the row pitch of the panel in elements; `before` are the steps that precede the block in the panel.
    """

    start: Index
    extents: tuple[int, ...]
    panel: Buffer | None = None
    width: int = 0
    before: Index = field(default_factory=lambda: as_index(0))


@dataclass(frozen=True, slots=True)
class GemmBuilder:
    """Builds the loop nest of one contraction.

    `neighbour` counts the tiles of a stack.
    """

    context: Context
    group: Group
    plan: GemmPlan
    neighbour: Var

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

        block, panel, at = place_of(as_index(unit), as_index(self.neighbour))
        # The axis of the operand that consecutive units share: row blocks, or slabs of panels.
        shared = order.index(axes[0] if self.plan.order == "rows" else axes[1])
        inside = prod(counters[v].extent for v in order[shared + 1 :])
        hints = GemmPrefetch(self.context, self.group, self.plan)

        def strip(rows: int, row: Index) -> tuple[Stmt, ...]:
            def tile(columns: int, column: Index) -> tuple[Stmt, ...]:
                prefetch = hints.in_place((rows, columns), origin, unit, inside)
                return self.tile((rows, columns), row, column, at, None, prefetch)

            return tiled(panel, self.c.columns, self.plan.columns, tile)

        body = tiled(block, self.c.rows, self.plan.tile.rows, strip)
        return self._finish(unit, body)

    def tile(
        self,
        size: tuple[int, int],
        row: Index,
        column: Index,
        at: dict[Var, Index],
        end: Point | None,
        prefetch: PrefetchSlots | None = None,
    ) -> tuple[Stmt, ...]:
        """A tile of so many rows and columns from operands in place.

        `end` says what happens to its sums, None that they go through the epilogue. `prefetch` accompanies the loop
        over k.
        """
        rows, columns = size
        acc = self._registers(rows, columns)
        everything = _Block(as_index(0), tuple(v.extent for v in self.c.k))
        return (
            *self._unrolled_tile(acc, rows, columns, row, column, self._clear, whole=True),
            *self._multiply(acc, rows, columns, row, column, at, everything, prefetch),
            *(
                self._unrolled_tile(acc, rows, columns, row, column, end)
                if end
                else self._stored(acc, size, row, column, at)
            ),
        )

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
            keep = self._spilled(sums, as_index(0), column, width)

            def update(start: Index, steps: int, first: bool, last: bool) -> tuple[Stmt, ...]:
                """Add the products of some steps of k to all sums."""
                panel, block = Var("p", ceil(columns / plan.columns)), _Block(start, (steps,))
                begin = self._clear if first else keep(store=False)
                end = self._store_point(at) if last else keep(store=True)

                def tile(some: int, place: Index) -> tuple[Stmt, ...]:
                    acc, row = self._registers(rows, some), as_index(0)
                    return (
                        *self._unrolled_tile(acc, rows, some, row, column + place, begin, whole=True),
                        *self._multiply(acc, rows, some, row, column + place, at, block, None),
                        *self._unrolled_tile(acc, rows, some, row, column + place, end, whole=not last),
                    )

                return nest([panel], tiled(as_index(panel), columns, plan.columns, tile))

            return self._blocks(update)

        return self._finish(unit, tiled(here, c.columns, size, whole))

    # With packing: a unit is a panel, packed block by block of k

    def packed_kernel(self) -> Kernel:
        """Each unit is a column panel, or a row group of it."""
        c, plan = self.c, self.plan
        panels = ceil(c.columns / (plan.columns * plan.wide))
        blocks = ceil(c.rows / plan.tile.rows)
        per_group = ceil(blocks / plan.groups)
        groups = ceil(blocks / per_group)
        unit = Var("u", c.batches * panels * groups)
        axes = Var("panel", panels), Var("part", groups)
        at = unravel(packed_order(self.context.target, plan, *axes), as_index(unit))
        panel, part = map(at.pop, axes)
        then = unravel(packed_order(self.context.target, plan, *axes), (as_index(unit) + 1) % unit.extent)
        following, _ = then.pop(axes[0]), then.pop(axes[1])
        hints = GemmPrefetch(self.context, self.group, plan)

        def whole(columns: int, column: Index) -> tuple[Stmt, ...]:
            width = -(-columns // plan.lanes) * plan.lanes
            # Layout of a panel: [tile, k, column].
            beside = Var("beside", plan.wide)
            own = columns // plan.wide
            panel_memory = Buffer("panel", c.dtype, plan.block * width, "scratch")
            spilled = Buffer("sums", c.dtype, per_group * plan.tile.rows * width, "scratch")
            first_row = part * (per_group * plan.tile.rows)

            def segment(start: Index, extent: int, first: bool, last: bool) -> tuple[Stmt, ...]:
                """Pack a block of k and sweep the rows over it."""
                split = not (first and last)
                extents = (extent,) if split else tuple(v.extent for v in c.k)
                block = _Block(start, extents, panel_memory, width // plan.wide, as_index(beside) * extent)
                here = column + as_index(beside) * own

                def tile(rows: int, row: Index) -> tuple[Stmt, ...]:
                    acc = self._registers(rows, own)
                    keep = self._spilled(spilled, first_row, column, width)
                    begin = self._clear if first else keep(store=False)
                    spill = self._unrolled_tile(acc, rows, own, row, here, keep(store=True), whole=True)
                    end = self._stored(acc, (rows, own), row, here, at) if last else spill
                    iteration = as_index(beside) * per_group + (row - first_row) // plan.tile.rows
                    tiles = per_group * plan.wide
                    if last:
                        fresh = hints.panel(then, following * (plan.columns * plan.wide), columns, as_index(0))
                    else:
                        fresh = hints.panel(at, column, columns, start + extent)
                    mine = fresh.share(iteration, tiles) if fresh is not None else None
                    if last:
                        prefetch = hints.packed((rows, own), (row, here, at), (start, extent), mine)
                    else:
                        prefetch = slots_of([mine], c, extent)
                    return (
                        *self._unrolled_tile(acc, rows, own, row, here, begin, whole=True),
                        *self._multiply(acc, rows, own, row, here, at, block, prefetch),
                        *end,
                    )

                packing = pack_panel(plan, at, panel_memory, column, columns, width, start, extent if split else 0)
                return (*packing, *nest([beside], self._rows(part, per_group, tile)))

            return self._blocks(segment)

        return self._finish(unit, tiled(panel, c.columns, plan.columns * plan.wide, whole))

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

    def _rows(self, part: Index, per_group: int, tile: Callable[[int, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """Sweep the row blocks of a row group."""
        blocks = ceil(self.c.rows / self.plan.tile.rows)
        iteration = Var("b", per_group)
        block = part * per_group + as_index(iteration)
        body = tiled(block, self.c.rows, self.plan.tile.rows, tile)
        if blocks % per_group:
            body = (When(block, 0, blocks, body),)
        return (For(iteration, body),) if per_group > 1 else body

    # The register tile

    def _registers(self, rows: int, columns: int) -> Buffer:
        width = -(-columns // self.plan.lanes) * self.plan.lanes
        return Buffer("acc", self.c.dtype, rows * self.plan.tile.stack * width, "register")

    def _unrolled_tile(
        self, acc: Buffer, rows: int, columns: int, row: Index, column: Index, point: Point, whole: bool = False
    ) -> tuple[Stmt, ...]:
        """Do something at every point of a tile, unrolled; `whole`: in full vectors even where columns end in one."""
        lanes = self.plan.lanes
        width = acc.size // (rows * self.plan.tile.stack)
        i = Var("i", rows)
        along: list[Stmt] = []
        for start, vectors, extent in vector_runs(columns, columns, lanes):
            vector, lane = Var("j", vectors), Var("l", lanes if whole else extent)
            inside = as_index(vector) * lanes + as_index(lane) + start
            spot = (as_index(self.neighbour) * rows + as_index(i)) * width + inside
            body = point(acc, spot, row + as_index(i), column + inside)
            along.append(self._stacked(For(vector, (For(lane, (body,), "vector"),), "unroll")))
        # Row by row: each element of the left operand is dead before the next is loaded.
        return (For(i, tuple(along), "unroll"),)

    def _stacked(self, loop: For) -> For:
        """A loop over the tiles of a stack."""
        return For(self.neighbour, (loop,), "unroll") if self.plan.tile.stack > 1 else loop

    def _clear(self, acc: Buffer, spot: Index, _m: Index, _n: Index) -> Store:
        return Store(((acc, spot, Const(0.0, acc.dtype)),))

    def _spilled(self, memory: Buffer, first_row: Index, column: Index, width: int) -> Callable[..., Point]:
        """Fill accumulators from partial sums, or spill them, between blocks of k."""

        def keep(store: bool) -> Point:
            def point(acc: Buffer, spot: Index, m: Index, n: Index) -> Store:
                place = (m - first_row) * width + n - column
                if store:
                    return Store(((memory, place, Load(acc, spot)),))
                return Store(((acc, spot, Load(memory, place)),))

            return point

        return keep

    def _multiply(
        self,
        acc: Buffer,
        rows: int,
        columns: int,
        row: Index,
        column: Index,
        at: dict[Var, Index],
        block: _Block,
        prefetch: PrefetchSlots | None,
    ) -> tuple[Stmt, ...]:
        """The loops over a block of k, with some prefetches in every slot: a burst of all would stall."""
        outer = block.extents[0] if block.extents else 1
        slot = Var("slot", prefetch.slots if prefetch else 1)
        chunk = outer // slot.extent
        lines = prefetch.lines(as_index(slot)) if prefetch and chunk else ()
        if not lines:
            return self._steps(acc, rows, columns, row, column, at, block, as_index(0), outer)
        some = self._steps(acc, rows, columns, row, column, at, block, as_index(slot) * chunk, chunk)
        loop = For(slot, (*lines, *some))
        done = slot.extent * chunk
        if done == outer:
            return (loop,)
        return (loop, *self._steps(acc, rows, columns, row, column, at, block, as_index(done), outer - done))

    def _steps(
        self,
        acc: Buffer,
        rows: int,
        columns: int,
        row: Index,
        column: Index,
        at: dict[Var, Index],
        block: _Block,
        first: Index,
        count: int,
    ) -> tuple[Stmt, ...]:
        """Multiply-adds for `count` steps of the block's outermost axis, from `first` on."""
        extents = (count, *block.extents[1:]) if block.extents else ()
        steps = [Var(v.name.replace("r", "k"), e) for v, e in zip(self.c.k, extents, strict=True)]
        local = {v: as_index(s) for v, s in zip(self.c.k, steps, strict=True)}
        if block.panel is not None and len(steps) > 1 and not contiguous_run(self.c.left, self.c.k, extents)[0]:
            # Both operands hold all steps one after the other: a single loop over the taps of all channels.
            steps = [Var(steps[0].name, prod(extents))]
            local = {v: as_index(0) for v in self.c.k[:-1]} | {self.c.k[-1]: as_index(steps[0])}
        for outermost in self.c.k[:1]:
            local[outermost] = local[outermost] + first
        whole = local | {v: local[v] + block.start for v in self.c.k[:1]}

        def step(acc: Buffer, spot: Index, m: Index, n: Index) -> Store:
            where = {**at, **whole}
            if self.c.m is not None:
                where[self.c.m] = m
            a = self.c.element(self.c.left, where)
            if block.panel is None:
                inside = Apply("lt", (Coordinate(n - column, I64), Const(columns, I64)), BOOL) if beyond else None
                b = self.c.element(self.c.right, {**where, self.c.n: n}, inside)
            else:
                place = (block.before + flatten([local[v] for v in self.c.k], block.extents)) * block.width + n - column
                b = Load(block.panel, place)
            return Store(((acc, spot, Apply("fma", (a, b, Load(acc, spot)), acc.dtype)),))

        # Panels are as wide as whole vectors, whose lanes past the end hold anything.
        padded = block.panel is not None or self.plan.form.right == "whole"
        beyond = not padded and columns % self.plan.lanes > 0 and self.c.right.index.coefficient(self.c.n) == 1
        body = self._unrolled_tile(acc, rows, columns, row, column, step, whole=beyond or padded)
        vectors, taps = acc.size // self.plan.lanes, prod(block.extents)
        if len(steps) == 2 and taps * vectors <= costs.MAX_UNROLLED_WINDOW:
            # The taps of a depthwise window: neighboring rows of the tile share what they load.
            return (For(steps[0], (For(steps[1], body, "unroll"),), "unroll"),)
        unrolled = len(steps) > 1 and steps[-1].extent * vectors <= costs.MAX_UNROLLED
        last = (For(steps[-1], body, "unroll"),) if unrolled else nest(steps[-1:], body)
        return nest(steps[:-1], self._inside(last, at, whole))

    def _inside(self, body: tuple[Stmt, ...], at: dict[Var, Index], k: dict[Var, Index]) -> tuple[Stmt, ...]:
        """Do something if the row of the image that a tile meets is inside; that of one of its stack."""
        border = self.plan.border
        if border is None:
            return body
        place = at[border.row]
        above = (place.coefficient(self.neighbour) or 0) * (self.plan.tile.stack - 1) * border.row_stride
        first = place.substitute({self.neighbour: as_index(0)})
        return (When(border.coordinate(first, k[border.step]), -above, border.extent, body),)

    def _stored(
        self, acc: Buffer, size: tuple[int, int], row: Index, column: Index, at: dict[Var, Index]
    ) -> tuple[Stmt, ...]:
        """The sums of a tile of so many rows and columns go through the epilogue."""
        rows, columns = size
        turnable = self.plan.form.swapped and self.plan.tile.stack == 1 and rows == self.c.rows
        if turnable and is_turned(self.c, self.group.shape):
            store = partial(self._epilogue, at)
            if turned := turned_results(acc, rows, columns, column, self.plan.lanes, store):
                return turned
        return self._unrolled_tile(acc, rows, columns, row, column, self._store_point(at))

    def _store_point(self, at: dict[Var, Index]) -> Point:
        return lambda acc, spot, m, n: self._epilogue(at, m, n, Load(acc, spot))

    def _epilogue(self, at: dict[Var, Index], m: Index, n: Index, result: Expr) -> Store:
        where = {**{v: as_index(0) for v in self.c.axes}, **at, self.c.n: n}
        if self.c.m is not None:
            where[self.c.m] = m
        return store_result(self.context, self.group, self.c.index(where), result)

    def _finish(self, unit: Var, body: tuple[Stmt, ...]) -> Kernel:
        points = self.c.batches * self.c.rows * self.c.columns
        zero = {v: as_index(0) for v in self.c.batch}
        after = self._epilogue(zero, as_index(0), as_index(0), Const(0.0, self.c.dtype))
        work = 2.0 * points * self.c.depth + flops_of([v for _, _, v in after.targets]) * points
        return finish_kernel(self.context, self.context.name_of(self.group), self.group.members, unit, body, work)
