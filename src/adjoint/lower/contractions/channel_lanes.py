"""Convolutions with lanes along the channels of the result: weights are packed into vectors, pixels are broadcast.

A GEMM has its lanes along the rows of an image: short rows leave some of them idle, and windows that move by two
elements need shuffles. Here a register tile has some pixels of the result and a few vectors of its channels. Panels of
weights are packed up front. A unit computes a panel of channels for a group of rows, few enough that the part of the
image that they read stays in the second-level cache while all panels meet it, one after the other::

    for each panel, step, lane:        panels[panel, step, lane] = weight[panel*32 + lane, step]
    for each group of rows, panel:
      for each block of steps:                              a block of a panel stays in a cache
        for each tile of pixels in the group:
          for step in block:
            sums[pixel, lanes] += image[pixel, step] * panels[panel, step, lanes]
      turned[lane, pixels] = sums[pixels, lane]             squares transposed in registers
      out[lane, pixels] = epilogue(turned[lane, pixels])

If there is one group of rows, or one for each core, units pack each block of their panel when they meet it, so that no
core reads what another has written.

Products with the zeros around an image are left out (`borders`), and if all of them are, an image that is in memory
without its border is read there. The products of an element are added in the same order as in a GEMM, so both give the
same bits for finite numbers. Libraries of convolutions call this a direct convolution with blocked channels (Georganas
et al., "Anatomy of high-performance deep learning convolutions on SIMD architectures", 2018).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, For, Kernel, Load, Stmt, Store, When
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.contractions.borders import Border
from adjoint.lower.contractions.channel_lanes_plan import ChannelLanesPlan
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.conversion import convert_operands
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.contractions.packing import pack_columns, pack_panel
from adjoint.lower.contractions.prefetch import Region, prefetch_slots, region, spread_prefetches
from adjoint.lower.contractions.split_k_reduction import TransposingEpilogue, row_blocks
from adjoint.lower.contractions.tile_cost import Form, Tile
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, pieces, ravel, tiled, unravel

__all__ = ["channel_lanes_kernels"]


def channel_lanes_kernels(context: Context, group: Group, plan: ChannelLanesPlan) -> list[Kernel]:
    """The conversion of an image of 16 bits, the packing of the weights unless units do it, and the convolution."""
    c = plan.contraction
    kernels, c = convert_operands(context, group, c, False, c.right.dtype != c.dtype)
    plan = replace(plan, contraction=c)
    swapped = replace(c, left=c.right, right=c.left, m=c.n, n=plan.lane)
    weights = GemmPlan(swapped, Tile(1, plan.vectors), plan.lanes, Form(swapped=True, right="whole"))
    if plan.packs_blocks:
        size = plan.block * prod(v.extent for v in c.k[1:]) * plan.width
        return [*kernels, _Builder(context, group, plan, weights, Buffer("panel", c.dtype, size, "scratch")).kernel()]
    packing, packed = pack_columns(context, group, weights)
    return [*kernels, packing, _Builder(context, group, plan, weights, packed.right.buffer).kernel()]


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds the convolution.

    `weights` is how they are packed, and `panels` the packed ones: ``[batch, panel, step, lane]``, or a block of a
    panel.
    """

    context: Context
    group: Group
    plan: ChannelLanesPlan
    weights: GemmPlan
    panels: Buffer

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    def kernel(self) -> Kernel:
        """Each unit is a group of rows, a point of the batch, and a panel."""
        plan, c = self.plan, self.c
        axis, inner = plan.rows[plan.shared], plan.rows[plan.shared + 1 :]
        chunk, panel = Var("chunk", ceil(axis.extent / plan.share)), Var("panel", plan.panels)
        around = [*plan.rows[: plan.shared], chunk]
        axes = [*around, *plan.batch, panel]
        unit = Var("u", prod(v.extent for v in axes))
        at = unravel(axes, as_index(unit))
        along, number = at.pop(chunk), at.pop(panel)
        sums = Buffer("sums", c.dtype, plan.share * prod(v.extent for v in inner) * plan.width, "scratch")
        ahead = self.next_group(as_index(unit), around, unit.extent)
        work = 0.0

        def columns(count: int, first: Index) -> tuple[Stmt, ...]:
            def some(high: int, begin: Index) -> tuple[Stmt, ...]:
                nonlocal work
                one = _Unit(self, at, (number, count, first), (Var(axis.name, high), *inner), begin, sums, ahead)
                statements, work = one.epilogue()
                return (*one.products(), *statements)

            return tiled(along, axis.extent, plan.share, some)

        body = tiled(number, plan.lane.extent, plan.width, columns)
        flops = 2.0 * prod(v.extent for v in c.axes) * c.depth + work
        return finish_kernel(self.context, self.context.name_of(self.group), self.group.members, unit, body, flops)

    def next_group(self, unit: Index, around: Sequence[Var], units: int) -> Region | None:
        """The unit's share of what the next group of rows reads, if that stays in cache until then."""
        plan, c = self.plan, self.c
        if plan.groups == 1 or not plan.stays(self.context.target):
            return None
        groups = prod(v.extent for v in around)
        inside, axis = units // groups, plan.rows[plan.shared]
        following = unravel(around, (unit // inside + 1) % groups)
        start = {v: as_index(0) for v in (*c.axes, *c.k)} | following
        start[axis] = following[around[-1]] * plan.share
        box = {v: v.extent for v in (*plan.rows[plan.shared :], *plan.batch, *c.k)} | {axis: plan.share}
        found = region(self.context, self.group, c.right.buffer, c.right.index, box, start)
        return found.share(unit % inside, inside) if found is not None else None


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit of work.

    `at` are the outer rows and the point of the batch, `panel` the number of the panel, its channels and the first of
    them; `rows` are the axes of the unit, the outermost of which starts at `begin`.
    """

    builder: _Builder
    at: dict[Var, Index]
    panel: tuple[Index, int, Index]
    rows: tuple[Var, ...]
    begin: Index
    sums: Buffer
    ahead: Region | None

    @property
    def width(self) -> int:
        """The panel's channels in whole vectors: lanes past the end hold anything."""
        lanes = self.builder.plan.lanes
        return ceil(self.panel[1] / lanes) * lanes

    def products(self) -> tuple[Stmt, ...]:
        """The sums of all pixels of the unit, block by block of the panel."""
        plan = self.builder.plan
        along = [pieces(v.extent, t) for v, t in zip(self.rows, plan.tile[plan.shared :], strict=True)]
        if self._columns_border is not None:
            along[-1] = self._columns_border.tiles(plan.tile[-1])
        every = list(product(*along))
        most = max(every, key=lambda some: prod(many * size for _, many, size in some))
        blocks = pieces(plan.contraction.k[0].extent, plan.block)
        out = self._clear() if plan.block < plan.contraction.k[0].extent else ()
        for begin, many, size in blocks:
            number = Var("kb", many)
            steps = as_index(number) * size + begin, size
            ahead = self._prefetch_regions(number, size) if begin == 0 else []
            body = [*self._pack(steps)] if plan.packs_blocks else []
            body += [s for some in every for s in self._tiles(some, steps, ahead if some is most else [])]
            out += nest([number], tuple(body))
        return out

    def _pack(self, steps: tuple[Index, int]) -> tuple[Stmt, ...]:
        """Pack the block of the panel from a step on, of so many steps."""
        builder, (_, columns, begin), (start, size) = self.builder, self.panel, steps
        return pack_panel(builder.weights, self.at, builder.panels, begin, columns, builder.plan.width, start, size)

    def _prefetch_regions(self, block: Var, size: int) -> list[Region]:
        """The next block of the panel, and what it will meet of the image, or this block's share of the next group."""
        plan, c, context, group = self.builder.plan, self.builder.c, self.builder.context, self.builder.group
        many = block.extent
        panel = self._prefetch_weights(as_index(block) + 1, size)
        image = self.ahead.share(as_index(block), many) if self.ahead is not None else None
        if not plan.stays(context.target):
            own = {v: as_index(0) for v in self.rows}
            corner = {**{v: as_index(0) for v in (*c.axes, *c.k)}, **self.placed(own)}
            corner[c.k[0]] = (as_index(block) + 1) % many * size
            outer, *inner = self.rows
            box = {plan.rows[plan.shared]: outer.extent, **{v: v.extent for v in (*inner, *c.k[1:])}, c.k[0]: size}
            image = region(context, group, c.right.buffer, c.right.index, box, corner)
        return [found for found in (panel, image) if found is not None]

    def _prefetch_weights(self, block: Index, size: int) -> Region | None:
        """A block of the panel, or the weights that are packed into it."""
        plan, c, context, group = self.builder.plan, self.builder.c, self.builder.context, self.builder.group
        if plan.packs_blocks:
            _, columns, begin = self.panel
            start = {**{v: as_index(0) for v in (*c.axes, *c.k)}, **self.at, plan.lane: begin, c.k[0]: block * size}
            box = {plan.lane: columns, c.k[0]: size, **{v: v.extent for v in c.k[1:]}}
            return region(context, group, c.left.buffer, c.left.index, box, start)
        elements = prod(v.extent for v in c.k[1:]) * size * plan.width
        step = Var("s", elements)
        at = {step: self.panel_start() + block * elements}
        return region(context, group, self.builder.panels, as_index(step), {step: elements}, at)

    def _clear(self) -> tuple[Stmt, ...]:
        vector, lane = Var("s", prod(v.extent for v in self.rows) * self.width // self._lanes), Var("l", self._lanes)
        spot = as_index(vector) * self._lanes + as_index(lane)
        return (For(vector, (For(lane, (Store(((self.sums, spot, Const(0.0, self.sums.dtype)),)),), "vector"),)),)

    @property
    def _lanes(self) -> int:
        return self.builder.plan.lanes

    def _tiles(
        self, some: Sequence[tuple[int, int, int]], steps_of: tuple[Index, int], ahead: Sequence[Region]
    ) -> tuple[Stmt, ...]:
        """The tiles of one size: their sums in registers meet a block of the panel, its first step and their number."""
        c = self.builder.c
        tiles = [Var(f"b{n}", many) for n, (_, many, _) in enumerate(some)]
        corner = {
            v: as_index(tile) * size + first for v, tile, (first, _, size) in zip(self.rows, tiles, some, strict=True)
        }
        steps = [Var(v.name.replace("r", "k"), v.extent) for v in c.k]
        steps[0] = Var(steps[0].name, steps_of[1])
        sizes = [size for _, _, size in some]
        acc = Buffer("acc", c.dtype, prod(sizes) * self.width, "register")
        tile = _Tile(self, corner, sizes, acc, steps_of[0])
        border = self._columns_border
        every = [(0, c.k[-1].extent, (0, sizes[-1]))]
        runs = border.runs(some[-1][0], sizes[-1]) if border is not None else every
        whole = runs == every
        around, after, spots = prefetch_slots(ahead, steps if whole else steps[:-1], prod(v.extent for v in tiles))
        k = {v: spots[step] for v, step in zip(c.k, steps, strict=False) if step in spots}
        k[c.k[0]] = k.get(c.k[0], as_index(0)) + steps_of[0]
        walk = (*tiles, *around)
        hint = spread_prefetches(ahead, ravel(walk, {v: as_index(v) for v in walk}), prod(v.extent for v in walk))
        if whole:
            body = self._inside(nest(after[-1:], tile.multiply(k, (0, sizes[-1]))), corner, k)
            after = after[:-1]
        else:
            body = ()
            for begin, many, pixels in runs:
                # A loop, even of one iteration: pixels are read again for each step (`codegen.strength_reduction`).
                step = Var(steps[-1].name, many)
                body += (For(step, tile.multiply(k | {c.k[-1]: as_index(step) + begin}, pixels)),)
            body = self._inside(body, corner, k)
        products = nest(around, (*hint, *nest(after, body)))
        return nest(tiles, (*tile.fetch(), *products, *tile.put()))

    @property
    def _columns_border(self) -> Border | None:
        """The border along the last axis, if tiles leave out single pixels."""
        plan = self.builder.plan
        return next((b for b in plan.borders if b.step is plan.contraction.k[-1] and plan.leaves_out(b)), None)

    def _inside(self, body: tuple[Stmt, ...], corner: dict[Var, Index], k: dict[Var, Index]) -> tuple[Stmt, ...]:
        """Do something if the row of the image that a tile of one row meets is inside."""
        plan = self.builder.plan
        at = self.placed(corner)
        for border in plan.borders:
            if border.step is not plan.contraction.k[-1] and plan.leaves_out(border):
                body = (When(border.coordinate(at[border.row], k[border.step]), 0, border.extent, body),)
        return body

    def placed(self, own: dict[Var, Index]) -> dict[Var, Index]:
        """The coordinates of pixels of the unit in the image."""
        shared = self.builder.plan.rows[self.builder.plan.shared]
        inner = {v: index for v, index in own.items() if v is not self.rows[0]}
        return {**self.at, **inner, shared: self.begin + own[self.rows[0]]}

    def panel_start(self) -> Index:
        """Where the panel begins in its buffer."""
        plan = self.builder.plan
        if plan.packs_blocks:
            return as_index(0)
        return (ravel(plan.batch, self.at) * plan.panels + self.panel[0]) * (plan.contraction.depth * plan.width)

    def epilogue(self) -> tuple[tuple[Stmt, ...], float]:
        """Transpose the sums and store them; and the operations of the epilogue of all units."""
        plan, c = self.builder.plan, self.builder.c
        shared, inner = plan.rows[plan.shared], self.rows[1:]
        points = prod(v.extent for v in inner)
        some = row_blocks(self.rows[0].extent, points)[0]
        iteration, local = Var("t", self.rows[0].extent // some), Var(shared.name, some)
        placed = replace(c, place=c.index(self.at))
        first = self.begin + as_index(iteration) * some
        ends = TransposingEpilogue(
            self.builder.context, self.builder.group, placed, plan.lane, (shared, *inner), (local, *inner), first
        )
        _, columns, begin = self.panel
        start = as_index(iteration) * (some * points * self.width)
        end, work = ends.of(self.sums, start, self.width, (columns, begin))
        return nest([iteration], end), work


@dataclass(frozen=True, slots=True)
class _Tile:
    """A register tile of a unit: where it begins along each axis, its extents, and its sums in registers.

    `first` is the first step of the block of the panel.
    """

    unit: _Unit
    corner: dict[Var, Index]
    sizes: Sequence[int]
    acc: Buffer
    first: Index

    def fetch(self) -> tuple[Stmt, ...]:
        """Load the sums of the blocks before; zeros in the first block, if there is one only."""
        unit, plan = self.unit, self.unit.builder.plan

        def one(spot: Index, place: Index, _: dict[Var, Index], __: Index) -> Store:
            several = plan.block < plan.contraction.k[0].extent
            return Store(((self.acc, spot, Load(unit.sums, place) if several else Const(0.0, self.acc.dtype)),))

        return self._sweep(one, (0, self.sizes[-1]))

    def multiply(self, k: dict[Var, Index], pixels: tuple[int, int]) -> tuple[Stmt, ...]:
        """Add the products of a step; of some pixels along the last axis, the first and the one after the last."""
        unit, plan, c = self.unit, self.unit.builder.plan, self.unit.builder.c
        outermost = k[c.k[0]] - self.first if plan.packs_blocks else k[c.k[0]]
        weights = unit.panel_start() + ravel(c.k, {**k, c.k[0]: outermost}) * plan.width

        def one(spot: Index, _: Index, own: dict[Var, Index], column: Index) -> Store:
            pixel, weight = c.element(c.right, {**own, **k}), Load(unit.builder.panels, weights + column)
            return Store(((self.acc, spot, Apply("fma", (pixel, weight, Load(self.acc, spot)), c.dtype)),))

        return self._sweep(one, pixels)

    def put(self) -> tuple[Stmt, ...]:
        """Store the sums."""

        def one(spot: Index, place: Index, _: dict[Var, Index], __: Index) -> Store:
            return Store(((self.unit.sums, place, Load(self.acc, spot)),))

        return self._sweep(one, (0, self.sizes[-1]))

    def _sweep(
        self, one: Callable[[Index, Index, dict[Var, Index], Index], Store], pixels: tuple[int, int]
    ) -> tuple[Stmt, ...]:
        """A statement for each vector of each pixel, from its place in registers and in memory, axes, and column."""
        unit, lanes, (begin, end) = self.unit, self.unit.builder.plan.lanes, pixels
        inner = [Var(f"i{n}", size) for n, size in enumerate(self.sizes)]
        within = [as_index(i) for i in inner]
        inner[-1] = Var(inner[-1].name, end - begin)
        within[-1] = as_index(inner[-1]) + begin
        own = {v: self.corner[v] + i for v, i in zip(unit.rows, within, strict=True)}
        vector, lane = Var("j", unit.width // lanes), Var("l", lanes)
        column = as_index(vector) * lanes + as_index(lane)
        spot = as_index(0)
        for size, i in zip(self.sizes, within, strict=True):
            spot = spot * size + i
        store = one(spot * unit.width + column, ravel(unit.rows, own) * unit.width + column, unit.placed(own), column)
        loop: Stmt = For(vector, (For(lane, (store,), "vector"),), "unroll")
        for var in reversed(inner):
            loop = For(var, (loop,), "unroll")
        return (loop,)
