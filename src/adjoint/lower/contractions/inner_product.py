"""Inner-product kernels: contractions whose lanes run along k.

Where the result's innermost axis is short (the taps of a convolution's weight gradient), or both operands are
contiguous along k (a matrix times a few vectors), each accumulator is a vector of partial sums of *one* element of the
result. A tile of `rows` by `columns` accumulators multiplies `rows` vectors of one operand by `columns` vectors of the
other. At the end the lanes of every accumulator are reduced as a tree, and the epilogue runs on the sums of a row of
the tile, as a vector if they are side by side in the result. Tiles of a plain product walk the larger operand in their
outer loop, and prefetch the next block of it meanwhile.

Short axes that only one operand has (taps again) are looped over inside a unit of work, one block of k at a time, so
that the block stays in the first-level cache; their accumulators wait in scratch memory meanwhile. A block is as many
rows of an image, or images, as fit that cache: every tap fills and spills its accumulators once per block.

Long sums over images and their pixels, with more elements of the result than registers hold, run in blocks of k, too:
all tiles of a unit meet a block before the next one (`inner_product_sweep`).

Where only taps are left for the columns of a tile (each channel of a depthwise convolution has a weight of its own),
the tile has the taps of some rows of the window instead, whose accumulators stay in registers throughout. A unit then
has all tiles of a channel. A vector of a row of the image is loaded once for each tap, and meets all rows of the
gradient whose windows contain it: some rows are unrolled around the loop along the lanes' axis::

    for y in 0..40:                                  for block of six rows:
      for v in 0..3:                                   for v in 0..3:
        for k0 in 0..3, k1 in 0..3:            ->        for r in 0..8, k1 in 0..3:
          acc[k0, k1] +=                                   for y in 0..6 with 0 <= r - y < 3:
            ct[y, v] * x[y + k0, v + k1]                     acc[r - y, k1] += ct[y, v] * x[r, v + k1]

So every accumulator adds six rows of a vector before the next vector, whatever the CPU. Where there are so few sums
that they cost little memory, and the data exceed a cache, units share the images too, so that they read memory in its
order; a second kernel adds their sums.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil, prod
from typing import Literal

from adjoint.kernel.index import Index, Var, as_index, flatten
from adjoint.kernel.ir import (
    Across,
    Buffer,
    Const,
    For,
    Kernel,
    Load,
    Stmt,
    Store,
    postorder,
    roots_of,
)
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import output_vars
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_outputs, store_result
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.conversion import convert_operands
from adjoint.lower.contractions.inner_product_loops import InnerProductLoops, Place
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan, column_axis
from adjoint.lower.contractions.inner_product_sweep import swept_products
from adjoint.lower.contractions.inner_product_window import products_in_place, products_of_shared_rows
from adjoint.lower.contractions.packing import pack_along
from adjoint.lower.contractions.prefetch import Region, region
from adjoint.lower.contractions.split_k_reduction import sum_of
from adjoint.lower.elementwise import points_kernel
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, ravel, tiled, unravel, vector_loops

__all__ = ["inner_product_kernels"]


def inner_product_kernels(context: Context, group: Group, plan: InnerProductPlan) -> list[Kernel]:
    """The kernels of a contraction as inner products: conversions where planned, and the products."""
    kernels, c = convert_operands(context, group, plan.contraction, plan.convert_left, plan.convert_right)
    if plan.packed == "left":
        kernel, copied = pack_along(context, group, c, c.left, "left")
        kernels, c = [kernel], replace(c, left=copied)
    elif plan.packed == "right":
        kernel, copied = pack_along(context, group, c, c.right, "right")
        kernels, c = [kernel], replace(c, right=copied)
    plan = replace(plan, contraction=c)
    if plan.parts == 1:
        return [*kernels, _Builder(context, group, plan, None).kernel()]
    size = plan.parts * prod(group.shape)
    builder = _Builder(context, group, plan, Buffer(f"{context.name_of(group)}_sums", c.dtype, size, "arena"))
    return [*kernels, builder.kernel(), builder.total()]


@dataclass(frozen=True)
class _Builder:
    """Builds the kernels; `sums` are those of all splits, if there are several."""

    context: Context
    group: Group
    plan: InnerProductPlan
    sums: Buffer | None

    @cached_property
    def loops(self) -> InnerProductLoops:
        """The loops of its tiles."""
        return InnerProductLoops(self.context, self.group, self.plan)

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    def kernel(self) -> Kernel:
        if self.plan.swept:
            return self._sweep()
        c, plan = self.c, self.plan
        across = column_axis(c, plan.unrolled)
        outer = [v for v in (*c.batch, c.n) if v not in plan.unrolled and v is not across]
        wide = across.extent if across is not None else 1
        row_blocks, column_blocks = ceil(c.rows / plan.rows), ceil(wide / plan.columns)
        own = column_blocks if plan.taps is not None else 1
        part, tile = Var("part", plan.parts), (Var("row", row_blocks), Var("column", column_blocks // own))
        order = (part, *outer, *(tile if plan.order == "rows" else reversed(tile)))
        unit = Var("u", prod(v.extent for v in order))
        at = unravel(order, as_index(unit))
        split, row_block, column_block = map(at.pop, (part, *tile))
        following = self._next_block(unit, order, dict(zip((c.m, across), tile, strict=True)))
        iteration = Var("block", own)
        if own > 1:
            column_block = as_index(iteration)

        def rows(height: int, row: Index) -> tuple[Stmt, ...]:
            def columns(width: int, column: Index) -> tuple[Stmt, ...]:
                return self._tile(at | {c.k[0]: split}, across, height, row, width, column, following)

            return nest([iteration], tiled(column_block, wide, plan.columns, columns))

        return self._finish(unit, tiled(row_block, c.rows, plan.rows, rows))

    def _sweep(self) -> Kernel:
        """Each unit is a split of k, a matrix, and some tiles of the outer loop."""
        c, plan = self.c, self.plan
        swept, size = (c.n.extent, plan.columns) if plan.order == "columns" else (c.rows, plan.rows)
        most = plan.swept * size
        batch = [v for v in c.axes if v not in (c.m, c.n)]
        part, group = Var("part", plan.parts), Var("group", ceil(swept / most))
        order = (part, *batch, group)
        unit = Var("u", prod(v.extent for v in order))
        at = unravel(order, as_index(unit))
        split, number = at.pop(part), at.pop(group)

        def body(count: int, first: Index) -> tuple[Stmt, ...]:
            return swept_products(self.loops, at | {c.k[0]: split}, first, count, self._end)

        return self._finish(unit, tiled(number, swept, most, body))

    def _finish(self, unit: Var, body: tuple[Stmt, ...]) -> Kernel:
        """The kernel of the products, which also ends them unless k is split."""
        c = self.c
        points = prod(v.extent for v in c.axes)
        zero = {v: as_index(0) for v in (*c.axes, c.k[0])}
        after = self._epilogue(zero, Load(Buffer("result", c.dtype, 1, "register"), as_index(0)))
        work = 2.0 * points * c.depth + flops_of([v for _, _, v in after.targets]) * points
        name = self.sums.name if self.sums is not None else self.context.name_of(self.group)
        values = self.group.members[:1] if self.sums is not None else self.group.members
        return finish_kernel(self.context, name, values, unit, body, work)

    def total(self) -> Kernel:
        """Add the sums of all splits, and apply the epilogue."""
        group, root, sums, size = self.group, self.group.root, self.sums, prod(self.group.shape)
        assert sums is not None
        assert root is not None

        def point(index: tuple[Index, ...]) -> Store:
            inliner = group_inliner(self.context, group)
            place = flatten(index, group.shape)
            inliner.bind(root, sum_of([Load(sums, place + n * size) for n in range(self.plan.parts)]))
            return store_outputs(self.context, group, inliner, index)

        return points_kernel(self.context, group, output_vars(group.shape), point)

    def _next_block(self, unit: Var, order: Sequence[Var], blocks: Mapping[Var | None, Var]) -> Region | None:
        """The share of a tile of the next rows or columns that tiles of a plain product walk in their outer loop."""
        c, plan, inner = self.c, self.plan, order[-1].extent
        load, size = (c.left, plan.rows) if plan.order == "rows" else (c.right, plan.columns)
        axis = next((v for v, block in blocks.items() if block is order[-2]), None)
        if len(c.k) > 1 or axis is None or inner == unit.extent or not plan.prefetches(self.context.target, inner):
            return None
        later = unravel(order, (as_index(unit) // inner + 1) * inner % unit.extent)
        start = {v: as_index(0) for v in (*c.axes, *c.k)} | later | {axis: later[blocks[axis]] * size}
        found = region(
            self.context, self.group, load.buffer, load.index, {axis: size, plan.along: plan.along.extent}, start
        )
        return found.share(as_index(unit) % inner, inner) if found is not None else None

    def _tile(
        self,
        at: Mapping[Var, Index],
        across: Var | None,
        height: int,
        row: Index,
        width: int,
        column: Index,
        block: Region | None,
    ) -> tuple[Stmt, ...]:
        """All products of a unit: a tile, for every iteration of the axes inside the unit; and prefetches meanwhile.

        `block` is the share of the next block of a plain product that this tile prefetches.
        """
        c, plan = self.c, self.plan
        lanes, deep = plan.lanes, plan.taps.extent if plan.taps else 1
        width *= deep
        acc = Buffer("acc", c.dtype, height * width * lanes, "register")
        taps = prod(v.extent for v in plan.inside)
        sums = Buffer("sums", c.dtype, taps * acc.size, "scratch")
        walk = {v: Var(v.name, v.extent) for v in plan.inside}
        tap = ravel(plan.inside, {v: as_index(w) for v, w in walk.items()})
        others = plan.others
        names = [v.name.replace("r", "k") for v in others]
        iterations = [Var(f"{name}b", e // b) for name, e, b in zip(names, plan.extents, plan.blocks, strict=True)]
        steps = [Var(name, b) for name, b in zip(names, plan.blocks, strict=True)]

        def place(i: Index, j: Index) -> dict[Var, Index]:
            where = {**at, **{v: as_index(w) for v, w in walk.items()}}
            if c.m is not None:
                where[c.m] = row + i
            if across is not None:
                where[across] = column + j // deep
            if plan.taps is not None:
                where[plan.taps] = j % deep
            for var, iteration, step in zip(others, iterations, steps, strict=True):
                where[var] = as_index(iteration) * step.extent + as_index(step)
            if c.k[0] is not plan.along:
                where[c.k[0]] = at[c.k[0]] * plan.extents[0] + where[c.k[0]]
            return where

        def move(to: Buffer, to_start: Index, source: Buffer, source_start: Index) -> tuple[Stmt, ...]:
            part, lane = Var("a", acc.size // lanes), Var("l", lanes)
            spot = as_index(part) * lanes + as_index(lane)
            store = Store(((to, to_start + spot, Load(source, source_start + spot)),))
            return (For(part, (For(lane, (store,), "vector"),), "unroll"),)

        following = [block] if block is not None else []
        hints: tuple[Stmt, ...] = ()
        if not plan.inside and plan.image_rows == 1 and others:
            following = self.loops.next_step(others, place(as_index(0), as_index(0)), (height, width // deep, across))
            if len(steps) > 1:
                hints, following = self.loops.spread(following, steps), []
            elif not plan.prefetches_step(self.context.target):
                following = []
        every = range(width)
        multiply = self.loops.multiply(acc, height, every, place, following)
        end = self._end(acc, height, width, place)
        if plan.image_rows > 1:
            products = products_of_shared_rows(self.loops, acc, width // deep, place, steps)
            return (*_clear(acc, lanes), *products, *end)
        if self.loops.image is not None:
            products = products_in_place(self.loops, acc, place, steps, hints)
            return (*_clear(acc, lanes), *products, *end)
        if not plan.inside:
            return (*_clear(acc, lanes), *nest(steps, (*hints, *multiply)), *end)
        multiply = nest(steps, multiply)
        base = tap * acc.size
        zero = Const(0.0, acc.dtype)
        clear = vector_loops(sums.size, lanes, lambda s, _: (Store(((sums, s, zero),)),))
        once = (*move(acc, as_index(0), sums, base), *multiply, *move(sums, base, acc, as_index(0)))
        loop = nest([*iterations, *walk.values()], once)
        # The epilogue loops over the same taps again.
        finish_taps = nest(list(walk.values()), (*move(acc, as_index(0), sums, base), *end))
        return (*clear, *loop, *finish_taps)

    def _end(self, acc: Buffer, height: int, width: int, place: Place) -> tuple[Stmt, ...]:
        """Reduce the lanes of each accumulator, a row of the tile at a time, and apply the epilogue."""
        lanes = self.plan.lanes
        i, j, lane, column = Var("i", height), Var("j", width), Var("l", lanes), Var("j", width)
        part = Buffer("part", acc.dtype, lanes, "register")
        # A shorter vector is loaded like a whole one.
        result = Buffer("result", acc.dtype, 1 << (width - 1).bit_length(), "register")
        start = (as_index(i) * width + as_index(j)) * lanes
        pick = Store(((part, as_index(lane), Load(acc, start + as_index(lane))),))
        combine = Store(((result, as_index(j), Across("add", part, lanes, lanes)),))
        epilogue = self._epilogue(place(as_index(i), as_index(column)), Load(result, as_index(column)))
        kind: Literal["vector", "unroll"] = "vector" if width > 1 and _runs_along(column, epilogue) else "unroll"
        body = (For(j, (For(lane, (pick,), "vector"), combine), "unroll"), For(column, (epilogue,), kind))
        return (For(i, body, "unroll"),)

    def _epilogue(self, at: Mapping[Var, Index], result: Load) -> Store:
        where = {**{v: as_index(0) for v in self.c.axes}, **at}
        if self.sums is not None:
            part = at[self.c.k[0]] // self.plan.extents[0]
            place = part * prod(self.group.shape) + flatten(self.c.index(where), self.group.shape)
            return Store(((self.sums, place, result),))
        return store_result(self.context, self.group, self.c.index(where), result)


def _runs_along(var: Var, store: Store) -> bool:
    """Whether what a store reads and writes along a loop lies side by side, or is the same for all its iterations."""
    loads = [e for e in postorder(roots_of(store)) if isinstance(e, Load)]
    written = all(index.coefficient(var) == 1 for _, index, _ in store.targets)
    return written and all(e.guard is None and e.index.coefficient(var) in (0, 1) for e in loads)


def _clear(acc: Buffer, lanes: int) -> tuple[Stmt, ...]:
    part, lane = Var("a", acc.size // lanes), Var("l", lanes)
    store = Store(((acc, as_index(part) * lanes + as_index(lane), Const(0.0, acc.dtype)),))
    return (For(part, (For(lane, (store,), "vector"),), "unroll"),)
