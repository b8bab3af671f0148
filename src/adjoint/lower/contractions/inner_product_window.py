"""Inner products of the windows of a channel: tiles of taps, whose accumulators stay in registers throughout.

Rows of the image that several rows of a window meet are loaded once for all of them, a few rows of the gradient at a
time; where windows share no rows, every tap loads its own. Of an image in place, rows above and below it are left out:
rows of the gradient, or blocks of them, that meet the same rows of the window have the same code, and are a loop::

    for y in 0..14:                                    for k0 in 1..3, k1 in 0..3: acc[k0, k1] += ..   y = 0
      for k0 in 0..3, k1 in 0..3:                ->    for y in 1..14:
        acc[k0, k1] += ct[y] * x[2 * y + k0 - 1]         for k0 in 0..3, k1 in 0..3: acc[k0, k1] += ..
"""

from collections.abc import Callable, Sequence
from itertools import groupby, product

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, For, Load, Stmt, Store
from adjoint.kernel.rewrite import rewritten
from adjoint.lower.analysis.inlining import BOOL, I64
from adjoint.lower.contractions.depthwise_plan import rows_read
from adjoint.lower.contractions.inner_product_loops import InnerProductLoops, Place
from adjoint.lower.contractions.inner_product_plan import column_axis
from adjoint.lower.loops import nest, pieces

__all__ = ["products_in_place", "products_of_shared_rows"]


def products_in_place(
    loops: InnerProductLoops,
    acc: Buffer,
    place: Place,
    steps: Sequence[Var],
    hints: tuple[Stmt, ...],
) -> tuple[Stmt, ...]:
    """All products of a window with an image in place: those with rows above and below it are left out."""
    plan, image = loops.plan, loops.image
    assert image is not None
    assert plan.taps is not None
    across, deep, row = column_axis(loops.c, plan.unrolled), plan.taps.extent, plan.others[-1]
    assert across is not None
    border = image.border(across)
    runs = border.runs(0, across.extent) if border is not None else [(0, row.extent, (0, across.extent))]
    out: list[Stmt] = []
    for first, many, (begin, end) in runs:
        step = Var(steps[-1].name, many)
        moved = {steps[-1]: as_index(step) + first}

        def shifted(index: Index, moved: dict[Var, Index] = moved) -> Index:
            return index.substitute(moved)

        def at(i: Index, j: Index, shifted: Callable[[Index], Index] = shifted) -> dict[Var, Index]:
            return {var: shifted(index) for var, index in place(i, j).items()}

        taps = range(begin * deep, end * deep)
        out += nest([step], (*rewritten(hints, shifted), *loops.multiply(acc, 1, taps, at, [])))
    return nest(steps[:-1], tuple(out))


def products_of_shared_rows(
    loops: InnerProductLoops,
    acc: Buffer,
    width: int,
    place: Place,
    steps: Sequence[Var],
) -> tuple[Stmt, ...]:
    """All products of a tile of so many rows of the window, some rows of the image at a time."""
    c, plan = loops.c, loops.plan
    across, others = column_axis(c, plan.unrolled), plan.others
    assert plan.taps is not None
    assert across is not None
    taps, lanes, row = plan.taps.extent, plan.lanes, others[-1]
    distance = c.right.index.coefficient(row) or 0, c.right.index.coefficient(across) or 0
    border = loops.image.border(across) if loops.image is not None else None

    def is_inside(i: int, k0: int) -> bool:
        return border is None or i in range(*border.steps(k0))

    def block(begin: int, many: int, size: int, hint: bool) -> tuple[Stmt, ...]:
        """So many blocks of so many rows of the gradient, from one on."""
        number, chunk = Var("block", many), Var("v", plan.along.extent // lanes)

        def vector(along: Index, active: int) -> tuple[Stmt, ...]:
            beyond = active < lanes and all(e.index.coefficient(plan.along) == 1 for e in (c.left, c.right))
            lane = Var("l", lanes if beyond else active)
            inside = Apply("lt", (Coordinate(as_index(lane), I64), Const(active, I64)), BOOL) if beyond else None
            stores: list[Stmt] = []
            # Each row of the image, once for each tap, meets all rows of the gradient whose windows contain it.
            for readers, tap in product(rows_read(*distance, width, size), range(taps)):
                for i, k0 in readers:
                    if not is_inside(begin + i, k0):
                        continue
                    where = {**place(as_index(0), as_index(k0 * taps + tap)), plan.along: along + as_index(lane)}
                    where[row] = where[row].substitute({steps[-1]: as_index(number) * size + (begin + i)})
                    spot = as_index(lane) + (k0 * taps + tap) * lanes
                    factors = loops.factors(where, inside)
                    stores.append(Store(((acc, spot, Apply("fma", (*factors, Load(acc, spot)), acc.dtype)),)))
            return (For(lane, tuple(stores), "vector"),)

        hints: tuple[Stmt, ...] = ()
        if hint and len(others) > 1 and chunk.extent:
            corner = place(as_index(0), as_index(0))
            following = loops.next_step(others, corner, (1, width, across))
            hints = loops.spread(following, (*steps[:-1], number, chunk))
        return nest([number], loops.along(chunk, vector, hints))

    out: tuple[Stmt, ...] = ()
    for begin, many, size in pieces(steps[-1].extent, plan.image_rows):

        def inside(first: int, size: int = size) -> list[bool]:
            return [is_inside(first + i, k0) for i in range(size) for k0 in range(width)]

        # Blocks in which the same rows are inside have the same code.
        alike = [list(found) for _, found in groupby(range(begin, begin + many * size, size), inside)]
        most = max(alike, key=len) if not begin else None
        blocks = (block(found[0], len(found), size, found is most) for found in alike)
        out += nest(steps[:-1], tuple(s for some in blocks for s in some))
    return out
