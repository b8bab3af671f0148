"""Winograd convolutions: the weight transform, and a kernel that fuses data transform, GEMMs and result transform.

A unit is some rows of some images with all their channels; the intermediates stay in the second-level cache::

    for c, row of tiles t, column x:                      image -> scratch
      v[0..6, c, t, x] = data @ image[c, 4 * t + 0..6, x]
    for each block of output channels:
      for p in 0..6:                                      a GEMM in register tiles
        sums[p, o, t, x] = sum over c, s of u[p, o, c, s] * v[p, c, t, x + s]
      for o, t, x:                                        and the epilogue
        out[o, 4 * t + 0..4, x] = result @ sums[0..6, o, t, x]

A kernel of its own makes the transformed weights `u`. Rows of `v` are stored one behind the other, each with what
windows read beyond it, so that lanes may run across the ends of rows: where rows do not fill vectors, a few unused
results cost less than idle lanes.
"""

from collections.abc import Sequence
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Const, Expr, For, Kernel, Load, Prefetch, Stmt, Store, postorder
from adjoint.kernel.rewrite import rewritten
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_outputs
from adjoint.lower.contractions.blocking import tile_lanes
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.contractions.gemm_prefetch import PrefetchSlots, far_accesses
from adjoint.lower.contractions.prefetch import Region, region, spread_prefetches
from adjoint.lower.contractions.register_tile import RegisterTile
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, ravel, tiled, unravel, vector_loops
from adjoint.lower.reductions.two_stage import FirstStage
from adjoint.lower.winograd.algorithm import matrix_times
from adjoint.lower.winograd.plan import PointGemm, WinogradPlan
from adjoint.lower.winograd.transforms import TransformedRows

__all__ = ["winograd_kernels"]


def winograd_kernels(context: Context, group: Group, plan: WinogradPlan) -> list[Kernel]:
    """The weight transform, and the convolution with its epilogue."""
    c, roles = plan.contraction, plan.roles
    height, blocks = plan.tile.rows, ceil(c.rows / plan.tile.rows)
    of_left = tuple(v for v in roles.batch if c.left.index.coefficient(v))
    size = prod(v.extent for v in of_left) * blocks * roles.algorithm.products * roles.depth * height
    weights = Buffer(f"{context.name_of(group)}_weights", c.dtype, size, "arena")
    rows = TransformedRows.of(context.target, c.dtype, roles, c.columns, plan.images, plan.rows)
    builder = _Builder(
        context, group, plan, weights, of_left, PointGemm(rows, plan.joined), context.first_stages.get(group, ())
    )
    return [builder.transformed_weights(), builder.kernel()]


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds both kernels; `of_left` are the axes of the result that units walk and the weights have.

    `stages` are reductions over the result whose first stage runs in the epilogue.
    """

    context: Context
    group: Group
    plan: WinogradPlan
    weights: Buffer
    of_left: tuple[Var, ...]
    product: PointGemm
    stages: Sequence[FirstStage]

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    @property
    def _m(self) -> Var:
        assert self.c.m is not None
        return self.c.m

    @property
    def _blocks(self) -> int:
        return ceil(self.c.rows / self.plan.tile.rows)

    def _base(self, at: dict[Var, Index], block: Index) -> Index:
        """Where a block of transformed weights starts."""
        roles = self.plan.roles
        return (ravel(self.of_left, at) * self._blocks + block) * (
            roles.algorithm.products * roles.depth * self.plan.tile.rows
        )

    # The weight transform

    def transformed_weights(self) -> Kernel:
        """Each unit is a block of rows at one channel: ``[block, point, channel, column of the window, row]``."""
        roles, c, height = self.plan.roles, self.c, self.plan.tile.rows
        k = (*roles.channels, roles.across)
        unit = Var("u", prod(v.extent for v in (*self.of_left, *roles.channels)) * self._blocks)
        blocks = Var("block", self._blocks)
        axes = (*self.of_left, blocks, *roles.channels)
        at = unravel(axes, as_index(unit))
        following = unravel(axes, (as_index(unit) + costs.WEIGHT_PREFETCH_DISTANCE) % unit.extent)
        block, later = at.pop(blocks), following.pop(blocks) * height
        at[roles.across] = as_index(roles.across)
        base = self._base(at, block)

        def transform(rows: int, first: Index) -> tuple[Stmt, ...]:
            def body(row: Index, _: Index) -> tuple[Stmt, ...]:
                where = {**at, self._m: first + row}
                taps = [c.element(c.left, {**where, roles.tap: as_index(r)}) for r in range(roles.algorithm.taps)]
                places = [
                    base + (ravel(k, at) + p * roles.depth) * height + row for p in range(roles.algorithm.products)
                ]
                made = matrix_times(roles.algorithm.weight, taps)
                return (Store(tuple((self.weights, i, u) for i, u in zip(places, made, strict=True))),)

            return vector_loops(rows, self.context.target.lanes(c.dtype), body)

        body = nest([roles.across], tiled(block, c.rows, height, transform))
        if c.left.buffer.nbytes >= costs.l2_bytes(self.context.target) and c.rows % height == 0:
            # Windows of different channels are far apart: the hardware prefetcher does not follow.
            row, corner = Var("i", height), {roles.tap: as_index(0), roles.across: as_index(0)}
            hint = Prefetch(
                c.left.buffer, c.left.index.substitute({**following, **corner, self._m: later + as_index(row)})
            )
            body = (For(row, (hint,), "unroll"), *body)
        flops = 2.0 * self.weights.size * roles.algorithm.taps
        return finish_kernel(self.context, self.weights.name, self.group.members[:1], unit, body, flops)

    # The convolution

    def kernel(self) -> Kernel:
        """Each unit is some rows of some images."""
        plan, roles, c, data = self.plan, self.plan.roles, self.c, self.product.rows
        unit = Var("u", prod(v.extent for v in self._unit_axes()))
        place, then = self._place(as_index(unit)), self._place((as_index(unit) + 1) % unit.extent)
        at, following = self._at(place), self._at(then)
        iteration = Var("b", self._blocks // plan.groups)
        block = place % plan.groups * iteration.extent + as_index(iteration)

        def rows(count: int, first: Index) -> tuple[Stmt, ...]:
            memory = Buffer("sums", c.dtype, roles.algorithm.products * count * self.product.sums, "scratch")
            regions = self._prefetch_regions(count, first, at, as_index(iteration), iteration.extent, following)
            multiply = self._multiply(memory, count, self._base(at, block), regions)
            return (For(data.point, multiply), *self._end(memory, count, first, at, place // plan.groups))

        body = tiled(block, c.rows, plan.tile.rows, rows)
        lanes = self.context.target.lanes(c.dtype)
        body = (*data.fill(lanes, c.right, at, c.n), *nest([iteration], body))
        points = c.batches * c.rows * c.columns
        return finish_kernel(
            self.context, self.context.name_of(self.group), self.group.members, unit, body, 2.0 * points * c.depth
        )

    def _place(self, unit: Index) -> Index:
        """The place of a unit in `_unit_axes`: units follow each other along these, or group by group."""
        plan = self.plan
        if not plan.weights_stay:
            return unit
        # Where the axes in front have weights of their own, all groups of one of them.
        parts = plan.parts // prod(v.extent for v in plan.roles.batch)
        group, part = unit // parts % plan.groups, unit // (parts * plan.groups) * parts + unit % parts
        return part * plan.groups + group

    def _unit_axes(self) -> tuple[Var, ...]:
        """The axes of the units, outermost first."""
        plan, roles = self.plan, self.plan.roles
        many = roles.images.extent // plan.images if roles.images is not None else 1
        lines = Var("rows", roles.tiles // plan.rows)
        return (*roles.batch, Var("images", many), lines, Var("group", plan.groups))

    def _at(self, place: Index) -> dict[Var, Index]:
        """The current image of the unit at a place, and its row of tiles in place of `high`."""
        plan, roles, data = self.plan, self.plan.roles, self.product.rows
        axes = self._unit_axes()
        at = unravel(axes, place)
        line, image = at.pop(axes[-2]), at.pop(axes[-3])
        del at[axes[-1]]
        at[roles.high] = line * plan.rows + as_index(data.row)
        if roles.images is not None:
            at[roles.images] = image * plan.images + as_index(data.image)
        return at

    def _prefetch_regions(
        self,
        count: int,
        first: Index,
        at: dict[Var, Index],
        iteration: Index,
        iterations: int,
        following: dict[Var, Index],
    ) -> list[Region]:
        """What to prefetch during the GEMMs of a block: what its epilogue accesses, and a share of the next images."""
        plan, roles, c, data = self.plan, self.plan.roles, self.c, self.product.rows
        here = {data.row: as_index(0), data.image: as_index(0)}

        def start(where: dict[Var, Index]) -> dict[Var, Index]:
            corner = {v: i.substitute(here) for v, i in where.items()}
            corner[roles.high] = corner[roles.high] * roles.algorithm.outputs
            return {**{v: as_index(0) for v in (*c.axes, *c.k)}, **corner}

        box = {roles.high: min(plan.rows * roles.algorithm.outputs, roles.high.extent), c.n: c.columns}
        if roles.images is not None:
            box[roles.images] = plan.images
        places = dict.fromkeys([*far_accesses(self.context, self.group, c, {}), *self._read_by_stages()])
        corner = {**start(at), self._m: first}
        results = [region(self.context, self.group, b, i, {**box, self._m: count}, corner, w) for b, i, w in places]
        whole = {**box, **{v: v.extent for v in c.k}}
        image = region(self.context, self.group, c.right.buffer, c.right.index, whole, start(following))
        return [s for s in (*results, image and image.share(iteration, iterations)) if s is not None]

    def _read_by_stages(self) -> list[tuple[Buffer, Index, bool]]:
        """What reductions in the epilogue read besides the result, in terms of the contraction's axes."""
        point = self._point({v: as_index(v) for v in self.c.axes}, Const(0.0, self.c.dtype))
        loads = [e for e in postorder(point.elements) if isinstance(e, Load)]
        return [(load.buffer, load.index, False) for load in loads]

    def _multiply(self, memory: Buffer, count: int, base: Index, regions: list[Region]) -> tuple[Stmt, ...]:
        """The GEMM of one point with a block of weights."""
        plan, product = self.plan, self.product
        stack, target = plan.tile.stack, self.context.target
        small = product.contraction(target, count, self.weights, base, plan.tile.rows)
        own = GemmPlan(small, plan.tile, tile_lanes(target, small))
        neighbour = Var("s", stack)
        tiles = RegisterTile(self.context, self.group, own, neighbour)
        batch: dict[Var, Index] = {}
        iterations: list[Var] = []
        for line in small.batch:
            iterations.append(Var(line.name, line.extent // stack))
            batch[line] = as_index(iterations[-1]) * stack + as_index(neighbour)

        def keep(acc: Buffer, spot: Index, row: Index, column: Index) -> Store:
            place = small.place[1].substitute({**batch, small.n: column})
            return Store(
                ((memory, (as_index(product.rows.point) * count + row) * product.sums + place, Load(acc, spot)),)
            )

        panel = Var("panel", ceil(small.columns / own.columns))

        slots = min(small.k[0].extent, costs.PREFETCH_SLOTS)
        step = ravel(
            (product.rows.point, *iterations, panel), {v: as_index(v) for v in (product.rows.point, *iterations, panel)}
        )
        steps = product.rows.point.extent * prod(v.extent for v in (*iterations, panel)) * slots
        prefetch = PrefetchSlots(slots, lambda slot: spread_prefetches(regions, step * slots + slot, steps))

        def tile(columns: int, column: Index) -> tuple[Stmt, ...]:
            return tiles.tile((count, columns), as_index(0), column, batch, keep, prefetch)

        return nest((*iterations, panel), tiled(as_index(panel), small.columns, own.columns, tile))

    def _end(self, memory: Buffer, count: int, first: Index, at: dict[Var, Index], part: Index) -> tuple[Stmt, ...]:
        """The result transform of a block of output channels, and the epilogue."""
        roles, c, data = self.plan.roles, self.c, self.product.rows
        row = Var("o", count)
        channel = first + as_index(row)
        # Lanes of a reduction have partial sums of their own, so their number decides the order of additions.
        target = costs.order_target(self.context.target) if self.stages else self.context.target
        lanes = target.lanes(c.dtype)

        def points(some: int, line: Index, column: Index) -> list[_Point]:
            before = [(as_index(row) + p * count) * self.product.sums for p in range(roles.algorithm.products)]
            terms = [Load(memory, place + self.product.sum_at(column)) for place in before]
            where = {**{v: as_index(0) for v in c.axes}, **at, c.n: column, self._m: channel}
            results = matrix_times(roles.algorithm.result[:some], terms)
            return [self._point({**where, roles.high: line + n}, result) for n, result in enumerate(results)]

        def lines(some: int, line: Index) -> tuple[Stmt, ...]:
            def body(column: Index, lane: Index) -> tuple[Stmt, ...]:
                found = points(some, line, column)
                targets = [target for point in found for target in point.store.targets]
                for n, stage in enumerate(self.stages):
                    targets += stage.add(lane, [point.elements[n] for point in found])
                return (Store(tuple(targets)),)

            return vector_loops(c.columns, lanes, body)

        loops = nest((data.image, data.row), tiled(at[roles.high], roles.high.extent, roles.algorithm.outputs, lines))
        if not self.stages:
            return nest((row,), loops)
        lane = Var("l", min(c.columns, lanes))
        (corner,) = points(1, at[roles.high] * roles.algorithm.outputs, as_index(lane))
        begin = [t for n, stage in enumerate(self.stages) for t in stage.begin(as_index(lane), corner.elements[n])]
        here = {data.image: as_index(0), data.row: as_index(0)}
        start = rewritten((For(lane, (Store(tuple(begin)),), "vector"),), index=lambda index: index.substitute(here))
        clear = tuple(stage.clear() for stage in self.stages)
        put = tuple(stage.store(channel, part) for stage in self.stages)
        return nest((row,), (*clear, *(start if begin else ()), *loops, *put))

    def _point(self, where: dict[Var, Index], result: Expr) -> "_Point":
        """What is stored of a result, and what the reductions in the epilogue accumulate."""
        assert self.group.root is not None
        inliner = group_inliner(self.context, self.group)
        inliner.bind(self.group.root, result)
        index = self.c.index(where)
        store = store_outputs(self.context, self.group, inliner, index)
        return _Point(store, [stage.staged.source.element(inliner, index) for stage in self.stages])


@dataclass(frozen=True, slots=True)
class _Point:
    """A point of the result: what is stored, and an element for each reduction in the epilogue."""

    store: Store
    elements: list[Expr]
