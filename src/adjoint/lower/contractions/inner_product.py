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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby, pairwise, product
from math import ceil, prod
from typing import Literal

from adjoint.kernel.index import Index, Var, as_index, flatten
from adjoint.kernel.ir import (
    Across,
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
    postorder,
    roots_of,
)
from adjoint.kernel.rewrite import rewritten
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import BOOL, I64, output_vars
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_outputs, store_result
from adjoint.lower.contractions.borders import Image, image_of
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.conversion import convert_operands
from adjoint.lower.contractions.depthwise_plan import rows_read
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan, column_axis
from adjoint.lower.contractions.packing import pack_along
from adjoint.lower.contractions.planes import plane_region
from adjoint.lower.contractions.prefetch import Region, region, spread_prefetches
from adjoint.lower.contractions.split_k_reduction import sum_of
from adjoint.lower.elementwise import points_kernel
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, pieces, ravel, tiled, unravel, vector_loops

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
    def image(self) -> Image | None:
        """What the right operand is without the zeros around it, if tiles have whole windows and read that in place."""
        c, plan = self.c, self.plan
        across, step = column_axis(c, plan.unrolled), c.right.index.coefficient(plan.along)
        masks = step == 2 or self.context.target.masks_loads
        if plan.taps is None or c.m is not None or across is None or plan.columns < across.extent or not masks:
            return None
        image = image_of(self.context, c.right, c.axes, c.k) if c.right.dtype == c.dtype else None
        if image is None or not image.borders:
            return None
        high, wide = image.at[-2:]
        apart = high.variables() <= {across, plan.others[-1]} and wide.variables() <= {plan.taps, plan.along}
        return image if apart and wide.coefficient(plan.along) == step else None

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    def kernel(self) -> Kernel:
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

        body = tiled(row_block, c.rows, plan.rows, rows)
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
            following = self._next_step(others, place(as_index(0), as_index(0)), (height, width // deep, across))
            if len(steps) > 1:
                hints, following = self._spread(following, steps), []
            elif not plan.prefetches_step(self.context.target):
                following = []
        every = range(width)
        multiply = self._multiply(acc, height, every, place, following)
        end = self._end(acc, height, width, place)
        if plan.image_rows > 1:
            products = self._shared_rows(acc, width // deep, place, others, steps, across)
            return (*_clear(acc, lanes), *products, *end)
        if self.image is not None:
            products = self._in_place(acc, place, steps, hints)
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

    def _in_place(
        self,
        acc: Buffer,
        place: Callable[[Index, Index], dict[Var, Index]],
        steps: Sequence[Var],
        hints: tuple[Stmt, ...],
    ) -> tuple[Stmt, ...]:
        """All products of a window with an image in place: those with rows above and below it are left out."""
        plan, image = self.plan, self.image
        assert image is not None
        assert plan.taps is not None
        across, deep, row = column_axis(self.c, plan.unrolled), plan.taps.extent, plan.others[-1]
        assert across is not None
        border = image.border(across)
        runs = border.runs(0, across.extent) if border is not None else [(0, row.extent, (0, across.extent))]
        out: list[Stmt] = []
        for first, many, (begin, end) in runs:
            step = Var(steps[-1].name, many)
            moved = {steps[-1]: as_index(step) + first}

            def shifted(index: Index, moved: dict[Var, Index] = moved) -> Index:
                return index.substitute(moved)

            def at(i: Index, j: Index, shifted: Callable[[Index], Index] = shifted) -> dict[Var, Index]:
                return {var: shifted(index) for var, index in place(i, j).items()}

            taps = range(begin * deep, end * deep)
            out += nest([step], (*rewritten(hints, shifted), *self._multiply(acc, 1, taps, at, [])))
        return nest(steps[:-1], tuple(out))

    def _shared_rows(
        self,
        acc: Buffer,
        width: int,
        place: Callable[[Index, Index], dict[Var, Index]],
        others: Sequence[Var],
        steps: Sequence[Var],
        across: Var | None,
    ) -> tuple[Stmt, ...]:
        """All products of a tile of so many rows of the window, some rows of the image at a time."""
        c, plan = self.c, self.plan
        assert plan.taps is not None
        assert across is not None
        taps, lanes, row = plan.taps.extent, plan.lanes, others[-1]
        distance = c.right.index.coefficient(row) or 0, c.right.index.coefficient(across) or 0
        border = self.image.border(across) if self.image is not None else None

        def is_inside(i: int, k0: int) -> bool:
            return border is None or i in range(*border.steps(k0))

        def block(begin: int, many: int, size: int, hint: bool) -> tuple[Stmt, ...]:
            """So many blocks of so many rows of the gradient, from one on."""
            number, chunk = Var("block", many), Var("v", plan.along.extent // lanes)

            def vector(along: Index, active: int) -> tuple[Stmt, ...]:
                beyond = active < lanes and all(e.index.coefficient(plan.along) == 1 for e in (c.left, c.right))
                lane = Var("l", lanes if beyond else active)
                inside = Apply("lt", (Coordinate(as_index(lane), I64), Const(active, I64)), BOOL) if beyond else None
                stores: list[Stmt] = []
                # Each row of the image, once for each tap, meets all rows of the gradient whose windows contain it.
                for readers, tap in product(rows_read(*distance, width, size), range(taps)):
                    for i, k0 in readers:
                        if not is_inside(begin + i, k0):
                            continue
                        where = {**place(as_index(0), as_index(k0 * taps + tap)), plan.along: along + as_index(lane)}
                        where[row] = where[row].substitute({steps[-1]: as_index(number) * size + (begin + i)})
                        spot = as_index(lane) + (k0 * taps + tap) * lanes
                        factors = self._factors(where, inside)
                        stores.append(Store(((acc, spot, Apply("fma", (*factors, Load(acc, spot)), acc.dtype)),)))
                return (For(lane, tuple(stores), "vector"),)

            hints: tuple[Stmt, ...] = ()
            if hint and len(others) > 1 and chunk.extent:
                corner = place(as_index(0), as_index(0))
                following = self._next_step(others, corner, (1, width, across))
                hints = self._spread(following, (*steps[:-1], number, chunk))
            return nest([number], self._along(chunk, vector, hints))

        out: tuple[Stmt, ...] = ()
        for begin, many, size in pieces(steps[-1].extent, plan.image_rows):

            def inside(first: int, size: int = size) -> list[bool]:
                return [is_inside(first + i, k0) for i in range(size) for k0 in range(width)]

            # Blocks in which the same rows are inside have the same code.
            alike = [list(found) for _, found in groupby(range(begin, begin + many * size, size), inside)]
            most = max(alike, key=len) if not begin else None
            blocks = (block(found[0], len(found), size, found is most) for found in alike)
            out += nest(steps[:-1], tuple(s for some in blocks for s in some))
        return out

    def _along(
        self, chunk: Var, vector: Callable[[Index, int], tuple[Stmt, ...]], hints: tuple[Stmt, ...] = ()
    ) -> tuple[Stmt, ...]:
        """The loop over the vectors along the axis of the lanes; `hints` precede each whole one.

        The vectors at both ends of a row of an image in place are apart: they alone reach beyond it.
        """
        lanes, rest = self.plan.lanes, self.plan.along.extent % self.plan.lanes
        apart = self.image is not None and chunk.extent > 1
        last = chunk.extent - 1 if apart and not rest else chunk.extent
        bounds = [0, 1, last, chunk.extent] if apart else [0, chunk.extent]
        out: tuple[Stmt, ...] = ()
        for begin, end in pairwise(bounds):
            step = Var(chunk.name, end - begin)
            at = {chunk: as_index(step) + begin}

            def shifted(index: Index, at: dict[Var, Index] = at) -> Index:
                return index.substitute(at)

            if step.extent:
                whole = vector((as_index(step) + begin) * lanes, lanes)
                out += (
                    (For(step, (*rewritten(hints, shifted), *whole)),)
                    if step.extent > 1
                    else (*rewritten(hints, shifted), *whole)
                )
        return (*out, *vector(as_index(chunk.extent * lanes), rest)) if rest else out

    def _next_step(
        self, others: Sequence[Var], at: Mapping[Var, Index], tile: tuple[int, int, Var | None]
    ) -> list[Region]:
        """What a tile reads in the next step of the outermost summed axis, or the next unit if there is one step."""
        c, (height, width, across) = self.c, tile
        box = {v: v.extent for v in (*others[1:], self.plan.along)}
        box |= {v: n for v, n in ((c.m, height), (across, width)) if v is not None}
        if self.plan.taps is not None:
            box[self.plan.taps] = self.plan.taps.extent
        corner = {v: as_index(0) for v in (*c.axes, *c.k)} | dict(at) | {v: as_index(0) for v in others[1:]}
        outer = [v for v in c.batch if v is not across and v not in self.plan.unrolled]
        following = outer[-1] if outer and self.plan.extents[0] == 1 else others[0]
        corner |= {following: at[following] + 1}
        found = [region(self.context, self.group, c.left.buffer, c.left.index, box, corner)]
        if self.image is None:
            found.append(region(self.context, self.group, c.right.buffer, c.right.index, box, corner))
        else:
            found.append(plane_region(self.context, self.group, self.image, corner))
        return [r for r in found if r is not None]

    def _spread(self, regions: Sequence[Region], steps: Sequence[Var]) -> tuple[Stmt, ...]:
        """Prefetches of regions, spread evenly over the inner loops of some."""
        inner = steps[1:]
        number, count = ravel(inner, {v: as_index(v) for v in inner}), prod(v.extent for v in inner)
        return spread_prefetches(regions, number, count)

    def _multiply(
        self,
        acc: Buffer,
        height: int,
        columns: range,
        place: Callable[[Index, Index], dict[Var, Index]],
        following: Sequence[Region],
    ) -> tuple[Stmt, ...]:
        """The loop along the axis of the lanes: multiply-adds into the accumulators, and prefetches of regions."""
        c, plan = self.c, self.plan
        width = acc.size // (height * plan.lanes)

        def vector(along: Index, active: int) -> tuple[Stmt, ...]:
            # Lanes past the end add zeros: cheaper than masking their accumulators.
            beyond = active < plan.lanes and all(e.index.coefficient(plan.along) == 1 for e in (c.left, c.right))
            i, j, lane = Var("i", height), Var("j", len(columns)), Var("l", plan.lanes if beyond else active)
            column = as_index(j) + columns.start
            where = {**place(as_index(i), column), plan.along: along + as_index(lane)}
            spot = (as_index(i) * width + column) * plan.lanes + as_index(lane)
            inside = Apply("lt", (Coordinate(as_index(lane), I64), Const(active, I64)), BOOL) if beyond else None
            product = Apply("fma", (*self._factors(where, inside), Load(acc, spot)), acc.dtype)
            # The inner loop reads the same vectors again, which stay in registers: those of the shorter side.
            outer, inner = (i, j) if height > len(columns) else (j, i)
            loop = For(lane, (Store(((acc, spot, product),)),), "vector")
            return (For(outer, (For(inner, (loop,), "unroll"),), "unroll"),)

        chunk = Var("v", plan.along.extent // plan.lanes)
        hints = spread_prefetches(following, as_index(chunk), chunk.extent) if following and chunk.extent else ()
        return self._along(chunk, vector, hints)

    def _factors(self, at: Mapping[Var, Index], guard: Expr | None) -> tuple[Expr, Expr]:
        """Both elements at a point; 0 where the guard fails, and beside an image in place."""
        c, image = self.c, self.image
        right = c.element(c.right, at, guard) if image is None else image.element(at, guard)
        return c.element(c.left, at, guard), right

    def _end(
        self, acc: Buffer, height: int, width: int, place: Callable[[Index, Index], dict[Var, Index]]
    ) -> tuple[Stmt, ...]:
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
