"""The register tiles of split-K (`split_k`): which fit, how many cycles they take, and which steps of k they need."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

import numpy as np

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lower.contractions.borders import Border
from adjoint.lower.contractions.gemm_plan import blocks_within
from adjoint.lower.loops import pieces

__all__ = ["Piece", "TileReads", "best_tile", "row_pieces"]


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


@dataclass(frozen=True, slots=True)
class TileReads:
    """What tiles read of the operand that is broadcast.

    Parameters
    ----------
    target : Target
        The CPU.
    other : Load
        The operand.
    rows, k : tuple of Var
        The axes of tiles, and the summed axes.
    vector_bytes : int
        Bytes of a vector of the panel.
    """

    target: Target
    other: Load
    rows: tuple[Var, ...]
    k: tuple[Var, ...]
    vector_bytes: int

    @property
    def _window(self) -> dict[Var, int]:
        return {v: min(v.extent, costs.LINE_SAMPLE) for v in self.k[1:]}

    def lines(self, tile: Sequence[int]) -> int:
        """Cache lines that a tile reads within a window of the summed axes but the outermost."""
        places = np.zeros(1, np.int64)
        for var, count in (*zip(self.rows, tile, strict=True), *self._window.items()):
            step = self.other.index.coefficient(var) or 0
            places = np.unique(places[:, None] + step * np.arange(count))
        return len(np.unique(places * self.other.dtype.itemsize // self.target.line_bytes))

    def cycles(self, rows: Sequence[Var], tile: Sequence[int], vectors: int, borders: Sequence[Border]) -> float:
        """Cycles of a step of k of all rows to read lines that leave the first-level cache between tiles."""
        target, lines = self.target, self.lines(tile)
        extents = tuple(v.extent for v in self.k)
        blocks = blocks_within(extents, vectors * self.vector_bytes, costs.l1_bytes(target))
        if lines * blocks[0] * target.line_bytes <= target.l1.nbytes - costs.l1_bytes(target):
            return 0.0
        along = (row_pieces(v, t, borders) for v, t in zip(rows, tile, strict=True))
        tiles = sum(prod(p.many * p.size * p.share for p in some) for some in product(*along)) / prod(tile)
        return tiles * lines * target.line_bytes / target.l2_bytes_per_cycle / prod(self._window.values())


def best_tile(
    target: Target,
    vectors: int,
    rows: tuple[Var, ...],
    reads: TileReads | None = None,
    whole: bool = False,
    borders: Sequence[Border] = (),
) -> tuple[float, int, tuple[int, ...]]:
    """The register tile with the most multiply-adds per cycle, which divides the rows if it must be `whole`.

    Among about equally fast ones, it is the one that reads the fewest cache lines for a row. Returns cycles of a step
    of all rows, vectors, and the tile.
    """
    found: list[tuple[float, float, int, tuple[int, ...]]] = []
    for count in range(1, min(vectors, costs.MAX_PANEL_VECTORS) + 1):
        for tile in _tiles([v.extent for v in rows], (target.vector_registers - 1) // count - 1, whole):
            cycles = _sweep_cycles(target, count, rows, tile, borders) * ceil(vectors / count)
            found.append((cycles, -_step_cycles(target, prod(tile), count), -count, tile))
    found.sort()
    if reads is not None:
        # Many tiles are about equally fast; what they read, which takes longer to compute, makes the difference.
        likely = [f for f in found if f[0] <= found[0][0] * costs.LIKELY_TILE][: costs.LIKELY_TILES]
        found = sorted(
            (cycles + reads.cycles(rows, tile, -count, borders) * ceil(vectors / -count), step, count, tile)
            for cycles, step, count, tile in likely
        )
    best = [f for f in found if f[0] <= found[0][0] * costs.EQUALLY_FAST]
    if len(best) > 1 and reads is not None:
        best.sort(key=lambda f: reads.lines(f[3]) / prod(f[3]))
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


def row_pieces(row: Var, tile: int, borders: Sequence[Border]) -> list[Piece]:
    """The tiles along an axis of rows: whole ones, and a shorter one or those at the borders."""
    border = next((b for b in borders if b.row is row and tile == 1), None)
    if border is None:
        return [Piece(*run) for run in pieces(row.extent, tile)]
    return [Piece(first, many, 1, border.step, steps) for first, many, steps in border.pieces()]


def _sweep_cycles(
    target: Target, count: int, rows: Sequence[Var], tile: Sequence[int], borders: Sequence[Border]
) -> float:
    """Cycles of a step of k of all rows, in tiles of so many vectors."""
    cycles, sizes = 0.0, set[tuple[int, ...]]()
    for some in product(*(row_pieces(v, t, borders) for v, t in zip(rows, tile, strict=True))):
        sizes.add(tuple(piece.size for piece in some))
        many = prod(piece.many * piece.share for piece in some)
        cycles += many * _step_cycles(target, prod(piece.size for piece in some), count)
    return cycles * (1 + costs.EDGE_COST * (len(sizes) - 1))


def _step_cycles(target: Target, height: int, count: int) -> float:
    """Cycles of a step of k of a tile."""
    compute = costs.multiply_add_cycles(target, height * count)
    return max(compute, (height + count) / target.load_units, costs.chain_cycles(target))
