"""Which contractions run as sums that stay in memory (`adjoint.lower.contractions.split_k`), and in what tiles, blocks, groups."""

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

#: Bytes of a panel: with what is read beside it, it stays in a first-level cache of 48 KiB or close to it.
_PANEL_BYTES = 32 * 1024
#: Bytes of sums beyond which no more parts are made.
_SUMS_BYTES = 2 * 1024 * 1024
#: Bytes of what a group of rows reads: half of a second-level cache.
_GROUP_BYTES = 512 * 1024
#: Share of lanes that must have work.
_MIN_LANE_USE = 0.6
#: To which share of the memory traffic groups of rows have to bring it.
_MAX_TRAFFIC = 0.6
#: Bytes of panels that come or go in a cycle.
_PANEL_BYTES_PER_CYCLE = 32
#: Elements of a summed axis that are looked at to see which lines of memory a tile reads.
_WINDOW = 16
#: Vectors in a panel at most.
_MAX_VECTORS = 2


@dataclass(frozen=True, slots=True)
class SplitKPlan:
    """How such a contraction runs.

    Parameters
    ----------
    panel, other : Load
        The factor whose blocks are turned, and the one that is read element by element.
    lane : Var
        The result's axis that `panel` has.
    rows : tuple of Var
        The other axes of the result, outermost first.
    tile : tuple of int
        How much of each row axis a register tile covers; divides the axis.
    vectors, lanes : int
        Vectors of a panel, and elements of one.
    groups : int
        Groups of the outermost row axis: the panels of one meet the same rows, which stay in cache; divides the axis.
    parts : int
        Parts of the outermost summed axis, for threads; divides it. One, where there are groups.
    blocks : tuple of int
        Steps of each summed axis in a block; divide the axis, or what a part has of it.
    cycles : float
        What all of it is estimated to take one core.
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
        """What threads can share."""
        return self.groups * self.parts * self.panels

    @property
    def panels(self) -> int:
        """Panels along the lanes' axis, of which the last may be narrower."""
        return ceil(self.lane.extent / self.width)


def plan_split_k(target: Target, c: Contraction) -> SplitKPlan | None:
    """The best such plan, or None where the contraction is of another kind."""
    lanes = target.lanes(c.left.dtype)
    filled = c.columns >= _MIN_LANE_USE * ceil(c.columns / lanes) * lanes
    if not c.k or (len(c.k) < 2 and filled):
        return None
    plans = [_plan(target, c, *_forwards(c, panel, other)) for panel, other in ((c.left, c.right), (c.right, c.left))]
    return min((p for p in plans if p is not None), key=lambda p: p.cycles, default=None)


def _forwards(c: Contraction, panel: Load, other: Load) -> tuple[Load, Load]:
    """The factors with the axes turned round along which the first is read backwards (taps, in gradients)."""
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
    turned = contiguous_run(panel, c.k, blocks) >= lanes
    cycles = (
        panels * (points // prod(tile)) * step * c.depth
        + 2 * points * lane.extent / lanes * c.depth / prod(blocks)
        + lane.extent * c.depth * (TRANSPOSE_CYCLES if turned else GATHER_CYCLES)
        + points * lane.extent * parts * GATHER_CYCLES
        + (traffic.panels * (1 + groups) / _PANEL_BYTES_PER_CYCLE if groups > 1 else 0)
    )
    return SplitKPlan(panel, other, lane, rows, tile, vectors, lanes, groups, parts, blocks, cycles)


def best_tile(
    target: Target, vectors: int, rows: tuple[Var, ...], lines: Callable[[tuple[int, ...]], int] = lambda _: 0
) -> tuple[float, int, tuple[int, ...]]:
    """The register tile with most multiply-adds a cycle, at two of them and two loads a cycle.

    Of tiles that are equal there, one that reads the fewest lines of memory. Cycles of a step, vectors, rows along each
    axis.
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
    """Lines of memory that a tile of rows reads in the window of a few summed axes."""
    places = np.zeros(1, np.int64)
    for var, count in (*tile.items(), *window.items()):
        step = other.index.coefficient(var) or 0
        places = np.unique(places[:, None] + step * np.arange(count))
    return len(np.unique(places * other.dtype.itemsize // LINE_BYTES))


def _divisors(extent: int) -> list[int]:
    return [d for d in range(1, min(extent, 32) + 1) if extent % d == 0]


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Bytes of the factor that is read element by element, of all panels of the other one, and of the sums."""

    rows: int
    panels: int
    made: int

    def saved_by(self, groups: int, panels: int) -> bool:
        """Whether groups save enough of what goes through memory, though panels are turned there."""
        without = panels * self.rows + self.panels + 2 * self.made
        return self.rows + (2 + groups) * self.panels < _MAX_TRAFFIC * without


def _row_groups(tiles: int, panels: int, traffic: _Traffic) -> int:
    """The fewest groups of so many tiles of rows that fit a cache, where they make units enough and save memory."""
    fitting = (d for d in range(1, tiles + 1) if tiles % d == 0 and traffic.rows <= d * _GROUP_BYTES)
    groups = next(fitting, 1)
    return groups if groups * panels >= UNITS and traffic.saved_by(groups, panels) else 1


def split_factor(extent: int, wanted: float, allowed: float) -> int:
    """The fewest parts that are enough, or the most that are allowed."""
    possible = [d for d in range(1, extent + 1) if extent % d == 0 and (d <= allowed or d == 1)]
    return next((d for d in possible if d >= wanted), possible[-1])


def contiguous_run(panel: Load, k: tuple[Var, ...], blocks: tuple[int, ...]) -> int:
    """Steps of a block that lie side by side in the factor: its last axes as far as they are whole and contiguous."""
    run = 1
    for var, block in zip(reversed(k), reversed(blocks), strict=True):
        if panel.index.coefficient(var) != run:
            break
        run *= block
        if block != var.extent:
            break
    return run
