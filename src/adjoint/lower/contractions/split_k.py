"""Split-K: contractions with a small result and a long k in several axes, such as weight gradients of convolutions.

The result's innermost axis is short (taps), and k consists of several axes (images, rows, columns). One operand has a
single axis of the result, `lane`: a block of it is transposed into a panel whose lanes run along that axis. The other
operand has all `rows` of the result, and its elements are broadcast, at any stride. The sums stay in memory while
blocks of k stream past::

    for each block of k:                       some images, or some rows of one
      panel[step, lane] = gradient[lane, step]     squares transposed in registers
      for each tile of rows:                       some channels, some taps
        acc = sums[rows, lanes]
        for step in block: acc += x[rows, step] * panel[step, lanes]
        sums[rows, lanes] = acc

If that operand is shifted along some axes of the result (taps), those belong to the rows (`split_k_window`).

So every element of either operand comes from memory once, whatever the number of rows. Threads share panels and splits
of the outermost summed axis; a second kernel adds the partial sums of the splits, in a fixed order, and applies the
epilogue. Where there are enough panels, row groups may replace splits (`m_blocked`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Expr, For, Kernel, Load, Stmt, Store, When
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.contractions.contraction import Contraction, in_arithmetic, transposed_run
from adjoint.lower.contractions.conversion import convert_operand
from adjoint.lower.contractions.prefetch import Region, prefetch_slots, region, spread_prefetches
from adjoint.lower.contractions.split_k_plan import SplitKPlan
from adjoint.lower.contractions.split_k_reduction import split_k_reduction_kernel, sum_of
from adjoint.lower.contractions.split_k_tile import Piece, row_pieces
from adjoint.lower.contractions.split_k_window import packed_steps, panel_step
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, pieces, ravel, tiled, unravel, unroll_around, vector_loops

__all__ = ["Panel", "Place", "SplitKBuilder", "converted", "split_k_kernels"]


@dataclass(frozen=True, slots=True)
class Panel:
    """Where a block of a packed panel is: its first element in memory, and its row pitch in elements."""

    memory: Buffer
    start: Index
    width: int

    def place(self, step: Index, column: Index) -> Index:
        """The position of an element."""
        return self.start + step * self.width + column


def split_k_kernels(context: Context, group: Group, plan: SplitKPlan) -> list[Kernel]:
    """The partial sums of each split, and the reduction of them with the epilogue."""
    conversions, plan = converted(context, group, plan)
    size = plan.parts * plan.batches * plan.panels * prod(v.extent for v in plan.rows) * plan.width
    sums = Buffer(f"{context.name_of(group)}_sums", plan.contraction.dtype, size, "arena")
    builder = SplitKBuilder(context, group, plan, sums, plan.panels)
    return [*conversions, builder.products(), builder.total()]


def converted(context: Context, group: Group, plan: SplitKPlan) -> tuple[list[Kernel], SplitKPlan]:
    """The conversion of the operand that is broadcast, where planned, and the plan in terms of its result."""
    if not plan.convert_other:
        return [], plan
    kernel, other = convert_operand(context, group, plan.other, "other")
    return [kernel], replace(plan, other=other, convert_other=False)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the sums of a unit are: its split and batch, its panel, and its rows along the outermost row axis.

    These are the first and their number, or none where the unit has all of them.
    """

    part: Index
    panel: Index
    row: Index
    rows: int | None = None


_ORIGIN = Place(as_index(0), as_index(0), as_index(0))


@dataclass(frozen=True, slots=True)
class SplitKBuilder:
    """Builds the kernels of such a contraction, or a block of one whose sums and operands are elsewhere.

    `panels` is the number of panels of `sums`, side by side.
    """

    context: Context
    group: Group
    plan: SplitKPlan
    sums: Buffer
    panels: int

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.plan.contraction

    def products(self) -> Kernel:
        """Each unit is a panel, a row group, a point of the batch, and a split of the outermost summed axis."""
        plan, c = self.plan, self.c
        unit = Var("u", plan.units)
        panel, rest = as_index(unit) % self.panels, as_index(unit) // self.panels

        def rows(count: int, row: Index) -> tuple[Stmt, ...]:
            place = Place(rest // plan.groups, panel, row, count)
            return tiled(panel, plan.lane.extent, plan.width, lambda n, first: self._unit(place, n, first))

        body = tiled(rest % plan.groups, plan.rows[0].extent, plan.group_rows, rows)
        points = prod(v.extent for v in c.axes)
        return finish_kernel(self.context, self.sums.name, self.group.members[:1], unit, body, 2.0 * points * c.depth)

    def total(self) -> Kernel:
        """Reduce the partial sums of all splits, and apply the epilogue."""
        plan = self.plan

        def parts(at: dict[Var, Index], panel: Index, column: Index) -> list[tuple[dict[Var, Index], Expr]]:
            row, first = ravel(plan.rows, at), ravel(plan.batch, at)
            places = [self.place(first + n * plan.batches, panel, row, column) for n in range(plan.parts)]
            return [(at, sum_of([Load(self.sums, place) for place in places]))]

        axes = tuple(v for v in self.c.axes if v in plan.batch or v in plan.rows)
        return split_k_reduction_kernel(self.context, self.group, self.c, plan.lane, plan.width, axes, parts)

    def place(self, part: Index, panel: Index, row: Index, column: Index) -> Index:
        """The position of a partial sum; `part` numbers splits, and the points of the batch in each."""
        rows = prod(v.extent for v in self.plan.rows)
        return ((part * self.panels + panel) * rows + row) * self.plan.width + column

    def clear(self, columns: int, at: Place = _ORIGIN) -> Stmt:
        """Initialize the sums of a unit to zero."""
        rows = self._rows(at)
        row, zero = Var("m", prod(v.extent for v in rows)), Const(0.0, self.sums.dtype)
        first = at.row * prod(v.extent for v in rows[1:])

        def body(column: Index, _: Index) -> tuple[Stmt, ...]:
            return (Store(((self.sums, self.place(at.part, at.panel, first + as_index(row), column), zero),)),)

        return For(row, vector_loops(self._whole(columns), self.plan.lanes, body))

    def _rows(self, at: Place) -> tuple[Var, ...]:
        """The row axes, of which the outermost has the rows of a unit only."""
        outer, *inner = self.plan.rows
        return (Var(outer.name, at.rows if at.rows is not None else outer.extent), *inner)

    def _whole(self, columns: int) -> int:
        """So many columns in whole vectors: lanes past the end add zeros, which is cheaper than masking their sums."""
        return ceil(columns / self.plan.lanes) * self.plan.lanes

    def block_loops(self) -> tuple[list[Var], dict[Var, Index]]:
        """Loops over the blocks of a split, all of one size, and the coordinates at which a block starts."""
        plan, c = self.plan, self.c
        iterations = [_numbers(v, steps // b) for v, steps, b in zip(c.k, plan.steps, plan.blocks, strict=True)]
        return iterations, {v: as_index(t) * b for v, t, b in zip(c.k, iterations, plan.blocks, strict=True)}

    def _unit(self, at: Place, columns: int, first: Index) -> tuple[Stmt, ...]:
        here = unravel(self.plan.batch, at.part % self.plan.batches)
        panel, other = (Load(e.buffer, e.index.substitute(here)) for e in (self.plan.panel, self.plan.other))
        one = replace(self, plan=replace(self.plan, panel=panel, other=other))
        return (self.clear(columns, at), *one._blocks(at, columns, first))

    def _blocks(self, at: Place, columns: int, first: Index) -> tuple[Stmt, ...]:
        """Pack and multiply all blocks of a unit, of equal size but the last along the axis that they divide."""
        plan, c, divided = self.plan, self.c, self.plan.divided
        whole = plan.blocks[divided]
        outer = [_numbers(v, steps) for v, steps in zip(c.k[:divided], plan.steps, strict=False)]
        axes = [*outer, _numbers(c.k[divided], ceil(plan.steps[divided] / whole))]
        _, _, counts = packed_steps(plan.panel, c.k, plan.blocks, plan.windows)
        width, out = self._whole(columns), list[Stmt]()
        own = Panel(Buffer("panel", c.dtype, prod(counts) * width, "scratch"), as_index(0), width)
        for begin, many, size in pieces(plan.steps[divided], whole):
            iteration = _numbers(c.k[divided], many)
            number = {t: as_index(t) for t in outer} | {axes[-1]: as_index(iteration) + begin // whole}
            following = unravel(axes, (ravel(axes, number) + 1) % prod(t.extent for t in axes))
            ahead = self._prefetch_regions(self._start(at, axes, following), at, (columns, first))
            start = self._start(at, axes, number)
            sizes = (*plan.blocks[:divided], size, *plan.blocks[divided + 1 :])
            some = replace(self, plan=replace(plan, blocks=sizes))
            block = (*some.pack(own, columns, first, start), *some.multiply(own, columns, start, at, ahead))
            out += nest([iteration], block)
        return nest(outer, tuple(out))

    def _start(self, at: Place, axes: Sequence[Var], number: Mapping[Var, Index]) -> dict[Var, Index]:
        """The coordinates at which a block starts, from its number along the divided axis and those around it."""
        plan, c = self.plan, self.c
        start = {v: as_index(0) for v in c.k}
        start |= {v: number[t] * size for v, t, size in zip(c.k, axes, plan.blocks, strict=False)}
        return start | {c.k[0]: start[c.k[0]] + at.part // plan.batches * plan.steps[0]}

    def _prefetch_regions(self, start: dict[Var, Index], at: Place, panel: tuple[int, Index]) -> list[Region]:
        """What a block of both operands covers."""
        plan, c = self.plan, self.c
        outer = plan.rows[0]
        corner = {**{v: as_index(0) for v in c.axes}, **start, outer: at.row}
        steps = dict(zip(c.k, plan.blocks, strict=True))
        columns, first = panel
        box = {**steps, plan.lane: columns}
        packed = region(
            self.context, self.group, plan.panel.buffer, plan.panel.index, box, {**corner, plan.lane: first}
        )
        every = {**steps, **{v: v.extent for v in plan.rows}, outer: self._rows(at)[0].extent}
        whole = region(self.context, self.group, plan.other.buffer, plan.other.index, every, corner)
        return [s for s in (packed, whole) if s is not None]

    def pack(self, own: Panel, columns: int, first: Index, start: dict[Var, Index]) -> tuple[Stmt, ...]:
        """Pack a block of one operand, lanes along the result; squares are transposed along runs of steps."""
        plan, c = self.plan, self.c
        load, axes, counts = packed_steps(plan.panel, c.k, plan.blocks, plan.windows)
        strides = {w.along: w.stride for w in plan.windows}
        begin = {axis: start[v] * strides.get(v, 1) for axis, v in zip(axes, c.k, strict=True)}
        kept, run, stride = transposed_run(load, axes, counts)
        outer = [Var(v.name, count) for v, count in zip(axes[:kept], counts, strict=False)]
        base = {**begin, **{v: begin[v] + as_index(s) for v, s in zip(axes, outer, strict=False)}}
        ahead = ravel(outer, {s: as_index(s) for s in outer}) * run

        def copy(step: Index) -> tuple[Stmt, ...]:
            def element(column: Index, _: Index) -> tuple[Stmt, ...]:
                source = load.index.substitute({**base, plan.lane: first + column}) + step * stride
                value = in_arithmetic(Load(load.buffer, source))
                return (Store(((own.memory, own.place(ahead + step, column), value),)),)

            def nothing(column: Index, _: Index) -> tuple[Stmt, ...]:
                return (Store(((own.memory, own.place(ahead + step, column + columns), Const(0.0, c.dtype)),)),)

            loops = vector_loops(columns, plan.lanes, element)
            return (*loops, *vector_loops(-columns % plan.lanes, plan.lanes, nothing))

        square = plan.lanes if run >= plan.lanes else 1
        many, rest = divmod(run, square)
        iteration, inner = Var("s", many), Var("i", square)
        body = copy(as_index(iteration) * square + as_index(inner))
        if square > 1:
            body = tuple(unroll_around(inner, statement) for statement in body)
        loops: list[Stmt] = [For(iteration, body)]
        if rest:
            # The last square overlaps the one before.
            step = Var("i", square)
            loops += (unroll_around(step, statement) for statement in copy(as_index(step) + (run - square)))
        return nest(outer, tuple(loops))

    def multiply(
        self,
        own: Panel,
        columns: int,
        start: dict[Var, Index],
        at: Place = _ORIGIN,
        ahead: Sequence[Region] = (),
    ) -> tuple[Stmt, ...]:
        """Every tile of a unit's rows meets a block of the panel; most of them prefetch what is `ahead`."""
        plan = self.plan
        along = (row_pieces(v, t, plan.borders) for v, t in zip(self._rows(at), plan.tile, strict=True))
        every = [some for some in product(*along) if all(piece.share for piece in some)]
        most = max(every, key=lambda some: prod(piece.many * piece.share for piece in some))
        out: list[Stmt] = []
        for some in every:
            out += self._tiles(own, columns, start, at, some, ahead if some is most else ())
        return tuple(out)

    def _tiles(
        self,
        own: Panel,
        columns: int,
        start: dict[Var, Index],
        at: Place,
        some: Sequence[Piece],
        ahead: Sequence[Region],
    ) -> tuple[Stmt, ...]:
        """The tiles of one piece along each row axis."""
        plan, c = self.plan, self.c
        width = self._whole(columns)
        blocks = [Var(f"b{n}", piece.many) for n, piece in enumerate(some)]
        inner = [Var(f"i{n}", piece.size) for n, piece in enumerate(some)]
        first = {v: as_index(b) * piece.size + piece.first for v, b, piece in zip(plan.rows, blocks, some, strict=True)}
        first[plan.rows[0]] = first[plan.rows[0]] + at.row
        row = {v: first[v] + as_index(i) for v, i in zip(plan.rows, inner, strict=True)}
        acc = Buffer("acc", c.dtype, prod(i.extent for i in inner) * width, "register")
        spot = ravel(inner, {i: as_index(i) for i in inner}) * width
        limits = {v: (0, b) for v, b in zip(c.k, plan.blocks, strict=True)}
        limits |= {piece.step: piece.steps for piece in some if piece.step is not None}
        steps = [Var(v.name.replace("r", "k"), end - begin) for v, (begin, end) in limits.items()]
        around, after, spots = prefetch_slots(ahead, steps, prod(b.extent for b in blocks))
        within = [spots[s] + begin for s, (begin, _) in zip(steps, limits.values(), strict=True)]
        step = panel_step(c.k, within, plan.blocks, row, plan.windows)
        where = {**row, **{v: start[v] + s for v, s in zip(c.k, within, strict=True)}}
        element = c.element(plan.other, where)

        def sweep(kind: str) -> tuple[Stmt, ...]:
            vector, lane = Var("j", width // plan.lanes), Var("l", plan.lanes)
            column = as_index(vector) * plan.lanes + as_index(lane)
            sum_ = Load(self.sums, self.place(at.part, at.panel, ravel(plan.rows, row), column))
            held = Load(acc, spot + column)
            if kind == "fma":
                product_ = Apply("fma", (element, Load(own.memory, own.place(step, column)), held), acc.dtype)
                store = Store(((acc, held.index, product_),))
            elif kind == "fetch":
                store = Store(((acc, held.index, sum_),))
            else:
                store = Store(((self.sums, sum_.index, held),))
            loop: Stmt = For(vector, (For(lane, (store,), "vector"),), "unroll")
            for var in reversed(inner):
                loop = For(var, (loop,), "unroll")
            return (loop,)

        walk = (*blocks, *around)
        hint = spread_prefetches(ahead, ravel(walk, {v: as_index(v) for v in walk}), prod(v.extent for v in walk))
        # Tiles have one row along the axis of a border.
        inside = [(b.coordinate(first[b.row], where[b.step]), b.extent) for b in plan.branches]
        late = [one for one in inside if one[0].variables().intersection(after)]
        products = _in_branches(after, sweep("fma"), late)
        products = _in_branches(around, (*hint, *products), [one for one in inside if one not in late])
        return nest(blocks, (*sweep("fetch"), *products, *sweep("put")))


def _in_branches(loops: Sequence[Var], body: tuple[Stmt, ...], inside: Sequence[tuple[Index, int]]) -> tuple[Stmt, ...]:
    """Loops around statements that run where coordinates are in an image, each inside the loops that it changes in."""
    for var in reversed(loops):
        for at, extent in inside:
            if var in at.variables():
                body = (When(at, 0, extent, body),)
        inside = [(at, extent) for at, extent in inside if var not in at.variables()]
        body = (For(var, body),)
    return body


def _numbers(axis: Var, many: int) -> Var:
    """A loop over so many blocks of a summed axis."""
    return Var(f"{axis.name.replace('r', 'k')}b", many)
