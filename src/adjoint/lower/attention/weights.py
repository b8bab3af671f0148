"""The weights of a block of steps of attention, and their exponentials relative to each row's running maximum.

Scores, which are weights that are exponentiated later, take few operations: they are computed from the last dot
products of a tile while these are in registers, and so are their maxima.
"""

from collections.abc import Callable, Mapping

import numpy as np

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Expr, For, Load, Stmt, Store, apply
from adjoint.lower.analysis.inlining import BOOL, FusedAttention, Inliner
from adjoint.lower.attention.plan import AttentionPlan, FusedOperator
from adjoint.lower.attention.row_block import RowBlock
from adjoint.lower.context import Context

__all__ = ["Weights"]

#: Returns a dot product, given its number.
_Dots = Callable[[int], Expr]


class Weights:
    """The weights of a plan."""

    def __init__(self, context: Context, plan: AttentionPlan) -> None:
        self.context = context
        self.plan = plan

    def maxima(self, rows: RowBlock) -> dict[int, Buffer]:
        """Registers for the maxima of a block, by the numbers of the weights that are exponents."""
        return {n: rows.registers("best") for n, _ in enumerate(self.plan.weights) if self.plan.is_relative(n)}

    def in_tiles(self) -> bool:
        """Whether weights are computed from the last dot products of a tile while these are in registers."""
        return bool(self.plan.dots) and all(map(self.plan.is_relative, range(len(self.plan.weights))))

    def begin(self, rows: RowBlock, maxima: Mapping[int, Buffer]) -> tuple[Stmt, ...]:
        """Set the maxima of a block to those of the blocks before."""

        def start(row: Index) -> Store:
            return Store(tuple((best, row, Load(rows.row_max[n], row)) for n, best in maxima.items()))

        return rows.each(start) if maxima else ()

    def of_tile(
        self, rows: RowBlock, start: Index, maxima: Mapping[int, Buffer], first: Index, acc: Buffer
    ) -> Callable[[Index], Store]:
        """The weights of steps from `first` on, and their maxima, given the last dot products in registers."""
        last = len(self.plan.dots) - 1

        def compute(spot: Index) -> Store:
            at, row = first * rows.width + spot, spot % rows.width
            stored = self._stored(rows, at)
            targets = []
            for number, best in maxima.items():
                made = self._weight(rows, number, start, at, row, lambda n: Load(acc, spot) if n == last else stored(n))
                targets += [(rows.weights[number], at, made), (best, row, _larger(made, Load(best, row)))]
            return Store(tuple(targets))

        return compute

    def of_block(self, rows: RowBlock, start: Index, steps: int) -> tuple[Stmt, ...]:
        """Weights of a block in place of its dot products, all in one store, since they share loads."""
        step = Var("n", steps)

        def compute(row: Index) -> Store:
            at = as_index(step) * rows.width + row
            stored = self._stored(rows, at)
            places = enumerate(rows.weights)
            return Store(tuple((place, at, self._weight(rows, n, start, at, row, stored)) for n, place in places))

        return (For(step, rows.each(compute)),)

    def maxima_of_block(self, rows: RowBlock, number: int, steps: int, best: Buffer) -> tuple[Stmt, ...]:
        """The maxima of weights that are stored."""
        step, place = Var("n", steps), rows.weights[number]

        def compare(row: Index) -> Store:
            return Store(((best, row, _larger(Load(place, as_index(step) * rows.width + row), Load(best, row))),))

        return (For(step, rows.each(compare)),)

    def exponentials(self, rows: RowBlock, number: int, start: Index, steps: int, best: Buffer) -> tuple[Stmt, ...]:
        """Exponentials of the weights relative to their maxima so far, times a factor, and their sum."""
        step, place, block_sum = Var("n", steps), rows.weights[number], rows.registers("part")
        row_max, row_sum, scale = rows.row_max[number], rows.row_sum[number], rows.rescale[number]

        def advance(row: Index) -> Store:
            new = Load(best, row)
            return Store(((scale, row, apply("exp", apply("sub", Load(row_max, row), new))), (row_max, row, new)))

        def exponential(row: Index) -> Store:
            at = as_index(step) * rows.width + row
            made = apply("exp", apply("sub", Load(place, at), Load(best, row)))
            factor = self._on_lanes(self._operator(number), rows, row)[1].factor
            kept = made if factor is None else apply("mul", made, factor(start + at // rows.width))
            return Store(((place, at, kept), (block_sum, row, apply("add", Load(block_sum, row), made))))

        def add(row: Index) -> Store:
            return Store(((row_sum, row, apply("fma", Load(row_sum, row), Load(scale, row), Load(block_sum, row))),))

        return (
            *rows.each(advance),
            *rows.each(lambda row: Store(((block_sum, row, Const(0.0, block_sum.dtype)),))),
            For(step, rows.each(exponential)),
            *rows.each(add),
        )

    def _operator(self, number: int) -> FusedOperator:
        return self.plan.operators[self.plan.weights[number]]

    def _stored(self, rows: RowBlock, at: Index) -> _Dots:
        return lambda number: Load(rows.dots[number], at)

    def _on_lanes(self, operator: FusedOperator, rows: RowBlock, row: Index) -> tuple[Inliner, FusedAttention]:
        """The description of an operator at a row that is a lane: spare lanes read nothing."""
        inliner, made = rows.describe(self.context, operator, row)
        inside = inliner.inside(row, 0, rows.count)
        inliner.guard = inside if not isinstance(inside, Const) else None
        return inliner, made

    def _weight(self, rows: RowBlock, number: int, start: Index, at: Index, row: Index, dots: _Dots) -> Expr:
        """The weight at a place, ``[step, row]``; that of no influence where the row does not count the step."""
        operator, dtype = self._operator(number), self.plan.dtype
        none = Const(-np.inf if self.plan.is_relative(number) else 0.0, dtype)
        inliner, made = self._on_lanes(operator, rows, row)
        step = start + at // rows.width
        weight = made.weight(step, [dots(n) for n in operator.dots])
        if made.span is None:
            return weight
        since, left = step - made.span[0], made.span[1] - step
        counted = inliner.call(
            "and", inliner.inside(since, 0, max(since.high, 0) + 1), inliner.inside(left, 1, max(left.high, 1) + 1)
        )
        if isinstance(counted, Const):
            return weight if counted.value else none
        return inliner.select(counted, weight, none)


def _larger(weight: Expr, best: Expr) -> Expr:
    """The larger one. NaN is never the maximum; its exponential is NaN all the same."""
    return Apply("select", (Apply("gt", (weight, best), BOOL), weight, best), best.dtype)
