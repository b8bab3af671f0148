"""Convolutions with few output channels as a GEMM over pixels, whose sums are added up shifted (kn2row).

Few output channels fill no register tile. So all taps of their windows are rows of the GEMM: each pixel of the image
meets the weights of every output channel and tap, and the sums of the taps, shifted, add up to the result::

    for r in 0..channels * taps, pixel:                a GEMM in register tiles, with lanes along all rows of the image
      sums[r, pixel] = sum over c of w[r, c] * image[c, pixel]
    for channel, tap x, pixel:                         taps in a column of the window: whole rows apart
      column[x, pixel] = sum over y of sums[channel, y, x, pixel + y * width]
    for channel, row, x:                               taps in a row: zeros beyond the ends of rows
      out[channel, row, x] = epilogue(sum over x' of column[x', row, x + x'])

Nothing is padded, and rows of any length fill vectors. Rows of zeros above and below the sums stand for those of the
image. A kernel of its own packs the weights.

Anderson, Vasudevan, Keane and Gregg, "Low-memory GEMM-based convolution algorithms for deep neural networks" (2017),
call it kn2row; image gradients of Caffe's convolutions (col2im) work alike.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Expr, Kernel, Load, Stmt, Store
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.context import Context, finish_kernel, store_result
from adjoint.lower.contractions.blocking import tile_lanes
from adjoint.lower.contractions.borders import guarded
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.contractions.gemm_prefetch import PrefetchSlots
from adjoint.lower.contractions.kn2row_plan import Kn2RowPlan, ShiftedRows
from adjoint.lower.contractions.planes import padded_plane
from adjoint.lower.contractions.prefetch import Region, region, spread_prefetches
from adjoint.lower.contractions.register_tile import RegisterTile
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, ravel, tiled, unravel, vector_loops

__all__ = ["kn2row_kernels"]


def kn2row_kernels(context: Context, group: Group, plan: Kn2RowPlan) -> list[Kernel]:
    """The kernel that packs the weights, and the convolution with its epilogue."""
    c, shifted = plan.contraction, plan.shifted
    group_axis = Var("group", shifted.groups)
    of_left = (*(v for v in shifted.others if c.left.index.coefficient(v)), group_axis)
    blocks = ceil(shifted.height / plan.tile.rows)
    size = prod(v.extent for v in of_left) * blocks * shifted.depth * plan.tile.rows
    weights = Buffer(f"{context.name_of(group)}_weights", c.dtype, size, "arena")
    line = (shifted.above + shifted.lines + shifted.below) * shifted.columns
    sums = Buffer("sums", c.dtype, shifted.height * padded_plane(context.target, line, c.dtype), "scratch")
    builder = _Builder(context, group, plan, weights, of_left, sums)
    return [builder.packed_weights(), builder.kernel()]


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds both kernels.

    `of_left` are the axes of the result that units walk and the weights have, the last the groups of output channels;
    `sums` holds the results of the GEMM.
    """

    context: Context
    group: Group
    plan: Kn2RowPlan
    weights: Buffer
    of_left: tuple[Var, ...]
    sums: Buffer

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    @property
    def shifted(self) -> ShiftedRows:
        """What a unit reads."""
        return self.plan.shifted

    @property
    def _lanes(self) -> int:
        return self.context.target.lanes(self.c.dtype)

    @property
    def _pitch(self) -> int:
        """Elements from the sums of a row of the GEMM to those of the next."""
        return self.sums.size // self.shifted.height

    @property
    def _blocks(self) -> int:
        return ceil(self.shifted.height / self.plan.tile.rows)

    def _base(self, at: dict[Var, Index], block: Index) -> Index:
        """Where a block of packed weights starts."""
        return (ravel(self.of_left, at) * self._blocks + block) * (self.shifted.depth * self.plan.tile.rows)

    # The weights

    def packed_weights(self) -> Kernel:
        """Each unit is a block of rows: ``[block, channel, row]``, rows by output channel and tap."""
        c, shifted, height = self.c, self.shifted, self.plan.tile.rows
        blocks, k = Var("block", self._blocks), tuple(Var(v.name, v.extent) for v in shifted.channels)
        unit = Var("u", prod(v.extent for v in (*self.of_left, blocks)))
        at = unravel((*self.of_left, blocks), as_index(unit))
        block = at.pop(blocks)
        of = at[self.of_left[-1]] * shifted.out_channels
        made = Var("m", shifted.out_channels)
        channel = {v: as_index(one) for v, one in zip(shifted.channels, k, strict=True)}
        base = self._base(at, block) + ravel(shifted.channels, channel) * height
        own = (made, shifted.down.step, shifted.across.step)

        def pack(rows: int, first: Index) -> tuple[Stmt, ...]:
            row = Var("i", rows)
            where = {**at, **channel, **unravel(own, first + as_index(row))}
            if c.m is not None:
                where[c.m] = of + where[made]
            return nest([row, *k], (Store(((self.weights, base + as_index(row), c.element(c.left, where)),)),))

        body = tiled(block, shifted.height, height, pack)
        return finish_kernel(self.context, self.weights.name, self.group.members[:1], unit, body, 0.0)

    # The convolution

    def kernel(self) -> Kernel:
        """Each unit is some rows of an image in some output channels."""
        c, shifted = self.c, self.shifted
        unit, part = Var("u", shifted.units), Var("part", shifted.parts)
        axes = (*shifted.others, part, self.of_left[-1])
        at, then = unravel(axes, as_index(unit)), unravel(axes, (as_index(unit) + 1) % unit.extent)
        here = at.pop(part)
        body = (*self._zeros(), *self._multiply(at, here, self._ahead(then, then.pop(part))), *self._end(at, here))
        zero = {v: as_index(0) for v in c.axes}
        epilogue = store_result(self.context, self.group, c.index(zero), Const(0.0, c.dtype))
        points = c.batches * c.rows * c.columns
        work = points * (2.0 * c.depth + flops_of([v for _, _, v in epilogue.targets]))
        return finish_kernel(self.context, self.context.name_of(self.group), self.group.members, unit, body, work)

    def _zeros(self) -> tuple[Stmt, ...]:
        """The rows of zeros above and below the sums."""
        shifted, row = self.shifted, Var("r", self.shifted.height)

        def fill(first: int, rows: int) -> tuple[Stmt, ...]:
            def zero(pixel: Index, _: Index) -> tuple[Stmt, ...]:
                return (Store(((self.sums, as_index(row) * self._pitch + pixel, Const(0.0, self.sums.dtype)),)),)

            return vector_loops(rows * shifted.columns, self._lanes, zero, first * shifted.columns)

        return nest([row], (*fill(0, shifted.above), *fill(shifted.above + shifted.lines, shifted.below)))

    def _ahead(self, then: dict[Var, Index], part: Index) -> Region | None:
        """What the next unit reads of its image."""
        shifted, pixel = self.shifted, Var("s", self.shifted.lines * self.shifted.columns)
        index = shifted.pixel({**{v: as_index(v) for v in self.c.k}, **then}, part, as_index(pixel))
        box = {pixel: pixel.extent, **{v: v.extent for v in shifted.channels}}
        return region(self.context, self.group, shifted.image.buffer, index, box, {v: as_index(0) for v in box})

    def _multiply(self, at: dict[Var, Index], part: Index, ahead: Region | None) -> tuple[Stmt, ...]:
        """The GEMM: all blocks of rows meet a panel of pixels before the next."""
        plan, shifted = self.plan, self.shifted
        pixels, before = shifted.lines * shifted.columns, shifted.above * shifted.columns
        block, neighbour = Var("block", self._blocks), Var("s", 1)
        every = shifted.product(self.weights, as_index(0), (shifted.height, shifted.height), at, part)
        lanes = tile_lanes(self.context.target, every)
        width = plan.tile.vectors * lanes
        panel = Var("panel", ceil(pixels / width))

        def rows(columns: int, column: Index) -> tuple[Stmt, ...]:
            def tile(count: int, first: Index) -> tuple[Stmt, ...]:
                def keep(acc: Buffer, spot: Index, row: Index, column: Index) -> Store:
                    return Store(((self.sums, (first + row) * self._pitch + column + before, Load(acc, spot)),))

                base = self._base(at, as_index(block))
                small = shifted.product(self.weights, base, (count, plan.tile.rows), at, part)
                tiles = RegisterTile(self.context, self.group, GemmPlan(small, plan.tile, lanes), neighbour)
                hints = self._prefetch(small, panel, block, ahead)
                return tiles.tile((count, columns), as_index(0), column, {}, keep, hints)

            return nest([block], tiled(as_index(block), shifted.height, plan.tile.rows, tile))

        return nest([panel], tiled(as_index(panel), pixels, width, rows))

    def _prefetch(self, small: Contraction, panel: Var, block: Var, ahead: Region | None) -> PrefetchSlots | None:
        """The share of the next unit's image that a tile prefetches."""
        if ahead is None:
            return None
        slots = min(small.k[0].extent, costs.PREFETCH_SLOTS)
        step = (as_index(panel) * block.extent + as_index(block)) * slots
        steps = panel.extent * block.extent * slots
        return PrefetchSlots(slots, lambda slot: spread_prefetches([ahead], step + slot, steps))

    def _end(self, at: dict[Var, Index], part: Index) -> tuple[Stmt, ...]:
        """Add up the sums of the taps, and apply the epilogue."""
        c, shifted = self.c, self.shifted
        down, across = shifted.down, shifted.across
        size = shifted.rows * shifted.columns
        pitch = padded_plane(self.context.target, size, c.dtype)
        column = Buffer("column", c.dtype, across.step.extent * pitch, "scratch")
        channel, row, tap = Var("m", shifted.out_channels), Var("y", shifted.rows), Var("x", across.step.extent)

        def down_the_column(pixel: Index, _: Index) -> tuple[Stmt, ...]:
            terms: list[Expr] = []
            for n in range(down.step.extent):
                of = (as_index(channel) * down.step.extent + n) * tap.extent + as_index(tap)
                start = shifted.line(part, as_index(0), n) * shifted.columns
                terms.append(Load(self.sums, of * self._pitch + start + pixel))
            return (Store(((column, as_index(tap) * pitch + pixel, _sum(terms, c)),)),)

        def along_the_row(x: Index, _: Index) -> tuple[Stmt, ...]:
            terms: list[Expr] = []
            for n in range(tap.extent):
                at_tap = across.coordinate(x, as_index(n))
                spot = n * pitch + as_index(row) * shifted.columns + at_tap
                terms.append(Load(column, spot, guarded(at_tap, shifted.columns)))
            where = {**{v: as_index(0) for v in c.axes}, **at, c.n: x}
            where[down.row] = part * shifted.rows + as_index(row)
            if c.m is not None:
                where[c.m] = at[self.of_left[-1]] * channel.extent + as_index(channel)
            return (store_result(self.context, self.group, c.index(where), _sum(terms, c)),)

        columns = nest([tap], vector_loops(size, self._lanes, down_the_column))
        runs = pairwise(self._ends())
        ends = [s for begin, end in runs for s in vector_loops(end - begin, self._lanes, along_the_row, begin)]
        return nest([channel], (*columns, *nest([row], tuple(ends))))

    def _ends(self) -> list[int]:
        """The ends of a row of the result, and where CPUs without masks find all taps inside the image between them."""
        across, columns = self.shifted.across, self.c.columns
        if self.context.target.masks_loads:
            return [0, columns]
        taps = [across.coordinate(as_index(0), as_index(n)).low for n in range(across.step.extent)]
        first, last = max(-min(taps), 0), min(self.shifted.columns - max(taps), columns)
        return [0, first, last, columns] if 0 < last - first < columns else [0, columns]


def _sum(terms: Sequence[Expr], c: Contraction) -> Expr:
    """The sum of several terms, one after the other."""
    return reduce(lambda a, b: Apply("add", (a, b), c.dtype), terms)
