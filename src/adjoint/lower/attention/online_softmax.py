"""Fused attention with an online softmax: products whose left operand, the weights, is never stored.

A `FusedAttention` is ``result[row, column] = sum over n of weight(row, n) * values(n, column)``, where a weight is an
elementwise function of dot products between row and step n. A unit of work is two vectors of rows, and lanes run along
rows throughout::

    for each dot product:  panel[d, rows] = factors of the rows, transposed in registers
    for each block of steps that some row counts:
      for each dot product:  weights[n, rows] = sum over d of step[n, d] * panel[d, rows]
      weights = elementwise
      sums[column, rows] += values[n, column] * weights[n, rows]
    result[rows, columns] = sums, transposed

So factors of steps are read in place, one element broadcast to all lanes, at any stride; nothing is reduced across
lanes; and masks, maxima and sums of rows are vectors. A block of weights stays in the first-level cache.

For ``softmax`` and ``log_sum_exp``, each row keeps a running maximum and the sum of exponentials relative to it; when
the maximum grows, earlier sums are rescaled (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018;
Dao et al., "FlashAttention", 2022).
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil

import numpy as np

from adjoint.kernel.index import Index, Var, as_index, unflatten
from adjoint.kernel.ir import Apply, Buffer, Const, Expr, For, Kernel, Load, Stmt, Store, When, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.inlining import BOOL
from adjoint.lower.attention.head_prefetch import HeadPrefetch
from adjoint.lower.attention.plan import AttentionPlan, FusedOperator, plan_attention
from adjoint.lower.attention.row_block import RowBlock
from adjoint.lower.attention.step_sums import StepSums
from adjoint.lower.attention.weights import Weights
from adjoint.lower.context import Context, finish_kernel, store_result
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import tiled, vector_loops

__all__ = ["attention_kernels"]


def attention_kernels(context: Context, groups: Sequence[Group]) -> list[Kernel]:
    """Kernels of groups whose roots are attention operators over the same rows and steps, or these exchanged."""
    plans = plan_attention(context, groups)
    return [
        _Builder(context, plan, Weights(context, plan), StepSums(context, plan), HeadPrefetch(context, plan)).kernel()
        for plan in plans
    ]


@dataclass(frozen=True, slots=True)
class _Builder:
    context: Context
    plan: AttentionPlan
    weights: Weights
    step_sums: StepSums
    prefetch: HeadPrefetch

    def kernel(self) -> Kernel:
        """Each unit is a block of rows of the results, or all rows where steps have sums too."""
        plan = self.plan
        unit = Var("u", plan.units)
        blocks = 1 if plan.step_operators else ceil(plan.rows / plan.width)
        at, next_at = (unflatten(as_index(unit) // max(blocks, 1) + ahead, plan.batch) for ahead in (0, 1))

        def body(count: int, first: Index) -> tuple[Stmt, ...]:
            return self._unit(RowBlock(plan, at, next_at, first, count))

        if not unit.extent:
            made: tuple[Stmt, ...] = ()
        elif plan.step_operators:
            made = self._all_rows(at, body)
        else:
            made = tiled(as_index(unit) % blocks, plan.rows, plan.width, body)
        groups = [*(o.group for o in plan.operators), *(o.group for o in plan.step_operators)]
        members = [v for group in groups for v in group.members]
        return finish_kernel(self.context, self.context.name_of(groups[0]), members, unit, made, plan.flops)

    def _all_rows(self, at: tuple[Index, ...], body: Callable[[int, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """All rows of an element of the batch, block by block."""
        plan = self.plan
        many, rest = divmod(plan.rows, plan.width)
        iteration = Var("rows", many)
        out = list(self.step_sums.begin())
        if many:
            out.append(For(iteration, body(plan.width, as_index(iteration) * plan.width)))
        if rest:
            out.extend(body(rest, as_index(many * plan.width)))
        return (*out, *self.step_sums.finish(at))

    # A unit

    def _unit(self, rows: RowBlock) -> tuple[Stmt, ...]:
        plan = self.plan
        many, rest = divmod(plan.count, plan.block)
        body = [*self._begin(rows)]
        for number in range(len(plan.dots)):
            body.extend(self._pack_rows(rows, number))
        if many:
            iteration = Var("block", many)
            body.append(For(iteration, self._block(rows, as_index(iteration) * plan.block, plan.block)))
        if rest:
            body.extend(self._block(rows, as_index(many * plan.block), rest))
        for number, operator in enumerate(plan.operators):
            body.extend(
                self._end_columns(rows, number, operator) if operator.columns else self._end_rows(rows, operator)
            )
        return tuple(body)

    def _begin(self, rows: RowBlock) -> tuple[Stmt, ...]:
        zero = Const(0.0, self.plan.dtype)
        # Not minus infinity: minus infinity less itself is NaN.
        lowest = Const(float(np.finfo(self.plan.dtype).min), self.plan.dtype)
        out: list[Stmt] = []
        for sums in rows.sums:
            column = Var("c", sums.size // rows.width)
            at = as_index(column) * rows.width
            if column.extent:
                out.append(For(column, rows.each(partial(_set, ((sums, at, zero),)))))
        for number, (row_max, row_sum) in enumerate(zip(rows.row_max, rows.row_sum, strict=True)):
            if self.plan.is_relative(number):
                origin = as_index(0)
                out.extend(rows.each(partial(_set, ((row_max, origin, lowest), (row_sum, origin, zero)))))
        return tuple(out)

    def _pack_rows(self, rows: RowBlock, number: int) -> tuple[Stmt, ...]:
        """Pack the rows' factors of a dot product, lanes along rows; transposed in registers where d is contiguous.

        Spare lanes stay as they are.
        """
        dot, panel, lanes = self.plan.dots[number], rows.panels[number], self.plan.lanes
        operator = self.plan.operators[dot.operator]

        def pack(d: Index, row: Index) -> Store:
            element = rows.describe(self.context, operator, row)[1].dots[dot.place].row(d)
            return Store(((panel, d * rows.width + row, element),))

        probe, vector, lane = Var("d", dot.depth), Var("v", rows.count // lanes), Var("l", lanes)
        ((_, _, element),) = pack(as_index(probe), as_index(0)).targets
        transposes = isinstance(element, Load) and element.index.coefficient(probe) == 1
        row, left, rest = as_index(vector) * lanes + as_index(lane), Var("l", rows.count % lanes), dot.depth % lanes
        own = partial(pack, row=row), partial(pack, row=as_index(left) + vector.extent * lanes)

        def loops(d: Index, around: Callable[[Stmt], Stmt]) -> tuple[Stmt, ...]:
            whole = For(vector, (around(For(lane, (own[0](d),), "vector")),))
            edge = around(For(left, (own[1](d),), "vector"))
            return *((whole,) if vector.extent else ()), *((edge,) if left.extent else ())

        if not transposes:
            return (For(probe, loops(as_index(probe), lambda loop: loop)),)
        square, i, last = Var("s", dot.depth // lanes), Var("i", lanes), Var("i", rest)
        out: list[Stmt] = []
        if square.extent:
            d = as_index(square) * lanes + as_index(i)
            out.append(For(square, loops(d, lambda loop: For(i, (loop,), "unroll"))))
        if rest:
            out.extend(loops(as_index(last) + (dot.depth - rest), lambda loop: For(last, (loop,), "unroll")))
        return tuple(out)

    # A block of steps

    def _block(self, rows: RowBlock, start: Index, steps: int) -> tuple[Stmt, ...]:
        plan = self.plan
        body: list[Stmt] = []
        for number in range(len(plan.packed)):
            body.extend(self._pack_steps(rows, number, start, steps))
        maxima, in_tiles = self.weights.maxima(rows), self.weights.in_tiles()
        body.extend(self.weights.begin(rows, maxima))
        for number in range(len(plan.dots)):
            last = number == len(plan.dots) - 1
            weigh = partial(self.weights.of_tile, rows, start, maxima) if in_tiles and last else None
            body.extend(self._dots(rows, number, start, steps, weigh))
        if not in_tiles:
            body.extend(self.weights.of_block(rows, start, steps))
        for number, best in maxima.items():
            if not in_tiles:
                body.extend(self.weights.maxima_of_block(rows, number, steps, best))
            body.extend(self.weights.exponentials(rows, number, start, steps, best))
        for number, operator in enumerate(plan.operators):
            if operator.columns:
                body.extend(self._add(rows, number, operator, start, steps))
        body.extend(self.step_sums.add(rows, start, steps))
        return self._where_counted(rows, start, steps, tuple(body))

    def _where_counted(self, rows: RowBlock, start: Index, steps: int, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Skip blocks that no row counts: spans of rows are monotonic."""
        ends = (as_index(0), as_index(rows.count - 1))
        first, last = (rows.describe(self.context, self.plan.operators[0], row)[1].span for row in ends)
        if first is None or last is None:
            return body
        for distance, least in ((last[1] - start, 1), (start + (steps - 1) - first[0], 0)):
            if distance.low < least:
                body = (When(distance, least, max(distance.high, least) + 1, body),)
        return body

    def _element(self, rows: RowBlock, operator: int, place: int | None, step: Index, x: Index) -> Expr:
        """An element of a step: a factor of the dot product of that number, or else a value at a column."""
        of = self.plan.operators[operator]
        made = rows.describe(self.context, of, as_index(0), x if place is None and of.columns else 0)[1]
        if place is not None:
            factor: Expr = made.dots[place].step(step, x)
            return factor
        assert made.values is not None
        return made.values(step)

    def _pack_steps(self, rows: RowBlock, number: int, start: Index, steps: int) -> tuple[Stmt, ...]:
        """Pack elements of a block of steps."""
        pack, memory, step = self.plan.packed[number], rows.packed[number], Var("n", steps)

        def move(x: Index, _: Index) -> tuple[Stmt, ...]:
            element = self._element(rows, pack.operator, pack.place, start + as_index(step), x)
            return (Store(((memory, as_index(step) * pack.size + x, element),)),)

        return (For(step, vector_loops(pack.size, self.plan.lanes, move)),)

    def _dots(
        self,
        rows: RowBlock,
        number: int,
        start: Index,
        steps: int,
        weigh: Callable[[Index, Buffer], Callable[[Index], Store]] | None,
    ) -> tuple[Stmt, ...]:
        """Dot products of a block of steps with all rows; or what `weigh` makes of them, step by step."""
        dot, dots, panel = self.plan.dots[number], rows.dots[number], rows.panels[number]

        def tile(count: int, first: Index) -> tuple[Stmt, ...]:
            acc, d = rows.registers("acc", count), Var("d", dot.depth)

            def multiply(spot: Index) -> Store:
                step = first + spot // rows.width
                if dot.step is not None:
                    factor: Expr = Load(rows.packed[dot.step], step * dot.depth + as_index(d))
                else:
                    factor = self._element(rows, dot.operator, dot.place, start + step, as_index(d))
                row = Load(panel, as_index(d) * rows.width + spot % rows.width)
                return Store(((acc, spot, apply("fma", factor, row, Load(acc, spot))),))

            def spill(spot: Index) -> Store:
                return Store(((dots, first * rows.width + spot, Load(acc, spot)),))

            clear = rows.each(lambda spot: Store(((acc, spot, Const(0.0, acc.dtype)),)), count)
            hints = self.prefetch.beside(rows, number, start + first, count)
            stored = rows.each(weigh(first, acc) if weigh is not None else spill, count)
            return (*hints, *clear, For(d, rows.each(multiply, count)), *stored)

        return rows.tiles(steps, tile)

    def _add(self, rows: RowBlock, number: int, operator: FusedOperator, start: Index, steps: int) -> tuple[Stmt, ...]:
        """Accumulate a block of steps into the sums of all columns of an operator."""
        sums, weights, scale = rows.sums[number], rows.weights[operator.weight], rows.rescale[operator.weight]
        loop = len(self.plan.dots) + sum(other.columns > 0 for other in self.plan.operators[:number])

        def tile(count: int, first: Index) -> tuple[Stmt, ...]:
            acc, step = rows.registers("acc", count), Var("n", steps)

            def fetch(spot: Index) -> Store:
                held: Expr = Load(sums, first * rows.width + spot)
                if self.plan.is_relative(operator.weight):
                    held = apply("mul", held, Load(scale, spot % rows.width))
                return Store(((acc, spot, held),))

            def multiply(spot: Index) -> Store:
                column = first + spot // rows.width
                if operator.values is not None:
                    value: Expr = Load(rows.packed[operator.values], as_index(step) * operator.columns + column)
                else:
                    value = self._element(rows, number, None, start + as_index(step), column)
                weight = Load(weights, as_index(step) * rows.width + spot % rows.width)
                product = apply("fma", value, weight, Load(acc, spot))
                return Store(((acc, spot, product),))

            def spill(spot: Index) -> Store:
                return Store(((sums, first * rows.width + spot, Load(acc, spot)),))

            share = ceil(steps / ceil(operator.columns / self.plan.tile))
            hints = self.prefetch.beside(rows, loop, start + first // self.plan.tile * share, share)
            return (*hints, *rows.each(fetch, count), For(step, rows.each(multiply, count)), *rows.each(spill, count))

        return rows.tiles(operator.columns, tile)

    # The end

    def _end_rows(self, rows: RowBlock, operator: FusedOperator) -> tuple[Stmt, ...]:
        """The results of an operator without columns."""
        row_max, row_sum = rows.row_max[operator.weight], rows.row_sum[operator.weight]

        def logarithm(at: Index, _: Index) -> tuple[Stmt, ...]:
            result = apply("add", Load(row_max, at), apply("log", Load(row_sum, at)))
            return (store_result(self.context, operator.group, (*rows.at, rows.first + at), result),)

        return vector_loops(rows.count, self.plan.lanes, logarithm)

    def _end_columns(self, rows: RowBlock, number: int, operator: FusedOperator) -> tuple[Stmt, ...]:
        """The results of an operator with columns: sums are transposed square by square, and finished row by row."""
        lanes, columns = self.plan.lanes, self.plan.whole_columns(operator)
        square, vector, inner, lane = (
            Var("c", columns // lanes),
            Var("v", rows.vectors),
            Var("i", lanes),
            Var("l", lanes),
        )
        column, row = as_index(square) * lanes + as_index(lane), as_index(vector) * lanes + as_index(inner)
        sum_ = Load(rows.sums[number], column * rows.width + row)
        iteration = Store(((rows.transposed, row * columns + column, sum_),))
        loop = For(inner, (For(lane, (iteration,), "vector"),), "unroll")
        out: list[Stmt] = [For(square, (For(vector, (loop,)),))]
        relative, line = self.plan.is_relative(operator.weight), Var("row", rows.count)
        row_sum, scale = rows.row_sum[operator.weight], rows.rescale[operator.weight]
        if relative:
            out.extend(rows.each(lambda at: Store(((scale, at, self._inverse(Load(row_sum, at))),))))

        def finished(at: Index, _: Index) -> tuple[Stmt, ...]:
            result: Expr = Load(rows.transposed, as_index(line) * columns + at)
            if relative:
                result = apply("mul", result, Load(scale, as_index(line)))
            return (store_result(self.context, operator.group, (*rows.at, rows.first + as_index(line), at), result),)

        return (*out, For(line, vector_loops(operator.columns, lanes, finished)))

    def _inverse(self, total: Expr) -> Expr:
        """One over the sum of a row's exponentials; 0 if all its weights are minus infinity."""
        zero, one = (Const(x, self.plan.dtype) for x in (0.0, 1.0))
        none = Apply("eq", (total, zero), BOOL)
        return Apply("select", (none, zero, apply("div", one, total)), self.plan.dtype)


def _set(targets: tuple[tuple[Buffer, Index, Expr], ...], row: Index) -> Store:
    """The same value for every row."""
    return Store(tuple((buffer, start + row, value) for buffer, start, value in targets))
