"""Convolutions with short rows: the loops over the rows and columns of an image are collapsed.

A tile of a GEMM ends where a row of the result ends, so rows of 20 elements leave 12 of 32 lanes idle. In a padded
image the rows follow each other in memory, `pitch` elements apart, and so do the elements that one tap of the window
reads for consecutive rows. So a tile runs across the ends of rows, and the columns between two rows are computed too
and dropped: 2 of 22 for a window of three. The sums go to scratch memory, and then to the result, row by row::

    for y in 0..20:                                    for n in 0..19*22 + 20, in whole vectors:
      for x in 0..20, in whole vectors:                  sums[n] = sum over k of w[k] * image[n + offset(k)]
        out[y*20 + x] =                         ->     for y in 0..20:
          sum over k of w[k] *                           for x in 0..20, in whole vectors:
            image[y*22 + x + offset(k)]                    out[y*20 + x] = sums[y*22 + x]

The products of an element are added in the same order as in a GEMM, so both give the same bits.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Const, Kernel, Load, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.context import Context, finish_kernel, store_result
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm_plan import GemmPlan, gemm_plan_of
from adjoint.lower.contractions.gemm_prefetch import PrefetchSlots
from adjoint.lower.contractions.packing import pack_left
from adjoint.lower.contractions.prefetch import Region, region, spread_prefetches
from adjoint.lower.contractions.register_tile import RegisterTile
from adjoint.lower.contractions.tile_cost import IN_PLACE, ranked_tiles
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, tiled, unravel, vector_loops

__all__ = ["CollapsedPlan", "collapsed_kernels", "plan_collapsed"]


@dataclass(frozen=True, slots=True)
class CollapsedPlan:
    """How a convolution runs whose rows and columns are collapsed.

    Parameters
    ----------
    contraction : Contraction
        The convolution.
    row : Var
        The axis of the result that is collapsed with its columns.
    rows : int
        Rows of the image that a unit computes.
    gemm : GemmPlan
        How the sums of a unit are computed. Its columns are those of all rows, with what is between them.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    row: Var
    rows: int
    gemm: GemmPlan
    cycles: float

    def __str__(self) -> str:
        return f"collapsed {self.gemm.tile}"

    @property
    def pitch(self) -> int:
        """Elements from one row of the image to the next."""
        return self.contraction.right.index.coefficient(self.row) or 0

    def columns(self, rows: int) -> int:
        """Columns of so many rows, with what is between them."""
        return _columns(self.contraction, self.pitch, rows)


def plan_collapsed(target: Target, c: Contraction) -> CollapsedPlan | None:
    """The plan of a convolution; None if rows do not follow each other, or collapsing them would save no lanes."""
    row, lanes = _row(c), target.lanes(c.dtype)
    if row is None or c.left.dtype != c.dtype or c.right.dtype != c.dtype:
        return None
    pitch = c.right.index.coefficient(row) or 0
    if pitch >= ceil(c.columns / lanes) * lanes:
        return None
    tallest = min(c.rows, costs.MAX_ROWS)
    most = costs.l1_bytes(target) // 2 // (tallest * pitch * c.dtype.itemsize)
    rows = _share(row.extent, most)
    if rows < 2:
        return None
    own = _collapsed(c, row, rows, pitch)
    # The cost model sees a matrix product for each unit.
    chunked = replace(own, batch=(*(v for v in c.batch if v is not row), Var("chunk", ceil(row.extent / rows))))
    ranked = (found for found in ranked_tiles(target, chunked, 0, IN_PLACE) if found[1].stack == 1)
    cycles, tile = next(ranked)
    plan = gemm_plan_of(target, chunked, tile, cycles)
    if plan.form.right != "in place":
        return None
    cycles += c.batches * c.rows * ceil(c.columns / lanes) * costs.COLLAPSED_STORE_CYCLES
    return CollapsedPlan(c, row, rows, replace(plan, contraction=own), cycles * costs.COLLAPSED_COST)


def _row(c: Contraction) -> Var | None:
    """The axis of the rows of an image, which follow each other in memory with some columns in between."""
    if c.m is None or c.runs or c.right.guard is not None or c.right.index.coefficient(c.n) != 1:
        return None
    rows = [v for v in c.batch if (c.right.index.coefficient(v) or 0) > c.columns]
    found = min(rows, key=lambda v: c.right.index.coefficient(v) or 0, default=None)
    return found if found is not None and c.left.index.coefficient(found) == 0 else None


def _share(extent: int, most: int) -> int:
    """Rows of a unit: a divisor of all of them, unless that would be less than half of what there is room for."""
    room = min(extent, most)
    divisor = max((d for d in range(1, room + 1) if extent % d == 0), default=0)
    return divisor if 2 * divisor >= room else room


def _columns(c: Contraction, pitch: int, rows: int) -> int:
    """Columns of so many rows of the image, with what is between them."""
    return (rows - 1) * pitch + c.columns


def _collapsed(c: Contraction, row: Var, rows: int, pitch: int) -> Contraction:
    """The contraction with the columns of several rows, in the image behind its `row`."""
    n = Var(c.n.name, _columns(c, pitch, rows))
    right = Load(c.right.buffer, c.right.index.substitute({c.n: as_index(n)}))
    return replace(c, right=right, n=n, batch=tuple(v for v in c.batch if v is not row))


def collapsed_kernels(context: Context, group: Group, plan: CollapsedPlan) -> list[Kernel]:
    """The kernels of a plan: packing of the weights where planned, and the convolution."""
    kernels, gemm = [], plan.gemm
    if gemm.form.left == "whole":
        packing, packed = pack_left(context, group, gemm)
        kernels.append(packing)
        gemm = replace(gemm, contraction=packed)
    kernels.append(_Builder(context, group, replace(plan, gemm=gemm)).kernel())
    return kernels


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds the kernel of a plan. A unit computes some rows of the image in some channels of the result."""

    context: Context
    group: Group
    plan: CollapsedPlan

    def kernel(self) -> Kernel:
        """The convolution."""
        c, plan, tile = self.plan.contraction, self.plan, self.plan.gemm.tile
        others = [v for v in c.batch if v is not plan.row]
        block, chunk = Var("block", ceil(c.rows / tile.rows)), Var("chunk", ceil(plan.row.extent / plan.rows))
        axes = [*others, block, chunk]
        unit = Var("u", prod(v.extent for v in axes))
        at = unravel(axes, as_index(unit))
        down, along = at.pop(block), at.pop(chunk)
        # The tiles of an image prefetch the next one.
        units, images = block.extent * chunk.extent, prod(v.extent for v in others)
        following = unravel(others, (as_index(unit) // units + 1) % images)
        start = {v: as_index(0) for v in (*c.axes, *c.k)} | following
        box = {v: v.extent for v in (plan.row, c.n, *c.k)}
        image = region(self.context, self.group, c.right.buffer, c.right.index, box, start)
        image = image.share(as_index(unit) % units, units) if image is not None else None
        width = ceil(plan.columns(plan.rows) / plan.gemm.lanes) * plan.gemm.lanes
        sums = Buffer("sums", c.dtype, min(c.rows, tile.rows) * width, "scratch")

        def strip(rows: int, row: Index) -> tuple[Stmt, ...]:
            def some(high: int, first: Index) -> tuple[Stmt, ...]:
                where = {**at, plan.row: first}
                return (
                    *self.multiply(sums, width, (rows, high), row, where, image),
                    *self.store(sums, width, (rows, high), row, where),
                )

            return tiled(along, plan.row.extent, plan.rows, some)

        body = tiled(down, c.rows, tile.rows, strip)
        points = c.batches * c.rows * c.columns
        zero = {v: as_index(0) for v in c.axes}
        epilogue = store_result(self.context, self.group, c.index(zero), Const(0.0, c.dtype))
        work = 2.0 * points * c.depth + flops_of([v for _, _, v in epilogue.targets]) * points
        name = self.context.name_of(self.group)
        return finish_kernel(self.context, name, self.group.members, unit, body, work)

    def multiply(
        self,
        sums: Buffer,
        width: int,
        size: tuple[int, int],
        row: Index,
        at: dict[Var, Index],
        ahead: Region | None,
    ) -> Sequence[Stmt]:
        """The sums of so many channels and rows of the image, tile by tile, to scratch memory; prefetches `ahead`."""
        gemm, (rows, high) = self.plan.gemm, size
        columns = self.plan.columns(high)
        panel = Var("panel", ceil(columns / gemm.columns))
        builder = RegisterTile(self.context, self.group, gemm, Var("s", 1))

        def keep(acc: Buffer, spot: Index, m: Index, n: Index) -> Store:
            return Store(((sums, (m - row) * width + n, Load(acc, spot)),))

        def lines(slot: Index) -> tuple[Stmt, ...]:
            assert ahead is not None
            return spread_prefetches([ahead], as_index(panel) * rows + slot, panel.extent * rows)

        def tile(wide: int, column: Index) -> tuple[Stmt, ...]:
            slots = PrefetchSlots(rows, lines) if ahead is not None else None
            return builder.tile((rows, wide), row, column, at, keep, slots)

        return nest([panel], tiled(as_index(panel), columns, gemm.columns, tile))

    def store(
        self, sums: Buffer, width: int, size: tuple[int, int], row: Index, at: dict[Var, Index]
    ) -> Sequence[Stmt]:
        """The result and the epilogue of what is in scratch memory, row by row of the image."""
        c, plan, (rows, high) = self.plan.contraction, self.plan, size
        i, y = Var("i", rows), Var("y", high)
        assert c.m is not None
        there = {**{v: as_index(0) for v in c.axes}, **at, c.m: row + as_index(i), plan.row: at[plan.row] + as_index(y)}

        def point(x: Index, _lane: Index) -> tuple[Store]:
            found = Load(sums, as_index(i) * width + as_index(y) * plan.pitch + x)
            return (store_result(self.context, self.group, c.index({**there, c.n: x}), found),)

        return nest([i, y], vector_loops(c.columns, plan.gemm.lanes, point))
