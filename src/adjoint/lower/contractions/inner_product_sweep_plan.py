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
    along = c.k[-1]
    # Every second element takes two loads and a shuffle: shortcuts of residual networks would take 1.4 times as long as
    # with split-K (Zen 4).
    contiguous = all(load.index.coefficient(along) == 1 for load in (c.left, c.right))
    if not contiguous or along.extent < costs.MIN_INNER_LANES * lanes:
        return None
    if abs(c.right.index.coefficient(c.n) or 0) < along.extent:
        return None
    return _Planner(target, c, along, lanes).plan()


@dataclass(frozen=True, slots=True)
class _Planner:
    """The planner of a contraction whose lanes run along an axis, in so many lanes."""

    target: Target
    c: Contraction
    along: Var
    lanes: int

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
            cycles=(vectors * cycles + sums) * costs.idle(target, parts * batches * groups),
            parts=parts,
            swept=ceil(outer / groups),
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
        again = line_cycles(target, Block(1, inner * nbytes, 0)) * registers
        near = line_cycles(target, Block(1, (size + sum(tile)) * nbytes, 0)) * registers
        total = 0.0
        for (_, down, rows), (_, across, columns) in product(pieces(c.rows, tile[0]), pieces(c.columns, tile[1])):
            compute = costs.multiply_add_cycles(target, rows * columns * registers)
            loads = (rows + columns) * registers / target.load_units
            inside, outside = (rows, columns) if by_columns else (columns, rows)
            moved = inside * again + outside * near
            busy = max(compute, loads, costs.chain_cycles(target)) + costs.EXPOSED_TRANSFERS * moved
            total += down * across * (max(busy, moved) + spill * rows * columns)
        return total
