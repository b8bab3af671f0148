"""The end of sums that stay in memory: parts are added, lanes become an axis of memory again, the epilogue follows.

Sums lie with lanes along one axis of the result (output channels), and the result wants another one innermost (taps).
So a block of rows is added up in vectors, turned square by square in registers, and stored row by row::

    for row in block:    totals[row, lanes] = sum over parts of sums[part, row, lanes]
    for square:          turned[lane, rows] = totals[rows, lane]
    for lane:            out[lane, rows] = epilogue(turned[lane, rows])
"""

from collections.abc import Callable, Sequence
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Expr, Kernel, Load, Stmt, Store
from adjoint.lower.contractions import UNITS, Contraction
from adjoint.lower.emit import (
    Context,
    finish,
    group_puller,
    nest,
    pieces,
    ravel,
    stores,
    unravel,
    unrolled,
    vector_loops,
    work_of,
)
from adjoint.lower.fuse import Group

__all__ = ["Parts", "added", "total_kernel"]

#: Rows of a block: with `lanes` of them they stay in a first-level cache.
_ROWS = 256

#: The totals at some axes of the result, as ``(coordinates, value)`` for each of them: from those of the axes that sums
#: are stored with, the panel, and the place in it.
Parts = Callable[[dict[Var, Index], Index, Index], list[tuple[dict[Var, Index], Expr]]]


def total_kernel(
    context: Context, group: Group, c: Contraction, lane: Var, width: int, axes: tuple[Var, ...], parts: Parts
) -> Kernel:
    """The kernel that adds parts and does what comes after the contraction.

    `lane` is the axis along panels, `width` wide, and `axes` are the others that sums are stored with, outermost first;
    those of the result that are not among them are what `parts` returns several values for.
    """
    rows = tuple(v for v in c.axes if v.extent > 1 and v is not lane)
    outer, inner = rows[0], prod(v.extent for v in rows[1:])
    panels = ceil(lane.extent / width)
    some = _rows_of_block(outer.extent, inner, panels)
    unit = Var("u", panels * (outer.extent // some))
    panel, first = as_index(unit) % panels, as_index(unit) // panels * some
    block = Var(outer.name, some)
    local = (block, *rows[1:])
    lanes = context.target.lanes(c.left.dtype)
    # Steps of the block's outermost axis that do not follow each other in the result are stored one by one.
    flat = as_index(0)
    for extent, index in zip(group.shape, c.place, strict=True):
        flat = flat * extent + index
    apart = some > 1 and flat.coefficient(outer) != inner
    work = [0.0]

    def columns(count: int, begin: Index) -> tuple[Stmt, ...]:
        size = some * inner
        totals = Buffer("totals", c.left.dtype, size * count, "scratch")
        turned = Buffer("turned", c.left.dtype, size * count, "scratch")

        def add(column: Index, _: Index) -> tuple[Stmt, ...]:
            at = {v: as_index(v) for v in axes if v is not outer} | {outer: first + as_index(block)}
            targets = []
            for where, value in parts(at, panel, column):
                row = ravel(local, {**where, block: as_index(block)})
                targets.append((totals, row * count + column, value))
            return (Store(tuple(targets)),)

        lane_at = Var("o", count)

        def put(row: Index, _: Index) -> tuple[Stmt, ...]:
            puller = group_puller(context, group)
            assert group.root is not None
            at = {block: as_index(block), **unravel(local[1:], row)} if apart else unravel(local, row)
            before = as_index(block) * inner if apart else as_index(0)
            puller.hold(group.root, Load(turned, as_index(lane_at) * size + before + row))
            where = {
                **{v: as_index(0) for v in c.axes},
                **at,
                outer: first + at[block],
                lane: begin + as_index(lane_at),
            }
            made = stores(context, group, puller, c.index(where))
            work[0] = work_of(made, prod(v.extent for v in c.axes))
            return (made,)

        loops = tuple(block if v is outer else v for v in axes)
        return (
            *nest(loops, vector_loops(count, lanes, add)),
            *_turn(totals, turned, size, count, lanes),
            *nest([lane_at, *([block] if apart else [])], vector_loops(inner if apart else size, lanes, put)),
        )

    body = pieces(panel, lane.extent, width, columns)
    return finish(context, context.name_of(group), group.members, unit, body, work[0])


def added(terms: Sequence[Expr]) -> Expr:
    """Their sum, in their order."""
    total, *rest = terms
    for term in rest:
        total = Apply("add", (total, term), total.dtype)
    return total


def _rows_of_block(extent: int, inner: int, panels: int) -> int:
    """How much of the outermost axis a block has: as much as fits, with enough blocks for threads."""
    possible = [d for d in range(1, extent + 1) if extent % d == 0 and (d == 1 or d * inner <= _ROWS)]
    shared = [d for d in possible if panels * (extent // d) >= UNITS]
    return max(shared or [1])


def _turn(source: Buffer, to: Buffer, rows: int, columns: int, lanes: int) -> tuple[Stmt, ...]:
    """Rows become columns, in squares as far as they go."""
    across = columns // lanes * lanes if lanes > 1 else 0
    out: list[Stmt] = []

    def copy(first: Index) -> Callable[[Index, Index], tuple[Stmt, ...]]:
        def body(row: Index, _: Index) -> tuple[Stmt, ...]:
            return (Store(((to, first * rows + row, Load(source, row * columns + first)),)),)

        return body

    if across:
        turn, one = Var("s", across // lanes), Var("i", lanes)
        first = as_index(turn) * lanes + as_index(one)
        out += nest([turn], tuple(unrolled(one, loop) for loop in vector_loops(rows, lanes, copy(first))))
    if columns - across:
        rest = Var("s", columns - across)
        out += nest([rest], vector_loops(rows, lanes, copy(as_index(rest) + across)))
    return tuple(out)
