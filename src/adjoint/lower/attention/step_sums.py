"""Sums of operators whose rows are the steps of a kernel, such as the gradient of queries beside that of keys.

A block of weights is there once for both: with lanes along rows, sums of rows are added to (`online_softmax`), and with
lanes along columns, sums of steps::

    sums[step, columns] += weights[step, row] * values[row, columns]    for each row of the block

The sums of all steps stay in a thread's scratch memory until all rows have gone by.
"""

from functools import cached_property, partial

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Expr, For, Load, Stmt, Store
from adjoint.lower.attention.plan import AttentionPlan, StepOperator, describe
from adjoint.lower.attention.row_block import RowBlock
from adjoint.lower.context import Context, store_result
from adjoint.lower.loops import vector_loops, vector_runs

__all__ = ["StepSums"]


class StepSums:
    """The sums of the operators over steps of a plan."""

    def __init__(self, context: Context, plan: AttentionPlan) -> None:
        self.context = context
        self.plan = plan

    @cached_property
    def _sums(self) -> tuple[Buffer, ...]:
        """The sums of each operator, ``[step, column]``."""
        plan = self.plan
        sizes = [plan.count * operator.columns for operator in plan.step_operators]
        return tuple(Buffer(f"step_sums{n}", plan.dtype, size, "scratch") for n, size in enumerate(sizes))

    def begin(self) -> tuple[Stmt, ...]:
        """Set all sums to 0."""
        zero = Const(0.0, self.plan.dtype)
        out: list[Stmt] = []
        for sums in self._sums:
            out.extend(vector_loops(sums.size, self.plan.lanes, partial(_clear, sums, zero)))
        return tuple(out)

    def add(self, rows: RowBlock, start: Index, steps: int) -> tuple[Stmt, ...]:
        """Accumulate the rows of a unit into the sums of a block of steps."""
        out: list[Stmt] = []
        width = self.plan.vectors * self.plan.lanes
        for number, operator in enumerate(self.plan.step_operators):
            for left in range(0, operator.columns, width):
                for first, vectors, lanes in vector_runs(operator.columns - left, width, self.plan.lanes):
                    tile = partial(self._tile, rows, number, start, (left + first, vectors, lanes))
                    out.extend(rows.tiles(steps, tile))
        return tuple(out)

    def _tile(
        self, rows: RowBlock, number: int, start: Index, run: tuple[int, int, int], count: int, first: Index
    ) -> tuple[Stmt, ...]:
        """Accumulate into a tile: `count` steps from `first` of the block on, and a run of vectors of columns."""
        operator, sums = self.plan.step_operators[number], self._sums[number]
        left, vectors, lanes = run
        whole = vectors * self.plan.lanes  # vectors of registers are whole ones, even if some lanes are spare
        acc = Buffer("acc", self.plan.dtype, count * whole, "register")
        i, v, lane, row = Var("i", count), Var("v", vectors), Var("l", lanes), Var("row", rows.count)
        spot = as_index(i) * whole + as_index(v) * lanes + as_index(lane)
        step, column = first + as_index(i), as_index(v) * lanes + as_index(lane) + left
        at = (start + step) * operator.columns + column

        def each(store: Store) -> Stmt:
            return For(i, (For(v, (For(lane, (store,), "vector"),), "unroll"),), "unroll")

        weight = Load(rows.weights[operator.weight], step * rows.width + as_index(row))
        product = Apply("fma", (weight, self._value(rows, operator, row, column), Load(acc, spot)), acc.dtype)
        return (
            each(Store(((acc, spot, Load(sums, at)),))),
            For(row, (each(Store(((acc, spot, product),))),)),
            each(Store(((sums, at, Load(acc, spot)),))),
        )

    def _value(self, rows: RowBlock, operator: StepOperator, row: Var, column: Index) -> Expr:
        """The value of a row at a column, which is the same for all steps."""
        values = describe(self.context, operator.group, (*rows.at, as_index(0), column))[1].values
        assert values is not None
        return values(rows.first + as_index(row))

    def finish(self, at: tuple[Index, ...]) -> tuple[Stmt, ...]:
        """The results."""
        out: list[Stmt] = []
        for sums, operator in zip(self._sums, self.plan.step_operators, strict=True):
            step = Var("step", self.plan.count)
            store = partial(self._finished, at, sums, operator, as_index(step))
            out.append(For(step, vector_loops(operator.columns, self.plan.lanes, store)))
        return tuple(out)

    def _finished(
        self, at: tuple[Index, ...], sums: Buffer, operator: StepOperator, step: Index, column: Index, _: Index
    ) -> tuple[Stmt, ...]:
        result = Load(sums, step * operator.columns + column)
        return (store_result(self.context, operator.group, (*at, step, column), result),)


def _clear(sums: Buffer, zero: Const, at: Index, _: Index) -> tuple[Stmt, ...]:
    return (Store(((sums, at, zero),)),)
