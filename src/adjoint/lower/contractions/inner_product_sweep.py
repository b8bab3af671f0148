"""Inner products in blocks of k: all tiles of a unit meet a block before the next one, and their sums wait meanwhile.

The gradient of a 1x1 convolution's weight, ``ct`` having few channels and ``x`` many::

    for each image:                                          a block of k
      for four channels of x, and for some or all of ct:     tiles
        acc = sums[tile]
        for v in the pixels of an image: acc += ct[rows, v] * x[columns, v]
        sums[tile] = acc

So a block of the smaller operand stays in a cache, and the larger one is read once, in the order of memory. Meanwhile
the rows of it that the next tiles will read are prefetched.

Where the window moves by two columns, each unit first copies what its tiles read of ``x``, so that the pixels of an
image are contiguous, and vectors do not end with its short rows::

    for four channels of x:                                   for four channels of x:
      for y in 0..18, v in the pixels of a row:                 for y in 0..18, i in 0..18:
        acc += ct[rows, y * 18 + v] * x[columns, 2y, 2v]  ->      copy[columns, y * 18 + i] = x[columns, 2y, 2i]
                                                                for v in the pixels of an image:
                                                                  acc += ct[rows, v] * copy[columns, v]
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Const, For, Load, Prefetch, Stmt, Store
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.inner_product_loops import InnerProductLoops, Place
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan
from adjoint.lower.loops import nest, pieces, ravel, vector_loops

__all__ = ["swept_products"]

#: Reduces the lanes of the accumulators of a tile of so many rows and columns, and applies the epilogue.
End = Callable[[Buffer, int, int, Place], tuple[Stmt, ...]]


def swept_products(
    loops: InnerProductLoops, at: Mapping[Var, Index], first: Index, count: int, end: End
) -> tuple[Stmt, ...]:
    """All products of a unit, which has so many rows or columns of the outer loop, from the first on."""
    plan, c = loops.plan, loops.c
    assert c.m is not None
    by_columns = plan.order == "columns"
    outer, inner = (c.n, c.m) if by_columns else (c.m, c.n)
    sizes = (plan.columns, plan.rows) if by_columns else (plan.rows, plan.columns)
    sums = Buffer("sums", c.dtype, count * inner.extent * plan.lanes, "scratch")
    names = [v.name.replace("r", "k") for v in plan.others]
    blocks = [Var(f"{name}b", e // b) for name, e, b in zip(names, plan.extents, plan.blocks, strict=True)]
    steps = [Var(name, b) for name, b in zip(names, plan.blocks, strict=True)]
    corner = {v: as_index(t) * s.extent for v, t, s in zip(plan.others, blocks, steps, strict=True)}
    corner[c.k[0]] = at[c.k[0]] * plan.extents[0] + corner[c.k[0]]
    place = {v: corner[v] + as_index(s) for v, s in zip(plan.others, steps, strict=True)}

    def copied(column: Index, many: int) -> tuple[InnerProductLoops, tuple[Stmt, ...]]:
        """The loops that read so many columns, and statements before that copy a block of them if it is planned."""
        return _Copy(loops, at, corner, steps, column, many).made() if plan.run else (loops, ())

    inner_loops, once = (loops, ()) if by_columns else copied(as_index(0), inner.extent)
    products, ends = list[Stmt](), list[Stmt]()
    for begin, many, size in pieces(count, sizes[0]):
        number = Var("outer", many)
        start = as_index(number) * size + begin
        tile_loops, copies = copied(first + start, size) if by_columns else (inner_loops, ())
        tiles, after = list[Stmt](copies), list[Stmt]()
        for inner_begin, inner_many, inner_size in pieces(inner.extent, sizes[1]):
            tile_number = Var("inner", inner_many)
            inner_start = as_index(tile_number) * inner_size + inner_begin
            share = as_index(tile_number), ceil(size / ceil(inner.extent / sizes[1]))
            tile = _Tile(
                tile_loops,
                c,
                {**at, **place, outer: first + start, inner: inner_start},
                (outer, inner),
                (size, inner_size),
            )
            spot = (start * inner.extent + inner_start * size) * plan.lanes
            tiles += nest([tile_number], tile.products(sums, spot, steps, share))
            after += nest([tile_number], tile.ends(sums, spot, end))
        products += nest([number], tuple(tiles))
        ends += nest([number], tuple(after))
    zero = Const(0.0, c.dtype)
    clear = vector_loops(sums.size, plan.lanes, lambda s, _: (Store(((sums, s, zero),)),))
    return (*clear, *nest(blocks, (*once, *products)), *ends)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy of a block of some columns of the right operand, in which every second element is contiguous.

    `at` are the coordinates of the unit, `corner` those of the block, `steps` the loops over its steps.
    """

    loops: InnerProductLoops
    at: Mapping[Var, Index]
    corner: Mapping[Var, Index]
    steps: Sequence[Var]
    column: Index
    columns: int

    def made(self) -> tuple[InnerProductLoops, tuple[Stmt, ...]]:
        """Loops that read the copy, and the statements that make it."""
        plan, c = self.loops.plan, self.loops.c
        size = prod(s.extent for s in self.steps) * plan.along.extent
        copy = Buffer("copy", c.dtype, self.columns * size, "scratch")
        lanes = self.loops.context.target.lanes(c.dtype)
        column, run = Var("column", self.columns), Var("run", plan.along.extent // plan.run)

        def place(column: Index, steps: dict[Var, Index]) -> Index:
            return column * size + ravel(self.steps, steps) * plan.along.extent

        def element(spot: Index, _: Index) -> tuple[Stmt, ...]:
            along = as_index(run) * plan.run + spot
            where = {v: self.corner[v] + as_index(s) for v, s in zip(plan.others, self.steps, strict=True)}
            where |= {c.n: self.column + as_index(column), plan.along: along}
            value = c.element(c.right, {**self.at, **where})
            return (Store(((copy, place(as_index(column), {s: as_index(s) for s in self.steps}) + along, value),)),)

        steps = {s: as_index(v) - self.corner[v] for v, s in zip(plan.others, self.steps, strict=True)}
        index = place(as_index(c.n) - self.column, steps) + as_index(plan.along)
        loops = replace(self.loops, plan=replace(plan, contraction=replace(c, right=Load(copy, index))))
        return loops, nest([column, *self.steps, run], _overlapping(plan.run, lanes, element))


def _overlapping(extent: int, lanes: int, element: Callable[[Index, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """Vectors along an axis; the last one overlaps the one before instead of being shorter."""
    lanes = min(lanes, 1 << (extent.bit_length() - 1))
    rest = extent % lanes
    if not rest:
        return vector_loops(extent, lanes, element)
    last = vector_loops(lanes, lanes, element, base=extent - lanes)
    return (*vector_loops(extent - rest, lanes, element), *last)


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile: where its first element is, the axes of the outer and the inner loop, and its elements along both.

    `source` reads the operands where they are in memory, the loops perhaps a copy.
    """

    loops: InnerProductLoops
    source: Contraction
    at: Mapping[Var, Index]
    axes: tuple[Var, Var]
    sizes: tuple[int, int]

    @property
    def c(self) -> Contraction:
        """The contraction."""
        return self.loops.c

    @property
    def plan(self) -> InnerProductPlan:
        """The plan."""
        return self.loops.plan

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        outer, inner = self.sizes
        return (inner, outer) if self.axes[0] is self.c.n else (outer, inner)

    @property
    def sums(self) -> Buffer:
        """The accumulators."""
        rows, columns = self.shape
        return Buffer("acc", self.c.dtype, rows * columns * self.plan.lanes, "register")

    def place(self, i: Index, j: Index) -> dict[Var, Index]:
        """The coordinates of a row and a column."""
        assert self.c.m is not None
        return {**self.at, self.c.m: self.at[self.c.m] + i, self.c.n: self.at[self.c.n] + j}

    def products(self, sums: Buffer, spot: Index, steps: list[Var], share: tuple[Index, int]) -> tuple[Stmt, ...]:
        """Add the products of a block to the sums; `share` is which of the next rows to prefetch, and how many."""
        acc, zero = self.sums, as_index(0)
        rows, columns = self.shape

        def ahead(along: Index, active: int) -> tuple[Stmt, ...]:
            return self._prefetches(share, along, active)

        multiply = nest(steps, self.loops.multiply(acc, rows, range(columns), self.place, (), ahead))
        return (*self._move(acc, zero, sums, spot), *multiply, *self._move(sums, spot, acc, zero))

    def ends(self, sums: Buffer, spot: Index, end: End) -> tuple[Stmt, ...]:
        """Reduce the lanes of the sums, and apply the epilogue."""
        acc = self.sums
        return (*self._move(acc, as_index(0), sums, spot), *end(acc, *self.shape, self.place))

    def _move(self, to: Buffer, to_start: Index, source: Buffer, source_start: Index) -> tuple[Stmt, ...]:
        part, lane = Var("a", self.sums.size // self.plan.lanes), Var("l", self.plan.lanes)
        spot = as_index(part) * self.plan.lanes + as_index(lane)
        store = Store(((to, to_start + spot, Load(source, source_start + spot)),))
        return (For(part, (For(lane, (store,), "vector"),), "unroll"),)

    def _prefetches(self, share: tuple[Index, int], along: Index, active: int) -> tuple[Stmt, ...]:
        """The lines of a vector, in the rows of the larger operand that the next tile of the outer loop will read."""
        outer, context = self.axes[0], self.loops.context
        load = self.source.right if outer is self.c.n else self.source.left
        if not context.is_far(self.loops.group, load.buffer):
            return ()
        number, rows = share
        apart = 2 if self.plan.run and outer is self.c.n else 1
        line = context.target.line_bytes // load.dtype.itemsize // apart
        out: list[Stmt] = []
        for row, vector in product(range(rows), range(0, active, line)):
            where = {**self.at, self.plan.along: along + vector}
            where[outer] = where[outer] + number * rows + (self.sizes[0] + row)
            out.append(Prefetch(load.buffer, load.index.substitute(where)))
        return tuple(out)
