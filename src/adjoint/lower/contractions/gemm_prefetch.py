"""What the tiles of a GEMM prefetch: what later tiles will access and neither a cache nor a hardware prefetcher holds.

While a tile is computed, a few lines at a time, it prefetches

- what the epilogue of the next tile reads and writes, such as the parameters that a weight gradient updates;
- its share of the operands that later tiles read first: the next row block of the left one, the next panel of the right
  one, which is a block of k of it where that is packed, or the next image;
- if there is none of these, the rows of the right operand that it reads itself some steps later.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, gcd, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Const, Load, Stmt, postorder
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context, store_result
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm_plan import GemmPlan, iterates_images
from adjoint.lower.contractions.prefetch import Region, region, spread_prefetches
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import unravel

__all__ = [
    "BlockPrefetch",
    "GemmPrefetch",
    "PrefetchSlots",
    "TileOrigin",
    "epilogue_streams",
    "far_accesses",
    "slots_of",
]

#: Where a tile lies: its first row and column, and the other axes.
TileOrigin = tuple[Index, Index, Mapping[Var, Index]]


@dataclass(frozen=True, slots=True)
class PrefetchSlots:
    """The prefetches that accompany a tile: the tile's loop is cut into slots, each with a few lines."""

    slots: int
    lines: Callable[[Index], tuple[Stmt, ...]]


def slots_of(regions: Sequence[Region | None], c: Contraction, steps: int) -> PrefetchSlots | None:
    """The prefetches of some regions during so many steps of the outermost summed axis.

    A slot has two lines, or up to eight if it would have too few steps for a loop. What is written is left out where
    that is not enough: stores do not wait for their lines, and prefetches would take longer than the multiply-adds.
    """
    most = costs.PREFETCH_BURSTS[1] * steps
    crowded = sum(r.lines for r in regions if r is not None) > most
    found = [r for r in regions if r is not None and not (crowded and r.write)]
    if not found or not steps:
        return None
    few, many = (ceil(sum(r.lines for r in found) / burst) for burst in reversed(costs.PREFETCH_BURSTS))
    long = steps // ceil(costs.PREFETCH_STEPS / prod(v.extent for v in c.k[1:]))
    slots = min(max(min(many, long), few), steps)
    # Slots of equal length leave no steps for a loop after them, which would be as long in code.
    slots = next((n for n in range(slots, slots // 2, -1) if steps % n == 0), slots)
    return PrefetchSlots(slots, lambda slot: spread_prefetches(found, slot, slots))


def far_accesses(
    context: Context, group: Group, c: Contraction, at: Mapping[Var, Index]
) -> list[tuple[Buffer, Index, bool]]:
    """Rows of far tensors that an epilogue accesses: (buffer, index in terms of `c.m` and `c.n`, is written).

    Results that it does not read are left out if the second-level cache holds them: stores do not wait for their lines.
    """
    index = c.index({**{v: as_index(v) for v in c.axes}, **at})
    probe = store_result(context, group, index, Const(0.0, c.dtype))
    writes = {(b, i): True for b, i, _ in probe.targets}
    loads = [e for e in postorder([v for _, _, v in probe.targets]) if isinstance(e, Load) and e.guard is None]
    places = {(e.buffer, e.index): False for e in loads} | writes
    read, large = {e.buffer for e in loads}, costs.l2_bytes(context.target)
    return [
        (b, i, write)
        for (b, i), write in places.items()
        if (b.nbytes >= large or (b in read and context.is_far(group, b)))
        and i.coefficient(c.n) == 1
        and (c.m is None or i.coefficient(c.m))
    ]


def epilogue_streams(context: Context, group: Group, c: Contraction) -> int:
    """Number of tensors that the epilogue walks in rows at least a page apart."""
    if c.m is None or iterates_images(context.target, c):
        return 0
    large = [(b, i) for b, i, _ in far_accesses(context, group, c, {}) if b.nbytes >= costs.l2_bytes(context.target)]
    return sum((i.coefficient(c.m) or 0) * b.dtype.itemsize >= costs.PAGE_BYTES for b, i in large)


@dataclass(frozen=True, slots=True)
class GemmPrefetch:
    """The prefetches of one GEMM."""

    context: Context
    group: Group
    plan: GemmPlan

    def in_place(
        self, size: tuple[int, int], origin: Callable[[Index], TileOrigin], unit: Var, inside: int
    ) -> PrefetchSlots | None:
        """The prefetches of a tile from operands in place.

        Parameters
        ----------
        size : tuple of int
            Its rows and columns.
        origin : callable
            Where the tile of a unit lies, by the unit's number.
        unit : Var
            The number of this one.
        inside : int
            Number of consecutive units that share a row block, or a slab of panels if tiles go down the columns.
        """
        c, here = self.plan.contraction, as_index(unit)
        then, later = ((here + 1) % unit.extent, (here // inside + 1) * inside % unit.extent)
        operand = self._next_operand(size, origin(later)) if inside < unit.extent else None
        regions = [
            *self.epilogue(size, origin(then)),
            self._next_image(unit),
            operand and operand.share(here % inside, inside),
        ]
        return slots_of(regions, c, c.k[0].extent if c.k else 0) or self._rows_ahead(size, origin(here))

    def _rows_ahead(self, size: tuple[int, int], origin: TileOrigin) -> PrefetchSlots | None:
        """The rows of the right operand some steps of k ahead, where one tile has all rows of the result.

        Such a tile reads each element once and waits for it: the hardware prefetcher follows long rows, but not parts
        of them that are far apart. Rows whose distance maps them to few sets of the first-level cache would evict each
        other before they are read.
        """
        c, plan, (_, column, at) = self.plan.contraction, self.plan, origin
        if len(c.k) != 1 or plan.tile.stack > 1 or c.rows > plan.tile.rows or c.columns <= size[1]:
            return None
        (k,), ahead = c.k, costs.ROWS_AHEAD
        start = {**{v: as_index(0) for v in c.axes}, **at, c.n: column, k: as_index(0)}
        row, pitch = self._region(c.right, {c.n: size[1]}, start), c.right.index.coefficient(k)
        if row is None or row.runs or not pitch or k.extent <= 2 * ahead:
            return None
        target, apart = self.context.target, abs(pitch) * c.right.dtype.itemsize
        sets = costs.alias_stride(target)
        if 2 * ahead > target.l1.ways * sets // gcd(apart, sets):
            return None
        # Rows that do not begin with a line reach into one more.
        lines = row.lines + (apart % row.line_bytes > 0)

        def lines_ahead(step: Index) -> tuple[Stmt, ...]:
            later = replace(row, start=row.start + (step + ahead) * pitch)
            return tuple(later.prefetch(as_index(n)) for n in range(lines))

        return PrefetchSlots(k.extent - ahead, lines_ahead)

    def packed(
        self,
        size: tuple[int, int],
        here: TileOrigin,
        block: tuple[Index, int],
        panel: Region | None,
        share: tuple[Index, int],
    ) -> PrefetchSlots | None:
        """The prefetches of a tile in the last block of k: its epilogue's, the row block below, and part of a panel.

        `block` is the first step of k and the number of steps, `share` the number of this tile among those that
        prefetch the row block together, and how many these are.
        """
        plan, c = self.plan, self.plan.contraction
        (rows, _), (row, _, at), (start, steps) = size, here, block
        regions = [*self.epilogue(size, here), panel]
        stays = c.left.buffer.nbytes < costs.l2_bytes(self.context.target) and c.columns > plan.columns * plan.wide
        if c.m is not None and len(c.k) == 1 and not stays and not self._passes_once(steps):
            below = {**{v: as_index(0) for v in c.axes}, **at, c.m: row + rows, c.k[0]: start}
            left = self._region(c.left, {c.m: rows, c.k[0]: steps}, below)
            regions.append(left.share(*share) if left is not None else None)
        return slots_of(regions, c, steps if c.k else 0)

    def _passes_once(self, steps: int) -> bool:
        """Whether long rows of the left operand pass by once, at a rate that only hardware prefetchers keep up with."""
        plan, c = self.plan, self.plan.contraction
        long = c.left.index.coefficient(c.k[0]) == 1 and steps * c.left.dtype.itemsize >= costs.PAGE_BYTES
        return long and plan.tile.vectors == 1 and c.columns <= plan.columns

    def panel(self, at: Mapping[Var, Index], column: Index, columns: int, start: Index) -> Region | None:
        """A block of k of a panel of the right operand."""
        c = self.plan.contraction
        if len(c.k) != 1:
            return None
        box = {c.k[0]: self.plan.block, c.n: columns}
        return self._region(c.right, box, {**at, c.k[0]: start, c.n: column})

    def epilogue(self, size: tuple[int, int], origin: TileOrigin) -> list[Region | None]:
        """What the epilogue of a tile accesses."""
        c, (rows, columns), (row, column, at) = self.plan.contraction, size, origin
        start, box = {**{v: as_index(0) for v in c.axes}, **at, c.n: column}, {c.n: columns}
        if self.plan.tile.stack > 1:
            box[c.batch[-1]] = self.plan.tile.stack
        if c.m is not None:
            start[c.m], box[c.m] = row, rows
        accesses = far_accesses(self.context, self.group, c, {})
        return [region(self.context, self.group, b, i, box, start, write) for b, i, write in accesses]

    def _next_image(self, unit: Var) -> Region | None:
        """The share of the next image that a tile of the current one prefetches, where units walk images."""
        c, plan = self.plan.contraction, self.plan
        outer = c.batch[:-1]
        if not outer or plan.order != "images":
            return None
        images = prod(v.extent for v in outer)
        units = unit.extent // images
        start = {v: as_index(0) for v in (*c.axes, *c.k)} | unravel(outer, (as_index(unit) // units + 1) % images)
        image = self._region(c.right, {v: v.extent for v in (c.batch[-1], c.n, *c.k)}, start)
        return image.share(as_index(unit) % units, units) if image is not None else None

    def _next_operand(self, size: tuple[int, int], origin: TileOrigin) -> Region | None:
        """The row block that later tiles read, or the slab of panels if tiles go down the columns."""
        c, plan, (row, column, at) = self.plan.contraction, self.plan, origin
        if len(c.k) != 1 or plan.order == "images" or plan.tile.stack > 1:
            return None
        start = {**{v: as_index(0) for v in c.axes}, **at, c.k[0]: as_index(0), c.n: column}
        if c.m is not None:
            start[c.m] = row
        box = {c.k[0]: c.k[0].extent}
        if plan.order == "rows":
            if c.m is None or c.columns < costs.MIN_PREFETCHED_ROWS:
                return None
            return self._region(c.left, box | {c.m: size[0]}, start)
        if c.rows < costs.MIN_PREFETCHED_ROWS or c.columns <= plan.columns:
            return None
        step = (c.right.index.coefficient(c.k[0]) or 0) * c.right.dtype.itemsize
        # The hardware prefetcher follows long rows, but not the short ones of a panel, which are far apart.
        if step < 2 * plan.columns * c.right.dtype.itemsize or c.right.index.coefficient(c.n) != 1:
            return None
        return self._region(c.right, box | {c.n: size[1] * plan.l2_panels}, start)

    def _region(self, load: Load, box: Mapping[Var, int], start: Mapping[Var, Index]) -> Region | None:
        return region(self.context, self.group, load.buffer, load.index, box, start)


class BlockPrefetch(GemmPrefetch):
    """The prefetches of a GEMM whose tiles all meet a block of k before the next one."""

    def block(
        self, place: tuple[Index, Index, Mapping[Var, Index], Index], size: tuple[int, int], share: tuple[Index, int]
    ) -> list[Region | None]:
        """A tile's share of a block of k of both operands.

        Parameters
        ----------
        place : tuple
            Where the block begins: row, column, coordinates on the axes of the batch, and step of k.
        size : tuple of int
            Its rows and columns.
        share : tuple of Index, int
            The number of the tile, and of all tiles.
        """
        c, (row, column, at, start) = self.plan.contraction, place
        (k,), (rows, columns) = c.k, size
        begin = {**at, k: start, c.n: column} | ({c.m: row} if c.m is not None else {})
        regions = [self._region(c.right, {k: self.plan.block, c.n: columns}, begin)]
        if c.m is not None:
            regions.append(self._region(c.left, {k: self.plan.block, c.m: rows}, begin))
        return [region.share(*share) if region is not None else None for region in regions]
