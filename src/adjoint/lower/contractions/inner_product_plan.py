"""How a contraction runs as inner products: the axis of the lanes, the tile, taps, blocks and splits."""

from collections.abc import Sequence
from itertools import product
from math import ceil, prod
from typing import Literal

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.contraction import Contraction, transposed_along
from adjoint.lower.contractions.conversion import beforehand_cycles
from adjoint.lower.contractions.gemm_plan import blocks_within
from adjoint.lower.contractions.inner_product_cost import TileWalk
from adjoint.lower.contractions.traffic import Block, line_cycles
from adjoint.lower.loops import divisors, pieces

__all__ = ["InnerProductPlan", "column_axis", "plan_at_once"]


@dataclass(frozen=True, slots=True)
class InnerProductPlan:
    """How a contraction runs as inner products.

    Parameters
    ----------
    contraction : Contraction
        The contraction.
    rows, columns : int
        Elements of the result in a tile, times the extent of `taps`.
    taps : Var or None
        An axis of the right operand that is whole in each tile.
    parts : int
        Splits of the outermost summed axis; a divisor of it.
    image_rows : int
        Steps of the innermost of `others` that a vector along `along` meets before the next vector does: rows of an
        image, which share what their windows read.
    lanes : int
        Partial sums of each element: the lanes of `adjoint.costs.MODEL`, which narrower vectors run in turns.
    along : Var
        The summed axis that lanes run along.
    inside : tuple of Var
        Axes of the result that are looped over inside a unit.
    blocks : tuple of int
        Block size of each summed axis but `along`, outermost first.
    convert_left, convert_right : bool
        Which operand of 16 bits is converted beforehand (`conversion`).
    packed : {"", "left", "right"}
        Which operand of a plain product is copied beforehand, so that it is contiguous along k as the other one is.
    order : {"rows", "columns"}
        What units walk in their outer loop; of a plain product, what the larger operand has.
    swept : int
        Tiles along the axis of the outer loop in a unit, all of which meet a block of k before the next one
        (`inner_product_sweep`); 0 where each tile walks all of k at once.
    run : int
        Length of the rows along `along` in which the right operand has every second element: units copy blocks of it,
        so that these are contiguous (`inner_product_sweep`). 0 where nothing is copied.
    cycles : float
        Estimated cycles; 0 where only taps are left for the columns of a tile, as of depthwise convolutions.
    """

    contraction: Contraction
    rows: int
    columns: int
    lanes: int
    along: Var
    inside: tuple[Var, ...]
    blocks: tuple[int, ...]
    convert_left: bool
    convert_right: bool
    packed: Literal["", "left", "right"] = ""
    order: Literal["rows", "columns"] = "rows"
    cycles: float = 0.0
    taps: Var | None = None
    parts: int = 1
    image_rows: int = 1
    swept: int = 0
    run: int = 0

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the summed axes but `along` in a split."""
        return tuple(v.extent // (self.parts if v is self.contraction.k[0] else 1) for v in self.others)

    @property
    def others(self) -> tuple[Var, ...]:
        """The summed axes but `along`, outermost first."""
        return tuple(v for v in self.contraction.k if v is not self.along)

    @property
    def unrolled(self) -> tuple[Var, ...]:
        """The axes of the result that are inside a unit."""
        return (*self.inside, self.taps) if self.taps is not None else self.inside

    @property
    def units(self) -> int:
        """Units of work: splits, and tiles; of those with taps, only one of each row of tiles."""
        c, across = self.contraction, column_axis(self.contraction, self.unrolled)
        wide = across.extent if across is not None else 1
        others = prod(v.extent for v in c.axes) // (c.rows * wide * prod(v.extent for v in self.unrolled))
        columns = ceil(wide / self.columns) if self.taps is None else 1
        return self.parts * others * ceil(c.rows / self.rows) * columns

    def prefetches(self, target: Target, sweeps: int) -> bool:
        """Whether prefetches of the next block, of which each of `sweeps` tiles has a share, are free."""
        return self._hides(target, (self.rows if self.order == "rows" else self.columns) / sweeps)

    def prefetches_step(self, target: Target) -> bool:
        """Whether prefetches of as much as a tile reads are free."""
        return self._hides(target, self.rows + self._wide)

    @property
    def _wide(self) -> int:
        """Columns of a tile, with the taps."""
        return self.columns * (self.taps.extent if self.taps is not None else 1)

    def _hides(self, target: Target, lines: float) -> bool:
        """Whether the load units have room for so many prefetches beside the multiply-adds of a step."""
        loads = (self.rows + self._wide + lines) / target.load_units
        return loads <= costs.multiply_add_cycles(target, self.rows * self._wide)

    def __str__(self) -> str:
        return "inner_product"


def plan_at_once(target: Target, c: Contraction) -> InnerProductPlan | None:
    """The plan whose tiles walk all of k at once, or None where a tile with lanes along the result is better."""
    full = costs.order_target(target).lanes(c.dtype)
    short = c.columns < costs.MIN_INNER_LANES * full or (len(c.k) == 1 and min(c.rows, c.columns) < 4 * full)
    if not (short or (not c.vector_loadable and c.rows < costs.MAX_INNER_ROWS)):
        return None
    # Stride 1 or 2; None is the stride of two fused axes, which form contiguous runs.
    near = [v for v in c.k if c.left.index.coefficient(v) == 1 and c.right.index.coefficient(v) in (1, 2, None)]
    packed = "" if near else _packed(c)
    near = near or (list(c.k) if packed else [])
    along = next((v for v in reversed(near) if v.extent >= costs.MIN_INNER_LANES * full), None)
    if along is None:
        return None
    inside = [c.n] if len(c.k) > 1 else []
    alike = [v for v in c.batch if len(c.k) > 1 and not c.left.index.coefficient(v)]
    for var in sorted(alike, key=lambda v: v.extent):
        if prod(v.extent for v in (*inside, var)) <= costs.MAX_INNER_ITERATIONS:
            inside.append(var)
    # Where there would be too few units, taps become columns of the tile.
    points = c.rows * c.batches * c.columns
    while len(inside) > 1 and points // prod(v.extent for v in inside) < costs.units(target):
        inside.pop()
    if points // prod(v.extent for v in inside) < target.cores:
        inside.clear()
    registers = max(full // target.lanes(c.dtype), 1)
    taps, image_rows = None, _image_rows(c, along)
    whole = bool(inside) and column_axis(c, inside) is None and _taps_fit(target, c.n, registers)
    if image_rows > 1 or whole:
        taps = c.n
        inside.clear()
    across = column_axis(c, [*inside, c.n] if taps else inside)
    wide, deep = (v.extent if v is not None else 1 for v in (across, taps))
    rest = points // (c.rows * wide * deep * prod(v.extent for v in inside))
    reads = _Reads(target, c.rows, wide, along.extent * c.dtype.itemsize) if len(c.k) == 1 else None
    products, (rows, columns) = _tile(target, c.rows, wide, registers, rest, deep, reads)
    parts = _parts(c, along, image_rows)
    extents = tuple(v.extent // (parts if v is c.k[0] else 1) for v in c.k if v is not along)
    vectors = prod(extents) * parts * ceil(along.extent / full)
    step_bytes = (rows + columns) * along.extent * c.dtype.itemsize
    blocks = blocks_within(extents, step_bytes, costs.l1_bytes(target)) if inside else extents
    loaded = c.rows * c.batches * c.columns * c.depth / target.lanes(c.dtype) * costs.CONVERT_CYCLES
    cycles = 0.0
    if len(c.k) == 1:
        cycles = _cycles(target, c, products * rest * vectors, packed)
    elif c.m is not None:
        steps, divided = prod(extents) * parts, prod(extents) // prod(blocks) * parts
        many = prod(v.extent for v in inside)
        cycles = TileWalk(target, c, along, full, rows, columns, deep, across, many, steps, divided).cycles()
    return InnerProductPlan(
        contraction=c,
        rows=rows,
        columns=columns,
        lanes=full,
        along=along,
        inside=tuple(inside),
        blocks=blocks,
        convert_left=not packed and 0 < beforehand_cycles(target, c.left) < loaded / columns,
        convert_right=not packed and 0 < beforehand_cycles(target, c.right) < loaded / rows,
        taps=taps,
        parts=parts,
        image_rows=image_rows,
        packed=packed,
        order="columns" if reads is not None and reads.by_columns else "rows",
        cycles=cycles,
    )


def _image_rows(c: Contraction, along: Var) -> int:
    """`InnerProductPlan.image_rows`, from shapes alone: 1 where windows share no rows, or move by two columns."""
    others = [v for v in c.k if v is not along]
    own = [v for v in (*c.batch, c.n) if c.right.index.coefficient(v) and not c.left.index.coefficient(v)]
    if c.m is not None or len(own) != 2 or not others or c.n.extent > costs.MAX_SHARED_TAPS:
        return 1
    if c.right.index.coefficient(along) != 1:
        return 1
    (down,) = (v for v in own if v is not c.n)
    steps = [c.right.index.coefficient(v) or 0 for v in (others[-1], down)]
    shared = min(steps) > 0 and steps[0] % steps[1] == 0 and steps[0] < steps[1] * down.extent
    return min(others[-1].extent, costs.SHARED_ROWS) if shared else 1


def _packed(c: Contraction) -> Literal["", "left", "right"]:
    """The operand of a plain product that is not contiguous along k and is small beside the other one, which is."""
    if len(c.k) != 1:
        return ""
    (k,) = c.k
    left, right = (prod(v.extent for v in c.axes if load.index.coefficient(v)) for load in (c.left, c.right))
    if c.left.index.coefficient(k) == 1 and right * costs.SMALL_BESIDE <= left:
        return "right"
    return "left" if c.right.index.coefficient(k) == 1 and left * costs.SMALL_BESIDE <= right else ""


def _cycles(target: Target, c: Contraction, products: float, packed: str) -> float:
    """Cycles of a plain product: those of its multiply-adds, of adding lanes at the end, and of packing."""
    results = prod(v.extent for v in c.axes)
    load = {"left": c.left, "right": c.right}.get(packed)
    packing = _packing_cycles(target, c, load) if load is not None else 0.0
    return products + results * costs.REDUCE_LANES_CYCLES + packing


def _packing_cycles(target: Target, c: Contraction, load: Load) -> float:
    """Cycles to copy an operand of a plain product so that it is contiguous along k."""
    own = [v for v in c.axes if load.index.coefficient(v)]
    copied = prod(v.extent for v in (*own, *c.k))
    transposed = transposed_along(load, own, c.k[0]) is not None
    rate = costs.transpose_cycles(target.lanes(c.dtype)) if transposed else costs.GATHER_CYCLES
    return costs.PACKING_CYCLES + copied * rate


def _parts(c: Contraction, along: Var, image_rows: int) -> int:
    """Splits of the outermost summed axis, from shapes alone: they decide the order of additions.

    Those of a single image have enough rows for windows to share what they read, and there are only as many as threads
    need: planes of channels follow each other in memory already.
    """
    few = (
        c.rows * prod(v.extent for v in (*c.batch, c.n) if not c.left.index.coefficient(v))
        <= costs.MAX_INNER_ITERATIONS
    )
    near = c.left.buffer.nbytes + c.right.buffer.nbytes < costs.l2_bytes(costs.MODEL)
    if near or not few or c.k[0] is along:
        return 1
    most = costs.MAX_PARTIAL_BYTES // (prod(v.extent for v in c.axes) * c.dtype.itemsize)
    if len(c.k) == 2:
        most = min(most, c.k[0].extent // image_rows)
    if len(c.k) == 2 and c.left.index.coefficient(c.k[0]) == along.extent:
        planes = prod(v.extent for v in c.axes if c.left.index.coefficient(v))
        most = min(most, ceil(costs.units(costs.MODEL) / planes))
    return max(divisors(c.k[0].extent, min(max(most, 1), costs.MAX_INNER_PARTS)))


def column_axis(c: Contraction, inside: Sequence[Var]) -> Var | None:
    """The axis along which the columns of a tile run: the longest of the right operand that is not inside a unit."""
    free = [v for v in (*c.batch, c.n) if v not in inside]
    only_right = [v for v in free if c.right.index.coefficient(v) and not c.left.index.coefficient(v)]
    return max(only_right, key=lambda v: v.extent, default=None)


@dataclass(frozen=True, slots=True)
class _Reads:
    """What tiles of a plain product read: `rows` of one operand and `columns` of the other, of so many bytes each."""

    target: Target
    rows: int
    columns: int
    nbytes: int

    @property
    def by_columns(self) -> bool:
        """Whether tiles walk columns in their outer loop: those of the larger operand, which is read once."""
        return self.columns > self.rows

    def cycles(self, height: int, width: int) -> float:
        """Cycles per vector along k to read so many rows and columns, from where they are when a tile meets them."""
        outer, inner = (self.rows, height), (self.columns, width)
        if self.by_columns:
            outer, inner = inner, outer
        sweeps = ceil(inner[0] / inner[1])
        first = outer[0] if outer[0] * self.nbytes > costs.l2_bytes(self.target) else 0
        # With one tile across, the larger operand is read through; one row at a time is one stream.
        through = sweeps == 1 and first * self.nbytes > costs.l3_block_bytes(self.target)
        streams = costs.SEVERAL_STREAMS if through and outer[1] > 1 else 1.0
        walked = streams * self._line(first) + self._line(height + width) * (sweeps - 1)
        return outer[1] * walked / sweeps + inner[1] * self._line(inner[0])

    def _line(self, rows: int) -> float:
        """Cycles to read a line of so many rows again."""
        return line_cycles(self.target, Block(1, rows * self.nbytes, 0))


def _taps_fit(target: Target, taps: Var, registers: int) -> bool:
    """Whether the registers hold the partial sums of all taps, so many for each, beside what is multiplied."""
    return (taps.extent + 2) * registers < target.vector_registers


def _tile(
    target: Target, rows: int, columns: int, registers: int, rest: int, taps: int, reads: _Reads | None
) -> tuple[float, tuple[int, int]]:
    """The tile with the lowest estimated cost, and that of a step, if a vector of partial sums takes so many registers.

    Each tile is `rest` units of work, and has so many taps for each row and column; `reads` are those of a plain
    product.
    """
    candidates = [
        (height, width)
        for height in range(1, min(rows, costs.MAX_INNER_TILE) + 1)
        for width in range(1, min(columns, costs.MAX_INNER_TILE) + 1)
        if (height * width * taps + height + 1) * registers <= target.vector_registers - 1
    ]

    def cycles(tile: tuple[int, int]) -> float:
        total, number = 0.0, 0
        for (_, down, height), (_, across, width) in product(pieces(rows, tile[0]), pieces(columns, tile[1])):
            compute = costs.multiply_add_cycles(target, height * width * taps * registers)
            loads = (height + width * taps) * registers / target.load_units
            moved = reads.cycles(height, width) if reads is not None else 0.0
            step = max(compute, loads, costs.chain_cycles(target)) + costs.EXPOSED_INNER_TRANSFERS * moved
            total += down * across * max(step, moved)
            number += down * across
        return total * costs.idle(target, number * rest)

    best = min(candidates, key=lambda t: (cycles(t), -t[0] * t[1]), default=(1, 1))
    return cycles(best), best
