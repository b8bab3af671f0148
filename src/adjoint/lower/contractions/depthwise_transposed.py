"""Transposed depthwise convolutions with a stride of two: tiles of all phases, interleaved in registers.

They are the gradients of strided depthwise convolutions for their images. Even and odd rows and columns of the result
are four sums of products with different elements of the window, its *phases*, which all read the same elements of the
operand. So a tile holds the sums of all four, and loads each vector of the operand once for all of them. With a window
of three columns, and a column of padding::

    for l in 0..16 vector:                              y0 y1 y2 y3 y4 ..
      even[l] = x[l] * w[1]                       ->    even[0] odd[0] even[1] odd[1] even[2] ..
      odd[l] = x[l] * w[2] + x[l + 1] * w[0]            one shuffle of two registers for each vector that is stored

The rows of a strip of tiles are first copied to scratch memory, between the zeros beside them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import ceil, prod

from adjoint import costs
from adjoint.ir import Value
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, For, Kernel, Load, Stmt, Store, When
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.inlining import BOOL, I32, compute_dtype
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_flops, store_result
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, pieces, tiled, unravel, vector_loops
from adjoint.ops.convolution import ConvTranspose2d

__all__ = ["TransposedPlan", "depthwise_transposed_kernel", "plan_depthwise_transposed"]


@dataclass(frozen=True, slots=True)
class Taps:
    """Which elements of a window meet which elements of the operand, along one axis.

    Element ``2 * i + phase`` of the result is the sum over taps of ``w[tap] * x[i + shift]``.

    Parameters
    ----------
    window, padding : int
        Elements of the window, and the padding of the convolution.
    """

    window: int
    padding: int

    @property
    def first(self) -> int:
        """The lowest shift."""
        return min(self._shifts())

    @property
    def shifts(self) -> int:
        """The number of shifts from the lowest to the highest."""
        return max(self._shifts()) - self.first + 1

    def at(self, shift: int) -> list[tuple[int, int]]:
        """The phases and taps of a shift, which is counted from the lowest."""
        taps = ((phase, phase + self.padding - 2 * (shift + self.first)) for phase in range(2))
        return [(phase, tap) for phase, tap in taps if 0 <= tap < self.window]

    def _shifts(self) -> list[int]:
        """The shift of every tap."""
        starts = (phase + self.padding for phase in range(2))
        return [(start - tap) // 2 for start in starts for tap in range(start % 2, self.window, 2)]


@dataclass(frozen=True, slots=True)
class TransposedPlan:
    """How a transposed depthwise convolution runs.

    Parameters
    ----------
    image, size : tuple of int
        Rows and columns of the operand, and of the result.
    down, across : Taps
        The taps along rows, and along columns.
    lanes : int
        Lanes of a vector, of which short rows may fill a half or a quarter.
    rows, vectors : int
        Rows of the operand of a tile, and vectors along each: a tile of the result has twice as many.
    strip : int
        Rows of each phase that a unit computes.
    """

    image: tuple[int, int]
    size: tuple[int, int]
    down: Taps
    across: Taps
    lanes: int
    rows: int = 1
    vectors: int = 1
    strip: int = 1

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of a phase of the result, at most."""
        return ceil(self.size[0] / 2), ceil(self.size[1] / 2)

    @property
    def panels(self) -> list[tuple[int, int, int]]:
        """The tiles side by side as ``(first column of the result, number, columns)`` runs."""
        return pieces(self.size[1], 2 * self.vectors * self.lanes)

    @property
    def columns_read(self) -> int:
        """Elements of a row of the operand that the result needs, with the zeros beside it."""
        return self.extent[1] + self.across.shifts - 1

    @property
    def pitch(self) -> int:
        """Elements from one copied row to the next: whole vectors, so that few loads meet two cache lines."""
        return ceil(self.columns_read / self.lanes) * self.lanes

    def rows_read(self, rows: int) -> int:
        """Rows of the operand that tiles of so many rows read."""
        return rows + self.down.shifts - 1

    def cycles(self, target: Target) -> float:
        """Estimated cycles of an image of one channel on one core."""
        wide = [(many, ceil(columns / (2 * self.lanes))) for _, many, columns in self.panels]
        total = 0.0
        for _, strips, strip in pieces(self.extent[0], self.strip):
            total += strips * self.rows_read(strip) * self.pitch / self.lanes * costs.padded_copy_cycles(target)
            for (_, many, rows), (number, vectors) in product(pieces(strip, self.rows), wide):
                total += strips * many * number * self._tile_cycles(target, rows, vectors)
        return total

    def _tile_cycles(self, target: Target, rows: int, vectors: int) -> float:
        """The cycles of one tile."""
        taps = self.down.window * self.across.window
        loads = self.rows_read(rows) * self.across.shifts * vectors * costs.unaligned_loads(target)
        stored = 4 * rows * vectors
        return costs.TILE_CYCLES + max(
            costs.multiply_add_cycles(target, rows * vectors * taps + stored),
            costs.load_cycles(target, loads + stored, taps),
            costs.chain_cycles(target) * ceil(self.down.window / 2) * ceil(self.across.window / 2),
        )


def plan_depthwise_transposed(context: Context, group: Group) -> TransposedPlan | None:
    """The plan whose tiles have the lowest estimated cost; None if a group is no such convolution."""
    root = group.root
    if root is None or not isinstance(root.op, ConvTranspose2d) or root.type.size == 0:
        return None
    op, (x, w) = root.op, root.inputs
    if not op.is_depthwise_by_two(w.type):
        return None
    down, across = (Taps(w.shape[2 + axis], op.padding[axis]) for axis in range(2))
    columns = ceil(op.size[1] / 2)
    itemsize = compute_dtype(x.dtype).itemsize
    useful = costs.useful_lanes(context.target, columns, itemsize)
    lanes = max(min(useful, 1 << (columns - 1).bit_length()), 2)
    plan = TransposedPlan((x.shape[2], x.shape[3]), (op.size[0], op.size[1]), down, across, lanes)
    plan = _in_strips(context.target, plan, prod(x.shape[:2]), itemsize)
    return _best(context.target.narrowed(lanes * itemsize), plan)


def _in_strips(target: Target, plan: TransposedPlan, planes: int, itemsize: int) -> TransposedPlan:
    """The plan with strips whose copied rows stay in the first-level cache, and enough of them for all threads."""
    room = costs.l1_lines_bytes(target) // (plan.pitch * itemsize) - plan.down.shifts + 1
    strips = max(ceil(plan.extent[0] / max(room, 1)), min(ceil(costs.units(target) / planes), plan.extent[0]))
    return replace(plan, strip=ceil(plan.extent[0] / strips))


@lru_cache(maxsize=256)
def _best(target: Target, plan: TransposedPlan) -> TransposedPlan:
    """The plan with the tile that takes the fewest cycles."""
    return min(_tiles(target, plan), key=lambda one: one.cycles(target))


def _tiles(target: Target, plan: TransposedPlan) -> Iterator[TransposedPlan]:
    """Plans with the tiles that fit the registers, beside weights."""
    taps, room = plan.down.window * plan.across.window, costs.TRANSPOSED_SUMS * target.vector_registers
    for rows in range(1, min(plan.strip, costs.MAX_ROWS) + 1):
        for vectors in range(1, min(ceil(plan.extent[1] / plan.lanes), costs.MAX_VECTORS) + 1):
            sums = rows * vectors
            if sums == 1 or (4 * sums <= room and sums * taps <= costs.MAX_UNROLLED_DEPTHWISE):
                yield replace(plan, rows=rows, vectors=vectors)


def depthwise_transposed_kernel(context: Context, group: Group, plan: TransposedPlan) -> Kernel:
    """The kernel of a plan: each unit computes a strip of the result, which may be all of an image of one channel."""
    assert group.root is not None
    images, channels = group.shape[:2]
    axes = [Var("n", images), Var("c", channels), Var("strip", ceil(plan.extent[0] / plan.strip))]
    unit = Var("u", prod(v.extent for v in axes))
    at = unravel(axes, as_index(unit))
    image, strip = (at[axes[0]], at[axes[1]]), at[axes[2]]

    dtype = compute_dtype(group.root.dtype)
    size = plan.rows_read(plan.strip) * plan.pitch + plan.vectors * plan.lanes + plan.across.shifts
    copied = Buffer("rows", dtype, size, "scratch")

    def tiles(rows: int, first: Index) -> tuple[Stmt, ...]:
        own = _Strip(context, group, plan, image, first, rows, copied)
        out = own.copy()
        for (top, downwards, high), (left, sideways, wide) in product(pieces(rows, plan.rows), plan.panels):
            row, panel = Var("row", downwards), Var("panel", sideways)
            corner = as_index(row) * high + top, as_index(panel) * wide + left
            out += nest([row, panel], _Tile(own, corner, (high, wide)).statements())
        return out

    body = tiled(strip, plan.extent[0], plan.strip, tiles)
    probe = store_result(context, group, tuple(as_index(Var("i", n)) for n in group.shape), Const(0.0, dtype))
    taps = plan.down.window * plan.across.window
    work = 2.0 * images * channels * prod(plan.image) * taps + store_flops(probe, prod(group.shape))
    return finish_kernel(context, context.name_of(group), group.members, unit, body, work)


@dataclass(frozen=True, slots=True)
class _Strip:
    """Some rows of an image of one channel: the first, and their number, in rows of each phase; and what they read.

    `copied` are the rows of the operand between zeros. Lanes beyond the last column read past the end of a row, and
    their sums are not stored.
    """

    context: Context
    group: Group
    plan: TransposedPlan
    image: tuple[Index, Index]
    first: Index
    rows: int
    copied: Buffer

    @property
    def operands(self) -> tuple[Value, Value]:
        """The operand, and the weight."""
        assert self.group.root is not None
        x, w = self.group.root.inputs
        return x, w

    def copy(self) -> tuple[Stmt, ...]:
        """Copy the rows of the operand that the strip reads."""
        plan, inliner = self.plan, group_inliner(self.context, self.group)
        slot = Var("r", plan.rows_read(self.rows))
        row, start = self.first + as_index(slot) + plan.down.first, as_index(slot) * plan.pitch
        # Column c of the copy is column c + first of the operand.
        first, every = plan.across.first, plan.columns_read
        low = min(max(-first, 0), every)
        high = max(min(every, plan.image[1] - first), low)

        def element(column: Index, _: Index) -> tuple[Stmt, ...]:
            # The remainder says that the row is inside, so that no element is guarded.
            at = (*self.image, row % plan.image[0], column + first)
            return (Store(((self.copied, start + column, inliner.element(self.operands[0], at)),)),)

        def zero(column: Index, _: Index) -> tuple[Stmt, ...]:
            return (Store(((self.copied, start + column, Const(0.0, self.copied.dtype)),)),)

        beside = vector_loops(low, plan.lanes, zero), vector_loops(every - high, plan.lanes, zero, high)
        copied = (*beside[0], *vector_loops(high - low, plan.lanes, element, low), *beside[1])
        if row.low >= 0 and row.high < plan.image[0]:
            return nest([slot], copied)
        return nest([slot], (When(row, 0, plan.image[0], copied, vector_loops(every, plan.lanes, zero)),))


class _Tile:
    """A tile of a strip: its rows are those of each phase, its columns those of the result."""

    def __init__(self, strip: _Strip, corner: tuple[Index, Index], size: tuple[int, int]) -> None:
        self.strip = strip
        self.plan = strip.plan
        self.corner = corner
        self.size = size
        #: Vectors of sums along a row of each phase.
        self.vectors = ceil(size[1] / (2 * self.plan.lanes))
        #: ``[row, its phase, vector, phase of the column, lane]``
        self.acc = Buffer("acc", strip.copied.dtype, 4 * size[0] * self.vectors * self.plan.lanes, "register")

    def statements(self) -> tuple[Stmt, ...]:
        """Clear the sums, add the products, interleave them, and apply the epilogue."""
        plan, lanes, down = self.plan, self.plan.lanes, self.plan.down
        step, lane = Var("j", self.acc.size // lanes), Var("l", lanes)
        clear = Store(((self.acc, as_index(step) * lanes + as_index(lane), Const(0.0, self.acc.dtype)),))
        products = []
        for slot in range(plan.rows_read(self.size[0])):
            rows = (row for row in range(self.size[0]) if 0 <= slot - row < down.shifts)
            windows = [(row, *found) for row in rows for found in down.at(slot - row)]
            for shift in range(plan.across.shifts):
                start = (self.corner[0] + slot) * plan.pitch + self.corner[1] // 2 + shift
                products.append(self._products(start, windows, plan.across.at(shift)))
        stores = (s for row, phase in product(range(self.size[0]), range(2)) for s in self._row(row, phase))
        return (For(step, (For(lane, (clear,), "vector"),), "unroll"), *products, *stores)

    def _products(
        self, start: Index, windows: Sequence[tuple[int, int, int]], across: Sequence[tuple[int, int]]
    ) -> Stmt:
        """Add the products of a copied row, from a place on.

        It meets rows of the tile, in one phase each, with a row of the window; and the same along columns.
        """
        strip, lanes = self.strip, self.plan.lanes
        inliner = group_inliner(strip.context, strip.group)
        vector, lane = Var("j", self.vectors), Var("l", lanes)
        element = Load(strip.copied, start + as_index(vector) * lanes + as_index(lane))
        loops = []
        for (row, down, high), (side, wide) in product(windows, across):
            tap = (strip.image[1], as_index(0), as_index(high), as_index(wide))
            spot = self._sums(row, down, as_index(vector)) + side * lanes + as_index(lane)
            factors = inliner.element(strip.operands[1], tap), element
            value = Apply("fma", (*factors, Load(self.acc, spot)), self.acc.dtype)
            loops.append(For(lane, (Store(((self.acc, spot, value),)),), "vector"))
        return For(vector, tuple(loops), "unroll")

    def _sums(self, row: int, phase: int, vector: Index) -> Index:
        """Where the sums of a vector of even columns begin, which are followed by those of odd ones."""
        return (vector + (row * 2 + phase) * self.vectors) * (2 * self.plan.lanes)

    def _row(self, row: int, phase: int) -> tuple[Stmt, ...]:
        """Interleave the sums of a row of a phase, and store them through the epilogue."""
        plan, strip = self.plan, self.strip
        high = (strip.first + self.corner[0] + row) * 2 + phase
        stored = min(2 * plan.lanes, max(plan.lanes, strip.context.target.lanes(self.acc.dtype)))

        def store(column: Index, lane: Index) -> tuple[Stmt, ...]:
            first = (column - lane) // 2
            spot = self._sums(row, phase, first // plan.lanes) + first % plan.lanes + lane // 2
            is_even = Apply("lt", (Coordinate(lane % 2, I32), Const(1, I32)), BOOL)
            value = Apply("select", (is_even, Load(self.acc, spot), Load(self.acc, spot + plan.lanes)), self.acc.dtype)
            return (store_result(strip.context, strip.group, (*strip.image, high, self.corner[1] + column), value),)

        loops = vector_loops(self.size[1], stored, store)
        stores = tuple(replace(s, kind="unroll") if isinstance(s, For) and s.kind == "serial" else s for s in loops)
        return stores if high.high < plan.size[0] else (When(high, 0, plan.size[0], stores),)
