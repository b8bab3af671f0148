"""The register tiles of split-K (`split_k`): which fit, how many cycles they take, and which steps of k they need."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import product
from math import ceil, inf, prod
from typing import NamedTuple

import numpy as np

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.borders import Border
from adjoint.lower.contractions.gemm_plan import blocks_within
from adjoint.lower.loops import pieces

__all__ = ["Piece", "TileReads", "best_tile", "evicted_lines", "row_pieces"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Tiles along an axis of rows.

    Parameters
    ----------
    first, many, size : int
        The row at which they start, their number, and the rows of each.
    step : Var or None
        The summed axis of which they need some steps only.
    steps : (int, int)
        The first of these steps, and the one after the last.
    """

    first: int
    many: int
    size: int
    step: Var | None = None
    steps: tuple[int, int] = (0, 0)

    @property
    def share(self) -> float:
        """The fraction of all steps that they need."""
        return (self.steps[1] - self.steps[0]) / self.step.extent if self.step is not None else 1.0


def evicted_lines(target: Target, other: Load, rows: Sequence[Var], tile: Sequence[int]) -> int:
    """Cache lines of a load that the rows of a tile read in each step, if they evict each other; else 0."""
    steps = ((other.index.coefficient(v) or 0) * other.dtype.itemsize for v in rows)
    return _evicted(target, tuple(zip(steps, tile, strict=True)))


@lru_cache(maxsize=1024)
def _evicted(target: Target, axes: tuple[tuple[int, int], ...]) -> int:
    """The same, from the bytes between neighbors along each axis of rows, and the rows of the tile."""
    lines = _distinct(_places(axes) // target.line_bytes)
    sets = target.l1.nbytes // (target.l1.ways * target.line_bytes)
    return len(lines) if np.bincount(lines % sets).max() > costs.aliased_rows(target) else 0


@lru_cache(maxsize=1024)
def _places(axes: tuple[tuple[int, int], ...]) -> np.ndarray:
    """The distinct sums of so many multiples of each step."""
    places = np.zeros(1, np.int64)
    for step, count in axes:
        places = (places[:, None] + step * np.arange(count)).ravel()
    return _distinct(places)


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """The distinct numbers in ascending order: `numpy.unique`, which would import masked arrays, 15 ms."""
    ordered = np.sort(numbers, axis=None)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


class _Rows(NamedTuple):
    """An axis of rows in numbers: its extent, and the runs of rows that need some steps only, as (rows, share).

    `shifted`: along it, tiles read other vectors of the panel, rather than other elements that are broadcast.
    """

    extent: int
    runs: tuple[tuple[int, float], ...]
    shifted: bool = False

    def pieces(self, tile: int) -> list[tuple[int, int, float]]:
        """The tiles along the axis: their number, the rows of each, and the share of the steps that they need."""
        if tile == 1 and self.runs:
            return [(many, 1, share) for many, share in self.runs]
        return [(many, size, 1.0) for _, many, size in pieces(self.extent, tile)]

    def area(self, tile: int) -> float:
        """The rows of all these tiles, as far as they need steps."""
        return sum(many * share for many, share in self.runs) if tile == 1 and self.runs else self.extent


@dataclass(frozen=True, slots=True)
class TileReads:
    """What tiles read of the operand that is broadcast, in numbers.

    Parameters
    ----------
    target : Target
        The CPU.
    rows : tuple of int
        Bytes between neighbors along each axis of rows.
    window : tuple of (int, int)
        Bytes between steps of each summed axis but the outermost, and how many steps are looked at.
    blocks : int
        Steps of the outermost summed axis in a block of a panel one vector wide, of one two vectors wide, and so on.
    """

    target: Target
    rows: tuple[int, ...]
    window: tuple[tuple[int, int], ...]
    blocks: tuple[int, ...]

    @classmethod
    def of(
        cls,
        target: Target,
        other: Load,
        rows: Sequence[Var],
        k: Sequence[Var],
        vector_bytes: int,
        most: int = costs.MAX_PANEL_VECTORS,
    ) -> "TileReads":
        """What tiles of these rows read of a load, whose panels have at most so many vectors of so many bytes."""

        def step(var: Var) -> int:
            return (other.index.coefficient(var) or 0) * other.dtype.itemsize

        extents = tuple(v.extent for v in k)
        vectors = range(1, most + 1)
        blocks = tuple(blocks_within(extents, n * vector_bytes, costs.l1_bytes(target))[0] for n in vectors)
        window = tuple((step(v), min(v.extent, costs.LINE_SAMPLE)) for v in k[1:])
        return cls(target, tuple(step(v) for v in rows), window, blocks)

    def lines(self, tile: Sequence[int]) -> int:
        """Cache lines that a tile reads within a window of the summed axes but the outermost."""
        rows = _places(tuple(zip(self.rows, tile, strict=True)))
        lines = (rows[:, None] + _places(self.window)) // self.target.line_bytes
        first, last = lines.min(), lines.max()
        if last - first >= costs.MAX_LINE_MAP:
            return len(_distinct(lines))
        found = np.zeros(last - first + 1, np.bool_)
        found[lines - first] = True
        return int(np.count_nonzero(found))

    def cycles(self, rows: Sequence[_Rows], tile: Sequence[int], vectors: int) -> float:
        """Cycles of a step of k of all rows to read lines that leave the first-level cache between tiles."""
        target, lines = self.target, self.lines(tile)
        window = prod(count for _, count in self.window)
        if evicted := _evicted(target, tuple(zip(self.rows, tile, strict=True))):
            # Every step reads its lines again, also those of the step before.
            lines = max(lines, evicted * window)
        elif lines * self.blocks[vectors - 1] * target.line_bytes <= target.l1.nbytes - costs.l1_bytes(target):
            return 0.0
        along = (row.pieces(t) for row, t in zip(rows, tile, strict=True))
        tiles = sum(prod(many * size * share for many, size, share in some) for some in product(*along)) / prod(tile)
        return tiles * lines * target.line_bytes / target.l2_bytes_per_cycle / window


def best_tile(
    target: Target,
    vectors: int,
    rows: tuple[Var, ...],
    reads: TileReads | None = None,
    whole: bool = False,
    borders: Sequence[Border] = (),
    shifted: Sequence[bool] = (),
    most: int = costs.MAX_PANEL_VECTORS,
) -> tuple[float, int, tuple[int, ...]]:
    """The register tile with the most multiply-adds per cycle, which divides the rows if it must be `whole`.

    Among about equally fast ones, it is the one that reads the fewest cache lines for a row. Along the axes that are
    `shifted`, tiles read several vectors of the panel. A panel has at most so many vectors. Returns cycles of a step of
    all rows, vectors, and the tile.
    """
    numbers = []
    for number, row in enumerate(rows):
        border = next((b for b in borders if b.row is row), None)
        runs = border.pieces() if border is not None else []
        steps = border.step.extent if border is not None else 1
        shares = tuple((many, (end - begin) / steps) for _, many, (begin, end) in runs)
        numbers.append(_Rows(row.extent, shares, bool(shifted) and shifted[number]))
    return _best_tile(target, vectors, most, tuple(numbers), reads, whole)


@lru_cache(maxsize=1024)
def _best_tile(
    target: Target, vectors: int, most: int, rows: tuple[_Rows, ...], reads: TileReads | None, whole: bool
) -> tuple[float, int, tuple[int, ...]]:
    """Cached: layers repeat, and plans are compared.

    A best-first search: a tile's cycles are at least those of its own multiply-adds and loads without edges, and with
    what it reads they are at least those without.
    """
    bounds, found = list(_bounds(target, vectors, most, rows, whole)), list[tuple[float, float, int, tuple[int, ...]]]()
    heapify(bounds)
    least = final = inf
    while bounds:
        cycles, swept, step, negative, tile = heappop(bounds)
        if cycles > min(least * costs.LIKELY_TILE, final * costs.EQUALLY_FAST) or len(found) == costs.LIKELY_TILES:
            break
        if not swept:
            # The last panel has the vectors that remain.
            count = -negative
            cycles = _sweep_cycles(target, count, rows, tile) * (vectors // count)
            cycles += _sweep_cycles(target, vectors % count, rows, tile) if vectors % count else 0.0
            heappush(bounds, (cycles, True, step, negative, tile))
            continue
        least = min(least, cycles)
        if reads is not None:
            # Many tiles are about equally fast; what they read, which takes longer to compute, makes the difference.
            cycles += reads.cycles(rows, tile, -negative) * ceil(vectors / -negative)
        final = min(final, cycles)
        found.append((cycles, step, negative, tile))
    best = sorted(f for f in found if f[0] <= final * costs.EQUALLY_FAST)
    if len(best) > 1 and reads is not None:
        best.sort(key=lambda f: reads.lines(f[3]) / prod(f[3]))
    cycles, _, negative, tile = best[0]
    return cycles / ceil(vectors / -negative), -negative, tile


#: A bound of a tile's cycles; whether these are the cycles themselves; minus those of a step, as larger tiles are
#: preferred; minus its vectors; the tile.
_Bound = tuple[float, bool, float, int, tuple[int, ...]]


def _bounds(target: Target, vectors: int, most: int, rows: Sequence[_Rows], whole: bool) -> Iterator[_Bound]:
    """The tiles that fit the registers, with lower bounds of their cycles."""
    for count in range(1, min(vectors, most) + 1):
        for tile in _tiles([row.extent for row in rows], (target.vector_registers - 1) // count - 1, whole):
            sums, read = prod(tile) * count, _vectors(rows, tile) * count
            if read > count and sums + read + 1 > target.tile_registers:
                continue
            area = prod(row.area(t) for row, t in zip(rows, tile, strict=True))
            step = _step_cycles(target, sums, read)
            yield area * vectors * step / sums, False, -step, -count, tile


def _tiles(extents: Sequence[int], most: int, whole: bool) -> Iterator[tuple[int, ...]]:
    """Tiles of at most so many rows; along at most one axis, and along none if they are `whole`, one remains."""
    if not extents:
        yield ()
        return
    for size in range(1, min(extents[0], most, costs.MAX_TILE_EXTENT) + 1):
        rest = extents[0] % size > 0
        if not (rest and whole):
            yield from ((size, *others) for others in _tiles(extents[1:], most // size, whole or rest))


def row_pieces(row: Var, tile: int, borders: Sequence[Border]) -> list[Piece]:
    """The tiles along an axis of rows: whole ones, and a shorter one or those at the borders."""
    border = next((b for b in borders if b.row is row and tile == 1), None)
    if border is None:
        return [Piece(*run) for run in pieces(row.extent, tile)]
    return [Piece(first, many, 1, border.step, steps) for first, many, steps in border.pieces()]


def _sweep_cycles(target: Target, count: int, rows: Sequence[_Rows], tile: Sequence[int]) -> float:
    """Cycles of a step of k of all rows, in tiles of so many vectors."""
    cycles, sizes = 0.0, set[tuple[int, ...]]()
    for some in product(*(row.pieces(t) for row, t in zip(rows, tile, strict=True))):
        size = tuple(size for _, size, _ in some)
        sizes.add(size)
        many = prod(many * share for many, _, share in some)
        cycles += many * _step_cycles(target, prod(size) * count, _vectors(rows, size) * count)
    return cycles * (1 + costs.EDGE_COST * (len(sizes) - 1))


def _vectors(rows: Sequence[_Rows], tile: Sequence[int]) -> int:
    """How many rows of the panel a tile reads in each step."""
    return prod(size for row, size in zip(rows, tile, strict=True) if row.shifted)


def _step_cycles(target: Target, sums: int, read: int) -> float:
    """Cycles of a step of k of a tile of so many vectors, which reads some of the panel."""
    compute = costs.multiply_add_cycles(target, sums)
    return max(compute, costs.load_cycles(target, read, sums // read), costs.chain_cycles(target))
