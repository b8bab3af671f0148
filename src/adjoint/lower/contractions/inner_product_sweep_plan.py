"""How a contraction runs as inner products: whether in blocks of k (`inner_product_sweep`), and then in which tiles."""

from collections.abc import Iterator
from itertools import product
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm_plan import blocks_within
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan, plan_at_once
from adjoint.lower.contractions.matching import join_steps, run_of
from adjoint.lower.contractions.split_k_plan import split_factor
from adjoint.lower.contractions.traffic import Block, line_cycles
from adjoint.lower.loops import pieces

__all__ = ["plan_inner_product"]


def plan_inner_product(target: Target, c: Contraction) -> InnerProductPlan | None:
    """The plan of a contraction as inner products, or None where a tile with lanes along the result is better.

    Whether tiles walk blocks of k or all of it at once decides the splits of k, so `adjoint.costs.MODEL` decides it.
    """
    model = costs.order_target(target)
    sweep = _plan_sweep(model, c)
    if sweep is None:
        return plan_at_once(target, c)
    at_once = plan_at_once(model, c)
    if at_once is not None and 0 < at_once.cycles < sweep.cycles:
        return at_once if target is model else plan_at_once(target, c)
    return sweep if target is model else _plan_sweep(target, c)


def _plan_sweep(target: Target, c: Contraction) -> InnerProductPlan | None:
    """The best plan in blocks of k; None where rows of an operand overlap, or k has only one axis."""
    lanes = costs.order_target(target).lanes(c.dtype)
    of_left, of_right = ([v for v in c.axes if load.index.coefficient(v)] for load in (c.left, c.right))
    if c.m is None or len(c.k) < 2 or {c.left.dtype, c.right.dtype} != {c.dtype}:
        return None
    if [v for v in of_left if v not in of_right] != [c.m]:
        return None
    if [v for v in of_right if v not in of_left] != [c.n]:
        return None
    c, run = _contiguous(c)
    along = c.k[-1]
    if c.left.index.coefficient(along) != 1 or along.extent < costs.MIN_INNER_LANES * lanes:
        return None
    step = c.right.index.coefficient(along)
    if step not in (1, 2, None) or abs(c.right.index.coefficient(c.n) or 0) < along.extent:
        return None
    return _Planner(target, c, along, lanes, run).plan()


def _contiguous(c: Contraction) -> tuple[Contraction, int]:
    """The contraction, its last axis contiguous where units copy the right operand; and `InnerProductPlan.run`."""
    step = c.right.index.coefficient(c.k[-1])
    if step == 1:
        return c, 0
    if step == 2 and len(c.k) > 2:
        c = join_steps(c) or c
    return c, run_of(c.right, c.k[-1])


@dataclass(frozen=True, slots=True)
class _Planner:
    """The planner of a contraction whose lanes run along an axis, in so many lanes; `run` is that of the plan."""

    target: Target
    c: Contraction
    along: Var
    lanes: int
    run: int

    def plan(self) -> InnerProductPlan:
        """The plan with the lowest estimated cost."""
        c, target = self.c, self.target
        batches = prod(v.extent for v in c.axes if v not in (c.m, c.n))
        made = batches * c.rows * c.columns
        parts = self._parts(batches, made)
        extents = (c.k[0].extent // parts, *(v.extent for v in c.k[1:-1]))
        by_columns = c.columns > c.rows
        nbytes = self.along.extent * c.dtype.itemsize
        rooms = (costs.l1_bytes(target), costs.l2_block_bytes(target))
        blocks = sorted({blocks_within(extents, min(c.rows, c.columns) * nbytes, room) for room in rooms})
        found = product(self._tiles(), blocks)
        vectors = batches * prod(extents) * parts * ceil(self.along.extent / self.lanes)
        cycles, (rows, columns), block = min(
            (self._cycles(tile, prod(block), by_columns), tile, block) for tile, block in found
        )
        sums = made * parts * (costs.REDUCE_LANES_CYCLES + costs.PARTIAL_SUM_CYCLES / self.lanes)
        outer = ceil(c.columns / columns) if by_columns else ceil(c.rows / rows)
        tile = (columns if by_columns else rows) * min(c.rows, c.columns) * self._sum_bytes
        fewest = max(costs.least_units(target) / (parts * batches), outer * tile / costs.l2_block_bytes(target))
        groups = min(max(ceil(fewest), 1), outer)
        # Each group copies all columns where they are what its tiles share.
        copies = self._copy_cycles * (1 if by_columns else groups)
        return InnerProductPlan(
            contraction=c,
            rows=rows,
            columns=columns,
            lanes=self.lanes,
            along=self.along,
            inside=(),
            blocks=block,
            convert_left=False,
            convert_right=False,
            order="columns" if by_columns else "rows",
            cycles=(vectors * (cycles + copies) + sums) * costs.idle(target, parts * batches * groups),
            parts=parts,
            swept=ceil(outer / groups),
            run=self.run,
        )

    @property
    def _sum_bytes(self) -> int:
        """Bytes of an accumulator."""
        return self.lanes * self.c.dtype.itemsize

    def _parts(self, batches: int, made: int) -> int:
        """Splits of the outermost summed axis, from shapes alone: none where both operands are near, else a few."""
        c = self.c
        if c.left.buffer.nbytes + c.right.buffer.nbytes < costs.l2_bytes(costs.MODEL):
            return 1
        allowed = min(costs.MAX_PARTIAL_BYTES / (made * c.dtype.itemsize), costs.MAX_INNER_PARTS)
        return split_factor(c.k[0].extent, costs.SWEPT_PARTS / batches, allowed)

    def _tiles(self) -> Iterator[tuple[int, int]]:
        """The tiles that fit the registers."""
        c, target = self.c, self.target
        registers = max(self.lanes // target.lanes(c.dtype), 1)
        for rows, columns in product(range(1, costs.MAX_INNER_TILE + 1), repeat=2):
            fits = (rows * columns + min(rows, columns) + 1) * registers < target.vector_registers
            if fits and rows <= c.rows and columns <= c.columns:
                yield rows, columns

    def _cycles(self, tile: tuple[int, int], steps: int, by_columns: bool) -> float:
        """Cycles of a vector along k of all rows and columns, if a block has so many steps of the axes outside it."""
        c, target = self.c, self.target
        registers = max(self.lanes // target.lanes(c.dtype), 1)
        nbytes = steps * self.along.extent * c.dtype.itemsize
        vectors = steps * ceil(self.along.extent / self.lanes)
        waiting = min(c.rows * c.columns * self._sum_bytes, costs.l2_block_bytes(target))
        spill = costs.spill_cycles(target, waiting) * registers / vectors
        inner, size = (c.rows, tile[1]) if by_columns else (c.columns, tile[0])
        lines = self._sum_bytes / target.line_bytes
        again = line_cycles(target, Block(1, inner * nbytes, 0)) * lines
        near = line_cycles(target, Block(1, (size + sum(tile)) * nbytes, 0)) * lines
        total = 0.0
        for (_, down, rows), (_, across, columns) in product(pieces(c.rows, tile[0]), pieces(c.columns, tile[1])):
            compute = costs.multiply_add_cycles(target, rows * columns * registers)
            loads = (rows + columns) * registers / target.load_units
            inside, outside = (rows, columns) if by_columns else (columns, rows)
            moved = inside * again + outside * near
            busy = max(compute, loads, costs.chain_cycles(target)) + costs.EXPOSED_TRANSFERS * moved
            total += down * across * (max(busy, moved) + spill * rows * columns)
        return total

    @property
    def _copy_cycles(self) -> float:
        """Cycles to copy a vector along k of every second element of all columns."""
        if not self.run:
            return 0.0
        registers = max(self.lanes // self.target.lanes(self.c.dtype), 1)
        vectors = ceil(self.run / self.lanes) * self.lanes / self.run
        return self.c.columns * registers * vectors * (costs.STRIDED_LOADS / self.target.load_units + 1.0)
