"""Loops of inner products along the axis of the lanes, what they multiply, and what they prefetch meanwhile.

An image that is padded may be read in place, without the zeros around it: masks leave out what is beside a row, so the
vectors at both ends of a row are apart from the loop over the others.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Expr, For, Load, Stmt, Store
from adjoint.kernel.rewrite import rewritten
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.inlining import BOOL, I64
from adjoint.lower.context import Context
from adjoint.lower.contractions.borders import Image, image_of
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan, column_axis
from adjoint.lower.contractions.planes import plane_region
from adjoint.lower.contractions.prefetch import Region, region, spread_prefetches
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import ravel

__all__ = ["InnerProductLoops", "Place"]

#: Where a tile reads: all coordinates, from its row and its column.
Place = Callable[[Index, Index], dict[Var, Index]]


@dataclass(frozen=True)
class InnerProductLoops:
    """The loops of the tiles of a plan."""

    context: Context
    group: Group
    plan: InnerProductPlan

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    @cached_property
    def image(self) -> Image | None:
        """What the right operand is without the zeros around it, if tiles have whole windows and read that in place."""
        c, plan = self.c, self.plan
        across, step = column_axis(c, plan.unrolled), c.right.index.coefficient(plan.along)
        masks = step == 2 or self.context.target.masks_loads
        if plan.taps is None or c.m is not None or across is None or not plan.others:
            return None
        # Which rows of an image are outside depends on the split, if its rows are split.
        split = plan.parts > 1 and plan.others[-1] is c.k[0]
        if split or plan.columns < across.extent or not masks:
            return None
        image = image_of(self.context, c.right, c.axes, c.k) if c.right.dtype == c.dtype else None
        if image is None or not image.borders:
            return None
        high, wide = image.at[-2:]
        apart = high.variables() <= {across, plan.others[-1]} and wide.variables() <= {plan.taps, plan.along}
        return image if apart and wide.coefficient(plan.along) == step else None

    def multiply(
        self,
        acc: Buffer,
        height: int,
        columns: range,
        place: Place,
        following: Sequence[Region],
        hint: Callable[[Index, int], tuple[Stmt, ...]] | None = None,
    ) -> tuple[Stmt, ...]:
        """The loop along the axis of the lanes: multiply-adds into the accumulators, and prefetches of regions.

        `hint` are other prefetches of a vector, from its first step and the number of its lanes.
        """
        c, plan = self.c, self.plan
        width = acc.size // (height * plan.lanes)

        def vector(along: Index, active: int) -> tuple[Stmt, ...]:
            # Lanes past the end add zeros: cheaper than masking their accumulators.
            beyond = active < plan.lanes and all(e.index.coefficient(plan.along) == 1 for e in (c.left, c.right))
            i, j, lane = Var("i", height), Var("j", len(columns)), Var("l", plan.lanes if beyond else active)
            column = as_index(j) + columns.start
            where = {**place(as_index(i), column), plan.along: along + as_index(lane)}
            spot = (as_index(i) * width + column) * plan.lanes + as_index(lane)
            inside = Apply("lt", (Coordinate(as_index(lane), I64), Const(active, I64)), BOOL) if beyond else None
            product = Apply("fma", (*self.factors(where, inside), Load(acc, spot)), acc.dtype)
            # The inner loop reads the same vectors again, which stay in registers: those of the shorter side.
            outer, inner = (i, j) if height > len(columns) else (j, i)
            loop = For(lane, (Store(((acc, spot, product),)),), "vector")
            first = hint(along, active) if hint is not None else ()
            return (*first, For(outer, (For(inner, (loop,), "unroll"),), "unroll"))

        chunk = Var("v", plan.along.extent // plan.lanes)
        hints = spread_prefetches(following, as_index(chunk), chunk.extent) if following and chunk.extent else ()
        return self.along(chunk, vector, hints)

    def factors(self, at: Mapping[Var, Index], guard: Expr | None) -> tuple[Expr, Expr]:
        """Both elements at a point; 0 where the guard fails, and beside an image in place."""
        c, image = self.c, self.image
        right = c.element(c.right, at, guard) if image is None else image.element(at, guard)
        return c.element(c.left, at, guard), right

    def along(
        self, chunk: Var, vector: Callable[[Index, int], tuple[Stmt, ...]], hints: tuple[Stmt, ...] = ()
    ) -> tuple[Stmt, ...]:
        """The loop over the vectors along the axis of the lanes; `hints` precede each whole one.

        The vectors at both ends of a row of an image in place are apart: they alone reach beyond it.
        """
        lanes, rest = self.plan.lanes, self.plan.along.extent % self.plan.lanes
        apart = self.image is not None and chunk.extent > 1
        last = chunk.extent - 1 if apart and not rest else chunk.extent
        bounds = [0, 1, last, chunk.extent] if apart else [0, chunk.extent]
        out: tuple[Stmt, ...] = ()
        for begin, end in pairwise(bounds):
            step = Var(chunk.name, end - begin)
            at = {chunk: as_index(step) + begin}

            def shifted(index: Index, at: dict[Var, Index] = at) -> Index:
                return index.substitute(at)

            if step.extent:
                whole = vector((as_index(step) + begin) * lanes, lanes)
                out += (For(step, (*rewritten(hints, shifted), *whole)),)
        return (*out, *vector(as_index(chunk.extent * lanes), rest)) if rest else out

    def next_step(
        self, others: Sequence[Var], at: Mapping[Var, Index], tile: tuple[int, int, Var | None]
    ) -> list[Region]:
        """What a tile reads in the next step of the outermost summed axis, or the next unit if there is one step."""
        c, (height, width, across) = self.c, tile
        box = {v: v.extent for v in (*others[1:], self.plan.along)}
        box |= {v: n for v, n in ((c.m, height), (across, width)) if v is not None}
        if self.plan.taps is not None:
            box[self.plan.taps] = self.plan.taps.extent
        corner = {v: as_index(0) for v in (*c.axes, *c.k)} | dict(at) | {v: as_index(0) for v in others[1:]}
        outer = [v for v in c.batch if v is not across and v not in self.plan.unrolled]
        following = outer[-1] if outer and self.plan.extents[0] == 1 else others[0]
        corner |= {following: at[following] + 1}
        found = [region(self.context, self.group, c.left.buffer, c.left.index, box, corner)]
        if self.image is None:
            found.append(region(self.context, self.group, c.right.buffer, c.right.index, box, corner))
        else:
            found.append(plane_region(self.context, self.group, self.image, corner))
        return [r for r in found if r is not None]

    def spread(self, regions: Sequence[Region], steps: Sequence[Var]) -> tuple[Stmt, ...]:
        """Prefetches of regions, spread evenly over the inner loops of some."""
        inner = steps[1:]
        number, count = ravel(inner, {v: as_index(v) for v in inner}), prod(v.extent for v in inner)
        return spread_prefetches(regions, number, count)
