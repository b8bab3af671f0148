"""Which contractions run as split-K (`split_k`) or M-blocked GEMM (`m_blocked`), in which tiles, blocks and splits.

The number of splits and the direction in which k is walked decide the order in which an element's products are added.
They follow from shapes alone: they are those of the plan for `adjoint.costs.MODEL`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

import numpy as np

from adjoint import costs
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lower.contractions.contraction import Contraction, contiguous_run
from adjoint.lower.contractions.conversion import beforehand_cycles, element_cycles, packing_cycles
from adjoint.lower.contractions.gemm_plan import blocks_within
from adjoint.lower.loops import divisors, pieces

__all__ = ["SplitKPlan", "best_tile", "plan_split_k", "split_factor"]


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
        The axes of the result that only `other` has, outermost first.
    batch : tuple of Var
        The axes of the result that both have (groups of a convolution), outermost first.
    tile : tuple of int
        Extent of a register tile along each row axis. Along one axis, a shorter one may remain.
    vectors, lanes : int
        Vectors of a panel, and lanes of a vector.
    blocks : tuple of int
        Block size of each summed axis; a divisor of the axis, or of a split of it.
    parts : int
        Splits of the outermost summed axis; a divisor of it.
    groups : int
        Row groups along the outermost row axis, each of which packs the panels that it meets; a divisor of its tiles,
        1 where a shorter tile remains.
    m_blocked : bool
        Whether panels are packed once, up front, for row groups that stay in cache (`m_blocked`).
    convert_other : bool
        Whether `other`, of 16 bits, is converted beforehand (`conversion`).
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
    def batches(self) -> int:
        """Contractions along the axes that both operands have."""
        return prod(v.extent for v in self.batch)

    @property
    def panels(self) -> int:
        """Panels along the lanes' axis; the last may be narrower."""
        return ceil(self.lane.extent / self.width)

    def __str__(self) -> str:
        return "split_k"


def plan_split_k(target: Target, c: Contraction) -> SplitKPlan | None:
    """The plan with the lowest estimated cost, or None where the contraction is of another kind."""
    model = costs.order_target(target)
    lanes = model.lanes(c.dtype)
    filled = c.columns >= costs.MIN_LANE_USE * ceil(c.columns / lanes) * lanes
    if not c.k or (len(c.k) < 2 and filled):
        return None
    found: list[tuple[SplitKPlan, tuple[Load, Load]]] = []
    for operands in ((c.left, c.right), (c.right, c.left)):
        planner = _planner(model, c, *_forwards(c, *operands))
        if planner is not None:
            found.append((planner.plan(None), operands))
    if not found:
        return None
    best, operands = min(found, key=lambda f: f[0].cycles)
    if model is target:
        return best
    return _plan_for(target, c, _forwards(c, *operands), best.parts)


def _plan_for(target: Target, c: Contraction, operands: tuple[Load, Load], parts: int) -> SplitKPlan | None:
    """The plan with so many splits of k; where cores would be idle, with smaller tiles in more row groups."""
    planner = _planner(target, c, *operands, least_fill=0.0)
    if planner is None:
        return None
    best = planner.plan(parts)
    if best.units >= costs.least_units(target):
        return best
    others = (_planner(target, c, *operands, least_fill=0.0, share=d) for d in divisors(planner.rows[0].extent))
    plans = [best, *(other.plan(parts) for other in others if other is not None)]
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
        if parts in (None, 1) and along and not self.batch:
            groups = _cached_groups(target, tiles, panels, traffic)
        m_blocked = groups > 1
        if parts is None:
            wanted, allowed = costs.units(target) / all_panels, costs.MAX_PARTIAL_BYTES / traffic.made
            parts = 1 if m_blocked else split_factor(c.k[0].extent, wanted, allowed)
        if not m_blocked:
            missing = costs.least_units(target) / (all_panels * parts)
            groups = split_factor(tiles, missing, missing * 2)
        extents = (c.k[0].extent // parts, *(v.extent for v in c.k[1:]))
        blocks = blocks_within(extents, vectors * lanes * itemsize, costs.l1_bytes(target))
        transposes = contiguous_run(panel, c.k, blocks)[1] >= lanes
        extent = batches * self.lane.extent
        cycles = (
            all_panels * self.sweep * c.depth
            + 2 * points * extent / lanes * c.depth / prod(blocks)
            + extent * c.depth * (costs.transpose_cycles(lanes) if transposes else costs.GATHER_CYCLES)
            + points * extent * parts * costs.GATHER_CYCLES
            + (traffic.panels * (1 + groups) / target.l2_bytes_per_cycle if m_blocked else 0)
        )
        cycles += extent * c.depth * packing_cycles(panel, lanes) + min(loaded, beforehand)
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
            cycles=cycles,
        )


def _planner(
    target: Target, c: Contraction, panel: Load, other: Load, least_fill: float = costs.MIN_TILE_FILL, share: int = 1
) -> _Planner | None:
    """The planner of one choice of the packed operand; None where its axes do not suit, or lanes would be idle.

    A tile has at most one of so many shares of the outermost row axis.
    """
    axes = [v for v in c.axes if v.extent > 1]
    of_panel = [v for v in axes if panel.index.coefficient(v)]
    batch = tuple(v for v in of_panel if other.index.coefficient(v))
    rows = tuple(v for v in axes if v not in of_panel)
    if len(of_panel) != len(batch) + 1 or not rows or not all(other.index.coefficient(v) for v in rows):
        return None
    (lane,) = (v for v in of_panel if v not in batch)
    lanes = target.lanes(c.dtype)
    if least_fill and lane.extent < costs.MIN_LANE_USE * ceil(lane.extent / lanes) * lanes:
        return None
    window = {v: min(v.extent, costs.LINE_SAMPLE) for v in c.k[1:]}

    def lines(tile: tuple[int, ...]) -> int:
        return _lines(target, other, dict(zip(rows, tile, strict=True)), window)

    shares = (*(Var(v.name, v.extent // share) for v in rows[:1]), *rows[1:])
    sweep, vectors, tile = best_tile(target, ceil(lane.extent / lanes), shares, lines, whole=share > 1)
    if prod(tile) * vectors < target.vector_registers * least_fill:
        return None
    return _Planner(target, c, panel, other, lane, rows, batch, sweep * share, vectors, tile)


def best_tile(
    target: Target,
    vectors: int,
    rows: tuple[Var, ...],
    lines: Callable[[tuple[int, ...]], int] = lambda _: 0,
    whole: bool = False,
) -> tuple[float, int, tuple[int, ...]]:
    """The register tile with the most multiply-adds per cycle, which divides the rows if it must be `whole`.

    Among about equally fast ones, it is the one that reads the fewest cache lines for a row. Returns cycles of a step
    of all rows, vectors, and the tile.
    """
    found: list[tuple[float, float, int, tuple[int, ...]]] = []
    for count in range(1, min(vectors, costs.MAX_PANEL_VECTORS) + 1):
        for tile in _tiles([v.extent for v in rows], (target.vector_registers - 1) // count - 1, whole):
            cycles = _sweep_cycles(target, count, rows, tile) * ceil(vectors / count)
            found.append((cycles, -_step_cycles(target, prod(tile), count), -count, tile))
    found.sort()
    best = [f for f in found if f[0] <= found[0][0] * costs.EQUALLY_FAST]
    if len(best) > 1:
        best.sort(key=lambda f: lines(f[3]) / prod(f[3]))
    cycles, _, count, tile = best[0]
    return cycles / ceil(vectors / -count), -count, tile


def _tiles(extents: Sequence[int], most: int, whole: bool) -> Iterator[tuple[int, ...]]:
    """Tiles of at most so many rows; along at most one axis, and along none if they are `whole`, one remains."""
    if not extents:
        yield ()
        return
    for size in range(1, min(extents[0], most, costs.MAX_TILE_EXTENT) + 1):
        rest = extents[0] % size > 0
        if not (rest and whole):
            yield from ((size, *others) for others in _tiles(extents[1:], most // size, whole or rest))


def _sweep_cycles(target: Target, count: int, rows: Sequence[Var], tile: Sequence[int]) -> float:
    """Cycles of a step of k of all rows, in tiles of so many vectors."""
    cycles, edges = 0.0, 0
    for some in product(*(pieces(v.extent, t) for v, t in zip(rows, tile, strict=True))):
        cycles += prod(many for _, many, _ in some) * _step_cycles(target, prod(size for *_, size in some), count)
        edges += 1
    return cycles * (1 + costs.EDGE_COST * (edges - 1))


def _step_cycles(target: Target, height: int, count: int) -> float:
    """Cycles of a step of k of a tile."""
    compute = costs.multiply_add_cycles(target, height * count)
    return max(compute, (height + count) / target.load_units, costs.chain_cycles(target))


def _lines(target: Target, other: Load, tile: dict[Var, int], window: dict[Var, int]) -> int:
    """Cache lines that a tile of rows reads within a window of the summed axes."""
    places = np.zeros(1, np.int64)
    for var, count in (*tile.items(), *window.items()):
        step = other.index.coefficient(var) or 0
        places = np.unique(places[:, None] + step * np.arange(count))
    return len(np.unique(places * other.dtype.itemsize // target.line_bytes))


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
