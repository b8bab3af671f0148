"""The cost model of a GEMM's register tiles: which fit, and how many cycles a contraction takes with each."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from adjoint import costs
from adjoint.kernel.target import Target
from adjoint.lower.contractions.contraction import Contraction, contiguous_run
from adjoint.lower.contractions.conversion import beforehand_cycles, element_cycles, packing_cycles

__all__ = [
    "CostModel",
    "Tile",
    "cost_model",
    "ranked_tiles",
    "row_groups",
    "streams_from_memory",
    "tile_lanes",
    "tiles_per_panel",
]


class Tile(NamedTuple):
    """A register tile: rows and vectors of accumulators, and tiles stacked along the innermost batch axis."""

    rows: int
    vectors: int
    stack: int = 1

    def __str__(self) -> str:
        return "x".join(map(str, self))


def tile_lanes(target: Target, c: Contraction) -> int:
    """Lanes of a vector along n: shorter vectors where there are few columns."""
    return min(target.lanes(c.dtype), 1 << (c.columns - 1).bit_length())


def streams_from_memory(target: Target, c: Contraction) -> bool:
    """Whether panels are packed from the rows of a matrix that comes from memory each time."""
    return c.right.index.coefficient(c.k[0]) != 1 and c.right.buffer.nbytes >= costs.far_bytes(target)


def tiles_per_panel(target: Target, columns: int, batches: int, width: int) -> int:
    """Tiles in a panel of a matrix that streams from memory: wide panels touch fewer rows than many narrow ones."""
    panels, rest = divmod(columns, costs.PANEL_TILES * width)
    return costs.PANEL_TILES if not rest and panels * batches >= costs.units(target) else 1


def row_groups(target: Target, rows: int, columns: int, batches: int, height: int, width: int) -> int:
    """Number of row groups that meet a panel, each of which packs it anew.

    Enough to occupy all threads, and to keep the partial sums that wait between blocks of k within scratch memory.
    """
    shared = ceil(costs.units(target) / (batches * ceil(columns / width)))
    spilled = ceil(rows * width / costs.MAX_SPILLED_SUMS)
    return min(ceil(rows / height), max(shared, spilled))


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
    return _ranked(cost_model(target, c, streams, packed, shared))


def cost_model(target: Target, c: Contraction, streams: int, packed: bool, shared: bool = True) -> "CostModel":
    """The cost model of a contraction's tiles, from operands in place or with the right one packed."""
    lanes = tile_lanes(target, c)
    transposes = _transposes(target, c, lanes)
    contiguous = c.right.index.coefficient(c.n) == 1
    rate = costs.transpose_cycles(lanes) if transposes else costs.copy_cycles(lanes)
    if not transposes and not contiguous:
        # Two loads and a shuffle for every second element; a gather for elements that are further apart.
        rate = 2 * rate if c.right.index.coefficient(c.n) == 2 else costs.GATHER_CYCLES
    rate += packing_cycles(c.right, lanes)
    far = packed and len(c.k) == 1 and streams_from_memory(target, c)
    return CostModel(
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


def _transposes(target: Target, c: Contraction, lanes: int) -> bool:
    """Whether packing transposes squares in registers: steps of k are contiguous, and panels stay in cache."""
    _, run = contiguous_run(c.right, c.k, [v.extent for v in c.k])
    if len(c.k) == 1:
        return run > 1
    return run >= lanes and c.depth * lanes * c.dtype.itemsize <= costs.panel_bytes(target) // 2


@dataclass(frozen=True, slots=True)
class CostModel:
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
        wide = tiles_per_panel(self.target, self.columns, self.batches, vectors * self.lanes) if self.far else 1
        total = 0.0
        for height, many_rows in _tile_counts(self.rows, rows):
            for width, many in _tile_counts(columns, vectors):
                step = self._step_cycles(height, width, stack, masked, wide)
                total += many_rows * many * (step * self.depth / stack + costs.TILE_CYCLES)
        edges = (self.rows % rows > 0) + (columns % vectors > 0)
        groups = row_groups(
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
def _ranked(model: CostModel) -> tuple[tuple[float, Tile], ...]:
    """Cached: layers repeat, and plans are compared."""
    ranked = sorted(((model.cost(tile), tile) for tile in model.tiles()), key=lambda found: found[0])
    return tuple((cycles, tile) for (cycles, _), tile in ranked)


def _tile_counts(extent: int, tile: int) -> list[tuple[int, int]]:
    """Tilings of an axis as ``(size, count)``: whole tiles and a remainder."""
    full, rest = divmod(extent, tile)
    return [(tile, full)] * (full > 0) + [(rest, 1)] * (rest > 0)
