"""How a convolution with few output channels runs as a GEMM over pixels (`kn2row`): its units and its register tile."""

from collections.abc import Hashable
from dataclasses import field, replace
from functools import lru_cache
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index, flatten
from adjoint.kernel.ir import Buffer, Load
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context
from adjoint.lower.contractions.borders import Border, Image, image_of
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.tile_cost import IN_PLACE, Tile, cost_model
from adjoint.lower.loops import divisors

__all__ = ["Kn2RowPlan", "ShiftedRows", "in_parts", "plan_kn2row"]


@dataclass(frozen=True, slots=True)
class ShiftedRows:
    """A convolution whose images are walked row by row, pixel by pixel, without the zeros around them.

    Parameters
    ----------
    contraction : Contraction
        The convolution.
    image : Image
        The images in memory.
    down, across : Border
        How windows move along rows and columns of an image: by one, and by one from tap to tap, in either direction.
    channels : tuple of Var
        The other summed axes.
    rows : int
        Rows of the result in a unit.
    lines : int
        Rows of the image that a unit reads.
    step : int
        Rows of the image from the first of one unit to that of the next.
    groups : int
        Groups of output channels, a divisor of them, each of which reads the image anew, so that threads have enough to
        share.
    """

    contraction: Contraction
    image: Image
    down: Border
    across: Border
    channels: tuple[Var, ...]
    rows: int
    lines: int
    step: int
    groups: int = 1

    @property
    def out_channels(self) -> int:
        """Output channels of a unit."""
        return self.contraction.rows // self.groups

    @property
    def height(self) -> int:
        """Rows of the GEMM of a unit."""
        return self.out_channels * self.taps

    @property
    def depth(self) -> int:
        """Steps of the GEMM."""
        return prod(v.extent for v in self.channels)

    @property
    def taps(self) -> int:
        """Taps of a window."""
        return self.down.step.extent * self.across.step.extent

    @property
    def columns(self) -> int:
        """Columns of the image."""
        return self.image.shape[-1]

    @property
    def others(self) -> tuple[Var, ...]:
        """The axes of the result that units walk, besides parts of an image."""
        return tuple(v for v in self.contraction.batch if v is not self.down.row)

    @property
    def parts(self) -> int:
        """Units in an image."""
        return self.down.row.extent // self.rows

    @property
    def units(self) -> int:
        """Units of work."""
        return prod(v.extent for v in self.others) * self.parts * self.groups

    @property
    def above(self) -> int:
        """Rows of zeros above those that are read."""
        return max(-_lowest(self.down), 0)

    @property
    def below(self) -> int:
        """Rows of zeros below those that are read."""
        ahead = (self.parts - 1) * (self.rows - self.step)
        return max(_lowest(self.down) + ahead + _reach(self.down, self.rows) - self.lines, 0)

    def line(self, part: Index, row: Index, tap: int) -> Index:
        """The row, counted from the first one of zeros, that a tap of a window reads for a row of a unit."""
        first = self.down.first + tap * self.down.step_stride + self.above
        return part * (self.rows - self.step) + row + first

    def pixel(self, at: dict[Var, Index], part: Index, pixel: Index) -> Index:
        """The place in memory of a pixel of the rows that a unit reads."""
        *outer, _, _ = (index.substitute(at) for index in self.image.at)
        start = part * (self.step * self.columns) + pixel
        return flatten((*outer, as_index(0), as_index(0)), self.image.shape) + start

    def product(
        self, weights: Buffer, base: Index, size: tuple[int, int], at: dict[Var, Index], part: Index
    ) -> Contraction:
        """The GEMM of packed weights; `size` is the number of rows, and of those side by side from `base` on."""
        count, height = size
        k = tuple(Var(v.name, v.extent) for v in self.channels)
        own = {v: as_index(one) for v, one in zip(self.channels, k, strict=True)}
        m, n = Var("m", count), Var("x", self.lines * self.columns)
        step = flatten(tuple(own.values()), tuple(v.extent for v in k))
        left = Load(weights, base + step * height + as_index(m))
        right = Load(self.image.buffer, self.pixel({**at, **own}, part, as_index(n)))
        return Contraction(left, right, m, n, (), k, (m, n), (as_index(m), as_index(n)))


@dataclass(frozen=True, slots=True)
class Kn2RowPlan:
    """How a convolution runs as a GEMM over pixels.

    Parameters
    ----------
    shifted : ShiftedRows
        The convolution, and what a unit reads.
    tile : Tile
        The register tile.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    shifted: ShiftedRows
    tile: Tile
    cycles: float

    @property
    def contraction(self) -> Contraction:
        """The convolution."""
        return self.shifted.contraction

    @property
    def units(self) -> int:
        """Units of work."""
        return self.shifted.units

    def __str__(self) -> str:
        return "kn2row"


def plan_kn2row(context: Context, c: Contraction) -> Kn2RowPlan | None:
    """The plan with the lowest estimated cost; None where a contraction is of another kind or has many channels."""
    whole = _whole_images(context, c)
    if whole is None:
        return None
    size = _best_size(context.target, _Layer.of(whole))
    if size is None:
        return None
    rows, groups, tile, cycles = size
    return Kn2RowPlan(replace(in_parts(whole, rows) or whole, groups=groups), tile, cycles)


def _whole_images(context: Context, c: Contraction) -> ShiftedRows | None:
    """The convolution with units of whole images; None where a contraction is of another kind."""
    if len(c.k) < 3 or c.right.index.coefficient(c.n) != 1:
        return None
    own = tuple(v for v in c.batch if not c.left.index.coefficient(v))
    image = image_of(context, c.right, (*own, c.n), c.k)
    if image is None:
        return None
    down, across = (
        _moves(index, (*own, c.n), c.k, size) for index, size in zip(image.at[-2:], image.shape[-2:], strict=True)
    )
    if down is None or across is None or across.row is not c.n:
        return None
    channels = tuple(v for v in c.k if v is not down.step and v is not across.step)
    whole = ShiftedRows(c, image, down, across, channels, down.row.extent, image.shape[-2], 0)
    if whole.depth < costs.MIN_KN2ROW_DEPTH or whole.height > costs.MAX_KN2ROW_ROWS:
        return None
    moving = {down.row, down.step, across.row, across.step}
    outer = list(zip(image.at[:-2], image.shape, strict=False))
    # Padding along another axis, as of volumes, is not left out.
    if any(i.variables() & moving or i.low < 0 or i.high >= size for i, size in outer):
        return None
    return whole


def _moves(index: Index, rows: tuple[Var, ...], k: tuple[Var, ...], size: int) -> Border | None:
    """How windows move along an axis of an image: by one, as do their taps, or None."""
    own, taps = ([v for v in several if index.coefficient(v)] for several in (rows, k))
    if len(own) != 1 or len(taps) != 1 or index.variables() != {own[0], taps[0]}:
        return None
    (row,), (tap,) = own, taps
    by = index.coefficient(row), index.coefficient(tap)
    first = index.substitute({row: as_index(0), tap: as_index(0)}).low
    return Border(row, tap, first, 1, by[1] or 0, size) if by in ((1, 1), (1, -1)) else None


def _lowest(down: Border) -> int:
    """The first row of the image, without the zeros around it, that the windows of the first row read."""
    return down.first + min(down.step_stride, 0) * (down.step.extent - 1)


def _reach(down: Border, rows: int) -> int:
    """The rows that the windows of so many rows read."""
    return rows + down.step.extent - 1


def in_parts(whole: ShiftedRows, rows: int) -> ShiftedRows | None:
    """The same with units of so many rows, which read the fewest rows at even steps; None where none of these do."""
    down, size = whole.down, whole.down.extent
    low, parts = _lowest(down), down.row.extent // rows
    if parts == 1:
        return whole
    for step in range(min(rows, (size - 1) // (parts - 1)), 0, -1):
        lines = size - (parts - 1) * step
        starts = [(part * step, part * rows + low) for part in range(parts)]
        if all(a <= max(b, 0) and a + lines >= min(b + _reach(down, rows), size) for a, b in starts):
            return replace(whole, rows=rows, lines=lines, step=step)
    return None


@dataclass(frozen=True, slots=True)
class _Layer:
    """A convolution, equal to all others with the same plan."""

    numbers: tuple[Hashable, ...]
    whole: ShiftedRows = field(compare=False)

    @classmethod
    def of(cls, whole: ShiftedRows) -> "_Layer":
        """The numbers that plans depend on."""
        c, down, across = whole.contraction, whole.down, whole.across
        moves = tuple((b.first, b.step_stride, b.step.extent, b.row.extent, b.extent) for b in (down, across))
        others = tuple((v.extent, bool(c.left.index.coefficient(v))) for v in whole.others)
        image = whole.image.buffer.dtype, whole.image.shape
        return cls((c.dtype, c.rows, moves, others, tuple(v.extent for v in whole.channels), image), whole)


@lru_cache(maxsize=1024)
def _best_size(target: Target, layer: _Layer) -> tuple[int, int, Tile, float] | None:
    """Rows of the best unit, groups of channels, register tile, and estimated cycles. Cached: layers repeat."""
    found, channels = [], layer.whole.contraction.rows
    for rows in divisors(layer.whole.down.row.extent):
        shifted = in_parts(layer.whole, rows)
        if shifted is None:
            continue
        enough = (d for d in divisors(channels) if d * shifted.units >= costs.least_units(target))
        shifted = replace(shifted, groups=next(enough, channels))
        if _scratch(shifted) <= costs.MAX_SCRATCH_BYTES:
            cycles, tile = _cycles(target, shifted)
            found.append((cycles * costs.idle(target, shifted.units), rows, shifted.groups, tile, cycles))
    return min(found, key=lambda one: one[:2])[1:] if found else None


def _scratch(shifted: ShiftedRows) -> int:
    """Bytes of the sums of all taps of a unit."""
    c = shifted.contraction
    lines = shifted.above + shifted.lines + shifted.below
    return shifted.height * lines * shifted.columns * c.dtype.itemsize


def _cycles(target: Target, shifted: ShiftedRows) -> tuple[float, Tile]:
    """The estimated cycles of all units, and the register tile."""
    c, lanes = shifted.contraction, target.lanes(shifted.contraction.dtype)
    height, depth = shifted.height, shifted.depth
    weights = Buffer("packed", c.dtype, height * depth, "arena")
    zero = {v: as_index(0) for v in (*c.axes, *c.k)}
    small = shifted.product(weights, as_index(0), (height, height), zero, as_index(0))
    multiply, tile = cost_model(target, small, 0, IN_PLACE, shared=False).cheapest()
    nbytes = _scratch(shifted)
    vectors = shifted.out_channels * shifted.rows * ceil(c.columns / lanes) * shifted.across.step.extent
    added = nbytes / costs.copy_bytes_per_cycle(target, nbytes) + vectors * costs.SHIFTED_CYCLES
    packed = height * shifted.groups * depth * prod(v.extent for v in c.batch if c.left.index.coefficient(v))
    return shifted.units * (multiply + added) + packed * costs.GATHER_CYCLES, tile
