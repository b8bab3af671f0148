"""M-blocked GEMM: one column panel meets a row group that stays in the second-level cache, then the next panel does.

An alternative to split-K (`split_k`) where there are many column panels and a large operand that they all read (a
convolution at stride 2 reads its images). A unit is one panel and one row group; the panels of a group are consecutive
units. All panels are packed up front by a kernel of their own. The few sums of a unit stay in cache until they are
complete, and the unit goes on to the epilogue::

    for each panel, block:   panels[panel, block, step, lane] = weight[lane, step]
    for each group, panel:                         one image, 32 channels of the result
      for each block, tile of rows:
        sums[rows, lanes] += image[rows, step] * panels[panel, block, step, lanes]
      turned[lane, rows] = sums[rows, lane]
      out[group, lane, rows] = epilogue(turned[lane, rows])

Meanwhile a unit prefetches the next block of the panel, and its share of the rows of the next group.
"""

from dataclasses import replace
from math import prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Kernel, Load, Stmt
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.prefetch import Region, region
from adjoint.lower.contractions.split_k import Panel, SplitKBuilder, converted
from adjoint.lower.contractions.split_k_plan import SplitKPlan
from adjoint.lower.contractions.split_k_reduction import TransposingEpilogue, row_blocks
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, ravel, tiled, unravel

__all__ = ["m_blocked_kernels"]


def m_blocked_kernels(context: Context, group: Group, plan: SplitKPlan) -> list[Kernel]:
    """The packing of all panels, and the contraction with its epilogue."""
    conversions, plan = converted(context, group, plan)
    size = plan.panels * plan.contraction.depth * plan.width
    panels = Buffer(f"{context.name_of(group)}_panels", plan.contraction.dtype, size, "arena")
    builder = _Builder(context, group, plan, panels)
    return [*conversions, builder.packing_kernel(), builder.products()]


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds both kernels; `panels` holds the packed panels, block by block."""

    context: Context
    group: Group
    plan: SplitKPlan
    panels: Buffer

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    @property
    def _block(self) -> int:
        """Elements of a block of a panel."""
        return prod(self.plan.blocks) * self.plan.width

    def packing_kernel(self) -> Kernel:
        """Each unit packs a block of a panel."""
        plan = self.plan
        builder = SplitKBuilder(self.context, self.group, plan, self.panels, 1)
        iterations, start = builder.block_loops()
        unit = Var("u", plan.panels * prod(t.extent for t in iterations))
        panel, number = as_index(unit) // (unit.extent // plan.panels), as_index(unit) % (unit.extent // plan.panels)
        here = unravel(iterations, number)
        start = {v: index.substitute(here) for v, index in start.items()}
        own = Panel(self.panels, as_index(unit) * self._block, plan.width)
        body = tiled(panel, plan.lane.extent, plan.width, lambda n, first: builder.pack(own, n, first, start))
        return finish_kernel(self.context, self.panels.name, self.group.members[:1], unit, body, 0)

    def products(self) -> Kernel:
        """Each unit is a panel and a row group."""
        plan, c = self.plan, self.c
        unit = Var("u", plan.groups * plan.panels)
        panel, number = as_index(unit) % plan.panels, as_index(unit) // plan.panels
        work = 0.0

        def columns(count: int, begin: Index) -> tuple[Stmt, ...]:
            nonlocal work
            statements, work = self._unit(number, panel, count, begin)
            return statements

        body = tiled(panel, plan.lane.extent, plan.width, columns)
        flops = 2.0 * prod(v.extent for v in c.axes) * c.depth + work
        return finish_kernel(self.context, self.context.name_of(self.group), self.group.members, unit, body, flops)

    def _unit(self, number: Index, panel: Index, columns: int, begin: Index) -> tuple[tuple[Stmt, ...], float]:
        context, group, c, plan = self.context, self.group, self.c, self.plan
        outer, inner = plan.rows[0], plan.rows[1:]
        own = Var(outer.name, outer.extent // plan.groups)
        first, rows = number * own.extent, (own, *inner)
        other = Load(plan.other.buffer, plan.other.index.substitute({outer: first + as_index(own)}))
        sums = Buffer("sums", c.dtype, prod(v.extent for v in rows) * plan.width, "scratch")
        builder = SplitKBuilder(context, group, replace(plan, other=other, rows=rows, groups=1), sums, 1)
        iterations, start = builder.block_loops()
        blocks = prod(t.extent for t in iterations)
        block = ravel(iterations, {t: as_index(t) for t in iterations})
        here = Panel(self.panels, (panel * blocks + block) * self._block, plan.width)
        ahead = self._prefetch_regions(number, panel * blocks + block, blocks * plan.panels)
        products = builder.multiply(here, columns, start, ahead=ahead)
        some = row_blocks(own.extent, prod(v.extent for v in inner))[0]
        iteration, local = Var("t", own.extent // some), Var(outer.name, some)
        ends = TransposingEpilogue(
            context, group, c, plan.lane, plan.rows, (local, *inner), first + as_index(iteration) * some
        )
        begun = as_index(iteration) * (sums.size // iteration.extent)
        end, work = ends.of(sums, begun, plan.width, (columns, begin))
        clear = builder.clear(columns)
        return (clear, *nest(iterations, products), *nest([iteration], end)), work

    def _prefetch_regions(self, number: Index, iteration: Index, iterations: int) -> list[Region]:
        """The next block of the panels, and a share of what the next row group reads."""
        c, plan = self.c, self.plan
        step, outer = Var("s", self._block), plan.rows[0]
        place = (iteration + 1) % iterations * self._block
        block = region(self.context, self.group, self.panels, as_index(step), {step: step.extent}, {step: place})
        share = outer.extent // plan.groups
        corner = {**{v: as_index(0) for v in (*c.axes, *c.k)}, outer: (number + 1) % plan.groups * share}
        every = {**{v: v.extent for v in (*plan.rows, *c.k)}, outer: share}
        rows = region(self.context, self.group, plan.other.buffer, plan.other.index, every, corner)
        return [s for s in (block, rows.share(iteration, iterations) if rows is not None else None) if s is not None]
