"""The loops of a contraction: a register tile, around it rows and panels, before it packing where planned.

In place, a unit of work is one tile of the result. Packed, a unit is a panel of columns (or a part of its rows):
for each block of the summed axis it copies the right operand's columns to scratch memory, then sweeps its rows; with
several blocks, sums wait in scratch too, and the epilogue comes at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Expr, For, Kernel, Load, Stmt, Store, When
from adjoint.lower.contractions import Contraction, Plan, plan_contraction
from adjoint.lower.emit import Context, finish, group_puller, pieces, ravel, stores, tiles, unravel, vector_loops
from adjoint.lower.facts import flops_of
from adjoint.lower.fuse import Group

__all__ = ["contraction_kernels"]

#: What a tile does at one of its points: accumulators, place in them, row and column of the result.
_Point = Callable[[Buffer, Index, Index, Index], Store]
#: The right operand's element at (step of k in the block, column of the tile, row of the result, its column).
_Right = Callable[[dict[Var, Index], Index, Index], Expr]


def contraction_kernels(context: Context, group: Group, c: Contraction) -> list[Kernel]:
    """The kernels of a contraction group: the product, after packing the left operand where planned."""
    plan = plan_contraction(context.target, c)
    kernels = []
    if plan.pack_left:
        packing, c = _pack_left(context, group, c, plan)
        kernels.append(packing)
    builder = _Builder(context, group, c, plan)
    kernels.append(builder.packed_kernel() if plan.pack_right else builder.in_place_kernel())
    return kernels


def _pack_left(context: Context, group: Group, c: Contraction, plan: Plan) -> tuple[Kernel, Contraction]:
    """Copy the left operand so that the rows of a tile lie side by side: ``[batch, block of rows, k, row]``."""
    m = c.m
    assert m is not None
    batch = tuple(v for v in c.batch if c.left.index.coefficient(v))
    blocks = ceil(c.rows / plan.rows)
    size = prod(v.extent for v in batch) * blocks * c.depth * plan.rows
    packed = Buffer(f"{context.name_of(group)}_left", c.left.buffer.dtype, size, "arena")
    unit = Var("u", prod(v.extent for v in batch) * blocks)
    block, rest = as_index(unit) % blocks, as_index(unit) // blocks
    at = unravel(batch, rest)
    steps = {v: Var(v.name, v.extent) for v in c.k}
    flat_k = ravel(c.k, {v: as_index(w) for v, w in steps.items()})

    def copy(rows: int) -> tuple[Stmt, ...]:
        def body(row: Index, _: Index) -> tuple[Stmt, ...]:
            where = {**at, **{v: as_index(w) for v, w in steps.items()}, m: block * plan.rows + row}
            place = (as_index(unit) * c.depth + flat_k) * plan.rows + row
            return (Store(((packed, place, Load(c.left.buffer, c.left.index.substitute(where))),)),)

        loop = vector_loops(rows, context.target.lanes(c.left.dtype), body)
        for var in reversed(c.k):
            loop = (For(steps[var], loop),)
        return loop

    edge = c.rows % plan.rows
    body = copy(plan.rows)
    if edge:
        body = (When(block, 0, blocks - 1, body, copy(edge)),)
    kernel = finish(context, packed.name, group.members[:1], unit, body, 0)
    row = as_index(m)
    where = {v: as_index(v) for v in (*batch, *c.k)}
    index = (ravel(batch, where) * blocks + row // plan.rows) * c.depth + ravel(c.k, where)
    return kernel, replace(c, left=Load(packed, index * plan.rows + row % plan.rows))


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds the loop nest of one contraction."""

    context: Context
    group: Group
    c: Contraction
    plan: Plan

    # A unit is a tile: operands are read in place.

    def in_place_kernel(self) -> Kernel:
        """Each unit is one tile of the result."""
        blocks = ceil(self.c.rows / self.plan.rows)
        panels = ceil(self.c.columns / self.plan.columns)
        unit = Var("u", self.c.batches * blocks * panels)
        # Threads take contiguous units: let the larger operand be the one that they split.
        if self.c.columns >= self.c.rows:
            rest, block = as_index(unit) // blocks, as_index(unit) % blocks
            at, panel = unravel(self.c.batch, rest // panels), rest % panels
        else:
            rest, panel = as_index(unit) // panels, as_index(unit) % panels
            at, block = unravel(self.c.batch, rest // blocks), rest % blocks

        def right(k: dict[Var, Index], _: Index, column: Index) -> Expr:
            where = {**at, **k, self.c.n: column}
            return Load(self.c.right.buffer, self.c.right.index.substitute(where))

        def strip(rows: int, row: Index) -> tuple[Stmt, ...]:
            def tile(columns: int, column: Index) -> tuple[Stmt, ...]:
                acc = self._registers(rows, columns)
                steps = {v: Var(v.name.replace("r", "k"), v.extent) for v in self.c.k}
                return (
                    *self._sweep(acc, rows, columns, row, column, self._clear),
                    *self._multiply(acc, rows, columns, row, column, at, steps, {}, right),
                    *self._sweep(acc, rows, columns, row, column, self._end(at)),
                )

            return pieces(panel, self.c.columns, self.plan.columns, tile)

        body = pieces(block, self.c.rows, self.plan.rows, strip)
        return self._finish(unit, body)

    # A unit is a panel: its columns are packed, block by block of k.

    def packed_kernel(self) -> Kernel:
        """Each unit is a panel of columns, or a part of its rows."""
        c, plan = self.c, self.plan
        panels = ceil(c.columns / plan.columns)
        blocks = ceil(c.rows / plan.rows)
        per_group = ceil(blocks / plan.groups)
        groups = ceil(blocks / per_group)
        unit = Var("u", c.batches * panels * groups)
        part, rest = as_index(unit) % groups, as_index(unit) // groups
        panel, at = rest % panels, unravel(c.batch, rest // panels)

        def whole(columns: int, column: Index) -> tuple[Stmt, ...]:
            width = -(-columns // plan.lanes) * plan.lanes
            panel_memory = Buffer("panel", c.right.dtype, plan.block * width, "scratch")
            waiting = Buffer("sums", c.left.dtype, per_group * plan.rows * width, "scratch")
            first_row = part * (per_group * plan.rows)

            def right(k: dict[Var, Index], inside: Index, _: Index) -> Expr:
                return Load(panel_memory, ravel(c.k, k) * width + inside)

            def segment(start: Index, extent: int, split: bool) -> tuple[Stmt, ...]:
                """Pack a block of k and sweep the rows over it."""
                steps = {v: Var(v.name.replace("r", "k"), extent if split else v.extent) for v in c.k}
                shift = {c.k[0]: start} if split else {}

                def tile(rows: int, row: Index) -> tuple[Stmt, ...]:
                    acc = self._registers(rows, columns)
                    keep = self._waiting(waiting, first_row, column, width)
                    begin = keep(store=False) if split else self._clear
                    end = keep(store=True) if split else self._end(at)
                    return (
                        *self._sweep(acc, rows, columns, row, column, begin),
                        *self._multiply(acc, rows, columns, row, column, at, steps, shift, right),
                        *self._sweep(acc, rows, columns, row, column, end),
                    )

                packing = self._pack_right(at, panel_memory, column, columns, width, start, extent if split else 0)
                return (*packing, *self._rows(part, per_group, tile))

            if plan.block == c.depth:
                return segment(as_index(0), c.depth, split=False)
            many, last = divmod(c.depth, plan.block)
            turn = Var("kb", many)
            zero = Const(0.0, waiting.dtype)
            clear = vector_loops(waiting.size, plan.lanes, lambda i, _: (Store(((waiting, i, zero),)),))
            loops: list[Stmt] = [*clear, For(turn, segment(as_index(turn) * plan.block, plan.block, split=True))]
            if last:
                loops.extend(segment(as_index(many * plan.block), last, split=True))

            def finish_tile(rows: int, row: Index) -> tuple[Stmt, ...]:
                acc = self._registers(rows, columns)
                keep = self._waiting(waiting, first_row, column, width)
                return (
                    *self._sweep(acc, rows, columns, row, column, keep(store=False)),
                    *self._sweep(acc, rows, columns, row, column, self._end(at)),
                )

            return (*loops, *self._rows(part, per_group, finish_tile))

        return self._finish(unit, pieces(panel, c.columns, plan.columns, whole))

    def _rows(self, part: Index, per_group: int, tile: Callable[[int, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """Sweep the blocks of rows of a part."""
        blocks = ceil(self.c.rows / self.plan.rows)
        turn = Var("b", per_group)
        block = part * per_group + as_index(turn)
        body = pieces(block, self.c.rows, self.plan.rows, tile)
        if blocks % per_group:
            body = (When(block, 0, blocks, body),)
        return (For(turn, body),) if per_group > 1 else body

    def _pack_right(
        self, at: dict[Var, Index], panel: Buffer, column: Index, columns: int, width: int, start: Index, extent: int
    ) -> tuple[Stmt, ...]:
        """Copy columns to scratch, lanes contiguous. Where k is contiguous instead, square by square, turned."""
        c, lanes = self.c, self.plan.lanes
        load = c.right

        def copy(k: dict[Var, Index], at_k: Index) -> Callable[[Index, Index], tuple[Stmt, ...]]:
            def body(inside: Index, _: Index) -> tuple[Stmt, ...]:
                where = {**at, **k, c.n: column + inside}
                return (Store(((panel, at_k * width + inside, Load(load.buffer, load.index.substitute(where))),)),)

            return body

        if not extent:
            if len(c.k) != 1:
                steps = {v: Var(v.name, v.extent) for v in c.k}
                k = {v: as_index(w) for v, w in steps.items()}
                loop = vector_loops(columns, lanes, copy(k, ravel(c.k, k)))
                for var in reversed(c.k):
                    loop = (For(steps[var], loop),)
                return loop
            extent = c.depth
        (k_var,) = c.k
        turned = load.index.coefficient(k_var) == 1 and columns >= lanes and lanes > 1
        square = lanes if turned else 1
        out: list[Stmt] = []
        many, rest = divmod(extent, square)
        if many:
            step, inner = Var("k", many), Var("i", square)
            at_k = as_index(step) * square + as_index(inner)
            body = vector_loops(columns, lanes, copy({k_var: start + at_k}, at_k))
            if square > 1:
                body = tuple(self._unrolled(inner, statement) for statement in body)
            out.append(For(step, body))
        if rest:
            step = Var("k", rest)
            at_k = as_index(step) + many * square
            out.append(For(step, vector_loops(columns, lanes, copy({k_var: start + at_k}, at_k))))
        return tuple(out)

    def _unrolled(self, inner: Var, statement: Stmt) -> Stmt:
        """Put an unrolled loop around a vector loop, inside the serial one."""
        if isinstance(statement, For) and statement.kind == "serial":
            return For(statement.var, tuple(self._unrolled(inner, s) for s in statement.body))
        return For(inner, (statement,), "unroll")

    # The register tile

    def _registers(self, rows: int, columns: int) -> Buffer:
        width = -(-columns // self.plan.lanes) * self.plan.lanes
        return Buffer("acc", self.c.left.dtype, rows * width, "register")

    def _sweep(
        self, acc: Buffer, rows: int, columns: int, row: Index, column: Index, point: _Point
    ) -> tuple[Stmt, ...]:
        """Do something at every point of a tile, unrolled."""
        lanes = self.plan.lanes
        stride = acc.size // rows
        loops = []
        for start, vectors, extent in tiles(columns, columns, lanes):
            i, vector, lane = Var("i", rows), Var("j", vectors), Var("l", extent)
            inside = as_index(vector) * lanes + as_index(lane) + start
            body = point(acc, as_index(i) * stride + inside, row + as_index(i), column + inside)
            loops.append(For(i, (For(vector, (For(lane, (body,), "vector"),), "unroll"),), "unroll"))
        return tuple(loops)

    def _clear(self, acc: Buffer, spot: Index, _m: Index, _n: Index) -> Store:
        return Store(((acc, spot, Const(0.0, acc.dtype)),))

    def _waiting(self, memory: Buffer, first_row: Index, column: Index, width: int) -> Callable[..., _Point]:
        """Move accumulators to and from where sums wait between blocks of k."""

        def keep(store: bool) -> _Point:
            def point(acc: Buffer, spot: Index, m: Index, n: Index) -> Store:
                place = (m - first_row) * width + n - column
                if store:
                    return Store(((memory, place, Load(acc, spot)),))
                return Store(((acc, spot, Load(memory, place)),))

            return point

        return keep

    def _multiply(
        self,
        acc: Buffer,
        rows: int,
        columns: int,
        row: Index,
        column: Index,
        at: dict[Var, Index],
        steps: dict[Var, Var],
        shift: dict[Var, Index],
        right: _Right,
    ) -> tuple[Stmt, ...]:
        """The loop over k: `steps` are its variables, `shift` where they start."""
        local = {v: as_index(w) for v, w in steps.items()}
        whole = {v: i + shift[v] if v in shift else i for v, i in local.items()}

        def step(acc: Buffer, spot: Index, m: Index, n: Index) -> Store:
            where = {**at, **whole}
            if self.c.m is not None:
                where[self.c.m] = m
            a = Load(self.c.left.buffer, self.c.left.index.substitute(where))
            b = right(local, n - column, n)
            return Store(((acc, spot, Apply("fma", (a, b, Load(acc, spot)), acc.dtype)),))

        loop = self._sweep(acc, rows, columns, row, column, step)
        for var in reversed(self.c.k):
            loop = (For(steps[var], loop),)
        return loop

    def _end(self, at: dict[Var, Index]) -> _Point:
        return lambda acc, spot, m, n: self._epilogue(at, m, n, Load(acc, spot))

    def _epilogue(self, at: dict[Var, Index], m: Index, n: Index, result: Expr) -> Store:
        assert self.group.root is not None
        where = {**{v: as_index(0) for v in self.c.axes}, **at, self.c.n: n}
        if self.c.m is not None:
            where[self.c.m] = m
        puller = group_puller(self.context, self.group)
        puller.hold(self.group.root, result)
        return stores(self.context, self.group, puller, self.c.index(where))

    def _finish(self, unit: Var, body: tuple[Stmt, ...]) -> Kernel:
        points = self.c.batches * self.c.rows * self.c.columns
        zero = {v: as_index(0) for v in self.c.batch}
        after = self._epilogue(zero, as_index(0), as_index(0), Const(0.0, self.c.left.dtype))
        work = 2.0 * points * self.c.depth + flops_of([v for _, _, v in after.targets]) * points
        return finish(self.context, self.context.name_of(self.group), self.group.members, unit, body, work)
