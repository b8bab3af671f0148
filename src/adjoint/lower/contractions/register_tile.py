"""The register tile of a GEMM: accumulators, the loops over k that add products to them, and what follows the last one.

A step of k is a rank-1 update of the accumulators (the micro-kernel of Goto and van de Geijn)::

    for i in 0..rows unroll, lanes:  acc[i, lanes] = 0
    for k in steps:
      for i in 0..rows unroll, lanes:  acc[i, lanes] += left[i, k] * right[k, lanes]
    for i in 0..rows unroll, lanes:  out[i, lanes] = epilogue(acc[i, lanes])
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from math import prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index, flatten
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Expr, For, Load, Stmt, Store, When
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import BOOL, I64
from adjoint.lower.context import Context, store_result
from adjoint.lower.contractions.contraction import Contraction, contiguous_run
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.contractions.gemm_prefetch import PrefetchSlots
from adjoint.lower.contractions.transposed_epilogue import is_transposed, transposed_epilogue
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, vector_runs

__all__ = ["KBlock", "Point", "RegisterTile"]

#: What a tile does at one of its points: accumulators, place in them, row and column of the result.
Point = Callable[[Buffer, Index, Index, Index], Store]
#: Loops around a body, outermost first.
_Loops = Callable[[Sequence[Var], tuple[Stmt, ...]], tuple[Stmt, ...]]


def _unrolled(vars_: Sequence[Var], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A nest of unrolled loops."""
    for var in reversed(vars_):
        body = (For(var, body, "unroll"),)
    return body


@dataclass(frozen=True, slots=True)
class KBlock:
    """A block of k: where the outermost summed axis starts, the extent of every axis, and the packed panel, if any.

    `width` is the row pitch of the panel in elements; `before` are the steps that precede the block in the panel.
    """

    start: Index
    extents: tuple[int, ...]
    panel: Buffer | None = None
    width: int = 0
    before: Index = field(default_factory=lambda: as_index(0))


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Builds the tiles of one contraction.

    `neighbour` counts the tiles of a stack.
    """

    context: Context
    group: Group
    plan: GemmPlan
    neighbour: Var

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    def tile(
        self,
        size: tuple[int, int],
        row: Index,
        column: Index,
        at: dict[Var, Index],
        end: Point | None,
        prefetch: PrefetchSlots | None = None,
    ) -> tuple[Stmt, ...]:
        """A tile of so many rows and columns from operands in place.

        `end` says what happens to its sums, None that they go through the epilogue. `prefetch` accompanies the loop
        over k.
        """
        rows, columns = size
        acc = self.registers(rows, columns)
        everything = KBlock(as_index(0), tuple(v.extent for v in self.c.k))
        return (
            *self.unrolled_tile(acc, rows, columns, row, column, self.clear, whole=True),
            *self.multiply(acc, rows, columns, row, column, at, everything, prefetch),
            *(
                self.unrolled_tile(acc, rows, columns, row, column, end)
                if end
                else self.stored(acc, size, row, column, at)
            ),
        )

    def registers(self, rows: int, columns: int) -> Buffer:
        """The accumulators of a tile, row by row in whole vectors."""
        width = -(-columns // self.plan.lanes) * self.plan.lanes
        return Buffer("acc", self.c.dtype, rows * self.plan.tile.stack * width, "register")

    def unrolled_tile(
        self, acc: Buffer, rows: int, columns: int, row: Index, column: Index, point: Point, whole: bool = False
    ) -> tuple[Stmt, ...]:
        """Do something at every point of a tile, unrolled; `whole`: in full vectors even where columns end in one."""
        return self._each_point(acc, rows, columns, row, column, point, whole, _unrolled)

    def _each_point(
        self,
        sums: Buffer,
        rows: int,
        columns: int,
        row: Index,
        column: Index,
        point: Point,
        whole: bool = False,
        loops: _Loops = nest,
    ) -> tuple[Stmt, ...]:
        """The same with loops of another kind, for sums that are accumulators or in memory."""
        lanes = self.plan.lanes
        width = sums.size // (rows * self.plan.tile.stack)
        i = Var("i", rows)
        along: list[Stmt] = []
        for start, vectors, extent in vector_runs(columns, columns, lanes):
            vector, lane = Var("j", vectors), Var("l", lanes if whole else extent)
            inside = as_index(vector) * lanes + as_index(lane) + start
            spot = (as_index(self.neighbour) * rows + as_index(i)) * width + inside
            body = point(sums, spot, row + as_index(i), column + inside)
            stacked = [self.neighbour] * (self.plan.tile.stack > 1)
            along += loops([*stacked, vector], (For(lane, (body,), "vector"),))
        # Row by row: each element of the left operand is dead before the next is loaded.
        return loops([i], tuple(along))

    def clear(self, acc: Buffer, spot: Index, _m: Index, _n: Index) -> Store:
        """Start a sum."""
        return Store(((acc, spot, Const(0.0, acc.dtype)),))

    def spilled(self, memory: Buffer, first_row: Index, column: Index, width: int) -> Callable[..., Point]:
        """Fill accumulators from partial sums, or spill them, between blocks of k."""

        def keep(store: bool) -> Point:
            def point(acc: Buffer, spot: Index, m: Index, n: Index) -> Store:
                place = (m - first_row) * width + n - column
                if store:
                    return Store(((memory, place, Load(acc, spot)),))
                return Store(((acc, spot, Load(memory, place)),))

            return point

        return keep

    def multiply(
        self,
        acc: Buffer,
        rows: int,
        columns: int,
        row: Index,
        column: Index,
        at: dict[Var, Index],
        block: KBlock,
        prefetch: PrefetchSlots | None,
    ) -> tuple[Stmt, ...]:
        """The loops over a block of k, with some prefetches in every slot: a burst of all would stall."""
        outer = block.extents[0] if block.extents else 1
        slot = Var("slot", prefetch.slots if prefetch else 1)
        chunk = outer // slot.extent
        lines = prefetch.lines(as_index(slot)) if prefetch and chunk else ()
        if not lines:
            return self._steps(acc, rows, columns, row, column, at, block, as_index(0), outer)
        some = self._steps(acc, rows, columns, row, column, at, block, as_index(slot) * chunk, chunk)
        loop = For(slot, (*lines, *some))
        done = slot.extent * chunk
        if done == outer:
            return (loop,)
        return (loop, *self._steps(acc, rows, columns, row, column, at, block, as_index(done), outer - done))

    def _steps(
        self,
        acc: Buffer,
        rows: int,
        columns: int,
        row: Index,
        column: Index,
        at: dict[Var, Index],
        block: KBlock,
        first: Index,
        count: int,
    ) -> tuple[Stmt, ...]:
        """Multiply-adds for `count` steps of the block's outermost axis, from `first` on."""
        extents = (count, *block.extents[1:]) if block.extents else ()
        steps = [Var(v.name.replace("r", "k"), e) for v, e in zip(self.c.k, extents, strict=True)]
        local = {v: as_index(s) for v, s in zip(self.c.k, steps, strict=True)}
        if block.panel is not None and len(steps) > 1 and not contiguous_run(self.c.left, self.c.k, extents)[0]:
            # Both operands hold all steps one after the other: a single loop over the taps of all channels.
            steps = [Var(steps[0].name, prod(extents))]
            local = {v: as_index(0) for v in self.c.k[:-1]} | {self.c.k[-1]: as_index(steps[0])}
        for outermost in self.c.k[:1]:
            local[outermost] = local[outermost] + first
        whole = local | {v: local[v] + block.start for v in self.c.k[:1]}

        def step(acc: Buffer, spot: Index, m: Index, n: Index) -> Store:
            where = {**at, **whole}
            if self.c.m is not None:
                where[self.c.m] = m
            a = self.c.element(self.c.left, where)
            if block.panel is None:
                inside = Apply("lt", (Coordinate(n - column, I64), Const(columns, I64)), BOOL) if beyond else None
                b = self.c.element(self.c.right, {**where, self.c.n: n}, inside)
            else:
                place = (block.before + flatten([local[v] for v in self.c.k], block.extents)) * block.width + n - column
                b = Load(block.panel, place)
            return Store(((acc, spot, Apply("fma", (a, b, Load(acc, spot)), acc.dtype)),))

        # Panels are as wide as whole vectors, whose lanes past the end hold anything.
        padded = block.panel is not None or self.plan.form.right == "whole"
        beyond = not padded and columns % self.plan.lanes > 0 and self.c.right.index.coefficient(self.c.n) == 1
        body = self.unrolled_tile(acc, rows, columns, row, column, step, whole=beyond or padded)
        vectors, taps = acc.size // self.plan.lanes, prod(block.extents)
        if len(steps) == 2 and taps * vectors <= costs.MAX_UNROLLED_WINDOW:
            # The taps of a depthwise window: neighboring rows of the tile share what they load.
            return (For(steps[0], (For(steps[1], body, "unroll"),), "unroll"),)
        unrolled = len(steps) > 1 and steps[-1].extent * vectors <= costs.MAX_UNROLLED
        last = (For(steps[-1], body, "unroll"),) if unrolled else nest(steps[-1:], body)
        return nest(steps[:-1], self._inside(last, at, whole))

    def _inside(self, body: tuple[Stmt, ...], at: dict[Var, Index], k: dict[Var, Index]) -> tuple[Stmt, ...]:
        """Do something if the row of the image that a tile meets is inside; that of one of its stack."""
        border = self.plan.border
        if border is None:
            return body
        place = at[border.row]
        above = (place.coefficient(self.neighbour) or 0) * (self.plan.tile.stack - 1) * border.row_stride
        first = place.substitute({self.neighbour: as_index(0)})
        return (When(border.coordinate(first, k[border.step]), -above, border.extent, body),)

    def stored(
        self, acc: Buffer, size: tuple[int, int], row: Index, column: Index, at: dict[Var, Index]
    ) -> tuple[Stmt, ...]:
        """The sums of a tile of so many rows and columns go through the epilogue."""
        rows, columns = size
        sums = Buffer("sums", acc.dtype, acc.size, "scratch")

        def spill(acc: Buffer, spot: Index, _m: Index, _n: Index) -> Store:
            return Store(((sums, spot, Load(acc, spot)),))

        spilled = self.unrolled_tile(acc, rows, columns, row, column, spill, whole=True)
        whole = self.plan.form.swapped and self.plan.tile.stack == 1 and rows == self.c.rows
        if whole and is_transposed(self.c, self.group.shape):
            store = partial(self.epilogue, at)
            if transposed := transposed_epilogue(sums, rows, columns, column, self.plan.lanes, store):
                return (*spilled, *transposed)
        after = self.epilogue(at, row, column, Const(0.0, acc.dtype))
        if flops_of([value for _, _, value in after.targets]) < costs.LOOPED_EPILOGUE:
            return self.unrolled_tile(acc, rows, columns, row, column, self.store_point(at))
        # Unrolled, the epilogue would be most of the kernel's code.
        return (*spilled, *self._each_point(sums, rows, columns, row, column, self.store_point(at)))

    def store_point(self, at: dict[Var, Index]) -> Point:
        """Pass a sum through the epilogue; `at` are the coordinates on the other axes."""
        return lambda acc, spot, m, n: self.epilogue(at, m, n, Load(acc, spot))

    def epilogue(self, at: dict[Var, Index], m: Index, n: Index, result: Expr) -> Store:
        """What is stored of a value of the result, in a row and a column."""
        where = {**{v: as_index(0) for v in self.c.axes}, **at, self.c.n: n}
        if self.c.m is not None:
            where[self.c.m] = m
        return store_result(self.context, self.group, self.c.index(where), result)
