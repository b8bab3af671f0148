"""Prefetches of the next head's operands, a few lines with every register tile of the head that is computed.

Short heads of long batches are bound by transfers: each is read once, in rows of a few lines that lie far apart, which
hardware prefetchers do not follow. ::

    for each tile of 8 steps:
      prefetch 8 rows of the next head's queries
      dots[n, rows] = ...
"""

from functools import cached_property
from math import prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Expr, For, Load, Prefetch, Stmt, When, postorder
from adjoint.lower.attention.plan import AttentionPlan, describe
from adjoint.lower.attention.row_block import RowBlock
from adjoint.lower.context import Context
from adjoint.lower.fusion.groups import Group

__all__ = ["HeadPrefetch"]


class HeadPrefetch:
    """The prefetches of a kernel of attention operators; none where all operands are near, or heads are large."""

    def __init__(self, context: Context, plan: AttentionPlan) -> None:
        self.context = context
        self.plan = plan
        self._batch = tuple(Var("b", size) for size in plan.batch)
        self._step = Var("n", plan.count)

    @cached_property
    def _streams(self) -> tuple[tuple[Buffer, Index, Var], ...]:
        """Far operands: the buffer, the index of an element, and the variable along which its rows are contiguous."""
        plan, found = self.plan, dict[tuple[Buffer, Index], Var]()
        at, n, axes = tuple(map(as_index, self._batch)), as_index(self._step), dict[int, Var]()
        row = n if plan.rows == plan.count else as_index(0)

        def note(group: Group, expr: Expr, x: Var) -> None:
            loads = [load for load in postorder([expr]) if isinstance(load, Load) and load.guard is None]
            for load in loads:
                if load.index.coefficient(x) == 1 and self.context.is_far(group, load.buffer):
                    found[load.buffer, load.index] = x

        for operator in plan.operators:
            x = axes.setdefault(operator.columns, Var("x", max(operator.columns, 1)))
            index = (*at, row, as_index(x)) if operator.columns else (*at, row)
            made = describe(self.context, operator.group, index)[1]
            for dot in made.dots:
                d = axes.setdefault(dot.depth, Var("x", dot.depth))
                note(operator.group, dot.step(n, as_index(d)), d)
                if plan.rows == plan.count:
                    note(operator.group, dot.row(as_index(d)), d)
            if made.values is not None:
                note(operator.group, made.values(n), x)
        nbytes = sum(plan.count * x.extent * buffer.dtype.itemsize for (buffer, _), x in found.items())
        if prod(plan.batch) < 2 or nbytes > costs.l2_bytes(self.context.target) // 4:
            return ()
        return tuple((buffer, index, x) for (buffer, index), x in found.items())

    def beside(self, rows: RowBlock, loop: int, start: Index, steps: int) -> tuple[Stmt, ...]:
        """The prefetches of one tile: of its share of the streams, so many rows from `start` on.

        Parameters
        ----------
        rows : RowBlock
            The rows of the unit. Only one block of them prefetches: one that counts all steps.
        loop : int
            Number of the loop over tiles.
        start, steps : Index, int
            The first row, and their number.
        """
        loops = len(self.plan.dots) + sum(operator.columns > 0 for operator in self.plan.operators)
        own = self._streams[loop::loops]
        if not own:
            return ()
        row, line = Var("row", steps), self.context.target.line_bytes // self.plan.dtype.itemsize
        hints: list[Stmt] = []
        for buffer, index, x in own:
            for first in range(0, x.extent, line):
                moved = {**dict(zip(self._batch, rows.next_at, strict=True)), x: as_index(first)}
                hints.append(Prefetch(buffer, index.substitute({**moved, self._step: start + as_index(row)})))
        return self._once(rows, For(row, tuple(hints)))

    def _once(self, rows: RowBlock, hints: Stmt) -> tuple[Stmt, ...]:
        """The prefetches in a block of rows that counts all steps: the first one, the last one if rows see the past."""
        operator = self.plan.operators[0]
        index = (*rows.at, rows.first, as_index(0))[: len(rows.at) + 1 + bool(operator.columns)]
        span = describe(self.context, operator.group, index)[1].span
        width = rows.plan.width
        last = (rows.plan.rows - 1) // width * width if span is not None and not span[0].high else 0
        distance = rows.first - last
        if distance.low == distance.high:
            return (hints,) if not distance.low else ()
        return (When(distance, 0, 1, (hints,)),)
