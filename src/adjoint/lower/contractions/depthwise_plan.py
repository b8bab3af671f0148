"""How a depthwise convolution runs: from which image, in which tiles, and how long it takes.

Tiles read a padded image, which is copied beforehand, one image at a time. Or they read the image in place, without the
zeros around it: then tiles have whole rows, and loads leave out what is beside the image, so that no copy is made and
none is waited for. Where windows move by two columns, a shuffle picks every second element of two vectors.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import ceil, inf, prod
from typing import NamedTuple

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context
from adjoint.lower.contractions.blocking import tile_lanes
from adjoint.lower.contractions.borders import Border, Image, image_of
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.loops import pieces

__all__ = ["DepthwisePlan", "plan_depthwise", "rows_read"]


@dataclass(frozen=True, slots=True)
class DepthwisePlan:
    """How a depthwise convolution runs.

    Parameters
    ----------
    contraction : Contraction
        The convolution, whose last two summed axes are those of its window; before them, the channels of a group.
    row : Var
        The axis of the result along which windows move by rows of the image.
    rows, vectors : int
        Rows of a tile, and vectors along each.
    lanes : int
        Lanes of a vector, of which short rows may fill a half or a quarter.
    image : Image or None
        What is read in place, without the zeros around it, by tiles of whole rows.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    row: Var
    rows: int
    vectors: int
    lanes: int
    image: Image | None
    cycles: float

    @property
    def border(self) -> Border | None:
        """The border above and below the image, if that is read without it."""
        return self.image.border(self.row) if self.image is not None else None

    def __str__(self) -> str:
        return f"depthwise {self.rows}x{self.vectors}"

    def readers(self, rows: int) -> list[list[tuple[int, int]]]:
        """The rows of the image that a tile of so many rows reads, from the first to the last.

        For each: which rows of the tile have it in their windows, and as which row of the window.
        """
        return rows_read(*_row_steps(self.contraction, self.row), self.contraction.k[-2].extent, rows)


def plan_depthwise(context: Context, c: Contraction) -> DepthwisePlan | None:
    """The plan whose tiles have the lowest estimated cost.

    None if this is no such convolution, or no windows overlap.
    """
    target = context.target
    if c.m is not None or len(c.k) not in (2, 3) or c.right.index.coefficient(c.n) not in (1, 2):
        return None
    if c.left.dtype != c.dtype or c.right.dtype != c.dtype:
        return None
    row = next((v for v in reversed(c.batch) if not c.left.index.coefficient(v) and min(_row_steps(c, v)) > 0), None)
    *_, taps, wide = (v.extent for v in c.k)
    if row is None or taps * wide > costs.MAX_UNROLLED_DEPTHWISE:
        return None
    steps, lanes = _row_steps(c, row), tile_lanes(target, c)
    if len(rows_read(*steps, taps, row.extent)) == taps * row.extent:
        return None
    planes, strided = prod(v.extent for v in (*c.batch, *c.k[:-2])) // row.extent, c.right.index.coefficient(c.n) == 2
    image = _image_in_place(context, c, row) if planes >= costs.units(target) else None
    narrowed = target.narrowed(lanes * c.dtype.itemsize)
    plane = _Plane(narrowed, lanes, steps, (taps, wide), row.extent, c.columns, strided, whole_rows=False)
    padded = _best_tile(plane)
    if image is not None:
        in_place = _best_tile(plane._replace(whole_rows=True))
        copy = prod(image.shape[-2:]) / lanes * costs.padded_copy_cycles(narrowed) if image.borders else 0.0
        if in_place.cycles < padded.cycles + copy:
            return DepthwisePlan(c, row, in_place.rows, in_place.vectors, lanes, image, planes * in_place.cycles)
    return DepthwisePlan(c, row, padded.rows, padded.vectors, lanes, None, planes * padded.cycles)


def _image_in_place(context: Context, c: Contraction, row: Var) -> Image | None:
    """The image without the zeros around it, where loads can leave out what is outside; None if it is not in memory.

    Loads of every second element are made of others by shuffles, which choose what is inside.
    """
    step = c.right.index.coefficient(c.n)
    own = tuple(v for v in c.batch if not c.left.index.coefficient(v))
    image = image_of(context, c.right, (*own, c.n), c.k) if len(c.k) == 2 else None
    if image is None or (step == 1 and not (image.borders and context.target.masks_loads)):
        return None
    high, wide = image.at[-2:]
    apart = high.variables() <= {row, c.k[0]} and wide.variables() <= {c.n, c.k[1]}
    return image if apart and wide.coefficient(c.n) == step else None


def _row_steps(c: Contraction, row: Var) -> tuple[int, int]:
    """Elements of the image from one row of the result to the next, and from one row of the window to the next."""
    return c.right.index.coefficient(row) or 0, c.right.index.coefficient(c.k[-2]) or 0


def rows_read(step: int, ahead: int, taps: int, rows: int) -> list[list[tuple[int, int]]]:
    """The rows of an image that so many windows of so many rows read, and as which row of the window each reads them.

    `step` is the distance of windows, `ahead` that of the rows of a window.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for i in range(rows):
        for k0 in range(taps):
            found.setdefault(i * step + k0 * ahead, []).append((i, k0))
    return [found[place] for place in sorted(found)]


class _Plane(NamedTuple):
    """The convolution of a channel of an image, as far as its tiles depend on it.

    Parameters
    ----------
    target : Target
        The CPU, as code sees it that uses vectors of `lanes`.
    lanes : int
        Lanes of a vector.
    steps : tuple of int
        The distance of windows, and that of the rows of a window.
    window : tuple of int
        Rows and columns of the window.
    rows, columns : int
        Those of the result.
    strided : bool
        Whether windows move by two columns.
    whole_rows : bool
        Whether tiles have all columns.
    """

    target: Target
    lanes: int
    steps: tuple[int, int]
    window: tuple[int, int]
    rows: int
    columns: int
    strided: bool
    whole_rows: bool

    def cycles(self, height: int, vectors: int) -> float:
        """Estimated cycles with tiles of so many rows and vectors."""
        down, across = pieces(self.rows, height), pieces(ceil(self.columns / self.lanes), vectors)
        return sum(n * m * self._tile_cycles(high, wide) for _, n, high in down for _, m, wide in across)

    def _tile_cycles(self, height: int, vectors: int) -> float:
        target, (taps, wide) = self.target, self.window
        # Two loads make a vector of every second element; even and odd elements share them.
        each = 2 * (wide - 1) if self.strided else wide
        images = len(rows_read(*self.steps, taps, height)) * vectors
        products = height * vectors * taps * wide
        # Weights that fit the registers beside the sums are loaded once, others for each row.
        room = max(target.tile_registers - height * vectors - vectors, 0)
        weights = taps * wide + max(taps * wide - room, 0) * (height - 1)
        # Of small tiles, a core computes several at a time.
        together = max(costs.REORDER_WINDOW / products, 1.0)
        return costs.TILE_CYCLES + max(
            costs.multiply_add_cycles(target, products + images * wide * self.strided),
            costs.load_cycles(target, images * each * costs.unaligned_loads(target), weights),
            costs.chain_cycles(target) * taps * wide / together,
        )

    def tiles(self) -> Iterator[tuple[int, int]]:
        """The tiles that fit the registers, with a weight for each row and a vector of the image."""
        columns, taps = ceil(self.columns / self.lanes), self.window[0] * self.window[1]
        widths = (columns,) if self.whole_rows else range(1, min(columns, costs.MAX_VECTORS) + 1)
        for height in range(1, min(self.rows, costs.MAX_ROWS) + 1):
            for vectors in widths:
                sums = height * vectors
                fits = sums + min(height, vectors) + 1 + 2 * self.strided <= self.target.tile_registers
                if sums == 1 or (fits and sums * taps <= costs.MAX_UNROLLED_DEPTHWISE):
                    yield height, vectors


class _Tile(NamedTuple):
    """The cycles of a plane with a tile, and its rows and vectors."""

    cycles: float
    rows: int
    vectors: int

    def size(self) -> tuple[int, float]:
        """Sums of the tile, and then its cycles."""
        return self.rows * self.vectors, self.cycles


@lru_cache(maxsize=1024)
def _best_tile(plane: _Plane) -> _Tile:
    """The tile with which a channel takes the fewest cycles; they are infinite if none of whole rows fits.

    Of tiles of whole rows, the smallest that takes about as few.
    """
    tiles = [_Tile(plane.cycles(*tile), *tile) for tile in plane.tiles()]
    best = min(tiles, default=_Tile(inf, 1, 1))
    if not plane.whole_rows:
        return best
    least = best.cycles * costs.SMALLER_DEPTHWISE_TILES
    return min((tile for tile in tiles if tile.cycles <= least), key=_Tile.size, default=best)
