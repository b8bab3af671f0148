"""How a contraction runs as a register-tiled GEMM: tile configuration, packing, panels and blocks, by estimated cost.

A tile of the result stays in vector registers while the loop over k runs (the micro-kernel of Goto and van de Geijn):
`rows` broadcast elements of the left operand times `vectors` vectors of the right one, a fused multiply-add each.
Operands are read in place through their strides where lanes are contiguous and few pages are touched; elsewhere a
thread first packs the columns that it works on into a panel of its own that stays in cache. `gemm` builds the loops.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod

from adjoint.errors import CompileError
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lower.contractions.contraction import Contraction

__all__ = [
    "GATHER_CYCLES",
    "TRANSPOSE_CYCLES",
    "UNITS",
    "GemmPlan",
    "TileConfig",
    "blocks_within",
    "plan_gemm",
    "tiles_by_cost",
]

#: Bytes of the first-level cache that the operands of a tile may use.
_L1_BYTES = 32 * 1024


#: Bytes of a packed panel: together with the rows that meet it, it fits a second-level cache of 512 KiB.
_PANEL_BYTES = 128 * 1024


#: Where several tiles share a panel: bytes of one tile's part, which stays in the first-level cache while all rows meet
#: it; and the number of tiles.
_L1_PANEL_BYTES, _PANEL_TILES = 32 * 1024, 4


#: Row strides in bytes: from the first on, every row is on a page of its own; multiples of the second map to the same
#: set of the first-level cache.
_PAGE_STRIDE, _ALIAS_STRIDE = 2048, 4096


#: Memory streams that the hardware prefetcher follows at a time.
_HARDWARE_STREAMS = 20


#: Largest stack of a tile.
_MAX_STACK = 4


#: Cycles to pack an element: by vector copies, by in-register transposes, or by gathers.
COPY_CYCLES, TRANSPOSE_CYCLES, GATHER_CYCLES = 0.1, 0.3, 1.5


#: An operand of at least this many bytes streams from memory each time; and cycles to reach one of its rows there.
#: Panels of several tiles touch fewer rows than many narrow panels.
_FAR_BYTES, _FAR_ROW_CYCLES = 8 * 1024 * 1024, 40.0


#: Fraction that a remainder tile costs beyond its arithmetic: extra code, and loops of different lengths.
_EDGE_COST = 0.02


#: Bytes of a cache line; an operand is sparse where at most one in so many elements of a line is used; uses of an
#: element from which on a sparse operand is packed.
_LINE_BYTES, _SPARSE, _MIN_USES = 64, 4, 8


#: Ways of a set of the first-level cache, with a margin.
_WAYS = 16


#: Extent of k from which on conflicting strides hurt.
_MIN_DEPTH = 192


#: Least cycles of a step of k: the latency of a fused multiply-add, with a margin.
_FMA_LATENCY = 4.5


#: Most partial sums that wait between blocks of k on a thread's stack: a megabyte of the widest type.
_SPILLED_SUMS = 128 * 1024


#: Sustained vector loads per cycle; the peak is two.
_LOADS_PER_CYCLE = 1.8


#: Units of work that a contraction should offer to threads.
UNITS = 16


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """How a contraction runs as a GEMM.

    Parameters
    ----------
    rows, vectors, lanes, stack : int
        The register tile: rows and vectors of accumulators, and lanes of a vector; `stack` such tiles, neighbours along
        the innermost batch axis, share the elements of the left operand.
    pack_left, pack_columns, pack_right : bool
        Which operand is packed: the left or the right one as a whole, by a kernel of its own; or the right one panel by
        panel.
    wide : int
        Tiles side by side in a packed panel.
    block : int
        Steps of k for which a panel is packed at a time (KC in BLIS).
    groups : int
        Row groups that meet a panel, each a unit of work of its own.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    rows: int
    vectors: int
    lanes: int
    stack: int
    pack_left: bool
    pack_columns: bool
    pack_right: bool
    wide: int
    block: int
    groups: int
    cycles: float

    @property
    def columns(self) -> int:
        """Columns of the result in a tile."""
        return self.vectors * self.lanes


@dataclass(frozen=True, slots=True)
class TileConfig:
    """A tile configuration (rows, vectors, stack), and whether the right operand is packed panel by panel."""

    tile: tuple[int, int, int]
    packed: bool

    def __str__(self) -> str:
        return "x".join(map(str, self.tile)) + (" packed" if self.packed else "")


def plan_gemm(target: Target, c: Contraction, streams: int = 0, config: TileConfig | None = None) -> GemmPlan:
    """The plan with the tile of the lowest estimated cost, or with a given one; packs where strides would hurt.

    `streams` is the number of tensors in memory that the epilogue walks row by row.
    """
    pack_right = _should_pack(target, c, streams) if config is None else config.packed
    found = tiles_by_cost(target, c, streams, pack_right)
    if config is not None:
        found = [(cycles, tile) for cycles, tile in found if tile == config.tile]
        if not found:
            rows, columns = c.rows, c.columns
            raise CompileError(f"a contraction of {rows} rows and {columns} columns has no tile {config}; tune it anew")
    cycles, (rows, vectors, stack) = found[0]
    lanes = _lanes(target, c)
    itemsize = c.left.dtype.itemsize
    block, wide = c.depth, 1
    if pack_right and len(c.k) == 1:
        wide = _tiles_per_panel(c.columns, c.batches, vectors * lanes) if _streams_from_memory(c) else 1
        most = max((_L1_PANEL_BYTES if wide > 1 else _PANEL_BYTES) // (vectors * lanes * itemsize), 1)
        block = ceil(c.depth / ceil(c.depth / most))
    many_columns, many_rows = c.columns >= 4 * vectors * lanes, c.rows >= 4 * rows
    aliased = c.m is not None and (
        (_aliased(c.left, c.m) and c.depth >= _MIN_DEPTH) or any(_aliased(c.left, v) for v in c.k)
    )
    uses = ceil(c.columns / (vectors * lanes)) * prod(v.extent for v in c.batch if not c.left.index.coefficient(v))
    pack_left = (many_columns and aliased) or (c.m is not None and uses >= _MIN_USES and _sparse(c))
    pack_columns = not pack_right and many_rows and many_columns and any(_aliased(c.right, v) for v in c.k)
    groups = _row_groups(c.rows, c.columns, c.batches, rows, wide * vectors * lanes) if pack_right else 1
    return GemmPlan(rows, vectors, lanes, stack, pack_left, pack_columns, pack_right, wide, block, groups, cycles)


def _streams_from_memory(c: Contraction) -> bool:
    """Whether panels are packed from the rows of a matrix that comes from memory each time."""
    return c.right.index.coefficient(c.k[0]) != 1 and c.right.buffer.nbytes >= _FAR_BYTES


def _tiles_per_panel(columns: int, batches: int, width: int) -> int:
    """Tiles in a panel of a matrix that streams from memory: wide panels touch fewer rows than many narrow ones."""
    panels, rest = divmod(columns, _PANEL_TILES * width)
    return _PANEL_TILES if not rest and panels * batches >= UNITS else 1


def _row_groups(rows: int, columns: int, batches: int, height: int, width: int) -> int:
    """Number of row groups that meet a panel, each of which packs it anew.

    Enough to occupy all threads, and to keep the partial sums that wait between blocks of k within a stack.
    """
    shared, spilled = ceil(UNITS / (batches * ceil(columns / width))), ceil(rows * width / _SPILLED_SUMS)
    return min(ceil(rows / height), max(shared, spilled))


def _should_pack(target: Target, c: Contraction, streams: int) -> bool:
    """Whether to pack the right operand panel by panel: its lanes or its rows are far apart, and it is reused."""
    if not c.vector_loadable or len(c.k) != 1:
        return not c.vector_loadable
    _, (rows, _, _) = tiles_by_cost(target, c, streams, packed=False)[0]
    row_bytes = abs(c.right.index.coefficient(c.k[0]) or 0) * c.right.dtype.itemsize
    return c.depth >= _MIN_DEPTH and row_bytes >= _PAGE_STRIDE and c.rows > rows


def _lanes(target: Target, c: Contraction) -> int:
    return min(target.lanes(c.left.dtype), 1 << (c.columns - 1).bit_length())


def _aliased(load: Load, var: Var) -> bool:
    """Whether steps along an axis map to one set of the first-level cache and outnumber its ways."""
    step = abs(load.index.coefficient(var) or 0) * load.dtype.itemsize
    return step > 0 and step % _ALIAS_STRIDE == 0 and var.extent >= _WAYS


def _sparse(c: Contraction) -> bool:
    """Whether few elements of a cache line of the left operand are used: some taps of each window of a weight."""
    line, used = _LINE_BYTES // c.left.dtype.itemsize, 1.0
    for var in (*c.k, *((c.m,) if c.m is not None else ())):
        step = abs(c.left.index.coefficient(var) or 0)
        used *= min(max(line / step, 1), var.extent) if step else 1
    return used * _SPARSE <= line


def _stacks(c: Contraction) -> tuple[int, ...]:
    """Possible stacks: neighbours along the innermost batch axis for which the left operand is the same."""
    if not c.batch or c.left.index.coefficient(c.batch[-1]):
        return (1,)
    return tuple(d for d in range(1, _MAX_STACK + 1) if c.batch[-1].extent % d == 0)


def tiles_by_cost(
    target: Target, c: Contraction, streams: int, packed: bool
) -> list[tuple[float, tuple[int, int, int]]]:
    """Register tiles (rows, vectors, stack) that fit the register file, in the order of their estimated cost."""
    transposes = len(c.k) == 1 and c.right.index.coefficient(c.k[0]) == 1
    far = c.depth * _FAR_ROW_CYCLES if packed and len(c.k) == 1 and _streams_from_memory(c) else 0.0
    rate = TRANSPOSE_CYCLES if transposes else COPY_CYCLES if c.right.index.coefficient(c.n) == 1 else GATHER_CYCLES
    # A vector of strided lanes takes two loads and a shuffle, and registers for them.
    shuffles = 0 if packed or c.right.index.coefficient(c.n) == 1 else 1
    model = _CostModel(
        c.rows,
        c.columns,
        c.depth,
        c.batches,
        c.left.dtype.itemsize,
        _lanes(target, c),
        target.tile_registers,
        max(_HARDWARE_STREAMS // max(streams, 1), 1),
        (1,) if packed else _stacks(c),
        shuffles,
        c.depth * c.columns * rate if packed else 0.0,
        far,
    )
    return list(_ranked_tiles(model))


@dataclass(frozen=True, slots=True)
class _CostModel:
    """The cost model of register tiles, a function of these numbers alone.

    Per step of k, a tile costs the largest of: its multiply-adds (two vectors per cycle), its loads, the latency of a
    dependent addition, and the traffic of the right operand where that does not stay in the first-level cache (compare
    Low et al., "Analytical modeling is enough for high-performance BLIS", 2016). Panels are packed once per row group.

    Parameters
    ----------
    rows, columns, depth, batches, itemsize, lanes, registers : int
        Extents of the product, bytes of an element, lanes of a vector, and registers that a tile may fill.
    most_rows, stacks : int, tuple of int
        Most rows of a tile, and its possible stacks.
    shuffles : int
        Shuffles per vector of the right operand.
    packing, far : float
        Cycles to pack all panels, and to reach rows in memory for one vector of a panel's width.
    """

    rows: int
    columns: int
    depth: int
    batches: int
    itemsize: int
    lanes: int
    registers: int
    most_rows: int
    stacks: tuple[int, ...]
    shuffles: int
    packing: float
    far: float

    def tiles(self) -> Iterator[tuple[int, int, int]]:
        """The tiles that fit the registers."""
        columns = ceil(self.columns / self.lanes)
        available = self.registers - 2 * self.shuffles
        for vectors in range(1, min(columns, 6) + 1):
            for rows in range(1, min(self.rows, self.most_rows, 16) + 1):
                for stack in self.stacks:
                    fits = (rows + 1 + self.shuffles) * vectors * stack <= available
                    if fits and (stack == 1 or vectors == columns):
                        yield rows, vectors, stack

    def cost(self, tile: tuple[int, int, int]) -> tuple[float, int]:
        """Estimated cycles; ties go to the larger tile."""
        rows, vectors, stack = tile
        columns = ceil(self.columns / self.lanes)
        # Strided loads cannot fill zeros past the end: every addition to a partial vector is masked.
        masked = 1.5 if self.shuffles and self.columns % self.lanes else 1.0
        wide = _tiles_per_panel(self.columns, self.batches, vectors * self.lanes) if self.far else 1
        total = 0.0
        for height, many_rows in _tile_counts(self.rows, rows):
            for width, many in _tile_counts(columns, vectors):
                compute = (height * width + width * self.shuffles) * stack / 2 * masked
                loads = (height + width * stack * (1 + self.shuffles)) / _LOADS_PER_CYCLE
                row = width * stack * self.lanes * self.itemsize
                stream = row / 32 if row * self.depth * 2 > _L1_BYTES and wide == 1 else 0.0
                total += many_rows * many * (max(compute, loads, stream, _FMA_LATENCY) * self.depth / stack + 6)
        edges = (self.rows % rows > 0) + (columns % vectors > 0)
        groups = _row_groups(self.rows, self.columns, self.batches, rows, wide * vectors * self.lanes)
        total += (self.packing + self.far * ceil(columns / vectors / wide)) * groups
        return total * self.batches * (1 + _EDGE_COST * edges), -rows * vectors * stack


@lru_cache(maxsize=4096)
def _ranked_tiles(model: _CostModel) -> tuple[tuple[float, tuple[int, int, int]], ...]:
    """Cached: layers repeat, and plans are compared."""
    ranked = sorted(((model.cost(tile), tile) for tile in model.tiles()), key=lambda found: found[0])
    return tuple((cycles, tile) for (cycles, _), tile in ranked)


def blocks_within(extents: Sequence[int], step_bytes: int, room_bytes: int) -> tuple[int, ...]:
    """Block size of each summed axis, a divisor of it, so that a block fits `room_bytes`; innermost axes first."""
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
