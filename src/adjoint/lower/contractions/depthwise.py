"""Depthwise convolutions: register tiles of several rows, which share the rows of the image that their windows read.

Every channel has a window of its own. So a tile of one row, as in a GEMM whose left operand has no rows, loads a vector
for each multiply-add, and loads limit it. A tile of several rows loads each row of the image once, and adds it to all
rows of the result whose windows contain it::

    for i in 0..4:                                     for r in 0..6:
      for k0 in 0..3:                                    for k2 in 0..3:
        for k2 in 0..3:                           ->       for i in 0..4 with 0 <= r - i < 3:
          acc[i] += w[k0, k2] * x[i + k0, k2 + l]            acc[i] += w[r - i, k2] * x[r, k2 + l]

So too where each group of channels has one result: the loop over the channels of a group is outermost. Where windows
move by two columns, rows are first copied to their `phases`. The products of an element are added in the same order as
in a GEMM, so both give the same bits.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Expr, For, Kernel, Load, Prefetch, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import BOOL, I64
from adjoint.lower.context import Context, finish_kernel, store_result
from adjoint.lower.contractions.blocking import tile_lanes
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm_prefetch import far_accesses
from adjoint.lower.contractions.phases import Phases, phases_of
from adjoint.lower.contractions.prefetch import Region, region
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, pieces, tiled, unravel, vector_runs

__all__ = ["DepthwisePlan", "depthwise_kernel", "plan_depthwise", "rows_read"]


@dataclass(frozen=True, slots=True)
class DepthwisePlan:
    """How a depthwise convolution runs.

    Parameters
    ----------
    contraction : Contraction
        The convolution, whose last two summed axes are those of its window; before them, the channels of a group.
    row : Var
        The axis of the result along which windows move by rows of the image.
    rows, vectors : int
        Rows of a tile, and vectors along each.
    lanes : int
        Lanes of a vector, of which short rows may fill a half or a quarter.
    phases : Phases or None
        What rows are copied to first, where windows move by two columns (`phases`).
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    row: Var
    rows: int
    vectors: int
    lanes: int
    phases: Phases | None
    cycles: float

    def __str__(self) -> str:
        return f"depthwise {self.rows}x{self.vectors}"

    def readers(self, rows: int) -> list[list[tuple[int, int]]]:
        """The rows of the image that a tile of so many rows reads, from the first to the last.

        For each: which rows of the tile have it in their windows, and as which row of the window.
        """
        return rows_read(*_steps(self.contraction, self.row), self.contraction.k[-2].extent, rows)


def plan_depthwise(context: Context, c: Contraction) -> DepthwisePlan | None:
    """The plan whose tiles have the lowest estimated cost.

    None if this is no such convolution, or no windows overlap.
    """
    target = context.target
    if c.m is not None or len(c.k) not in (2, 3) or c.right.index.coefficient(c.n) not in (1, 2):
        return None
    if c.left.dtype != c.dtype or c.right.dtype != c.dtype:
        return None
    row = next((v for v in reversed(c.batch) if not c.left.index.coefficient(v) and min(_steps(c, v)) > 0), None)
    *_, taps, wide = (v.extent for v in c.k)
    if row is None or taps * wide > costs.MAX_UNROLLED_DEPTHWISE:
        return None
    steps, lanes = _steps(c, row), tile_lanes(target, c)
    if len(rows_read(*steps, taps, row.extent)) == taps * row.extent:
        return None
    phases = phases_of(context, c, row, lanes)
    strided = c.right.index.coefficient(c.n) == 2
    copied = phases.pitch // lanes if phases is not None else 0
    plane, rows, vectors = _tile(target, lanes, steps, (taps, wide), row.extent, c.columns, strided, copied)
    planes = prod(v.extent for v in (*c.batch, *c.k[:-2])) // row.extent
    return DepthwisePlan(c, row, rows, vectors, lanes, phases, planes * plane)


def _steps(c: Contraction, row: Var) -> tuple[int, int]:
    """Elements of the image from one row of the result to the next, and from one row of the window to the next."""
    return c.right.index.coefficient(row) or 0, c.right.index.coefficient(c.k[-2]) or 0


def rows_read(step: int, ahead: int, taps: int, rows: int) -> list[list[tuple[int, int]]]:
    """The rows of an image that so many windows of so many rows read, and as which row of the window each reads them.

    `step` is the distance of windows, `ahead` that of the rows of a window.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for i in range(rows):
        for k0 in range(taps):
            found.setdefault(i * step + k0 * ahead, []).append((i, k0))
    return [found[place] for place in sorted(found)]


@lru_cache(maxsize=1024)
def _tile(
    target: Target,
    lanes: int,
    steps: tuple[int, int],
    window: tuple[int, int],
    rows: int,
    columns: int,
    strided: bool,
    copied: int,
) -> tuple[float, int, int]:
    """The tile with which a channel takes the fewest cycles: these, its rows, and its vectors.

    `copied` are the vectors of a phase of a row of the image, if rows are copied first.
    """
    (taps, wide), strided = window, strided and not copied
    # A vector that is not aligned reaches into the next cache line.
    lines = (1 + target.vector_bytes / target.line_bytes) * (2 if strided else 1)

    def cycles(height: int, vectors: int) -> float:
        products = height * vectors * taps * wide
        loads = len(rows_read(*steps, taps, height)) * wide * vectors * lines + height * taps * wide
        shuffles = len(rows_read(*steps, taps, height)) * wide * vectors if strided else 0
        return costs.TILE_CYCLES + max(
            costs.multiply_add_cycles(target, products + shuffles),
            costs.load_cycles(target, loads),
            costs.chain_cycles(target) * taps * wide,
        )

    copy = 2 * copied * costs.PHASE_CYCLES

    def whole(tile: tuple[int, int]) -> float:
        height, vectors = tile
        down, across = pieces(rows, height), pieces(ceil(columns / lanes), vectors)
        tiles = sum(n * m * cycles(high, wide) for _, n, high in down for _, m, wide in across)
        return tiles + sum(n * len(rows_read(*steps, taps, high)) for _, n, high in down) * copy

    tiles = _tiles(target, taps * wide, rows, ceil(columns / lanes), strided)
    return min((whole(tile), *tile) for tile in tiles)


def _tiles(target: Target, taps: int, rows: int, columns: int, strided: bool) -> Iterator[tuple[int, int]]:
    """The tiles that fit the registers, with a weight for each row and a vector of the image."""
    for height in range(1, min(rows, costs.MAX_ROWS) + 1):
        for vectors in range(1, min(columns, costs.MAX_VECTORS) + 1):
            sums = height * vectors
            fits = sums + min(height, vectors) + 1 + 2 * strided <= target.tile_registers
            if sums == 1 or (fits and sums * taps <= costs.MAX_UNROLLED_DEPTHWISE):
                yield height, vectors


def depthwise_kernel(context: Context, group: Group, plan: DepthwisePlan) -> Kernel:
    """The kernel of a plan: each unit is one tile of the result, or with phases a row of tiles."""
    c, width = plan.contraction, plan.vectors * plan.lanes
    others = [v for v in c.batch if v is not plan.row]
    block, panel = Var("block", ceil(plan.row.extent / plan.rows)), Var("panel", ceil(c.columns / width))
    # The tiles of an image follow each other, so that a thread may compute what all of them read (`compute_at`).
    tiled_axes = [block, panel] if plan.phases is None else [block]
    tiles, images = prod(v.extent for v in tiled_axes), prod(v.extent for v in others)
    unit = Var("u", images * tiles)
    at = unravel([*others, *tiled_axes], as_index(unit))
    down, across = at.pop(block), at.pop(panel, as_index(0))
    # Each unit prefetches its share of the next image, and what the epilogue of the next tile accesses.
    after = unravel([*others, *tiled_axes], (as_index(unit) + 1) % unit.extent)
    end = after.pop(block) * plan.rows, after.pop(panel, as_index(0)) * width, after
    image = (as_index(unit) // tiles + 1) % images
    if plan.phases is not None:
        following = plan.phases.next_plane(context, group, others, image)
    else:
        then = {v: as_index(0) for v in (*c.axes, *c.k)} | unravel(others, image)
        box = {v: v.extent for v in (plan.row, c.n, *c.k)}
        following = region(context, group, c.right.buffer, c.right.index, box, then)
    own = following.share(as_index(unit) % tiles, tiles) if following is not None else None

    def strip(rows: int, row: Index) -> tuple[Stmt, ...]:
        if plan.phases is None:
            one = _Tile(context, group, plan, at, row, rows, None, own, end)
            return tiled(across, c.columns, width, one.statements)
        phases = plan.phases.buffer(rows)
        one = _Tile(context, group, plan, at, row, rows, phases, None, end)
        out = plan.phases.copy(phases, rows, {**at, plan.row: row}, own)
        for first, many, columns in pieces(c.columns, width):
            number = Var("panel", many)
            out += nest([number], one.statements(columns, as_index(number) * columns + first))
        return out

    body = tiled(down, plan.row.extent, plan.rows, strip)
    points = c.batches * c.columns
    zero = {v: as_index(0) for v in c.axes}
    epilogue = store_result(context, group, c.index(zero), Const(0.0, c.dtype))
    work = 2.0 * points * c.depth + flops_of([v for _, _, v in epilogue.targets]) * points
    return finish_kernel(context, context.name_of(group), group.members, unit, body, work)


@dataclass(frozen=True, slots=True)
class _Tile:
    """The tiles of some rows: the first row, their number, the other axes, what is read, and what is prefetched."""

    context: Context
    group: Group
    plan: DepthwisePlan
    at: dict[Var, Index]
    row: Index
    rows: int
    #: The phases of the rows of the image, if they have been copied.
    phases: Buffer | None
    #: The share of the next image.
    ahead: Region | None
    #: Where the next tile begins: its first row and column, and the other axes.
    after: tuple[Index, Index, dict[Var, Index]]

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
        images = plan.readers(self.rows)
        *channels, down, across = c.k
        channel = Var("k0", prod(v.extent for v in channels))
        outer = unravel(channels, as_index(channel))
        for slot, readers in enumerate(images):
            products += self._ahead(as_index(channel) * len(images) + slot, channel.extent * len(images))
            if not channels:
                products += (hint for i, k0 in readers if k0 == 0 for hint in self._results(i, pitch))
            tap, windows = Var("k", across.extent), dict(readers)

            def add(i: int, n: Index, tap: Var = tap, windows: dict[int, int] = windows, slot: int = slot) -> Store:
                where = {**self._point(i, column + n), **outer, down: as_index(windows[i]), across: as_index(tap)}
                if plan.phases is not None and self.phases is not None:
                    image: Expr = plan.phases.load(self.phases, slot, as_index(tap), column + n)
                else:
                    inside = Apply("lt", (Coordinate(n, I64), Const(columns, I64)), BOOL) if beyond else None
                    image = c.element(c.right, where, inside)
                spot = n + i * pitch
                product = Apply("fma", (c.element(c.left, where), image, Load(acc, spot)), acc.dtype)
                return Store(((acc, spot, product),))

            whole = beyond or self.phases is not None
            products.append(For(tap, self._along(columns, add, windows, whole), "unroll"))
        start, stop = self._along(columns, clear, every, whole=True), self._along(columns, end, every)
        return (*start, *nest([channel], tuple(products)), *stop)

    def _ahead(self, slot: Index, slots: int) -> tuple[Stmt, ...]:
        """The prefetches of the next image in one of so many slots."""
        if self.ahead is None:
            return ()
        line = Var("line", ceil(self.ahead.lines / slots))
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
