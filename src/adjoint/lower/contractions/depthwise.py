"""Depthwise convolutions: register tiles of several rows, which share the rows of the image that their windows read.

Every channel has a window of its own. So a tile of one row, as in a GEMM whose left operand has no rows, loads a vector
for each multiply-add, and loads limit it. A tile of several rows loads each row of the image once, and adds it to all
rows of the result whose windows contain it::

    for i in 0..4:                                     for r in 0..6:
      for k0 in 0..3:                                    for k2 in 0..3:
        for k2 in 0..3:                           ->       for i in 0..4 with 0 <= r - i < 3:
          acc[i] += w[k0, k2] * x[i + k0, k2 + l]            acc[i] += w[r - i, k2] * x[r, k2 + l]

So too where each group of channels has one result: the loop over the channels of a group is outermost. Tiles read the
image padded or in place (`depthwise_plan`). The products of an element are added in
the same order as in a GEMM, so both give the same bits, for finite numbers in place (`borders`).
"""

from collections.abc import Callable, Iterable
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Expr, For, Kernel, Load, Prefetch, Stmt, Store, When
from adjoint.kernel.rewrite import rewritten
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import BOOL, I64
from adjoint.lower.context import Context, finish_kernel, store_result
from adjoint.lower.contractions.depthwise_plan import DepthwisePlan
from adjoint.lower.contractions.gemm_prefetch import far_accesses
from adjoint.lower.contractions.planes import plane_region
from adjoint.lower.contractions.prefetch import Region, region
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, pieces, tiled, unravel, vector_runs

__all__ = ["depthwise_kernel"]


def depthwise_kernel(context: Context, group: Group, plan: DepthwisePlan) -> Kernel:
    """The kernel of a plan."""
    c = plan.contraction
    unit, body = (_tiles_of_images if plan.image is not None else _single_tiles)(context, group, plan)
    points = c.batches * c.columns
    zero = {v: as_index(0) for v in c.axes}
    epilogue = store_result(context, group, c.index(zero), Const(0.0, c.dtype))
    work = 2.0 * points * c.depth + flops_of([v for _, _, v in epilogue.targets]) * points
    return finish_kernel(context, context.name_of(group), group.members, unit, body, work)


def _tiles_of_images(context: Context, group: Group, plan: DepthwisePlan) -> tuple[Var, tuple[Stmt, ...]]:
    """Units are images of a channel, whose tiles have whole rows; those at its top and bottom leave out rows."""
    c, image, border = plan.contraction, plan.image, plan.border
    assert image is not None
    others = [v for v in c.batch if v is not plan.row]
    unit = Var("u", prod(v.extent for v in others))
    following = (as_index(unit) + 1) % unit.extent
    at, then = unravel(others, as_index(unit)), unravel(others, following)
    ahead = plane_region(context, group, image, {**dict.fromkeys((*c.axes, *c.k), as_index(0)), **then})
    runs = border.tiles(plan.rows) if border is not None else pieces(plan.row.extent, plan.rows)
    tile = Var("tile", sum(many for _, many, _ in runs))
    own = ahead.share(as_index(tile), tile.extent) if ahead is not None else None
    # Branches keep the code of tiles apart: of one piece of code, LLVM would keep too much in registers.
    body: tuple[Stmt, ...] = ()
    begin = tile.extent
    for first, many, size in reversed(runs):
        begin -= many
        number = Var("number", many)
        row = as_index(number) * size + first
        one = _Tile(context, group, plan, at, row, size, own, (row, as_index(0), then), first)
        at_tile = {number: as_index(tile) - begin}

        def moved(index: Index, at_tile: dict[Var, Index] = at_tile) -> Index:
            return index.substitute(at_tile)

        same = rewritten(one.statements(c.columns, as_index(0)), moved)
        body = (When(as_index(tile), begin, begin + many, same, body),) if body else same
    return unit, nest([tile], body)


def _single_tiles(context: Context, group: Group, plan: DepthwisePlan) -> tuple[Var, tuple[Stmt, ...]]:
    """Units are tiles of the result."""
    c, width = plan.contraction, plan.vectors * plan.lanes
    others = [v for v in c.batch if v is not plan.row]
    block, panel = Var("block", ceil(plan.row.extent / plan.rows)), Var("panel", ceil(c.columns / width))
    # The tiles of an image follow each other, so that a thread may compute what all of them read (`compute_at`).
    tiled_axes = [block, panel]
    tiles, images = prod(v.extent for v in tiled_axes), prod(v.extent for v in others)
    unit = Var("u", images * tiles)
    at = unravel([*others, *tiled_axes], as_index(unit))
    down, across = at.pop(block), at.pop(panel)
    # Each unit prefetches its share of the next image, and what the epilogue of the next tile accesses.
    after = unravel([*others, *tiled_axes], (as_index(unit) + 1) % unit.extent)
    end = after.pop(block) * plan.rows, after.pop(panel) * width, after
    image = (as_index(unit) // tiles + 1) % images
    then = {v: as_index(0) for v in (*c.axes, *c.k)} | unravel(others, image)
    box = {v: v.extent for v in (plan.row, c.n, *c.k)}
    following = region(context, group, c.right.buffer, c.right.index, box, then)
    own = following.share(as_index(unit) % tiles, tiles) if following is not None else None

    def strip(rows: int, row: Index) -> tuple[Stmt, ...]:
        return tiled(across, c.columns, width, _Tile(context, group, plan, at, row, rows, own, end).statements)

    return unit, tiled(down, plan.row.extent, plan.rows, strip)


@dataclass(frozen=True, slots=True)
class _Tile:
    """The tiles of some rows: the first row, their number, the other axes, what is read, and what is prefetched."""

    context: Context
    group: Group
    plan: DepthwisePlan
    at: dict[Var, Index]
    row: Index
    rows: int
    #: The share of the next image.
    ahead: Region | None
    #: Where the next tile begins: its first row and column, and the other axes.
    after: tuple[Index, Index, dict[Var, Index]]
    #: The first row of one of the tiles, if the image is read without its border: all leave out the same rows.
    first: int = 0

    def statements(self, columns: int, column: Index) -> tuple[Stmt, ...]:
        """Clear the sums of so many columns, add the products, and apply the epilogue."""
        c, plan = self.plan.contraction, self.plan
        pitch = ceil(columns / plan.lanes) * plan.lanes
        acc = Buffer("acc", c.dtype, self.rows * pitch, "register")
        every = range(self.rows)

        def clear(i: int, n: Index) -> Store:
            return Store(((acc, n + i * pitch, Const(0.0, c.dtype)),))

        def end(i: int, n: Index) -> Store:
            index = c.index(self._point(i, column + n))
            return store_result(self.context, self.group, index, Load(acc, n + i * pitch))

        products: list[Stmt] = []
        # Lanes past the end of the image's rows add zeros, which is cheaper than masking their sums.
        beyond = columns % plan.lanes > 0 and c.right.index.coefficient(c.n) == 1
        images = [inside for readers in plan.readers(self.rows) if (inside := self._inside(readers))]
        *channels, down, across = c.k
        channel = Var("k0", prod(v.extent for v in channels))
        outer = unravel(channels, as_index(channel))
        for slot, readers in enumerate(images):
            products += self._ahead(as_index(channel) * len(images) + slot, channel.extent * len(images))
            if not channels:
                products += (hint for i, k0 in readers if k0 == 0 for hint in self._results(i, pitch))
            tap, windows = Var("k", across.extent), dict(readers)

            def add(i: int, n: Index, tap: Var = tap, windows: dict[int, int] = windows) -> Store:
                where = {**self._point(i, column + n), **outer, down: as_index(windows[i]), across: as_index(tap)}
                if plan.image is not None:
                    image: Expr = plan.image.element(where)
                else:
                    inside = Apply("lt", (Coordinate(n, I64), Const(columns, I64)), BOOL) if beyond else None
                    image = c.element(c.right, where, inside)
                spot = n + i * pitch
                product = Apply("fma", (c.element(c.left, where), image, Load(acc, spot)), acc.dtype)
                return Store(((acc, spot, product),))

            whole = beyond or plan.image is not None
            products.append(For(tap, self._along(columns, add, windows, whole), "unroll"))
        start, stop = self._along(columns, clear, every, whole=True), self._along(columns, end, every)
        return (*start, *nest([channel], tuple(products)), *stop)

    def _inside(self, readers: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The readers of a row of the image that is not outside, if the image is read without its border."""
        border = self.plan.border
        return [(i, k0) for i, k0 in readers if border is None or k0 in range(*border.steps(self.first + i))]

    def _ahead(self, slot: Index, slots: int) -> tuple[Stmt, ...]:
        """The prefetches of the next image in one of so many slots."""
        if self.ahead is None:
            return ()
        line = Var("line", ceil(self.ahead.lines / slots))
        if slot.low * line.extent >= self.ahead.lines:
            return ()
        return (For(line, (self.ahead.prefetch(as_index(line) + slot * line.extent),), "unroll"),)

    def _along(
        self, columns: int, point: Callable[[int, Index], Store], rows: Iterable[int], whole: bool = False
    ) -> tuple[Stmt, ...]:
        """Do something at every column of some rows, vector by vector; `whole`: also beyond the last column."""
        lanes, out = self.plan.lanes, []
        for start, vectors, extent in vector_runs(columns, columns, lanes):
            vector, lane = Var("j", vectors), Var("l", lanes if whole else extent)
            inside = as_index(vector) * lanes + as_index(lane) + start
            out.append(For(vector, tuple(For(lane, (point(i, inside),), "vector") for i in rows), "unroll"))
        return tuple(out)

    def _results(self, i: int, pitch: int) -> tuple[Stmt, ...]:
        """Prefetch the rows of large tensors that the epilogue accesses for a row of the next tile."""
        c, vector = self.plan.contraction, Var("j", pitch // self.plan.lanes)
        row, first, others = self.after
        at = {**others, self.plan.row: row + i}
        column = first + as_index(vector) * self.plan.lanes
        far = far_accesses(self.context, self.group, c, at)
        hints = tuple(Prefetch(buffer, index.substitute({c.n: column}), write) for buffer, index, write in far)
        return (For(vector, hints, "unroll"),) if hints else ()

    def _point(self, i: int, column: Index) -> dict[Var, Index]:
        """The axes of the result at a row and a column."""
        c = self.plan.contraction
        return {**{v: as_index(0) for v in c.axes}, **self.at, self.plan.row: self.row + i, c.n: column}
