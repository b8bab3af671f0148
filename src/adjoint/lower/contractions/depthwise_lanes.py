"""Depthwise convolutions with lanes along channels: planes of the image are transposed, tiles have pixels of a row.

Rows of small images fill a vector in part, and windows that move by two elements take two loads and a shuffle for each
vector of a row. So a unit transposes the planes of a vector of channels, multiplies, and transposes the sums::

    for each image, vector of channels:
      for each element of a plane:  turned[element, lane] = image[lane, element]    squares transposed in registers
      for each row, tile of pixels:
        for each row of the window that is inside the image, each of its taps:
          for pixel in tile, if inside the image:
            acc[pixel, lane] += turned[element of pixel and tap, lane] * weight[tap, lane]
      out[lane, pixels] = epilogue(sums[pixels, lane])                              transposed again

The image is read without the zeros around it, where it is in memory without them too. The products of an element are
added in the same order as in a GEMM, so both give the same bits for finite numbers (`borders`).
"""

from collections.abc import Callable
from dataclasses import replace
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, For, Kernel, Load, Stmt, Store, When
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.contractions.borders import Image, image_of
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.contractions.packing import pack_columns
from adjoint.lower.contractions.planes import first_plane, transposed_planes
from adjoint.lower.contractions.prefetch import Region, region, spread_prefetches
from adjoint.lower.contractions.split_k_reduction import TransposingEpilogue, row_blocks
from adjoint.lower.contractions.tile_cost import Form, Tile
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, pieces, ravel, tiled, unravel

__all__ = ["DepthwiseLanesPlan", "depthwise_lanes_kernels", "plan_depthwise_lanes"]


@dataclass(frozen=True, slots=True)
class DepthwiseLanesPlan:
    """How a depthwise convolution runs with lanes along its channels.

    Parameters
    ----------
    contraction : Contraction
        The convolution: `left` are the weights.
    image : Image
        What is convolved, with its borders.
    lane, row : Var
        The channels, and the axis of the result along which windows move by rows of the image.
    pixels, lanes : int
        Pixels of a tile, and lanes of a vector.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    image: Image
    lane: Var
    row: Var
    pixels: int
    lanes: int
    cycles: float = 0.0

    def __str__(self) -> str:
        return f"depthwise_lanes {self.pixels}"

    @property
    def outer(self) -> tuple[Var, ...]:
        """The axes of the result that each unit has one point of, apart from the channels: images."""
        return tuple(v for v in self.contraction.batch if v is not self.lane and v is not self.row)

    @property
    def panels(self) -> int:
        """Vectors of channels."""
        return ceil(self.lane.extent / self.lanes)

    @property
    def units(self) -> int:
        """Units of work."""
        return prod(v.extent for v in self.outer) * self.panels


def plan_depthwise_lanes(context: Context, c: Contraction) -> DepthwiseLanesPlan | None:
    """The plan whose tiles have the lowest estimated cost; None if this is no such convolution, or of large images."""
    target = context.target
    if c.m is not None or len(c.k) != 2 or c.runs or {c.left.dtype, c.right.dtype} != {c.dtype}:
        return None
    own = tuple(v for v in c.batch if not c.left.index.coefficient(v))
    image, shared = image_of(context, c.right, (*own, c.n), c.k), [v for v in c.batch if v not in own]
    row = next((v for v in own if image is not None and v in image.at[-2].variables()), None)
    if image is None or row is None or len(shared) != 1:
        return None
    (lane,), (*_, channel, high, wide) = shared, image.at
    walked = high.variables() <= {row, c.k[0]} and wide.variables() <= {c.n, c.k[1]}
    if channel != as_index(lane) or not walked:
        return None
    lanes, plane = target.lanes(c.dtype), prod(image.shape[-2:])
    held = (plane + 2 * row.extent * c.columns) * target.vector_bytes
    if plane < lanes or 2 * lane.extent < lanes or held > costs.l2_block_bytes(target):
        return None
    plan = DepthwiseLanesPlan(c, image, lane, row, 1, lanes)
    tiles = (replace(plan, pixels=n) for n in range(1, min(c.columns, target.vector_registers // 2) + 1))
    return min((replace(one, cycles=_cycles(target, one)) for one in tiles), key=lambda one: one.cycles)


def _cycles(target: Target, plan: DepthwiseLanesPlan) -> float:
    """Cycles of all of it: transposes, multiply-adds, and the epilogue."""
    c, lanes = plan.contraction, plan.lanes
    plane, points = prod(plan.image.shape[-2:]), plan.row.extent * c.columns
    turned = ceil(plane / lanes) * lanes**2 * costs.transpose_cycles(lanes)
    high, wide = ((border.share if border is not None else 1.0) for border in map(plan.image.border, (plan.row, c.n)))

    steps = plan.row.extent * ceil(c.columns / plan.pixels) * c.k[0].extent
    products = costs.multiply_add_cycles(target, points * c.depth * high * wide) + steps * costs.STEP_CYCLES
    unit = turned + products + points * costs.DEPTHWISE_LANES_STORE_CYCLES
    weights = costs.PACKING_CYCLES + plan.panels * lanes * c.depth * costs.GATHER_CYCLES
    return weights + plan.units * unit * costs.idle(target, plan.units)


def depthwise_lanes_kernels(context: Context, group: Group, plan: DepthwiseLanesPlan) -> list[Kernel]:
    """The packing of the weights, and the convolution."""
    c = plan.contraction
    swapped = replace(c, left=c.right, right=c.left, n=plan.lane, batch=(*plan.outer, plan.row, c.n))
    form = Form(swapped=True, right="whole")
    packing, packed = pack_columns(context, group, GemmPlan(swapped, Tile(1, 1), plan.lanes, form))
    return [packing, _Builder(context, group, plan, packed.right.buffer).kernel()]


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds the convolution; `weights` are packed: ``[vector of channels, tap, lane]``."""

    context: Context
    group: Group
    plan: DepthwiseLanesPlan
    weights: Buffer

    def kernel(self) -> Kernel:
        """Each unit is a vector of channels of an image."""
        plan, c = self.plan, self.plan.contraction
        unit, panel, plane = Var("u", plan.units), Var("panel", plan.panels), prod(plan.image.shape[-2:])
        axes = (*plan.outer, panel)
        at, following = (unravel(axes, number) for number in (as_index(unit), (as_index(unit) + 1) % unit.extent))
        number, element = at.pop(panel), Var("s", plane * plan.lanes)
        start = (first_plane(plan.image, {**following, plan.lane: as_index(0)}) + following[panel] * plan.lanes) * plane
        ahead = region(
            self.context, self.group, plan.image.buffer, as_index(element), {element: element.extent}, {element: start}
        )
        planes = Buffer("planes", c.dtype, plane * plan.lanes, "scratch")
        sums = Buffer("sums", c.dtype, plan.row.extent * c.columns * plan.lanes, "scratch")
        work = 0.0

        def some(columns: int, first: Index) -> tuple[Stmt, ...]:
            nonlocal work
            end, work = self._epilogue(sums, at, columns, first)
            plane = first_plane(plan.image, {**at, plan.lane: first})
            copies = transposed_planes(plan.image, planes, 0, plane, columns, plan.lanes)
            return (*copies, *self._products(planes, sums, number, ahead), *end)

        body = tiled(number, plan.lane.extent, plan.lanes, some)
        flops = 2.0 * prod(v.extent for v in c.axes) * c.depth + work
        return finish_kernel(self.context, self.context.name_of(self.group), self.group.members, unit, body, flops)

    def _products(self, planes: Buffer, sums: Buffer, panel: Index, ahead: Region | None) -> tuple[Stmt, ...]:
        """The sums of all pixels, row by row; in between, prefetches of the planes `ahead`."""
        plan, c = self.plan, self.plan.contraction
        row, border = Var("row", plan.row.extent), plan.image.border(c.n)
        every = border.tiles(plan.pixels) if border is not None else pieces(c.columns, plan.pixels)
        most = max(every, key=lambda some: some[1])
        body: tuple[Stmt, ...] = ()
        for some in every:
            first, many, size = some
            number, down = Var("tile", many), Var("k0", c.k[0].extent)
            acc = Buffer("acc", c.dtype, size * plan.lanes, "register")
            tile = _Tile(self, planes, acc, row, as_index(number) * size + first)
            runs = border.runs(first, size) if border is not None else [(0, c.k[1].extent, (0, size))]
            taps = (statement for run in runs for statement in tile.multiply(panel, down, *run))
            walk = (row, number, down)
            step, steps = ravel(walk, {v: as_index(v) for v in walk}), prod(v.extent for v in walk)
            hint = spread_prefetches([ahead], step, steps) if ahead is not None and some is most else ()
            window = nest([down], (*hint, *self._inside(tuple(taps), row, down)))
            body += nest([number], (*tile.clear(size), *window, *tile.put(sums, size)))
        return nest([row], body)

    def _inside(self, body: tuple[Stmt, ...], row: Var, down: Var) -> tuple[Stmt, ...]:
        """Do something if the row of the image that meets a row of the window is inside."""
        border = self.plan.image.border(self.plan.row)
        if border is None:
            return body
        return (When(border.coordinate(as_index(row), as_index(down)), 0, border.extent, body),)

    def _epilogue(
        self, sums: Buffer, at: dict[Var, Index], columns: int, first: Index
    ) -> tuple[tuple[Stmt, ...], float]:
        """Transpose the sums and store them; and the operations of the epilogue of all units."""
        plan, c = self.plan, self.plan.contraction
        some = row_blocks(plan.row.extent, c.columns)[0]
        iteration, local = Var("t", plan.row.extent // some), Var(plan.row.name, some)
        placed, begin = replace(c, place=c.index(at)), as_index(iteration) * some
        ends = TransposingEpilogue(self.context, self.group, placed, plan.lane, (plan.row, c.n), (local, c.n), begin)
        start = as_index(iteration) * (some * c.columns * plan.lanes)
        end, work = ends.of(sums, start, plan.lanes, (columns, first))
        return nest([iteration], end), work


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile of a row: its sums in registers, the transposed planes that it reads, and its first pixel."""

    builder: _Builder
    planes: Buffer
    acc: Buffer
    row: Var
    column: Index

    def clear(self, size: int) -> tuple[Stmt, ...]:
        """Zeros."""
        return self._along(0, size, lambda _, spot: Store(((self.acc, spot, Const(0.0, self.acc.dtype)),)))

    def put(self, sums: Buffer, size: int) -> tuple[Stmt, ...]:
        """Store the sums."""
        plan = self.builder.plan
        start = (as_index(self.row) * plan.contraction.columns + self.column) * plan.lanes
        return self._along(0, size, lambda _, spot: Store(((sums, start + spot, Load(self.acc, spot)),)))

    def multiply(self, panel: Index, down: Var, first: int, many: int, pixels: tuple[int, int]) -> tuple[Stmt, ...]:
        """Add the products of some taps in a row of the window for the pixels between two."""
        plan, c = self.builder.plan, self.builder.plan.contraction
        tap, (begin, end) = Var("k1", many), pixels
        k = {c.k[0]: as_index(down), c.k[1]: as_index(tap) + first}
        weights = (panel * c.depth + ravel(c.k, k)) * plan.lanes

        def one(pixel: Index, spot: Index) -> Store:
            where = {**k, plan.row: as_index(self.row), c.n: self.column + pixel}
            high, wide = (index.substitute(where) for index in plan.image.at[-2:])
            lane = spot - pixel * plan.lanes
            image = Load(self.planes, (high * plan.image.shape[-1] + wide) * plan.lanes + lane)
            weight = Load(self.builder.weights, weights + lane)
            return Store(((self.acc, spot, Apply("fma", (weight, image, Load(self.acc, spot)), c.dtype)),))

        return (For(tap, self._along(begin, end, one), "unroll"),)

    def _along(self, begin: int, end: int, one: Callable[[Index, Index], Store]) -> tuple[Stmt, ...]:
        """A statement for each of some pixels, from its number and its place in registers."""
        lanes = self.builder.plan.lanes
        pixel, lane = Var("p", end - begin), Var("l", lanes)
        at = as_index(pixel) + begin
        return (For(pixel, (For(lane, (one(at, at * lanes + as_index(lane)),), "vector"),), "unroll"),)
