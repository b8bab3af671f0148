"""Winograd for the gradients of a convolution's weights: the transposed algorithm.

As in split-K (`adjoint.lower.contractions.split_k`), sums stay in memory while blocks of images stream past, here at
each of the algorithm's evaluation points::

    for each block:                                      rows of tiles of some images
      v[0..6, c, t, x] = data @ image[c, 4 * t + 0..6, x]
      for each panel of output channels:
        d[0..6, o, t, x] = result.T @ ct[o, 4 * t + 0..4, x]
        for p in 0..6:
          sums[p, c, s, o] += sum over t, x of v[p, c, t, x + s] * d[p, o, t, x]
    parts[c, 0..3, s, o] = weight.T @ sums[0..6, c, s, o]

A unit is a split of the images, and as many panels as have their sums in the second-level cache; for many cores, of a
share of the channels `c`. A second kernel adds the partial sums of the splits and applies the epilogue.
"""

from collections.abc import Callable
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Const, Expr, For, Kernel, Load, Stmt, Store
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.planes import padded_plane
from adjoint.lower.contractions.prefetch import Region, region
from adjoint.lower.contractions.split_k import Panel, Place, SplitKBuilder
from adjoint.lower.contractions.split_k_plan import SplitKPlan
from adjoint.lower.contractions.split_k_reduction import split_k_reduction_kernel, sum_of
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, ravel, tiled, vector_loops
from adjoint.lower.winograd.algorithm import matrix_times, transposed
from adjoint.lower.winograd.transforms import TransformedRows
from adjoint.lower.winograd.weight_gradient_plan import WinogradGradientPlan, channel_share

__all__ = ["winograd_gradient_kernels"]


def winograd_gradient_kernels(context: Context, group: Group, plan: WinogradGradientPlan) -> list[Kernel]:
    """The partial sums of each split, and the reduction of them with the epilogue."""
    size = plan.parts * plan.roles.algorithm.taps * plan.roles.depth * plan.panels * plan.width
    parts = Buffer(f"{context.name_of(group)}_parts", plan.contraction.dtype, size, "arena")
    extents, own = (plan.wide.extent, plan.images, plan.rows), channel_share(plan.roles, plan.groups)
    rows = TransformedRows.of(context.target, plan.contraction.dtype, own, *extents)
    builder = _Builder(context, group, plan, parts, rows, Var("u", plan.units))
    return [builder.products(), builder.total()]


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds both kernels; `rows` are the transformed rows of the channels of one unit."""

    context: Context
    group: Group
    plan: WinogradGradientPlan
    parts: Buffer
    rows: TransformedRows
    unit: Var

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    @property
    def _channels(self) -> dict[Var, Index]:
        """The channels of the image, from those of the unit's row group."""
        own = self.rows.roles.channels
        at = {v: as_index(mine) for v, mine in zip(self.plan.roles.channels, own, strict=True)}
        if self.plan.groups > 1:
            number = as_index(self.unit) // self.plan.panel_groups % self.plan.groups
            at[self.plan.roles.channels[0]] = number * own[0].extent + as_index(own[0])
        return at

    @property
    def _image(self) -> Load:
        """The image in the channels of the unit's row group."""
        image = self.plan.image
        return Load(image.buffer, image.index.substitute(self._channels))

    def _place(self, part: Index, panel: Index, row: Index, column: Index) -> Index:
        """The position of a partial sum."""
        rows = self.plan.roles.algorithm.taps * self.plan.roles.depth
        return ((part * self.plan.panels + panel) * rows + row) * self.plan.width + column

    def _axes(self) -> tuple[Var, ...]:
        """The axes of the result other than lanes, outermost first."""
        return tuple(v for v in self.c.axes if v.extent > 1 and v is not self.plan.lane)

    def total(self) -> Kernel:
        """Reduce the partial sums of all splits, and apply the epilogue."""
        plan, axes = self.plan, self._axes()

        def parts(at: dict[Var, Index], panel: Index, column: Index) -> list[tuple[dict[Var, Index], Expr]]:
            places = [self._place(as_index(n), panel, ravel(axes, at), column) for n in range(plan.parts)]
            return [(at, sum_of([Load(self.parts, place) for place in places]))]

        return split_k_reduction_kernel(self.context, self.group, self.c, plan.lane, plan.width, axes, parts)

    def products(self) -> Kernel:
        """Each unit is a split of the images, a row group and some panels."""
        plan, roles, c, unit = self.plan, self.rows.roles, self.c, as_index(self.unit)
        part, first = unit // (plan.groups * plan.panel_groups), unit % plan.panel_groups * plan.panels_of_unit
        many = roles.images.extent // plan.parts if roles.images is not None else 1
        iterations = Var("images", many // plan.images)
        lines = Var("rows", roles.tiles // plan.rows)
        now = as_index(iterations) * lines.extent + as_index(lines)
        at = self._at(part, now, lines.extent)
        following = self._at(part, (now + 1) % (iterations.extent * lines.extent), lines.extent)
        panel = Var("panel", plan.panels_of_unit)
        size = plan.panels_of_unit * roles.algorithm.products * roles.depth * plan.width
        sums = Buffer("sums", c.dtype, size, "scratch")

        def clear(place: Index, _: Index) -> tuple[Stmt, ...]:
            return (Store(((sums, place, Const(0.0, sums.dtype)),)),)

        def multiply(columns: int, begin: Index) -> tuple[Stmt, ...]:
            ahead = self._prefetch_regions(as_index(panel), (columns, begin), following)
            return self._panel(sums, as_index(panel), (columns, begin), at, ahead)

        def put(columns: int, _: Index) -> tuple[Stmt, ...]:
            return self._put(sums, as_index(panel), columns, part, first)

        def panels(body: Callable[[int, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
            return nest([panel], tiled(first + as_index(panel), plan.lane.extent, plan.width, body))

        block = (*self.rows.fill(plan.lanes, self._image, at, plan.wide), *panels(multiply))
        body = (*vector_loops(size, plan.lanes, clear), *nest([iterations, lines], block), *panels(put))
        points = prod(v.extent for v in c.axes)
        flops = 2.0 * points * c.depth
        return finish_kernel(self.context, self.parts.name, self.group.members[:1], self.unit, body, flops)

    def _at(self, part: Index, block: Index, lines: int) -> dict[Var, Index]:
        """A block's current image, and its row of tiles in place of `high`; `lines` blocks make an image."""
        plan, roles, rows = self.plan, self.plan.roles, self.rows
        at = {roles.high: block % lines * plan.rows + as_index(rows.row)}
        if roles.images is not None:
            many = roles.images.extent // plan.parts
            at[roles.images] = part * many + block // lines * plan.images + as_index(rows.image)
        return at

    def _prefetch_regions(self, panel: Index, own: tuple[int, Index], following: dict[Var, Index]) -> list[Region]:
        """What the next block reads: a share of its images in each panel, and the cotangent of this one.

        `own` are the columns of the panel, and the first of them.
        """
        plan, roles, c, rows = self.plan, self.rows.roles, self.c, self.rows
        here = {rows.row: as_index(0), rows.image: as_index(0)}
        corner = {v: i.substitute(here) for v, i in following.items()}
        corner[roles.high] = corner[roles.high] * roles.algorithm.outputs
        corner = {**{v: as_index(0) for v in (*c.axes, *c.k, *roles.channels)}, **corner}
        box = {roles.high: min(plan.rows * roles.algorithm.outputs, roles.high.extent), plan.wide: plan.wide.extent}
        if roles.images is not None:
            box[roles.images] = plan.images
        image, cotangent = self._image, plan.cotangent
        window = {v: v.extent for v in (*roles.channels, roles.tap, roles.across)}
        whole = region(self.context, self.group, image.buffer, image.index, {**box, **window}, corner)
        columns, first = own
        lane, box = {**corner, plan.lane: first}, {**box, plan.lane: columns}
        packed = region(self.context, self.group, cotangent.buffer, cotangent.index, box, lane)
        return [s for s in (whole and whole.share(panel, plan.panels_of_unit), packed) if s is not None]

    def _panel(
        self, sums: Buffer, panel: Index, own: tuple[int, Index], at: dict[Var, Index], ahead: list[Region]
    ) -> tuple[Stmt, ...]:
        """Transform the cotangent of some channels, and accumulate its products with the rows at every point."""
        plan, roles, rows, dtype = self.plan, self.plan.roles, self.rows, self.c.dtype
        run = rows.count * rows.columns
        plane = padded_plane(self.context.target, plan.width * run, dtype)
        memory = Buffer("d", dtype, roles.algorithm.products * plane, "scratch")
        columns, first = own
        lane = Var("o", columns)

        def lines(some: int, line: Index) -> tuple[Stmt, ...]:
            def body(column: Index, _: Index) -> tuple[Stmt, ...]:
                where = {**at, plan.lane: first + as_index(lane), plan.wide: column}
                places = [{**where, roles.high: line + number} for number in range(some)]
                terms = [self.c.element(plan.cotangent, place) for place in places]
                made = matrix_times(transposed(roles.algorithm.result[:some]), terms)
                place = as_index(lane) * run + rows.line * rows.columns + column
                return (Store(tuple((memory, place + p * plane, d) for p, d in enumerate(made))),)

            return vector_loops(rows.columns, plan.lanes, body)

        loops = tiled(at[roles.high], roles.high.extent, roles.algorithm.outputs, lines)
        transform = nest((lane, rows.image, rows.row), loops)
        return (*transform, For(rows.point, self._multiply(sums, panel, columns, memory, plane, ahead)))

    def _multiply(
        self, sums: Buffer, panel: Index, columns: int, memory: Buffer, plane: int, regions: list[Region]
    ) -> tuple[Stmt, ...]:
        """At one point: transpose the cotangent, so that lanes run along channels, and multiply the rows by it."""
        plan, roles, rows = self.plan, self.plan.roles, self.rows
        line, column, lane = Var("r0", rows.count), Var("r1", rows.columns), Var("o", columns)
        run = rows.count * rows.columns
        across = Var(roles.across.name, roles.across.extent)
        inner = (*rows.channels, across)
        cotangent = (
            as_index(rows.point) * plane + as_index(lane) * run + as_index(line) * rows.columns + as_index(column)
        )
        factor = Load(memory, cotangent)
        image = Load(
            rows.memory,
            as_index(rows.point) * rows.plane + rows.at(as_index(line), as_index(column) + as_index(across)),
        )
        blocks = rows.count, rows.columns
        small = Contraction(
            left=factor, right=image, m=None, n=lane, batch=(), k=(line, column), axes=(*inner, lane), place=()
        )
        own = SplitKPlan(
            contraction=small,
            panel=factor,
            other=image,
            lane=lane,
            rows=inner,
            tile=plan.tile,
            vectors=plan.vectors,
            lanes=plan.lanes,
            blocks=blocks,
        )
        builder = SplitKBuilder(self.context, self.group, own, sums, 1)
        width = ceil(columns / plan.lanes) * plan.lanes
        packed = Panel(Buffer("panel", memory.dtype, width * run, "scratch"), as_index(0), width)
        place = Place(panel * roles.algorithm.products + as_index(rows.point), as_index(0), as_index(0))
        start = {line: as_index(0), column: as_index(0)}
        ahead = [one.share(as_index(rows.point), rows.point.extent) for one in regions]
        return (
            *builder.pack(packed, columns, as_index(0), start),
            *builder.multiply(packed, columns, start, place, ahead),
        )

    def _put(self, sums: Buffer, panel: Index, columns: int, part: Index, first: Index) -> tuple[Stmt, ...]:
        """Transform the sums at points to those of the gradient."""
        plan, roles, axes = self.plan, self.rows.roles, self._axes()
        inner = (*roles.channels, roles.across)

        def body(column: Index, _: Index) -> tuple[Stmt, ...]:
            row = panel * roles.algorithm.products * roles.depth + ravel(inner, {v: as_index(v) for v in inner})
            at = {**self._channels, roles.across: as_index(roles.across)}
            terms = [Load(sums, (row + p * roles.depth) * plan.width + column) for p in range(roles.algorithm.products)]
            made = matrix_times(transposed(roles.algorithm.weight), terms)
            targets = []
            for tap, value in enumerate(made):
                place = ravel(axes, {**at, roles.tap: as_index(tap)})
                targets.append((self.parts, self._place(part, first + panel, place, column), value))
            return (Store(tuple(targets)),)

        return nest(inner, vector_loops(columns, plan.lanes, body))
