"""Which contractions run as split-K (`split_k`) or M-blocked GEMM (`m_blocked`), in which tiles, blocks and splits."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

import numpy as np

from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm_plan import GATHER_CYCLES, TRANSPOSE_CYCLES, UNITS, blocks_within
from adjoint.lower.contractions.prefetch import LINE_BYTES

__all__ = ["SplitKPlan", "best_tile", "contiguous_run", "plan_split_k", "split_factor"]

#: Bytes of a packed panel: with the operand that streams past it, it stays in a first-level cache of 48 KiB or nearly
#: so.
_PANEL_BYTES = 32 * 1024
#: Bytes of partial sums beyond which k is not split further.
_SUMS_BYTES = 2 * 1024 * 1024
#: Bytes of the rows of a group: half of a second-level cache.
_GROUP_BYTES = 512 * 1024
#: Least fraction of lanes that must do useful work.
_MIN_LANE_USE = 0.6
#: Row groups must bring memory traffic down to this fraction.
_MAX_TRAFFIC = 0.6
#: Bytes of panels that are read or written per cycle.
_PANEL_BYTES_PER_CYCLE = 32
#: Steps of a summed axis that are sampled to count the cache lines of a tile.
_WINDOW = 16
#: Most vectors in a panel.
_MAX_VECTORS = 2


@dataclass(frozen=True, slots=True)
class SplitKPlan:
    """How such a contraction runs.

    Parameters
    ----------
    panel, other : Load
        The operand that is packed into panels, and the one whose elements are broadcast.
    lane : Var
        The axis of the result along panels, which only `panel` has.
    rows : tuple of Var
        The other axes of the result, outermost first.
    tile : tuple of int
        Extent of a register tile along each row axis; a divisor of the axis.
    vectors, lanes : int
        Vectors of a panel, and lanes of a vector.
    groups : int
        Row groups along the outermost row axis, a divisor of it; consecutive panels meet the same group, which stays in
        cache.
    parts : int
        Splits of the outermost summed axis, for threads; a divisor of it. 1 where there are row groups.
    blocks : tuple of int
        Block size of each summed axis; a divisor of the axis, or of a split of it.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    panel: Load
    other: Load
    lane: Var
    rows: tuple[Var, ...]
    tile: tuple[int, ...]
    vectors: int
    lanes: int
    groups: int
    parts: int
    blocks: tuple[int, ...]
    cycles: float

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def units(self) -> int:
        """Units of work."""
        return self.groups * self.parts * self.panels

    @property
    def panels(self) -> int:
        """Panels along the lanes' axis; the last may be narrower."""
        return ceil(self.lane.extent / self.width)


def plan_split_k(target: Target, c: Contraction) -> SplitKPlan | None:
    """The plan with the lowest estimated cost, or None where the contraction is of another kind."""
    lanes = target.lanes(c.left.dtype)
    filled = c.columns >= _MIN_LANE_USE * ceil(c.columns / lanes) * lanes
    if not c.k or (len(c.k) < 2 and filled):
        return None
    plans = [_plan(target, c, *_forwards(c, panel, other)) for panel, other in ((c.left, c.right), (c.right, c.left))]
    return min((p for p in plans if p is not None), key=lambda p: p.cycles, default=None)


def _forwards(c: Contraction, panel: Load, other: Load) -> tuple[Load, Load]:
    """Both operands with those axes reversed along which the first is read backwards (taps, in gradients)."""
    at = {v: v.extent - 1 - as_index(v) for v in c.k if (panel.index.coefficient(v) or 0) < 0}
    return c.element(panel, at), c.element(other, at)


def _plan(target: Target, c: Contraction, panel: Load, other: Load) -> SplitKPlan | None:
    axes = [v for v in c.axes if v.extent > 1]
    of_panel = [v for v in axes if panel.index.coefficient(v)]
    rows = tuple(v for v in axes if v not in of_panel)
    if len(of_panel) != 1:
        return None
    (lane,) = of_panel
    if other.index.coefficient(lane) or not all(other.index.coefficient(v) for v in rows):
        return None
    lanes = target.lanes(panel.dtype)
    if lane.extent < _MIN_LANE_USE * ceil(lane.extent / lanes) * lanes:
        return None
    window = {v: min(v.extent, _WINDOW) for v in c.k[1:]}

    def lines(tile: tuple[int, ...]) -> int:
        return _lines(other, dict(zip(rows, tile, strict=True)), window)

    step, vectors, tile = best_tile(target, ceil(lane.extent / lanes), rows, lines)
    if prod(tile) * vectors < target.vector_registers // 4:
        return None
    itemsize, panels = panel.dtype.itemsize, ceil(lane.extent / (vectors * lanes))
    points, columns = prod(v.extent for v in rows), panels * vectors * lanes
    traffic = _Traffic(other.buffer.nbytes, columns * c.depth * itemsize, points * columns * itemsize)
    whole = contiguous_run(panel, c.k, tuple(v.extent for v in c.k))
    groups = _row_groups(rows[0].extent // tile[0], panels, traffic) if whole >= lanes else 1
    parts = 1 if groups > 1 else split_factor(c.k[0].extent, UNITS / panels, _SUMS_BYTES / traffic.made)
    extents = (c.k[0].extent // parts, *(v.extent for v in c.k[1:]))
    blocks = blocks_within(extents, vectors * lanes * itemsize, _PANEL_BYTES)
    transposes = contiguous_run(panel, c.k, blocks) >= lanes
    cycles = (
        panels * (points // prod(tile)) * step * c.depth
        + 2 * points * lane.extent / lanes * c.depth / prod(blocks)
        + lane.extent * c.depth * (TRANSPOSE_CYCLES if transposes else GATHER_CYCLES)
        + points * lane.extent * parts * GATHER_CYCLES
        + (traffic.panels * (1 + groups) / _PANEL_BYTES_PER_CYCLE if groups > 1 else 0)
    )
    return SplitKPlan(panel, other, lane, rows, tile, vectors, lanes, groups, parts, blocks, cycles)


def best_tile(
    target: Target, vectors: int, rows: tuple[Var, ...], lines: Callable[[tuple[int, ...]], int] = lambda _: 0
) -> tuple[float, int, tuple[int, ...]]:
    """The register tile with the most multiply-adds per cycle, at two of them and two loads per cycle.

    Ties go to a tile that reads the fewest cache lines. Returns cycles of a step, vectors, and the tile.
    """
    found: list[tuple[float, float, int, tuple[int, ...]]] = [(0.0, 4.5, 1, (1,) * len(rows))]
    for count in range(1, min(vectors, _MAX_VECTORS) + 1):
        used = vectors / (ceil(vectors / count) * count)
        for tile in product(*(_divisors(v.extent) for v in rows)):
            height = prod(tile)
            if height * count + count >= target.vector_registers:
                continue
            cycles = max(height * count / 2, (height + count) / 2, 4.5)
            found.append((used * height * count / cycles, cycles, count, tile))
    found.sort(reverse=True)
    best = [f for f in found if f[:3] == found[0][:3]]
    return (min(best, key=lambda f: lines(f[3])) if len(best) > 1 else best[0])[1:]


def _lines(other: Load, tile: dict[Var, int], window: dict[Var, int]) -> int:
    """Cache lines that a tile of rows reads within a window of the summed axes."""
    places = np.zeros(1, np.int64)
    for var, count in (*tile.items(), *window.items()):
        step = other.index.coefficient(var) or 0
        places = np.unique(places[:, None] + step * np.arange(count))
    return len(np.unique(places * other.dtype.itemsize // LINE_BYTES))


def _divisors(extent: int) -> list[int]:
    return [d for d in range(1, min(extent, 32) + 1) if extent % d == 0]


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Bytes of the operand that is broadcast, of all panels of the other one, and of the sums."""

    rows: int
    panels: int
    made: int

    def saved_by(self, groups: int, panels: int) -> bool:
        """Whether row groups save enough memory traffic, though panels are packed to memory."""
        without = panels * self.rows + self.panels + 2 * self.made
        return self.rows + (2 + groups) * self.panels < _MAX_TRAFFIC * without


def _row_groups(tiles: int, panels: int, traffic: _Traffic) -> int:
    """The fewest row groups that fit a cache, if there are then enough units and memory traffic is saved."""
    fitting = (d for d in range(1, tiles + 1) if tiles % d == 0 and traffic.rows <= d * _GROUP_BYTES)
    groups = next(fitting, 1)
    return groups if groups * panels >= UNITS and traffic.saved_by(groups, panels) else 1


def split_factor(extent: int, wanted: float, allowed: float) -> int:
    """The smallest divisor of the extent that is at least `wanted`, or else the largest that is `allowed`."""
    possible = [d for d in range(1, extent + 1) if extent % d == 0 and (d <= allowed or d == 1)]
    return next((d for d in possible if d >= wanted), possible[-1])


def contiguous_run(panel: Load, k: tuple[Var, ...], blocks: tuple[int, ...]) -> int:
    """Steps of a block that are contiguous in the operand: its last axes, as far as they are whole and contiguous."""
    run = 1
    for var, block in zip(reversed(k), reversed(blocks), strict=True):
        if panel.index.coefficient(var) != run:
            break
        run *= block
        if block != var.extent:
            break
    return run
