"""How a Winograd convolution runs (`convolution`): axes, images in a unit and register tile, by estimated cost."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import field
from functools import lru_cache
from math import ceil, prod, sqrt

import numpy as np

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Load
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.matching import join_rows
from adjoint.lower.contractions.tile_cost import IN_PLACE, Tile, cost_model
from adjoint.lower.loops import divisors, ravel
from adjoint.lower.winograd.algorithm import algorithm
from adjoint.lower.winograd.transforms import ConvolutionAxes, TransformedRows, stride_along

__all__ = ["PointGemm", "WinogradPlan", "plan_winograd"]


@dataclass(frozen=True, slots=True)
class WinogradPlan:
    """How a convolution runs with Winograd's algorithm.

    Parameters
    ----------
    contraction : Contraction
        The contraction, with its rows apart.
    roles : ConvolutionAxes
        The roles of its axes.
    images, rows : int
        Images in a unit, and rows of tiles of each. Reductions that start in the epilogue add up what a unit computes,
        so they follow from shapes alone: they are those of the plan for `adjoint.costs.MODEL`.
    groups : int
        Groups of output channels, each of which transforms the images anew, so that threads have enough to share.
    weights_stay : bool
        Whether units walk all images with the weights of a group before those of the next.
    joined : bool
        Whether lanes run across the ends of rows.
    tile : Tile
        The register tile.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    roles: ConvolutionAxes
    images: int
    rows: int
    groups: int
    weights_stay: bool
    joined: bool
    tile: Tile
    cycles: float

    @property
    def parts(self) -> int:
        """Units that compute different results of one output channel."""
        return self.contraction.batches // self.roles.high.extent * self.roles.tiles // (self.images * self.rows)

    @property
    def units(self) -> int:
        """Units of work."""
        return self.parts * self.groups

    def __str__(self) -> str:
        return "winograd"


def plan_winograd(target: Target, c: Contraction) -> WinogradPlan | None:
    """The plan with the lowest estimated cost, or None where a contraction is of another kind."""
    if c.m is None or c.dtype.itemsize != np.dtype(np.float32).itemsize or stride_along(c.right, c.n) not in (1, 2):
        return None
    roles = _roles(c)
    if roles is None or not roles.pays_off:
        return None
    model = costs.order_target(target)
    best_unit = _best_unit(model, _Layer.of(c, roles))
    if best_unit is None:
        return None
    images, rows, joined = best_unit
    if model is target:
        return _plan(target, c, roles, images, rows, joined, None)
    size = [(images, rows)]
    best = min(_plans(target, c, roles, size), key=lambda plan: plan.cycles)
    if best.units >= costs.least_units(target):
        return best
    # Smaller tiles make more groups.
    heights = range(1, best.tile.rows + 1)
    return min(
        (best, *(plan for height in heights for plan in _plans(target, c, roles, size, height))),
        key=lambda plan: plan.cycles * costs.imbalance(target, plan.units),
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    """A convolution, equal to all others with the same plan."""

    numbers: tuple[Hashable, ...]
    c: Contraction = field(compare=False)
    roles: ConvolutionAxes = field(compare=False)

    @classmethod
    def of(cls, c: Contraction, roles: ConvolutionAxes) -> "_Layer":
        """The numbers that plans depend on."""
        weights = tuple((v.extent, bool(c.left.index.coefficient(v))) for v in roles.batch)
        images = roles.images.extent if roles.images is not None else 0
        channels = tuple(v.extent for v in roles.channels)
        one = (roles.algorithm, roles.high.extent, roles.across.extent, channels, weights, images)
        return cls((c.dtype, c.rows, c.columns, tuple(v.extent for v in c.batch), *one), c, roles)


@lru_cache(maxsize=1024)
def _best_unit(model: Target, layer: _Layer) -> tuple[int, int, bool] | None:
    """Images and rows of the best unit, and whether its rows are joined. Cached: layers repeat."""
    # Few units leave threads idle; how many threads there will be is not known here.
    wanted = costs.units(model)
    plans = _plans(model, layer.c, layer.roles, _units(model, layer.c, layer.roles))
    best = min(plans, key=lambda plan: plan.cycles * sqrt(max(1.0, wanted / plan.units)), default=None)
    return (best.images, best.rows, best.joined) if best is not None else None


def _plans(
    target: Target, c: Contraction, roles: ConvolutionAxes, units: Iterable[tuple[int, int]], height: int | None = None
) -> list[WinogradPlan]:
    return [_plan(target, c, roles, images, rows, joined, height) for images, rows in units for joined in (False, True)]


def _units(target: Target, c: Contraction, roles: ConvolutionAxes) -> Iterator[tuple[int, int]]:
    """Possible units as (images, rows of tiles): all rows of one image before a second image."""
    line = roles.algorithm.products * roles.lines * (c.columns + roles.beyond) * c.dtype.itemsize
    every = roles.tiles
    # Where weights are large, reading them fewer times pays for leaving the second-level cache.
    weights = roles.algorithm.products * roles.depth * c.rows * c.dtype.itemsize
    wide = min(weights // costs.WEIGHTS_PER_SCRATCH, costs.MAX_SCRATCH_BYTES)
    room = max(costs.winograd_scratch_bytes(target), wide)
    many = roles.images.extent if roles.images is not None else 1
    for images in divisors(many):
        for rows in divisors(every) if images == 1 else (every,):
            if images * rows * line <= (costs.MAX_SCRATCH_BYTES if images == rows == 1 else room):
                yield images, rows


def _plan(
    target: Target, c: Contraction, roles: ConvolutionAxes, images: int, rows: int, joined: bool, height: int | None
) -> WinogradPlan:
    """The plan with the best register tile for such units, of any or of at most so many rows."""
    product = PointGemm(TransformedRows.of(target, c.dtype, roles, c.columns, images, rows), joined)
    weights = Buffer("u", c.dtype, roles.algorithm.products * roles.depth * c.rows, "arena")
    most = min(height or c.rows, c.rows)
    small = product.contraction(target, most, weights, as_index(0), most)
    multiply, tile = cost_model(target, small, 0, IN_PLACE, shared=False).cheapest()
    lanes = target.lanes(c.dtype)
    lines = prod(v.extent for v in c.batch) // roles.high.extent * roles.tiles
    iterations = lines // (images * rows)
    blocks = ceil(c.rows / tile.rows)
    groups = _groups(target, blocks, iterations)
    before = groups * roles.lines * ceil((c.columns + roles.beyond) / lanes)
    if stride_along(c.right, c.n) > 1:
        before *= costs.STRIDED_TRANSFORM
    vectors = lines * (before + c.rows * ceil(c.columns / lanes))
    transforms = vectors * costs.TRANSFORM_CYCLES * roles.algorithm.products / costs.TRANSFORM_ROWS
    weight_batch = prod(v.extent for v in roles.batch if c.left.index.coefficient(v))
    made = c.rows * c.depth * weight_batch * costs.GATHER_CYCLES
    streamed = iterations * weights.nbytes / costs.weight_bytes_per_cycle(target)
    return WinogradPlan(
        contraction=c,
        roles=roles,
        images=images,
        rows=rows,
        groups=groups,
        weights_stay=_weights_stay(target, c, weights, groups, iterations),
        joined=joined,
        tile=tile,
        cycles=iterations * roles.algorithm.products * multiply * (c.rows / most) + transforms + made + streamed,
    )


def _weights_stay(target: Target, c: Contraction, weights: Buffer, groups: int, iterations: int) -> bool:
    """Whether it reads less to keep a group's weights for all images than to keep images for all groups."""
    again = (groups - 1) * c.right.buffer.nbytes, (iterations - 1) * weights.nbytes
    return groups > 1 and weights.nbytes > costs.l2_block_bytes(target) and again[0] < again[1]


def _groups(target: Target, blocks: int, iterations: int) -> int:
    """Groups of blocks of output channels, a divisor of them, each of which transforms the images anew.

    Enough to keep threads busy; if that takes many more than are wanted, since few numbers divide the blocks, fewer.
    """
    wanted = costs.units(target)
    many = next((d for d in divisors(blocks) if d * iterations >= wanted), blocks)
    few = max((d for d in divisors(blocks) if d < many), default=1)
    return few if many * iterations > 2 * wanted and few * iterations >= costs.least_units(target) else many


def _roles(c: Contraction) -> ConvolutionAxes | None:
    """The roles of the axes, or None where some are missing."""
    near = next((v for v in reversed(c.k) if stride_along(c.right, v) == 1), None)
    # At stride 2 along columns, each column of the window is read from rows of its own, as if it were a channel.
    across = near if near is not None and stride_along(c.right, c.n) == 1 else Var("across", 1)
    for tap in c.k:
        down = stride_along(c.right, tap)
        if tap is near or down < 2:
            continue
        moves = {v: stride_along(c.right, v) // down for v in c.batch if not c.left.index.coefficient(v)}
        alike = [v for v, move in moves.items() if move in (1, 2) and stride_along(c.right, v) == move * down]
        if not alike:
            continue
        by = algorithm(alike[0].extent, tap.extent, moves[alike[0]])
        rest = tuple(v for v in c.batch if v is not alike[0])
        several = bool(rest) and not c.left.index.coefficient(rest[-1])
        channels = tuple(v for v in c.k if v is not tap and v is not across)
        batch, images = (rest[:-1], rest[-1]) if several else (rest, None)
        return None if by is None else ConvolutionAxes(by, alike[0], tap, across, channels, batch, images)
    return None


@dataclass(frozen=True, slots=True)
class PointGemm:
    """The GEMM at one point, from transformed rows to sums ``[point, output channel, row of tiles, column]``.

    Parameters
    ----------
    rows : TransformedRows
        The transformed rows.
    joined : bool
        Whether lanes run across the ends of rows.
    """

    rows: TransformedRows
    joined: bool

    @property
    def sums(self) -> int:
        """Sums of one output channel at one point."""
        rows = self.rows
        return rows.count * rows.pitch - rows.roles.beyond if self.joined else rows.count * rows.columns

    def sum_at(self, column: Index) -> Index:
        """The position of a sum of the current row of tiles."""
        return self.rows.line * (self.rows.pitch if self.joined else self.rows.columns) + column

    def contraction(self, target: Target, count: int, weights: Buffer, base: Index, height: int) -> Contraction:
        """The GEMM with `count` of the `height` rows of weights that are packed side by side from `base` on."""
        rows, across = self.rows, self.rows.roles.across
        k = (*rows.channels, Var(across.name, across.extent))
        m, line, n = Var("m", count), Var("t", rows.count), Var("x", self.sums if self.joined else rows.columns)
        column = as_index(n) + as_index(k[-1])
        at = as_index(0 if self.joined else line)
        before = as_index(rows.point) * rows.roles.depth + ravel(k, {v: as_index(v) for v in k})
        left = Load(weights, base + before * height + as_index(m))
        right = Load(rows.memory, as_index(rows.point) * rows.plane + rows.at(at, column))
        batch = () if self.joined or line.extent == 1 else (line,)
        place = (as_index(m), at * rows.columns + as_index(n))
        k = tuple(v for v in k if v.extent > 1)
        return join_rows(target, Contraction(left, right, m, n, batch, k, (m, *batch, n), place))
