"""How a convolution with lanes along channels runs (`channel_lanes`): its tile, the rows of a unit, and blocks."""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, prod, sqrt

from adjoint import costs
from adjoint.kernel.index import Var, flatten
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context
from adjoint.lower.contractions.blocking import block_size
from adjoint.lower.contractions.borders import Border, Image, borders_of, image_of, padded_operands, padding_cycles
from adjoint.lower.contractions.contraction import Contraction, transposed_run
from adjoint.lower.contractions.conversion import beforehand_cycles, packing_cycles
from adjoint.lower.contractions.split_k_tile import TileReads, best_tile, evicted_lines

__all__ = ["ChannelLanesPlan", "plan_channel_lanes"]


@dataclass(frozen=True, slots=True)
class ChannelLanesPlan:
    """How such a convolution runs.

    Parameters
    ----------
    contraction : Contraction
        The convolution: `left` are the weights, whose axis `m` are the channels of the result.
    rows : tuple of Var
        The axes of the result that only the image has, outermost first.
    batch : tuple of Var
        The axes of the result that both operands have (groups of channels), outermost first.
    tile : tuple of int
        Extent of a register tile along each of `rows`.
    vectors, lanes : int
        Vectors of a panel, and lanes of a vector.
    shared : int
        The position in `rows` of the axis that units share; those inside it are whole in a unit.
    share : int
        Extent of a unit along it.
    block : int
        Steps of the outermost summed axis in a block of a panel; fewer in the last, if this is no divisor.
    packs_blocks : bool
        Whether each unit packs the blocks of its panel when it meets them, rather than a kernel all panels.
    borders : tuple of Border
        Padding of the image whose products are left out (`borders`).
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    rows: tuple[Var, ...]
    batch: tuple[Var, ...]
    tile: tuple[int, ...]
    vectors: int
    lanes: int
    shared: int
    share: int
    block: int
    packs_blocks: bool
    borders: tuple[Border, ...]
    cycles: float

    def __str__(self) -> str:
        return f"channel_lanes {'x'.join(str(n) for n in (*self.tile, self.vectors))}"

    @property
    def lane(self) -> Var:
        """The axis of the lanes: channels of the result."""
        assert self.contraction.m is not None
        return self.contraction.m

    @property
    def width(self) -> int:
        """Channels of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels of channels; the last may be narrower."""
        return ceil(self.lane.extent / self.width)

    @property
    def groups(self) -> int:
        """Groups of rows."""
        outer = prod(v.extent for v in self.rows[: self.shared])
        return outer * ceil(self.rows[self.shared].extent / self.share)

    @property
    def units(self) -> int:
        """Units of work."""
        return self.groups * prod(v.extent for v in self.batch) * self.panels

    @property
    def most_units(self) -> int:
        """Units of work if each had a vector of channels and a tile of rows: as many as other targets may have."""
        tiles = prod(ceil(v.extent / size) for v, size in zip(self.rows, self.tile, strict=True))
        return tiles * prod(v.extent for v in self.batch) * ceil(self.lane.extent / self.lanes)

    @property
    def read_bytes(self) -> int:
        """Bytes of the image that a unit reads, in all channels."""
        c, rows = self.contraction, self.rows
        along = [(v, v.extent) for v in (*rows[self.shared + 1 :], *c.k[1:])]
        along.append((rows[self.shared], self.share))
        channel, span, images = abs(c.right.index.coefficient(c.k[0]) or 0), 1, 1
        for axis, extent in along:
            step = abs(c.right.index.coefficient(axis) or 0)
            if step < channel:
                span += (extent - 1) * step
            else:
                images *= extent
        return span * images * c.k[0].extent * c.dtype.itemsize

    @property
    def packed_bytes(self) -> int:
        """Bytes of all packed weights."""
        c = self.contraction
        return prod(v.extent for v in self.batch) * self.panels * self.width * c.depth * c.dtype.itemsize

    def leaves_out(self, border: Border) -> bool:
        """Whether tiles can leave out the products at a border: of a tile's only row, or of pixels in a row."""
        if border.step is self.contraction.k[-1] and len(self.contraction.k) > 1:
            return border.row is self.rows[-1] and self.shared < len(self.rows) - 1
        return self.tile[self.rows.index(border.row)] == 1

    def stays(self, target: Target) -> bool:
        """Whether what a unit reads of the image stays in the second-level cache until the next panel meets it."""
        panel = self.width * self.contraction.depth * self.contraction.dtype.itemsize
        return self.read_bytes + panel <= costs.l2_block_bytes(target)


def plan_channel_lanes(context: Context, c: Contraction) -> ChannelLanesPlan | None:
    """The plan with the lowest estimated cost; None for a plain product, and where rows are fused."""
    target = context.target
    if c.m is None or c.runs:
        return None
    # A matrix runs along n or k; every second pixel of an image does not.
    if not c.k or (len(c.k) == 1 and 1 in (c.right.index.coefficient(c.n), c.right.index.coefficient(c.k[0]))):
        return None
    axes = [v for v in c.axes if v.extent > 1 and v is not c.m]
    batch = tuple(v for v in axes if c.left.index.coefficient(v))
    rows = tuple(v for v in axes if v not in batch)
    if c.n not in rows or any(not c.right.index.coefficient(v) for v in rows):
        return None
    # Gradients of weights sum over images; a panel of one image must stay in a cache, and wide ones in the first.
    least = prod(v.extent for v in c.k[1:]) * target.vector_bytes
    if least > costs.l2_block_bytes(target):
        return None
    most = max(costs.l1_bytes(target) // least, 1)
    planner = _Planner(context, c, rows, batch)
    best = planner.plan(min(most, costs.CHANNEL_LANES_VECTORS))
    if best.units >= costs.least_units(target) and prod(v.extent for v in rows) > costs.CHANNEL_LANES_POINTS:
        return best
    # Narrower panels are more units, and so few rows may be one group.
    narrower = (planner.plan(most) for most in range(1, best.vectors))
    return min((best, *narrower), key=planner.rank)


@dataclass(frozen=True, slots=True)
class _Planner:
    """The planner of a convolution, with the axes of the result that only the image has, and those that both have."""

    context: Context
    c: Contraction
    rows: tuple[Var, ...]
    batch: tuple[Var, ...]

    def plan(self, most: int) -> ChannelLanesPlan:
        """The plan with the lowest estimated cost that has at most so many vectors in a panel."""
        c, rows = self.c, self.rows
        image = image_of(self.context, c.right, rows, c.k) if c.right.dtype == c.dtype else None
        # Tiles of several images read many lines: only where the rows of one are few.
        outer = {next(n for n in range(len(rows)) if prod(v.extent for v in rows[n + 1 :]) < costs.CHANNEL_LANES_FEW)}
        if image is not None and image.borders:
            # Tiles of one row leave out the rows of zeros around an image: then it need not be padded.
            outer.add(len(rows) - 1)
        tiles = [self._tiles(first, most) for first in sorted(outer)]
        found = (
            self._estimated(one, sweep, image)
            for plan, sweep in tiles
            for shared, share in _groups(rows, plan.tile)
            for one in self._packed(replace(plan, shared=shared, share=share))
        )
        return min(found, key=self.rank)

    def _packed(self, plan: ChannelLanesPlan) -> Iterator[ChannelLanesPlan]:
        """How to pack its weights: as a whole for several groups of rows, or in units, for at most one per core."""
        if plan.groups > 1:
            yield plan
        if plan.groups <= self.context.target.cores:
            yield replace(plan, packs_blocks=True)

    def rank(self, plan: ChannelLanesPlan) -> float:
        """What a plan is chosen by: its cycles, and what cores lose to uneven shares and to each other's cache lines.

        How many threads there will be is not known, so uneven shares count by the geometric mean of one and all.
        """
        target, cycles = self.context.target, plan.cycles
        if not plan.packs_blocks:
            cycles += costs.exchange_cycles(target, plan.packed_bytes)
        if plan.groups > 1:
            axes = self.c.axes
            cycles += costs.split_row_cycles(target, prod(v.extent for v in axes[: axes.index(self.rows[0])]))
        if plan.units >= costs.EVEN_UNITS * target.cores:
            return cycles
        vectors, axis, size = ceil(plan.lane.extent / plan.lanes), plan.rows[plan.shared], plan.share
        wide = [min(plan.vectors, vectors - first) for first in range(0, vectors, plan.vectors)]
        rows = [min(size, axis.extent - first) for first in range(0, axis.extent, size)]
        batches, outer = prod(v.extent for v in plan.batch), prod(v.extent for v in plan.rows[: plan.shared])
        work = [count * width for count in rows * outer for width in wide * batches]
        share = costs.largest_share(target, work)
        return cycles * sqrt(share / costs.idle(target, plan.units) if share > costs.EVEN_ENOUGH else 1.0)

    def _tiles(self, outer: int, most: int) -> tuple[ChannelLanesPlan, float]:
        """The best tiles with one point along so many axes, and the cycles of a step of k of all rows."""
        c, rows, itemsize = self.c, self.rows, self.c.dtype.itemsize
        lanes = costs.useful_lanes(self.context.target, c.rows, itemsize)
        target = self.context.target.narrowed(lanes * itemsize)
        padded = padded_operands(self.context, c)
        borders = borders_of(padded, c.right, rows, c.k, costs.MAX_INSIDE_BRANCH)
        reads = TileReads.of(target, c.right, rows[outer:], c.k, lanes * itemsize, most)
        sweep, vectors, tile = best_tile(target, ceil(c.rows / lanes), rows[outer:], reads, borders=borders, most=most)
        tile = (*(1 for _ in rows[:outer]), *tile)
        sweep *= prod(v.extent for v in rows[:outer]) * prod(b.share for b in borders if b.row in rows[:outer])
        if tile[-1] > 1:
            # Along the last axis, of unrolled steps, tiles leave out single pixels; a step takes a latency at least.
            inside = prod(b.share for b in borders if b.row is c.n and b.step is c.k[-1])
            least = costs.chain_cycles(target) / costs.multiply_add_cycles(target, prod(tile) * vectors)
            sweep *= max(inside, min(least, 1.0))
        if borders:
            # Whether a row of the window is inside is a branch.
            many = prod(ceil(v.extent / t) for v, t in zip(rows, tile, strict=True))
            sweep += many * costs.STEP_CYCLES / c.k[-1].extent
        room = costs.l1_bytes(target) // (prod(v.extent for v in c.k[1:]) * vectors * lanes * itemsize)
        block = block_size(c.k[0].extent, max(room, 1))
        return ChannelLanesPlan(c, rows, self.batch, tile, vectors, lanes, 0, 1, block, False, borders, 0.0), sweep

    def _estimated(self, plan: ChannelLanesPlan, sweep: float, image: Image | None) -> ChannelLanesPlan:
        """The plan with its cost; reading the image without its padding, where it leaves out all products with that."""
        c, cycles = self.c, _cycles(self.context.target, plan, sweep)
        if image is None or image.buffer is c.right.buffer or not all(map(plan.leaves_out, image.borders)):
            return replace(plan, cycles=cycles)
        source = replace(c, right=Load(image.buffer, flatten(image.at, image.shape)))
        # Planes of an image without padding are often multiples of the distance at which lines evict each other.
        lost = self._eviction_cycles(plan, source.right) - self._eviction_cycles(plan, c.right)
        saved = padding_cycles(self.context, c.right)
        if lost > saved:
            return replace(plan, cycles=cycles)
        return replace(plan, contraction=source, borders=image.borders, cycles=max(cycles + lost - saved, 1.0))

    def _eviction_cycles(self, plan: ChannelLanesPlan, image: Load) -> float:
        """Cycles to read again what rows of a tile evict of each other in the first-level cache."""
        target = self.context.target
        lines = evicted_lines(target, image, plan.rows, plan.tile)
        tiles = prod(ceil(v.extent / size) for v, size in zip(plan.rows, plan.tile, strict=True))
        batches = prod(v.extent for v in plan.batch)
        nbytes = lines * target.line_bytes * tiles * batches * plan.panels * plan.contraction.depth
        return nbytes / target.l2_bytes_per_cycle


def _groups(rows: tuple[Var, ...], tile: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Possible groups of rows: the position of the axis that units share, and a unit's extent along it.

    A tile that has several points along an axis is whole in a unit.
    """
    outermost = next((n for n, size in enumerate(tile) if size > 1), len(rows) - 1)
    for shared, (axis, step) in enumerate(zip(rows[: outermost + 1], tile, strict=False)):
        inner, most = prod(v.extent for v in rows[shared + 1 :]), ceil(axis.extent / step)
        for many in sorted({ceil(most / n) for n in range(1, most + 1)}):
            share = min(many * step, axis.extent)
            fewest = many == 1 and shared >= min(outermost, len(rows) - 2)
            if share * inner <= costs.CHANNEL_LANES_POINTS or fewest:
                yield shared, share


def _cycles(target: Target, plan: ChannelLanesPlan, sweep: float) -> float:
    """Cycles of all of it: multiply-adds, transfers, sums between blocks, packing, and the epilogue."""
    c, lanes, itemsize = plan.contraction, plan.lanes, plan.contraction.dtype.itemsize
    batches, points = (prod(v.extent for v in axes) for axes in (plan.batch, plan.rows))
    copied = plan.packed_bytes
    compute = batches * plan.panels * sweep * c.depth
    # Each group reads all panels, and each panel reads the part of the image, from where they stay meanwhile.
    moved = plan.groups * copied / costs.copy_bytes_per_cycle(target, copied)
    panel = plan.block * prod(v.extent for v in c.k[1:]) * plan.width * itemsize
    if panel > costs.l1_bytes(target):
        # Each tile reads a block of the panel from the second-level cache.
        tiles = prod(ceil(v.extent / size) for v, size in zip(plan.rows, plan.tile, strict=True))
        moved += tiles * copied / target.l2_bytes_per_cycle
    # Images that do not stay in the second-level cache do in the third, unless there are very many in a unit.
    near, room = target.l2_bytes_per_cycle, costs.l3_block_bytes(target)
    far = target.l3_bytes_per_cycle if plan.read_bytes <= room else costs.far_bytes_per_cycle(target)
    moved += plan.units * plan.read_bytes / (near if plan.stays(target) else far)
    vectors, blocks = batches * points * ceil(c.rows / lanes), ceil(c.k[0].extent / plan.block)
    sums = plan.share * prod(v.extent for v in plan.rows[plan.shared + 1 :]) * plan.width * itemsize
    spilled = costs.spill_cycles(target, sums) * vectors * blocks if blocks > 1 else 0.0
    run = transposed_run(c.left, c.k, [v.extent for v in c.k])
    packing = costs.transpose_cycles(lanes, run.stride) if run.steps >= lanes else costs.GATHER_CYCLES
    packed = copied / itemsize * (packing + packing_cycles(c.left, lanes))
    stores = vectors * costs.CHANNEL_LANES_STORE_CYCLES
    shared = max(compute, moved) + moved * costs.exposed_transfers(target) + spilled + stores
    before = beforehand_cycles(target, c.right)
    if plan.packs_blocks:
        # The weights are read where they are, for each group.
        shared += plan.groups * (packed + copied / costs.copy_bytes_per_cycle(target, copied))
    else:
        # The copy of the weights is written to a cache, or beyond it, and read again.
        before += costs.PACKING_CYCLES + packed + 2 * copied / costs.copy_bytes_per_cycle(target, copied)
    return before + shared * costs.idle(target, plan.units)
