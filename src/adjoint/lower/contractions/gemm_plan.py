"""How a contraction runs as a register-tiled GEMM: tile configuration, packing, panels and blocks, by estimated cost.

A tile of the result stays in vector registers while the loop over k runs (the micro-kernel of Goto and van de Geijn):
`rows` broadcast elements of the left operand times `vectors` vectors of the right one, a fused multiply-add each.
Operands are read in place through their strides where lanes are contiguous and few pages are touched; elsewhere a
thread first packs the columns that it works on into a panel of its own that stays in cache. `gemm` builds the loops.

Every plan adds the products of an element one after the other, from the first to the last, so that all of them give the
same bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from typing import Literal, NamedTuple

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.conversion import beforehand_cycles, element_cycles, packing_cycles

__all__ = ["GemmPlan", "Tile", "blocks_within", "gemm_plans", "plan_gemm", "ranked_tiles", "tile_lanes"]


class Tile(NamedTuple):
    """A register tile: rows and vectors of accumulators, and tiles stacked along the innermost batch axis."""

    rows: int
    vectors: int
    stack: int = 1

    def __str__(self) -> str:
        return "x".join(map(str, self))


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """How a contraction runs as a GEMM.

    Parameters
    ----------
    contraction : Contraction
        The contraction, in the axes that the plan tiles.
    tile : Tile
        The register tile; stacked tiles share the elements of the left operand.
    lanes : int
        Lanes of a vector.
    pack_left, pack_columns, pack_right : bool
        Which operand is packed: the left or the right one as a whole, by a kernel of its own; or the right one panel by
        panel.
    convert_left, convert_right : bool
        Which operand of 16 bits is converted beforehand (`conversion`).
    wide : int
        Tiles side by side in a packed panel.
    block : int
        Steps of k for which a panel is packed at a time (KC in BLIS); 0 for all.
    groups : int
        Row groups that meet a packed panel, each a unit of work of its own.
    order : {"images", "columns", "rows"}
        What units walk in their outer loop: blocks of rows for a whole image, panels of columns, or blocks of rows.
    l2_panels : int
        Panels of columns that a block of rows meets before the next block does.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    tile: Tile
    lanes: int
    pack_left: bool = False
    pack_columns: bool = False
    pack_right: bool = False
    convert_left: bool = False
    convert_right: bool = False
    wide: int = 1
    block: int = 0
    groups: int = 1
    order: Literal["images", "columns", "rows"] = "columns"
    l2_panels: int = 1
    cycles: float = 0.0

    @property
    def columns(self) -> int:
        """Columns of the result in a tile."""
        return self.tile.vectors * self.lanes

    def __str__(self) -> str:
        return f"gemm {self.tile}{' packed' if self.pack_right else ''}"


def plan_gemm(target: Target, c: Contraction, streams: int = 0) -> GemmPlan:
    """The plan with the lowest estimated cost; packs where strides would hurt.

    `streams` is the number of tensors in memory that the epilogue walks row by row.
    """
    packed = _should_pack(target, c, streams)
    cycles, tile = ranked_tiles(target, c, streams, packed)[0]
    return _plan(target, c, tile, packed, cycles)


def gemm_plans(target: Target, c: Contraction, streams: int, most: int | None = None) -> Iterator[GemmPlan]:
    """The plans of all tiles that fit, in place and packed, each in the order of estimated cost; `most` of each."""
    for packed in (False, True):
        if packed or c.vector_loadable:
            for cycles, tile in ranked_tiles(target, c, streams, packed)[:most]:
                yield _plan(target, c, tile, packed, cycles)


def _plan(target: Target, c: Contraction, tile: Tile, pack_right: bool, cycles: float) -> GemmPlan:
    """The plan with a tile: what is packed, in which blocks, and how it is shared."""
    lanes = tile_lanes(target, c)
    width, itemsize = tile.vectors * lanes, c.dtype.itemsize
    block, wide = c.depth, 1
    if pack_right and len(c.k) == 1:
        wide = _tiles_per_panel(target, c.columns, c.batches, width) if _streams_from_memory(target, c) else 1
        room = costs.l1_bytes(target) if wide > 1 else costs.panel_bytes(target)
        block = ceil(c.depth / ceil(c.depth / max(room // (width * itemsize), 1)))
    many_columns, many_rows = (
        extent >= costs.MIN_PACKED_TILES * size for extent, size in ((c.columns, width), (c.rows, tile.rows))
    )
    convert_left, convert_right = _cost_model(target, c, 0, pack_right).converts(tile)
    left_bytes, right_bytes = (
        itemsize if converted else load.dtype.itemsize
        for load, converted in ((c.left, convert_left), (c.right, convert_right))
    )
    aliased = c.m is not None and (
        (_aliased(target, c.left, c.m, left_bytes) and c.depth >= costs.MIN_PACKED_DEPTH)
        or any(_aliased(target, c.left, v, left_bytes) for v in c.k)
    )
    uses = ceil(c.columns / width) * prod(v.extent for v in c.batch if not c.left.index.coefficient(v))
    sparse = c.m is not None and uses >= costs.MIN_SPARSE_USES and _sparse(target, c, left_bytes)
    conflicting = any(_aliased(target, c.right, v, right_bytes) for v in c.k)
    pack_left = (many_columns and aliased) or sparse
    pack_columns = not pack_right and many_rows and many_columns and conflicting
    groups = _row_groups(target, c.rows, c.columns, c.batches, tile.rows, wide * width) if pack_right else 1
    return GemmPlan(
        contraction=c,
        tile=tile,
        lanes=lanes,
        pack_left=pack_left,
        pack_columns=pack_columns,
        pack_right=pack_right,
        # Packing converts.
        convert_left=convert_left and not pack_left,
        convert_right=convert_right and not pack_columns,
        wide=wide,
        block=block,
        groups=groups,
        order="images" if iterates_images(target, c) else "columns" if c.columns >= c.rows else "rows",
        l2_panels=_panels_per_l2_block(target, c, ceil(c.columns / width)),
        cycles=cycles,
    )


def _streams_from_memory(target: Target, c: Contraction) -> bool:
    """Whether panels are packed from the rows of a matrix that comes from memory each time."""
    return c.right.index.coefficient(c.k[0]) != 1 and c.right.buffer.nbytes >= costs.far_bytes(target)


def _tiles_per_panel(target: Target, columns: int, batches: int, width: int) -> int:
    """Tiles in a panel of a matrix that streams from memory: wide panels touch fewer rows than many narrow ones."""
    panels, rest = divmod(columns, costs.PANEL_TILES * width)
    return costs.PANEL_TILES if not rest and panels * batches >= costs.units(target) else 1


def _row_groups(target: Target, rows: int, columns: int, batches: int, height: int, width: int) -> int:
    """Number of row groups that meet a panel, each of which packs it anew.

    Enough to occupy all threads, and to keep the partial sums that wait between blocks of k within scratch memory.
    """
    shared = ceil(costs.units(target) / (batches * ceil(columns / width)))
    spilled = ceil(rows * width / costs.MAX_SPILLED_SUMS)
    return min(ceil(rows / height), max(shared, spilled))


def _should_pack(target: Target, c: Contraction, streams: int) -> bool:
    """Whether to pack the right operand panel by panel: its lanes or its rows are far apart, and it is reused.

    An operand of 16 bits is also packed where that is the cheapest way to convert it.
    """
    if not c.vector_loadable or len(c.k) != 1:
        return not c.vector_loadable
    cycles, tile = ranked_tiles(target, c, streams, packed=False)[0]
    row_bytes = abs(c.right.index.coefficient(c.k[0]) or 0) * c.right.dtype.itemsize
    far_apart = c.depth >= costs.MIN_PACKED_DEPTH and row_bytes >= costs.PAGE_STRIDE and c.rows > tile.rows
    if far_apart or c.right.dtype == c.dtype:
        return far_apart
    return ranked_tiles(target, c, streams, packed=True)[0][0] < cycles


def tile_lanes(target: Target, c: Contraction) -> int:
    """Lanes of a vector along n: shorter vectors where there are few columns."""
    return min(target.lanes(c.dtype), 1 << (c.columns - 1).bit_length())


def _aliased(target: Target, load: Load, var: Var, itemsize: int) -> bool:
    """Whether steps along an axis map to one set of the first-level cache and outnumber its ways."""
    step = abs(load.index.coefficient(var) or 0) * itemsize
    return step > 0 and step % costs.alias_stride(target) == 0 and var.extent >= costs.aliased_rows(target)


def _sparse(target: Target, c: Contraction, itemsize: int) -> bool:
    """Whether few elements of a cache line of the left operand are used: some taps of each window of a weight."""
    line, used = target.line_bytes // itemsize, 1.0
    for var in (*c.k, *((c.m,) if c.m is not None else ())):
        step = abs(c.left.index.coefficient(var) or 0)
        used *= min(max(line / step, 1), var.extent) if step else 1
    return used * costs.SPARSE <= line


def iterates_images(target: Target, c: Contraction) -> bool:
    """Whether the innermost batch axis walks an image, of the right operand alone, that stays in cache."""
    if not c.batch or c.left.index.coefficient(c.batch[-1]):
        return False
    image = sum((v.extent - 1) * abs(c.right.index.coefficient(v) or 0) for v in (c.batch[-1], c.n, *c.k))
    return image * c.right.dtype.itemsize <= costs.l2_block_bytes(target)


def _panels_per_l2_block(target: Target, c: Contraction, panels: int) -> int:
    """Column panels that meet a block of rows before the next block does.

    One panel, so that the right operand stays in the first-level cache; but where the result is large (the gradient of
    a matrix that is updated in the epilogue), as many as stay in the second, so that memory is accessed in long runs.
    """
    if c.rows * c.columns * c.right.dtype.itemsize < costs.l2_bytes(target):
        return 1
    panel, room = ceil(c.columns / panels) * c.depth * c.right.dtype.itemsize, costs.l2_block_bytes(target)
    return max(d for d in range(1, panels + 1) if panels % d == 0 and (d == 1 or d * panel <= room))


def _stacks(c: Contraction) -> tuple[int, ...]:
    """Possible stacks: neighbours along the innermost batch axis for which the left operand is the same."""
    if not c.batch or c.left.index.coefficient(c.batch[-1]):
        return (1,)
    return tuple(d for d in range(1, costs.MAX_STACK + 1) if c.batch[-1].extent % d == 0)


def ranked_tiles(
    target: Target, c: Contraction, streams: int, packed: bool, shared: bool = True
) -> tuple[tuple[float, Tile], ...]:
    """Register tiles that fit the register file, with their estimated cycles, the cheapest first.

    `shared` says whether threads share the tiles, rather than one unit computing all of them.
    """
    return _ranked(_cost_model(target, c, streams, packed, shared))


def _cost_model(target: Target, c: Contraction, streams: int, packed: bool, shared: bool = True) -> "_CostModel":
    """The cost model of a contraction's tiles, from operands in place or with the right one packed."""
    lanes = tile_lanes(target, c)
    transposes = len(c.k) == 1 and c.right.index.coefficient(c.k[0]) == 1
    contiguous = c.right.index.coefficient(c.n) == 1
    rate = costs.transpose_cycles(lanes) if transposes else costs.copy_cycles(lanes)
    rate = rate if transposes or contiguous else costs.GATHER_CYCLES
    rate += packing_cycles(c.right, lanes)
    far = packed and len(c.k) == 1 and _streams_from_memory(target, c)
    return _CostModel(
        target=target,
        rows=c.rows,
        columns=c.columns,
        depth=c.depth,
        batches=c.batches,
        itemsize=c.dtype.itemsize,
        lanes=lanes,
        most_rows=max(costs.HARDWARE_STREAMS // max(streams, 1), 1),
        stacks=(1,) if packed else _stacks(c),
        # A vector of strided lanes takes two loads and a shuffle, and registers for them.
        shuffles=0 if packed or contiguous else 1,
        packing=c.depth * c.columns * rate if packed else 0.0,
        far=c.depth * costs.FAR_ROW_CYCLES if far else 0.0,
        left_element=element_cycles(c.left),
        left_beforehand=beforehand_cycles(target, c.left),
        right_beforehand=0.0 if packed else beforehand_cycles(target, c.right),
        shared=shared and costs.is_shared(2.0 * c.rows * c.columns * c.depth * c.batches, 0.0, target),
        packed=packed,
    )


@dataclass(frozen=True, slots=True)
class _CostModel:
    """The cost model of register tiles, a function of these numbers alone.

    Per step of k, a tile costs the largest of: its multiply-adds, its loads, the latency of a dependent addition, and
    the traffic of the right operand where that does not stay in the first-level cache (compare Low et al., "Analytical
    modeling is enough for high-performance BLIS", 2016). Panels are packed once per row group.

    Parameters
    ----------
    target : Target
        The CPU.
    rows, columns, depth, batches, itemsize, lanes : int
        Extents of the product, bytes of an element, and lanes of a vector.
    most_rows, stacks : int, tuple of int
        Most rows of a tile, and its possible stacks.
    shuffles : int
        Shuffles per vector of the right operand.
    packing, far : float
        Cycles to pack all panels, and to reach rows in memory for one vector of a panel's width.
    left_element : float
        Cycles to convert an element of the left operand where it is loaded.
    left_beforehand, right_beforehand : float
        Cycles to convert an operand beforehand; 0 for one that is not converted, or is packed.
    shared, packed : bool
        Whether threads share the tiles, and whether panels are packed: then a row group is a unit, otherwise a tile is.
    """

    target: Target
    rows: int
    columns: int
    depth: int
    batches: int
    itemsize: int
    lanes: int
    most_rows: int
    stacks: tuple[int, ...]
    shuffles: int
    packing: float
    far: float
    left_element: float
    left_beforehand: float
    right_beforehand: float
    shared: bool
    packed: bool

    def tiles(self) -> Iterator[Tile]:
        """The tiles that fit the registers."""
        columns = ceil(self.columns / self.lanes)
        available = self.target.tile_registers - 2 * self.shuffles
        for vectors in range(1, min(columns, costs.MAX_VECTORS) + 1):
            for rows in range(1, min(self.rows, self.most_rows, costs.MAX_ROWS) + 1):
                for stack in self.stacks:
                    fits = (rows + 1 + self.shuffles) * vectors * stack <= available
                    if fits and (stack == 1 or vectors == columns):
                        yield Tile(rows, vectors, stack)

    def cost(self, tile: Tile) -> tuple[float, int]:
        """Estimated cycles; ties go to the larger tile."""
        rows, vectors, stack = tile
        columns = ceil(self.columns / self.lanes)
        # Strided loads cannot fill zeros past the end: every addition to a partial vector is masked.
        masked = costs.MASKED_COST if self.shuffles and self.columns % self.lanes else 1.0
        wide = _tiles_per_panel(self.target, self.columns, self.batches, vectors * self.lanes) if self.far else 1
        total = 0.0
        for height, many_rows in _tile_counts(self.rows, rows):
            for width, many in _tile_counts(columns, vectors):
                step = self._step_cycles(height, width, stack, masked, wide)
                total += many_rows * many * (step * self.depth / stack + costs.TILE_CYCLES)
        edges = (self.rows % rows > 0) + (columns % vectors > 0)
        groups = _row_groups(
            self.target, self.rows, self.columns, self.batches, rows, wide * vectors * self.lanes
        )  # fmt: skip
        total += (self.packing + self.far * ceil(columns / vectors / wide)) * groups
        blocks = groups if self.packed else ceil(self.rows / rows)
        units = self.batches // stack * blocks * ceil(columns / vectors / wide)
        idle = costs.idle(self.target, units) if self.shared else 1.0
        cycles = total * self.batches * (1 + costs.EDGE_COST * edges) * idle
        left, right = self._conversions(tile)
        return cycles + min(left, self.left_beforehand) + min(right, self.right_beforehand), -rows * vectors * stack

    def converts(self, tile: Tile) -> tuple[bool, bool]:
        """Which operand is converted beforehand, because that costs less than where it is loaded."""
        left, right = self._conversions(tile)
        return 0 < self.left_beforehand < left, 0 < self.right_beforehand < right

    def _conversions(self, tile: Tile) -> tuple[float, float]:
        """Cycles to convert the elements of each operand where they are loaded."""
        rows, vectors, stack = tile
        columns = ceil(self.columns / self.lanes)
        left = self.rows * ceil(columns / vectors) / stack * self.left_element
        right = columns * ceil(self.rows / rows) * costs.CONVERT_CYCLES
        return left * self.depth * self.batches, right * self.depth * self.batches

    def _step_cycles(self, height: int, width: int, stack: int, masked: float, wide: int) -> float:
        """Cycles of a step of k of a tile of so many rows and vectors."""
        compute = costs.multiply_add_cycles(self.target, (height * width + width * self.shuffles) * stack) * masked
        loads = costs.load_cycles(self.target, height + width * stack * (1 + self.shuffles))
        row = width * stack * self.lanes * self.itemsize
        streams = row * self.depth * 2 > costs.l1_bytes(self.target) and wide == 1
        stream = row / self.target.l2_bytes_per_cycle if streams else 0.0
        return max(compute, loads, stream, costs.chain_cycles(self.target))


@lru_cache(maxsize=4096)
def _ranked(model: _CostModel) -> tuple[tuple[float, Tile], ...]:
    """Cached: layers repeat, and plans are compared."""
    ranked = sorted(((model.cost(tile), tile) for tile in model.tiles()), key=lambda found: found[0])
    return tuple((cycles, tile) for (cycles, _), tile in ranked)


def blocks_within(extents: Sequence[int], step_bytes: int, room_bytes: int) -> tuple[int, ...]:
    """Block size of each summed axis, a divisor of it, so that a block fits `room_bytes`; innermost axes first.

    Axes inside a divided one are whole: blocks one after the other walk all steps in row-major order.
    """
    room = max(room_bytes // step_bytes, 1)
    blocks: list[int] = []
    for extent in reversed(extents):
        size = max(d for d in range(1, min(room, extent) + 1) if extent % d == 0)
        room = room // size if size == extent else 1
        blocks.insert(0, size)
    return tuple(blocks)


def _tile_counts(extent: int, tile: int) -> list[tuple[int, int]]:
    """Tilings of an axis as ``(size, count)``: whole tiles and a remainder."""
    full, rest = divmod(extent, tile)
    return [(tile, full)] * (full > 0) + [(rest, 1)] * (rest > 0)
