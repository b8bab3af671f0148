"""Gradients of the weights of depthwise convolutions with lanes along channels: planes are transposed, taps are sums.

An inner product has its lanes along the rows of an image, which small images fill in part. Here a unit transposes the
planes of a vector of channels, of the image and of the gradient of the result, and adds their products to a vector of
sums for each tap. Some images are a split; a second kernel adds the sums of all splits and transposes them::

    for each split, vector of channels:
      for each image of the split:
        for each element of a plane:  planes[element, lane] = image[lane, element]    squares transposed in registers
        for each pixel:               pixels[pixel, lane] = gradient[lane, pixel]
        for each row, pixel in it, tap that is inside the image there:
          sums[tap, lane] += pixels[pixel, lane] * planes[element of pixel and tap, lane]
    for each tap, channel:  out[channel, tap] = epilogue(sum over splits of sums[split, tap, channel])
"""

from collections.abc import Callable
from dataclasses import replace
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Expr, For, Kernel, Load, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.contractions.borders import Border, Image, image_of
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.planes import first_plane, transposed_planes
from adjoint.lower.contractions.split_k_plan import split_factor
from adjoint.lower.contractions.split_k_reduction import split_k_reduction_kernel, sum_of
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, pieces, tiled

__all__ = ["DepthwiseGradientPlan", "depthwise_gradient_kernels", "plan_depthwise_gradient"]


@dataclass(frozen=True, slots=True)
class DepthwiseGradientPlan:
    """How the gradient of the weights of a depthwise convolution runs.

    Parameters
    ----------
    contraction : Contraction
        The gradient: `left` is that of the result, and `right` the image.
    image, gradient : Image
        Both operands, the image with its borders.
    lane, high, wide : Var
        The channels, and the axes of the taps.
    rows : int
        Rows of the window in a tile.
    parts : int
        Splits of the images.
    lanes : int
        Lanes of a vector.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    image: Image
    gradient: Image
    lane: Var
    high: Var
    wide: Var
    rows: int
    parts: int
    lanes: int
    cycles: float

    def __str__(self) -> str:
        return f"depthwise_gradient {self.rows}x{self.wide.extent}"

    @property
    def panels(self) -> int:
        """Vectors of channels."""
        return ceil(self.lane.extent / self.lanes)

    @property
    def above(self) -> int:
        """Rows of zeros above a plane in scratch memory."""
        return max(0, -self.image.at[-2].low)

    @property
    def rows_held(self) -> int:
        """Rows of a plane in scratch memory, with the zeros above and below."""
        return self.above + max(self.image.shape[-2], self.image.at[-2].high + 1)

    @property
    def images(self) -> int:
        """Number of images."""
        return prod(v.extent for v in self.contraction.k[:-2])

    def inner_product_cycles(self, target: Target) -> float:
        """Estimated cycles of inner products in its place, whose lanes run along rows of the image."""
        y, x = self.contraction.k[-2:]
        vectors = ceil(x.extent / target.lanes(self.contraction.dtype))
        if self.image.at[-1].coefficient(x) != 1:
            each = max(0.8 * min(self.wide.extent, 5) / vectors, costs.STRIDED_INNER_CYCLES)
        else:
            each = costs.SHARED_INNER_CYCLES if self.wide.extent <= costs.MAX_SHARED_TAPS and vectors > 1 else 1.0
        taps = self.high.extent * self.wide.extent
        return self.lane.extent * self.images * taps * y.extent * vectors * each

    @property
    def border(self) -> Border | None:
        """The border along the rows of the image."""
        return self.image.border(self.wide)


def plan_depthwise_gradient(context: Context, c: Contraction) -> DepthwiseGradientPlan | None:
    """The plan; None if this is no such gradient, or one of large images."""
    model, target = costs.order_target(context.target), context.target
    if c.m is not None or len(c.k) not in (2, 3) or len(c.axes) < 3 or {c.left.dtype, c.right.dtype} != {c.dtype}:
        return None
    axes = [v for v in c.axes if v.extent > 1]
    image, gradient = image_of(context, c.right, axes, c.k), image_of(context, c.left, axes, c.k)
    lane = next((v for v in axes if c.left.index.coefficient(v)), None)
    if image is None or gradient is None or lane is None or len(axes) != 3:
        return None
    (high, wide), (y, x) = (v for v in axes if v is not lane), c.k[-2:]
    walked = image.at[-2].variables() <= {high, y} and image.at[-1].variables() <= {wide, x}
    plain = gradient.at[-2:] == (as_index(y), as_index(x)) and gradient.shape[-2:] == (y.extent, x.extent)
    if not (walked and plain and image.at[-3] == gradient.at[-3] == as_index(lane)):
        return None
    lanes, full = target.lanes(c.dtype), model.lanes(c.dtype)
    elements, pixels = (prod(one.shape[-2:]) for one in (image, gradient))
    if min(elements, pixels) < max(lanes, full) or 2 * lane.extent < full:
        return None
    rows = max(1, min(high.extent, (target.vector_registers - 4) // wide.extent))
    images = prod(v.extent for v in c.k[:-2])
    parts = split_factor(images, costs.units(model) / ceil(lane.extent / full), images)
    plan = DepthwiseGradientPlan(c, image, gradient, lane, high, wide, rows, parts, lanes, 0.0)
    if (plan.rows_held * image.shape[-1] + pixels) * model.vector_bytes > costs.l2_block_bytes(model):
        return None
    return replace(plan, cycles=_cycles(target, plan))


def _cycles(target: Target, plan: DepthwiseGradientPlan) -> float:
    """Cycles of all of it: transposes, and multiply-adds, each of which reads a vector."""
    c, lanes, inside = plan.contraction, plan.lanes, plan.border.share if plan.border is not None else 1.0
    pixels, taps = prod(plan.gradient.shape[-2:]), plan.high.extent * plan.wide.extent
    squares = sum(ceil(prod(one.shape[-2:]) / lanes) for one in (plan.image, plan.gradient))
    sweeps = ceil(plan.high.extent / plan.rows)
    products = costs.load_cycles(target, pixels * (taps * inside + sweeps))
    rows = sweeps * c.k[-2].extent * costs.STEP_CYCLES
    unit = squares * lanes**2 * costs.transpose_cycles(lanes) + products + rows
    return plan.panels * plan.images * unit * costs.idle(target, plan.panels * plan.parts)


def depthwise_gradient_kernels(context: Context, group: Group, plan: DepthwiseGradientPlan) -> list[Kernel]:
    """The sums of each split, and the reduction of them with the epilogue."""
    c, taps = plan.contraction, plan.high.extent * plan.wide.extent
    size = plan.parts * plan.panels * taps * plan.lanes
    sums = Buffer(f"{context.name_of(group)}_sums", c.dtype, size, "arena")
    builder = _Builder(context, group, plan, sums)

    def parts(at: dict[Var, Index], panel: Index, column: Index) -> list[tuple[dict[Var, Index], Expr]]:
        tap = at[plan.high] * plan.wide.extent + at[plan.wide]
        places = [builder.place(as_index(n), panel, tap) + column for n in range(plan.parts)]
        return [(at, sum_of([Load(sums, place) for place in places]))]

    axes = (plan.high, plan.wide)
    return [builder.kernel(), split_k_reduction_kernel(context, group, c, plan.lane, plan.lanes, axes, parts)]


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds the kernel of the sums: ``[split, vector of channels, tap, lane]``."""

    context: Context
    group: Group
    plan: DepthwiseGradientPlan
    sums: Buffer

    def place(self, part: Index, panel: Index, tap: Index) -> Index:
        """Where the sums of a tap begin."""
        taps = self.plan.high.extent * self.plan.wide.extent
        return ((part * self.plan.panels + panel) * taps + tap) * self.plan.lanes

    def kernel(self) -> Kernel:
        """Each unit is a split of the images, and a vector of channels."""
        plan, c, lanes = self.plan, self.plan.contraction, self.plan.lanes
        unit, width = Var("u", plan.parts * plan.panels), plan.image.shape[-1]
        part, panel = as_index(unit) // plan.panels, as_index(unit) % plan.panels
        many = plan.images // plan.parts
        number = Var("n", many)
        at = {v: part * many + as_index(number) for v in c.k[:-2]}
        planes = Buffer("planes", c.dtype, plan.rows_held * width * lanes, "scratch")
        pixels = Buffer("pixels", c.dtype, prod(plan.gradient.shape[-2:]) * lanes, "scratch")
        below = plan.rows_held - plan.above - plan.image.shape[-2]
        ends = ((0, plan.above), (plan.rows_held - below, below))

        def some(columns: int, first: Index) -> tuple[Stmt, ...]:
            own = {**at, plan.lane: as_index(0)}
            copies = [
                statement
                for image, to, start in ((plan.image, planes, plan.above * width), (plan.gradient, pixels, 0))
                for statement in transposed_planes(image, to, start, first_plane(image, own) + first, columns, lanes)
            ]
            zeros = [s for row, rows in ends for s in self._zeros(planes, as_index(row * width * lanes), rows * width)]
            clear = self._zeros(self.sums, self.place(part, panel, as_index(0)), plan.high.extent * plan.wide.extent)
            return (*zeros, *clear, *nest([number], (*copies, *self._products(planes, pixels, part, panel))))

        body = tiled(panel, plan.lane.extent, lanes, some)
        flops = 2.0 * prod(v.extent for v in c.axes) * c.depth
        return finish_kernel(self.context, self.sums.name, self.group.members[:1], unit, body, flops)

    def _zeros(self, buffer: Buffer, start: Index, vectors: int) -> tuple[Stmt, ...]:
        step, lane = Var("z", vectors), Var("l", self.plan.lanes)
        place = start + as_index(step) * self.plan.lanes + as_index(lane)
        return (For(step, (For(lane, (Store(((buffer, place, Const(0.0, buffer.dtype)),)),), "vector"),)),)

    def _products(self, planes: Buffer, pixels: Buffer, part: Index, panel: Index) -> tuple[Stmt, ...]:
        """The products of all pixels of an image, for some rows of the window at a time."""
        plan, (y, x) = self.plan, self.plan.contraction.k[-2:]
        whole = 0, plan.wide.extent
        runs = plan.border.runs(0, plan.wide.extent) if plan.border is not None else [(0, x.extent, whole)]
        out: tuple[Stmt, ...] = ()
        for first, many, size in pieces(plan.high.extent, plan.rows):
            number, row = Var("tile", many), Var("y", y.extent)
            acc = Buffer("acc", self.sums.dtype, size * plan.wide.extent * plan.lanes, "register")
            tile = _Tile(plan, planes, pixels, acc, as_index(number) * size + first, size, row)
            products = tuple(tile.multiply(*run) for run in runs)
            memory = self.sums, self.place(part, panel, tile.first * plan.wide.extent)
            out += nest([number], (*tile.move(memory), *nest([row], products), *tile.move(memory, put=True)))
        return out


@dataclass(frozen=True, slots=True)
class _Tile:
    """Some rows of the window: the sums of their taps in registers, the first row, their number, and a row of pixels.

    `planes` and `pixels` are the transposed image and gradient.
    """

    plan: DepthwiseGradientPlan
    planes: Buffer
    pixels: Buffer
    acc: Buffer
    first: Index
    rows: int
    row: Var

    def move(self, memory: tuple[Buffer, Index], put: bool = False) -> tuple[Stmt, ...]:
        """Load the sums from memory, where they begin at a place, or store them there."""

        def one(spot: Index, _: Index, __: Index) -> Store:
            sums, place = memory[0], memory[1] + spot
            return Store(((sums, place, Load(self.acc, spot)),) if put else ((self.acc, spot, Load(sums, place)),))

        return self._along((0, self.plan.wide.extent), one)

    def multiply(self, begin: int, steps: int, taps: tuple[int, int]) -> Stmt:
        """Add the products of so many pixels of the row, from one on, to the sums of the taps between two."""
        plan, column = self.plan, Var("x", steps)
        y, x = plan.contraction.k[-2:]
        pixel = (as_index(self.row) * x.extent + as_index(column) + begin) * plan.lanes

        def one(spot: Index, down: Index, across: Index) -> Store:
            where = {plan.high: self.first + down, plan.wide: across, y: as_index(self.row)}
            high, wide = (i.substitute({**where, x: as_index(column) + begin}) for i in plan.image.at[-2:])
            lane = spot - (down * plan.wide.extent + across) * plan.lanes
            element = ((high + plan.above) * plan.image.shape[-1] + wide) * plan.lanes + lane
            factors = Load(self.pixels, pixel + lane), Load(self.planes, element)
            return Store(((self.acc, spot, Apply("fma", (*factors, Load(self.acc, spot)), self.acc.dtype)),))

        return For(column, self._along(taps, one))

    def _along(self, taps: tuple[int, int], one: Callable[[Index, Index, Index], Store]) -> tuple[Stmt, ...]:
        """A statement for each of some taps in every row, from its place in registers, its row, and its column."""
        plan, (begin, end) = self.plan, taps
        down, across, lane = Var("k0", self.rows), Var("k1", end - begin), Var("l", plan.lanes)
        at = as_index(across) + begin
        spot = (as_index(down) * plan.wide.extent + at) * plan.lanes + as_index(lane)
        vector = For(lane, (one(spot, as_index(down), at),), "vector")
        return (For(down, (For(across, (vector,), "unroll"),), "unroll"),)
