"""Which contractions run as split-K (`split_k`) or M-blocked GEMM (`m_blocked`), in which tiles, blocks and splits.

The number of splits and the direction in which k is walked decide the order in which an element's products are added.
They follow from shapes alone: they are those of the plan for `adjoint.costs.MODEL`.
"""

from collections.abc import Mapping, Sequence
from math import ceil, prod
from types import MappingProxyType

from adjoint import costs
from adjoint.ir import Value
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Load
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.blocking import block_size
from adjoint.lower.contractions.borders import Border, borders_of
from adjoint.lower.contractions.contraction import Contraction, contiguous_run, transposed_run
from adjoint.lower.contractions.conversion import beforehand_cycles, element_cycles, packing_cycles
from adjoint.lower.contractions.gemm_plan import blocks_within
from adjoint.lower.contractions.split_k_tile import TileReads, best_tile
from adjoint.lower.contractions.split_k_window import Window, packed_steps, windows_of
from adjoint.lower.loops import divisors

__all__ = ["SplitKPlan", "plan_split_k", "split_factor"]

#: No operand is padded.
NOTHING: Mapping[Buffer, Value] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SplitKPlan:
    """How such a contraction runs.

    Parameters
    ----------
    contraction : Contraction
        The contraction.
    panel, other : Load
        The operand that is packed into panels, and the one whose elements are broadcast.
    lane : Var
        The axis of the result along panels, which only `panel` has.
    rows : tuple of Var
        The axes of the result that only `other` has, and those of `windows`, outermost first.
    batch : tuple of Var
        The axes of the result that both have (groups of a convolution), outermost first.
    tile : tuple of int
        Extent of a register tile along each row axis. Along one axis, a shorter one may remain.
    vectors, lanes : int
        Vectors of a panel, and lanes of a vector.
    blocks : tuple of int
        Block size of each summed axis: one step of the axes outside the one that is `divided`, all steps of those
        inside it. Along that one, a shorter block may remain, unless `m_blocked` or where there are `windows`.
    parts : int
        Splits of the outermost summed axis; a divisor of it.
    groups : int
        Row groups along the outermost row axis, each of which packs the panels that it meets: of equal numbers of
        tiles, but for the last one. 1 where a shorter tile remains.
    m_blocked : bool
        Whether panels are packed once, up front, for row groups that stay in cache (`m_blocked`).
    convert_other : bool
        Whether `other`, of 16 bits, is converted beforehand (`conversion`).
    borders : tuple of Border
        Padding of `other` whose products are left out; tiles have one row along their axes.
    branches : tuple of Border
        The same along axes that blocks divide, or with few such products: there, each step is a branch.
    windows : tuple of Window
        The row axes along which not `other`, but the panel is shifted.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    panel: Load
    other: Load
    lane: Var
    rows: tuple[Var, ...]
    tile: tuple[int, ...]
    vectors: int
    lanes: int
    blocks: tuple[int, ...]
    batch: tuple[Var, ...] = ()
    parts: int = 1
    groups: int = 1
    m_blocked: bool = False
    convert_other: bool = False
    borders: tuple[Border, ...] = ()
    branches: tuple[Border, ...] = ()
    windows: tuple[Window, ...] = ()
    cycles: float = 0.0

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def units(self) -> int:
        """Units of work."""
        return self.groups * self.parts * self.batches * self.panels

    @property
    def most_units(self) -> int:
        """Units of work with as many row groups as there are tiles, where cores would be idle."""
        return self.units // self.groups * max(self.rows[0].extent // self.tile[0], 1)

    @property
    def group_rows(self) -> int:
        """Rows of a row group along the outermost row axis; the last may have fewer."""
        rows, size = self.rows[0].extent, self.tile[0]
        return ceil(rows // size / self.groups) * size if self.groups > 1 else rows

    @property
    def batches(self) -> int:
        """Contractions along the axes that both operands have."""
        return prod(v.extent for v in self.batch)

    @property
    def panels(self) -> int:
        """Panels along the lanes' axis; the last may be narrower."""
        return ceil(self.lane.extent / self.width)

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps of each summed axis in a split."""
        first, *others = (v.extent for v in self.contraction.k)
        return (first // self.parts, *others)

    @property
    def divided(self) -> int:
        """The number of the summed axis that blocks divide."""
        return _divided(self.steps, self.blocks)

    def __str__(self) -> str:
        return "split_k"


def plan_split_k(target: Target, c: Contraction, padded: Mapping[Buffer, Value] = NOTHING) -> SplitKPlan | None:
    """The plan with the lowest estimated cost, or None where the contraction is of another kind.

    `padded` are the operands with zeros around them.
    """
    model = costs.order_target(target)
    lanes = model.lanes(c.dtype)
    filled = c.columns >= costs.MIN_LANE_USE * ceil(c.columns / lanes) * lanes
    if not c.k or (len(c.k) < 2 and filled):
        return None
    found: list[tuple[SplitKPlan, tuple[Load, Load]]] = []
    for operands in ((c.left, c.right), (c.right, c.left)):
        panel, other = _forwards(c, *operands)
        planner = _planner(model, c, panel, other, borders_of(padded, other, c.axes, c.k, costs.MAX_INSIDE_BRANCH))
        if planner is not None:
            found.append((planner.plan(None), operands))
    without = [f for f in found if not f[0].windows]
    if not found:
        return None
    best, operands = min(without or found, key=lambda f: f[0].cycles)
    if model is target:
        return best
    return _plan_for(target, c, _forwards(c, *operands), best)


def _plan_for(target: Target, c: Contraction, operands: tuple[Load, Load], model: SplitKPlan) -> SplitKPlan | None:
    """The plan with the splits of k and the borders of the model's; where cores would be idle, with smaller tiles."""
    borders = (*model.borders, *model.branches)
    planner = _planner(target, c, *operands, borders, least_fill=0.0)
    if planner is None:
        return None
    best = planner.plan(model.parts)
    if best.units >= costs.least_units(target):
        return best
    shares = divisors(planner.rows[0].extent)
    others = (_planner(target, c, *operands, borders, least_fill=0.0, share=d) for d in shares)
    plans = [best, *(other.plan(model.parts) for other in others if other is not None)]
    return min(plans, key=lambda plan: plan.cycles * costs.imbalance(target, plan.units))


def _forwards(c: Contraction, panel: Load, other: Load) -> tuple[Load, Load]:
    """Both operands with those axes reversed along which the first is read backwards (taps, in gradients)."""
    at = {v: v.extent - 1 - as_index(v) for v in c.k if (panel.index.coefficient(v) or 0) < 0}
    first, second = (Load(load.buffer, load.index.substitute(at)) for load in (panel, other))
    return first, second


@dataclass(frozen=True, slots=True)
class _Planner:
    """Plans for one choice of the operand that is packed; `sweep` are the cycles of a step of k of all rows."""

    target: Target
    c: Contraction
    panel: Load
    other: Load
    lane: Var
    rows: tuple[Var, ...]
    batch: tuple[Var, ...]
    sweep: float
    vectors: int
    tile: tuple[int, ...]
    borders: tuple[Border, ...]
    windows: tuple[Window, ...]

    def plan(self, parts: int | None) -> SplitKPlan:
        """The plan with so many splits of k; by default, the number that suits the target."""
        target, c, panel, vectors, tile = self.target, self.c, self.panel, self.vectors, self.tile
        lanes, itemsize = target.lanes(c.dtype), c.dtype.itemsize
        panels, points = ceil(self.lane.extent / (vectors * lanes)), prod(v.extent for v in self.rows)
        batches = prod(v.extent for v in self.batch)
        columns, all_panels = batches * panels * vectors * lanes, batches * panels
        loaded, beforehand = (
            all_panels * points * c.depth * element_cycles(self.other),
            beforehand_cycles(target, self.other),
        )
        convert_other = 0 < beforehand < loaded
        read = self.other.buffer.size * (itemsize if convert_other else self.other.dtype.itemsize)
        traffic = _Traffic(read, columns * c.depth * itemsize, points * columns * itemsize)
        tiles, rest = divmod(self.rows[0].extent, tile[0])
        tiles, groups = 1 if rest else tiles, 1
        along = contiguous_run(panel, c.k, tuple(v.extent for v in c.k))[1] >= lanes
        if parts in (None, 1) and along and not self.batch and not self.windows:
            groups = _cached_groups(target, tiles, panels, traffic)
        m_blocked = groups > 1
        if parts is None:
            wanted, allowed = costs.units(target) / all_panels, costs.MAX_PARTIAL_BYTES / traffic.made
            parts = 1 if m_blocked else split_factor(c.k[0].extent, wanted, allowed)
        if not m_blocked:
            groups = self._row_groups(tiles, parts * batches)
        extents = (c.k[0].extent // parts, *(v.extent for v in c.k[1:]))
        blocks = self._blocks(extents, vectors * lanes * itemsize)
        if not m_blocked and not self.windows:
            divided = _divided(extents, blocks)
            inside = vectors * lanes * itemsize * prod(extents[divided + 1 :])
            size = block_size(extents[divided], costs.l1_bytes(target) // inside)
            blocks = (*blocks[:divided], size, *blocks[divided + 1 :])
        run = transposed_run(panel, c.k, blocks)
        packing = costs.GATHER_CYCLES
        if run.steps >= lanes:
            # The last square of a run overlaps the one before.
            squares = ceil(run.steps / lanes)
            packing = costs.transpose_cycles(lanes, run.stride) * squares * lanes / run.steps
        extent = batches * self.lane.extent
        spill = costs.spill_cycles(target, points // groups * vectors * lanes * itemsize)
        cycles = (
            all_panels * self.sweep * c.depth
            + spill * points * extent / lanes * c.depth / prod(blocks)
            + extent * c.depth * packing
            + points * extent * (costs.GATHER_CYCLES + parts * costs.PARTIAL_SUM_CYCLES / lanes)
            + (traffic.panels * (1 + groups) / target.l2_bytes_per_cycle if m_blocked else 0)
        )
        cycles += extent * c.depth * packing_cycles(panel, lanes) + min(loaded, beforehand)
        if not m_blocked and read > costs.l3_block_bytes(target):
            # Every panel but the first reads it from memory once more; products hide half of that (Zen 5).
            cycles += (panels - 1) * read / costs.far_bytes_per_cycle(target) / 2
        whole = [v for v, some in zip(c.k, blocks, strict=True) if some == v.extent]
        pieces = tuple(b for b in self.borders if b.share < costs.MAX_INSIDE and b.step in whole)
        return SplitKPlan(
            contraction=c,
            panel=panel,
            other=self.other,
            lane=self.lane,
            rows=self.rows,
            tile=tile,
            vectors=vectors,
            lanes=lanes,
            blocks=blocks,
            batch=self.batch,
            parts=parts,
            groups=groups,
            m_blocked=m_blocked,
            convert_other=convert_other,
            borders=pieces,
            branches=tuple(b for b in self.borders if b not in pieces),
            windows=self.windows,
            cycles=cycles,
        )

    def _row_groups(self, tiles: int, sweeps: int) -> int:
        """Row groups that keep cores busy, and busy alike: each packs its panels anew, which takes a share of the time.

        `sweeps` are the units of one row group and one panel.
        """
        target, lanes = self.target, self.target.lanes(self.c.dtype)
        panels = self.lane.extent / (self.vectors * lanes)
        missing = costs.least_units(target) / (sweeps * ceil(panels))
        fewest = split_factor(tiles, missing, missing * 2)
        if self._largest_share(tiles, fewest, panels, sweeps) <= costs.EVEN_ENOUGH:
            return fewest
        packing = self.vectors * lanes * costs.transpose_cycles(lanes) / self.sweep
        # With a shorter one, there may be fewer groups than are asked for.
        most = min(costs.MOST_ROW_GROUPS * fewest, tiles)
        possible = sorted({ceil(tiles / ceil(tiles / d)) for d in range(fewest, most + 1)})
        return min(possible, key=lambda d: (1 + d * packing) * self._largest_share(tiles, d, panels, sweeps))

    def _largest_share(self, tiles: int, groups: int, panels: float, sweeps: int) -> float:
        """How many times an even share the busiest core does, where each has consecutive units.

        A sweep has a unit for each panel of each row group; the last of either may be smaller.
        """
        size = ceil(tiles / groups)
        rows = [min(size, tiles - group * size) for group in range(groups)]
        wide = [min(1.0, panels - panel) for panel in range(ceil(panels))]
        return costs.largest_share(self.target, [count * width for count in rows for width in wide] * sweeps)

    def _blocks(self, extents: tuple[int, ...], step_bytes: int) -> tuple[int, ...]:
        """The blocks of k for which a panel stays in the first-level cache; in the second, if taps read it many times.

        Steps at the border of a block are packed again for the next one.
        """
        if not self.windows:
            return blocks_within(extents, step_bytes, costs.l1_bytes(self.target))
        room = most = costs.l2_block_bytes(self.target)
        while True:
            blocks = blocks_within(extents, step_bytes, room)
            packed = prod(packed_steps(self.panel, self.c.k, blocks, self.windows)[2])
            if packed * step_bytes <= most or room < step_bytes:
                return blocks
            room //= 2


def _planner(
    target: Target,
    c: Contraction,
    panel: Load,
    other: Load,
    borders: Sequence[Border],
    least_fill: float = costs.MIN_TILE_FILL,
    share: int = 1,
) -> _Planner | None:
    """The planner of one choice of the packed operand; None where its axes do not suit, or lanes would be idle.

    A tile has at most one of so many shares of the outermost row axis.
    """
    axes = [v for v in c.axes if v.extent > 1]
    of_panel = [v for v in axes if panel.index.coefficient(v)]
    batch = tuple(v for v in of_panel if other.index.coefficient(v))
    own = [v for v in of_panel if v not in batch]
    windows = windows_of(panel, own, c.k)
    if not own or (len(own) > 1 and not windows):
        return None
    taps = [w.row for w in windows]
    (lane,) = (v for v in own if v not in taps)
    rows = tuple(v for v in axes if v is not lane and v not in batch)
    if not rows or not all(other.index.coefficient(v) for v in rows if v not in taps):
        return None
    target = target.narrowed(costs.useful_lanes(target, lane.extent, c.dtype.itemsize) * c.dtype.itemsize)
    lanes = target.lanes(c.dtype)
    adjacent = bool(windows) and all(w.stride == 1 for w in windows)
    least_use = costs.MIN_WINDOW_LANE_USE if adjacent else costs.MIN_LANE_USE
    if least_fill and lane.extent < least_use * ceil(lane.extent / lanes) * lanes:
        return None
    shares = (*(Var(v.name, v.extent // share) for v in rows[:1]), *rows[1:])
    borders = tuple(b for b in borders if b.row in rows[1:])
    reads = TileReads.of(target, other, rows, c.k, lanes * c.dtype.itemsize)
    shifted = tuple(v in taps for v in rows)
    sweep, vectors, tile = best_tile(target, ceil(lane.extent / lanes), shares, reads, share > 1, borders, shifted)
    if prod(tile) * vectors < target.vector_registers * least_fill:
        return None
    size = dict(zip(rows, tile, strict=True))
    left_out = tuple(b for b in borders if size[b.row] == 1)
    return _Planner(target, c, panel, other, lane, rows, batch, sweep * share, vectors, tile, left_out, windows)


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Bytes of the operand that is broadcast, of all panels of the other one, and of the sums."""

    rows: int
    panels: int
    made: int

    def saved_by(self, groups: int, panels: int) -> bool:
        """Whether row groups save enough memory traffic, though panels are packed to memory."""
        without = panels * self.rows + self.panels + 2 * self.made
        return self.rows + (2 + groups) * self.panels < costs.MAX_TRAFFIC * without


def _cached_groups(target: Target, tiles: int, panels: int, traffic: _Traffic) -> int:
    """The fewest row groups that fit a cache, if there are then enough units and memory traffic is saved."""
    room = costs.l2_block_bytes(target)
    groups = next((d for d in divisors(tiles) if traffic.rows <= d * room), 1)
    enough = max(costs.units(costs.MODEL), costs.least_units(target))
    return groups if groups * panels >= enough and traffic.saved_by(groups, panels) else 1


def split_factor(extent: int, wanted: float, allowed: float) -> int:
    """The smallest divisor of the extent that is at least `wanted`, or else the largest that is `allowed`."""
    possible = [d for d in divisors(extent) if d <= allowed or d == 1]
    return next((d for d in possible if d >= wanted), possible[-1])


def _divided(steps: Sequence[int], blocks: Sequence[int]) -> int:
    """The outermost summed axis of which blocks have all steps of the axes inside."""
    return max((n for n, (many, size) in enumerate(zip(steps, blocks, strict=True)) if n and size != many), default=0)
