"""Contractions whose sums stay in memory while blocks of the summed axes pass by: weight gradients of convolutions.

The result is small beside what is summed, its innermost axis is short (taps), and what is summed lies in several axes
(images, rows, columns). One factor has a single axis of the result, `lane`: a block of it is turned into a panel whose
lanes run along that axis. The other factor has all `rows` of the result and is read element by element, at any stride.

::

    for each block of the sum:                 some images, or some rows of one
      panel[step, lane] = gradient[lane, step]     squares turned in registers
      for each tile of rows:                       some channels, some taps
        acc = sums[rows, lanes]
        for step in block: acc += x[rows, step] * panel[step, lanes]
        sums[rows, lanes] = acc

So every element of either factor comes from far memory once, whatever the number of rows. Threads take panels and
parts of the outermost summed axis; a second kernel adds the parts, in a fixed order, and has the epilogue.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Expr, For, Kernel, Load, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lower.ahead import Stretch, spread, stretch
from adjoint.lower.contractions import GATHERED, TURNED, UNITS, Contraction, blocks_within
from adjoint.lower.emit import Context, finish, nest, pieces, ravel, tiles, unravel, unrolled, vector_loops
from adjoint.lower.fuse import Group
from adjoint.lower.totals import added, total_kernel

__all__ = ["SumBuilder", "SumPlan", "parts_of", "plan_sums", "sum_kernels", "tile_of"]

#: Bytes of a panel: with what is read beside it, it stays in a first-level cache of 48 KiB or close to it.
_PANEL = 32 * 1024
#: Bytes of sums beyond which no more parts are made.
_SUMS = 2 * 1024 * 1024
#: Share of lanes that must have work.
_FILLED = 0.6
#: Vectors in a panel at most.
_VECTORS = 2

#: What to ask memory for on the way, by the number of the step, and how many steps there are.
Asks = Callable[[Index, int], tuple[Stmt, ...]]


@dataclass(frozen=True, slots=True)
class SumPlan:
    """How such a contraction runs.

    Parameters
    ----------
    panel, other : Load
        The factor whose blocks are turned, and the one that is read element by element.
    lane : Var
        The result's axis that `panel` has.
    rows : tuple of Var
        The other axes of the result, outermost first.
    tile : tuple of int
        How much of each row axis a register tile covers; divides the axis.
    vectors, lanes : int
        Vectors of a panel, and elements of one.
    parts : int
        Parts of the outermost summed axis, for threads; divides it.
    blocks : tuple of int
        Steps of each summed axis in a block; divide the axis, or what a part has of it.
    cycles : float
        What all of it is estimated to take one core.
    """

    panel: Load
    other: Load
    lane: Var
    rows: tuple[Var, ...]
    tile: tuple[int, ...]
    vectors: int
    lanes: int
    parts: int
    blocks: tuple[int, ...]
    cycles: float

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def units(self) -> int:
        """What threads can share."""
        return self.parts * ceil(self.lane.extent / self.width)


def plan_sums(target: Target, c: Contraction) -> SumPlan | None:
    """The best such plan, or None where the contraction is of another kind."""
    lanes = target.lanes(c.left.dtype)
    filled = c.columns >= _FILLED * ceil(c.columns / lanes) * lanes
    if not c.k or (len(c.k) < 2 and filled):
        return None
    plans = [_plan(target, c, *_forwards(c, panel, other)) for panel, other in ((c.left, c.right), (c.right, c.left))]
    return min((p for p in plans if p is not None), key=lambda p: p.cycles, default=None)


def _forwards(c: Contraction, panel: Load, other: Load) -> tuple[Load, Load]:
    """The factors with the axes turned round along which the first is read backwards (taps, in gradients)."""
    at = {v: v.extent - 1 - as_index(v) for v in c.k if (panel.index.coefficient(v) or 0) < 0}
    return c.element(panel, at), c.element(other, at)


def _plan(target: Target, c: Contraction, panel: Load, other: Load) -> SumPlan | None:
    axes = [v for v in c.axes if v.extent > 1]
    of_panel = [v for v in axes if panel.index.coefficient(v)]
    rows = tuple(v for v in axes if v not in of_panel)
    if len(of_panel) != 1:
        return None
    (lane,) = of_panel
    if other.index.coefficient(lane) or not all(other.index.coefficient(v) for v in rows):
        return None
    lanes = target.lanes(panel.dtype)
    if lane.extent < _FILLED * ceil(lane.extent / lanes) * lanes:
        return None
    step, vectors, tile = tile_of(target, ceil(lane.extent / lanes), rows)
    if prod(tile) * vectors < target.vector_registers // 4:
        return None
    panels = ceil(lane.extent / (vectors * lanes))
    itemsize = panel.dtype.itemsize
    bytes_of_part = prod(v.extent for v in rows) * panels * vectors * lanes * itemsize
    parts = parts_of(c.k[0].extent, UNITS / panels, _SUMS / bytes_of_part)
    extents = (c.k[0].extent // parts, *(v.extent for v in c.k[1:]))
    blocks = blocks_within(extents, vectors * lanes * itemsize, _PANEL)
    tiles_of_rows = prod(v.extent for v in rows) // prod(tile)
    turned = _run(panel, c.k, blocks) >= lanes
    points = prod(v.extent for v in axes)
    cycles = (
        panels * tiles_of_rows * step * c.depth
        + 2 * points / lanes * c.depth / prod(blocks)
        + lane.extent * c.depth * (TURNED if turned else GATHERED)
        + points * parts * GATHERED
    )
    return SumPlan(panel, other, lane, rows, tile, vectors, lanes, parts, blocks, cycles)


def tile_of(target: Target, vectors: int, rows: tuple[Var, ...]) -> tuple[float, int, tuple[int, ...]]:
    """The register tile with most multiply-adds a cycle, at two of them and two loads a cycle.

    Cycles of a step, vectors, rows along each axis.
    """
    best: tuple[float, float, int, tuple[int, ...]] = (0.0, 4.5, 1, (1,) * len(rows))
    for count in range(1, min(vectors, _VECTORS) + 1):
        used = vectors / (ceil(vectors / count) * count)
        for tile in product(*(_divisors(v.extent) for v in rows)):
            height = prod(tile)
            if height * count + count >= target.vector_registers:
                continue
            cycles = max(height * count / 2, (height + count) / 2, 4.5)
            best = max(best, (used * height * count / cycles, cycles, count, tile))
    return best[1:]


def _divisors(extent: int) -> list[int]:
    return [d for d in range(1, min(extent, 32) + 1) if extent % d == 0]


def parts_of(extent: int, wanted: float, allowed: float) -> int:
    """The fewest parts that are enough, or the most that are allowed."""
    possible = [d for d in range(1, extent + 1) if extent % d == 0 and (d <= allowed or d == 1)]
    return next((d for d in possible if d >= wanted), possible[-1])


def _run(panel: Load, k: tuple[Var, ...], blocks: tuple[int, ...]) -> int:
    """Steps of a block that lie side by side in the factor: its last axes as far as they are whole and contiguous."""
    run = 1
    for var, block in zip(reversed(k), reversed(blocks), strict=True):
        if panel.index.coefficient(var) != run:
            break
        run *= block
        if block != var.extent:
            break
    return run


def sum_kernels(context: Context, group: Group, c: Contraction, plan: SumPlan) -> list[Kernel]:
    """The products of each part, and their total with the epilogue."""
    panels = ceil(plan.lane.extent / plan.width)
    size = plan.parts * panels * prod(v.extent for v in plan.rows) * plan.width
    sums = Buffer(f"{context.name_of(group)}_sums", plan.panel.dtype, size, "arena")
    builder = SumBuilder(context, group, c, plan, sums, panels)
    return [builder.products(), builder.total()]


@dataclass(frozen=True, slots=True)
class SumBuilder:
    """Builds the kernels of such a contraction, or a block of one whose sums and factors lie elsewhere.

    `panels` is how many of them `sums` has beside each other.
    """

    context: Context
    group: Group
    c: Contraction
    plan: SumPlan
    sums: Buffer
    panels: int

    def products(self) -> Kernel:
        """A unit is a panel of lanes and a part of the outermost summed axis."""
        plan, c = self.plan, self.c
        unit = Var("u", plan.parts * self.panels)
        panel, part = as_index(unit) % self.panels, as_index(unit) // self.panels
        body = pieces(panel, plan.lane.extent, plan.width, lambda n, first: self._unit(part, panel, n, first))
        points = prod(v.extent for v in c.axes)
        return finish(self.context, self.sums.name, self.group.members[:1], unit, body, 2.0 * points * c.depth)

    def total(self) -> Kernel:
        """Add the parts, and do what comes after the contraction."""
        plan = self.plan

        def parts(at: dict[Var, Index], panel: Index, column: Index) -> list[tuple[dict[Var, Index], Expr]]:
            places = [self.place(as_index(n), panel, ravel(plan.rows, at), column) for n in range(plan.parts)]
            return [(at, added([Load(self.sums, place) for place in places]))]

        return total_kernel(self.context, self.group, self.c, plan.lane, plan.width, plan.rows, parts)

    def place(self, part: Index, panel: Index, row: Index, column: Index) -> Index:
        """Where a sum is."""
        rows = prod(v.extent for v in self.plan.rows)
        return ((part * self.panels + panel) * rows + row) * self.plan.width + column

    def _unit(self, part: Index, panel: Index, columns: int, first: Index) -> tuple[Stmt, ...]:
        plan, c = self.plan, self.c
        names = [v.name.replace("r", "k") for v in c.k]
        extents = [c.k[0].extent // plan.parts, *(v.extent for v in c.k[1:])]
        turns = [Var(f"{name}b", e // b) for name, e, b in zip(names, extents, plan.blocks, strict=True)]
        start = {v: as_index(t) * b for v, t, b in zip(c.k, turns, plan.blocks, strict=True)}
        start[c.k[0]] = start[c.k[0]] + part * extents[0]
        width = ceil(columns / plan.lanes) * plan.lanes
        memory = Buffer("panel", plan.panel.dtype, prod(plan.blocks) * width, "scratch")
        row, zero = Var("m", prod(v.extent for v in plan.rows)), Const(0.0, self.sums.dtype)

        def clear(column: Index, _: Index) -> tuple[Stmt, ...]:
            return (Store(((self.sums, self.place(part, panel, as_index(row), column), zero),)),)

        ahead = self._ahead(turns, part, extents[0], (columns, first))
        block = self.block(memory, columns, first, part, panel, start, lambda n, count: spread(ahead, n, count))
        return (For(row, vector_loops(columns, plan.lanes, clear)), *nest(turns, block))

    def _ahead(self, turns: list[Var], part: Index, share: int, panel: tuple[int, Index]) -> list[Stretch]:
        """What the next block reads of both factors."""
        plan, c = self.plan, self.c
        number = ravel(turns, {t: as_index(t) for t in turns}) + 1
        soon = unravel(turns, number % prod(t.extent for t in turns))
        start = {v: soon[t] * b for v, t, b in zip(c.k, turns, plan.blocks, strict=True)}
        start[c.k[0]] = start[c.k[0]] + part * share
        corner = {**{v: as_index(0) for v in c.axes}, **start}
        steps = dict(zip(c.k, plan.blocks, strict=True))
        columns, first = panel
        turned = stretch(
            plan.panel.buffer, plan.panel.index, {**steps, plan.lane: columns}, {**corner, plan.lane: first}
        )
        every = {**steps, **{v: v.extent for v in plan.rows}}
        whole = stretch(plan.other.buffer, plan.other.index, every, corner)
        return [s for s in (turned, whole) if s is not None]

    def block(
        self,
        memory: Buffer,
        columns: int,
        first: Index,
        part: Index,
        panel: Index,
        start: dict[Var, Index],
        asks: Asks = lambda *_: (),
    ) -> tuple[Stmt, ...]:
        """Pack the panel of a block, and let every tile of rows meet it; `asks` comes before each step."""
        packing = self._pack(memory, columns, first, start)
        return (*packing, *self._tiles(memory, columns, part, panel, start, asks))

    def _pack(self, memory: Buffer, columns: int, first: Index, start: dict[Var, Index]) -> tuple[Stmt, ...]:
        """Copy a block of one factor, lanes along the result: square by square, where steps are contiguous."""
        plan, c = self.plan, self.c
        width = memory.size // prod(plan.blocks)
        steps = [Var(v.name, b) for v, b in zip(c.k, plan.blocks, strict=True)]
        # Trailing axes that lie one behind the other in the factor are one run of steps.
        run = _run(plan.panel, c.k, plan.blocks)
        tail = next(n for n in range(len(c.k) + 1) if prod(plan.blocks[len(c.k) - n :]) == run)
        outer, kept = steps[: len(c.k) - tail], c.k[: len(c.k) - tail]
        base = {**start, **{v: start[v] + as_index(s) for v, s in zip(kept, outer, strict=True)}}
        ahead = ravel(outer, {s: as_index(s) for s in outer}) * run

        def copy(step: Index) -> tuple[Stmt, ...]:
            def body(column: Index, _: Index) -> tuple[Stmt, ...]:
                source = plan.panel.index.substitute({**base, plan.lane: first + column}) + step
                return (Store(((memory, (ahead + step) * width + column, Load(plan.panel.buffer, source)),)),)

            return vector_loops(columns, plan.lanes, body)

        square = plan.lanes if columns >= plan.lanes > 1 else 1
        many, rest = divmod(run, square)
        loops: list[Stmt] = []
        if many:
            turn, inner = Var("s", many), Var("i", square)
            body = copy(as_index(turn) * square + as_index(inner))
            if square > 1:
                body = tuple(unrolled(inner, statement) for statement in body)
            loops.append(For(turn, body))
        if rest:
            step = Var("s", rest)
            loops.append(For(step, copy(as_index(step) + many * square)))
        return nest(outer, tuple(loops))

    def _tiles(
        self, memory: Buffer, columns: int, part: Index, panel: Index, start: dict[Var, Index], asks: Asks
    ) -> tuple[Stmt, ...]:
        """Every tile of rows meets the panel."""
        plan, c = self.plan, self.c
        width = memory.size // prod(plan.blocks)
        blocks = [Var(f"b{n}", v.extent // t) for n, (v, t) in enumerate(zip(plan.rows, plan.tile, strict=True))]
        inner = [Var(f"i{n}", t) for n, t in enumerate(plan.tile)]
        row = {v: as_index(b) * t + as_index(i) for v, b, t, i in zip(plan.rows, blocks, plan.tile, inner, strict=True)}
        acc = Buffer("acc", plan.panel.dtype, prod(plan.tile) * width, "register")
        spot = ravel(inner, {i: as_index(i) for i in inner}) * width
        steps = [Var(v.name.replace("r", "k"), b) for v, b in zip(c.k, plan.blocks, strict=True)]
        step = ravel(steps, {s: as_index(s) for s in steps})
        where = {**row, **{v: start[v] + as_index(s) for v, s in zip(c.k, steps, strict=True)}}
        element = Load(plan.other.buffer, plan.other.index.substitute(where))

        def sweep(kind: str) -> tuple[Stmt, ...]:
            out: list[Stmt] = []
            for begin, vectors, extent in tiles(columns, columns, plan.lanes):
                vector, lane = Var("j", vectors), Var("l", extent)
                column = as_index(vector) * plan.lanes + as_index(lane) + begin
                sum_ = Load(self.sums, self.place(part, panel, ravel(plan.rows, row), column))
                held = Load(acc, spot + column)
                if kind == "fma":
                    product_ = Apply("fma", (element, Load(memory, step * width + column), held), acc.dtype)
                    store = Store(((acc, held.index, product_),))
                elif kind == "fetch":
                    store = Store(((acc, held.index, sum_),))
                else:
                    store = Store(((self.sums, sum_.index, held),))
                loop: Stmt = For(vector, (For(lane, (store,), "vector"),), "unroll")
                for var in reversed(inner):
                    loop = For(var, (loop,), "unroll")
                out.append(loop)
            return tuple(out)

        walk = (*blocks, *steps)
        ask = asks(ravel(walk, {v: as_index(v) for v in walk}), prod(v.extent for v in walk))
        return nest(blocks, (*sweep("fetch"), *nest(steps, (*ask, *sweep("fma"))), *sweep("put")))
