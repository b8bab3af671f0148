"""Split-K reduction: partial sums are added, transposed to the layout of the result, and pass through the epilogue.

Partial sums have their lanes along one axis of the result (output channels), while another one is innermost in the
result (taps). So a block of rows is added up in vectors, transposed square by square in registers, and stored row by
row::

    for row in block:    totals[row, lanes] = sum over splits of sums[split, row, lanes]
    for square:          turned[lane, rows] = totals[rows, lane]
    for lane:            out[lane, rows] = epilogue(turned[lane, rows])
"""

from collections.abc import Callable, Sequence
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Expr, Kernel, Load, Stmt, Store
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_flops, store_outputs
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, ravel, tiled, unravel, unroll_around, vector_loops

__all__ = [
    "PartialSums",
    "TransposingEpilogue",
    "row_blocks",
    "split_k_reduction_kernel",
    "sum_of",
    "transpose_squares",
]

#: The totals at some points of the result, as ``(coordinates, value)`` pairs: from the coordinates on the axes that the
#: partial sums are stored with, the panel, and the column in it.
PartialSums = Callable[[dict[Var, Index], Index, Index], list[tuple[dict[Var, Index], Expr]]]


def split_k_reduction_kernel(
    context: Context,
    group: Group,
    c: Contraction,
    lane: Var,
    width: int,
    axes: tuple[Var, ...],
    partial_sums: PartialSums,
) -> Kernel:
    """The kernel that adds partial sums and applies the epilogue of the contraction.

    `lane` is the axis along panels of `width` columns, and `axes` are the other axes that partial sums are stored with,
    outermost first. For the axes of the result that are not among them, `partial_sums` returns several values.
    """
    rows = tuple(v for v in c.axes if v.extent > 1 and v is not lane)
    outer, inner = rows[0], prod(v.extent for v in rows[1:])
    panels = ceil(lane.extent / width)
    some = _rows_of_block(context, outer.extent, inner, panels)
    unit = Var("u", panels * (outer.extent // some))
    panel, first = as_index(unit) % panels, as_index(unit) // panels * some
    local = (Var(outer.name, some), *rows[1:])
    lanes = context.target.lanes(c.dtype)
    work = 0.0

    def columns(count: int, begin: Index) -> tuple[Stmt, ...]:
        nonlocal work
        totals = Buffer("totals", c.dtype, some * inner * count, "scratch")

        def add(column: Index, _: Index) -> tuple[Stmt, ...]:
            at = {v: as_index(v) for v in axes if v is not outer} | {outer: first + as_index(local[0])}
            targets = []
            for where, value in partial_sums(at, panel, column):
                row = ravel(local, {**where, local[0]: as_index(local[0])})
                targets.append((totals, row * count + column, value))
            return (Store(tuple(targets)),)

        loops = tuple(local[0] if v is outer else v for v in axes)
        ends = TransposingEpilogue(context, group, c, lane, rows, local, first)
        statements, work = ends.of(totals, as_index(0), count, (count, begin))
        return (*nest(loops, vector_loops(count, lanes, add)), *statements)

    body = tiled(panel, lane.extent, width, columns)
    return finish_kernel(context, context.name_of(group), group.members, unit, body, work)


@dataclass(frozen=True, slots=True)
class TransposingEpilogue:
    """The epilogue of a block of rows, after their transpose.

    `lane` is the axis along panels, `rows` are the other axes of the result, and `local` those of a block, which starts
    at `first` along the outermost.
    """

    context: Context
    group: Group
    c: Contraction
    lane: Var
    rows: tuple[Var, ...]
    local: tuple[Var, ...]
    first: Index

    def of(self, totals: Buffer, start: Index, pitch: int, panel: tuple[int, Index]) -> tuple[tuple[Stmt, ...], float]:
        """Transpose totals and store them; and the operations of all units together.

        Totals are rows of `pitch` elements from `start` on. `panel` is the number of columns, and where they
        start along the axis of the lanes.
        """
        context, c, (columns, begin), lanes = self.context, self.c, panel, self.context.target.lanes(totals.dtype)
        block, outer = self.local[0], self.rows[0]
        inner = prod(v.extent for v in self.local[1:])
        size = block.extent * inner
        # Where the block's outermost axis is not contiguous in the result, its steps are stored one by one.
        flat = as_index(0)
        for extent, index in zip(self.group.shape, c.place, strict=True):
            flat = flat * extent + index
        apart = block.extent > 1 and flat.coefficient(outer) != inner
        transposed, lane_at, work = Buffer("turned", totals.dtype, size * columns, "scratch"), Var("o", columns), 0.0

        def store(row: Index, _: Index) -> tuple[Stmt, ...]:
            nonlocal work
            inliner = group_inliner(context, self.group)
            assert self.group.root is not None
            at = {block: as_index(block), **unravel(self.local[1:], row)} if apart else unravel(self.local, row)
            before = as_index(block) * inner if apart else as_index(0)
            inliner.bind(self.group.root, Load(transposed, as_index(lane_at) * size + before + row))
            where = {
                **{v: as_index(0) for v in c.axes},
                **at,
                outer: self.first + at[block],
                self.lane: begin + as_index(lane_at),
            }
            made = store_outputs(context, self.group, inliner, c.index(where))
            work = store_flops(made, prod(v.extent for v in c.axes))
            return (made,)

        statements = (
            *transpose_squares(totals, start, pitch, transposed, size, columns, lanes),
            *nest([lane_at, *([block] if apart else [])], vector_loops(inner if apart else size, lanes, store)),
        )
        return statements, work


def sum_of(terms: Sequence[Expr]) -> Expr:
    """The sum of terms, added in order."""
    total, *rest = terms
    for term in rest:
        total = Apply("add", (total, term), total.dtype)
    return total


def _rows_of_block(context: Context, extent: int, inner: int, panels: int) -> int:
    """How much of the outermost axis a block has: the most that fits, with enough blocks for threads."""
    units = costs.units(context.target)
    return next((d for d in row_blocks(extent, inner) if panels * (extent // d) >= units), 1)


def row_blocks(extent: int, inner: int) -> list[int]:
    """Possible extents of a block along the outermost axis, largest first."""
    return [d for d in range(extent, 0, -1) if extent % d == 0 and (d == 1 or d * inner <= costs.REDUCTION_ROWS)]


def transpose_squares(
    source: Buffer, start: Index, pitch: int, to: Buffer, rows: int, columns: int, lanes: int
) -> tuple[Stmt, ...]:
    """Rows of a `source`, `pitch` elements apart from `start` on, become columns, in squares as far as they go."""
    across = columns // lanes * lanes if lanes > 1 else 0
    out: list[Stmt] = []

    def copy(first: Index) -> Callable[[Index, Index], tuple[Stmt, ...]]:
        def body(row: Index, _: Index) -> tuple[Stmt, ...]:
            return (Store(((to, first * rows + row, Load(source, start + row * pitch + first)),)),)

        return body

    if across:
        iteration, one = Var("s", across // lanes), Var("i", lanes)
        first = as_index(iteration) * lanes + as_index(one)
        out += nest([iteration], tuple(unroll_around(one, loop) for loop in vector_loops(rows, lanes, copy(first))))
    if columns - across:
        rest = Var("s", columns - across)
        out += nest([rest], vector_loops(rows, lanes, copy(as_index(rest) + across)))
    return tuple(out)
