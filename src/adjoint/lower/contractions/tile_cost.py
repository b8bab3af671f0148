"""The cost model of a GEMM's register tiles: which fit, and how many cycles a contraction takes with each."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import ceil, inf, prod
from typing import Literal, NamedTuple

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.blocking import (
    k_blocks,
    l2_chunk,
    panel_steps,
    row_groups,
    streams_from_memory,
    tile_lanes,
    tiles_per_panel,
)
from adjoint.lower.contractions.contraction import Contraction, transposed_run
from adjoint.lower.contractions.conversion import beforehand_cycles, element_cycles, packing_cycles
from adjoint.lower.contractions.result_traffic import ResultTraffic
from adjoint.lower.contractions.traffic import Order, Traffic, reads_of, split_share

__all__ = [
    "IN_PLACE",
    "CostModel",
    "Form",
    "Tile",
    "cost_model",
    "forget_tiles",
    "ranked_tiles",
    "whole_cycles",
]


class Tile(NamedTuple):
    """A register tile: rows and vectors of accumulators, and tiles stacked along the innermost batch axis."""

    rows: int
    vectors: int
    stack: int = 1

    def __str__(self) -> str:
        return "x".join(map(str, self))


class Form(NamedTuple):
    """How tiles read their operands.

    Parameters
    ----------
    swapped : bool
        Whether the operands have exchanged roles, so that lanes run along the rows of the result.
    left, right : {"in place", "whole", "panels", "updates", "blocks"}
        Whether an operand is read in place, packed as a whole by a kernel of its own, or packed panel by panel; or read
        in place a few steps of k at a time, for all columns (rank-k updates), or block by block of k.
    """

    swapped: bool = False
    left: Literal["in place", "whole"] = "in place"
    right: Literal["in place", "whole", "panels", "updates", "blocks"] = "in place"

    def __str__(self) -> str:
        names = {"in place": "", "whole": "right packed", "panels": "packed"}
        right = names.get(self.right, self.right)
        return ", ".join(filter(None, ("swapped" * self.swapped, "left packed" * (self.left == "whole"), right)))


#: Both operands in place, in their own roles.
IN_PLACE = Form()


def _stacks(c: Contraction) -> tuple[int, ...]:
    """Possible stacks: neighbours along the innermost batch axis for which the left operand is the same."""
    if not c.batch or c.left.index.coefficient(c.batch[-1]):
        return (1,)
    return tuple(d for d in range(1, costs.MAX_STACK + 1) if c.batch[-1].extent % d == 0)


def ranked_tiles(
    target: Target, c: Contraction, streams: int, form: Form, order: Order = "columns", shared: bool = True
) -> tuple[tuple[float, Tile], ...]:
    """Register tiles that fit the register file and the order, with their estimated cycles, the cheapest first.

    `shared` says whether threads share the tiles, rather than one unit computing all of them.
    """
    model = cost_model(target, c, streams, form, shared)
    ranked = sorted(((model.cost(tile, order), tile) for tile in _shortlist(model)), key=lambda found: found[0])
    return tuple((cycles, tile) for (cycles, _), tile in ranked if cycles < inf)


def cost_model(target: Target, c: Contraction, streams: int, form: Form, shared: bool = True) -> "CostModel":
    """The cost model of a contraction's tiles in a form."""
    lanes = tile_lanes(target, c)
    transposes = _transposes(target, c, lanes)
    contiguous = c.right.index.coefficient(c.n) == 1
    rate = costs.transpose_cycles(lanes, transposes) if transposes else costs.copy_cycles(lanes)
    if not transposes and not contiguous:
        # Two loads and a shuffle for every second element; a gather for elements that are further apart.
        rate = 2 * rate if c.right.index.coefficient(c.n) == 2 else costs.GATHER_CYCLES
    rate += packing_cycles(c.right, lanes)
    packed, updates, blocks = (form.right == how for how in ("panels", "updates", "blocks"))
    in_place = contiguous and form.right in ("in place", "updates", "blocks")
    if packed and transposes:
        rate += costs.PANEL_TRANSPOSE_CYCLES
    return CostModel(
        target=target.narrowed(lanes * c.dtype.itemsize),
        rows=c.rows,
        columns=c.columns,
        depth=c.depth,
        batches=c.batches,
        itemsize=c.dtype.itemsize,
        lanes=lanes,
        most_rows=max(costs.HARDWARE_STREAMS // (streams + 1), 1) if streams else costs.HARDWARE_STREAMS,
        stacks=(1,) if packed or updates or blocks else _stacks(c),
        # A vector of strided lanes takes two loads and a shuffle, and registers for them.
        shuffles=0 if form.right in ("whole", "panels") or contiguous else 1,
        packing=c.depth * c.columns * rate if packed else 0.0,
        far=packed and len(c.k) == 1 and streams_from_memory(target, c),
        left_element=element_cycles(c.left),
        left_beforehand=beforehand_cycles(target, c.left),
        right_beforehand=0.0 if packed else beforehand_cycles(target, c.right),
        taps=c.k[-1].extent if len(c.k) > 1 and abs(c.right.index.coefficient(c.k[-1]) or 0) == 1 else 1,
        split_share=split_share(target, c.right, (*c.batch, *c.k), lanes) if in_place else 0.0,
        shared=shared and costs.is_shared(2.0 * c.rows * c.columns * c.depth * c.batches, 0.0, target),
        packed=packed,
        updates=updates,
        blocks=blocks,
        before=(whole_cycles(target, c, c.left, c.m) if form.left == "whole" else 0.0)
        + (whole_cycles(target, c, c.right, c.n, rate) if form.right == "whole" else 0.0),
        stores=_store_cycles(target, c, form),
        # Inside a unit, operands are in its cache.
        traffic=(traffic := _traffic(target, c, form, lanes, streams) if shared else None),
        result=ResultTraffic(target, c.rows, c.columns, c.depth, c.batches, c.dtype.itemsize, lanes, packed, streams)
        if traffic is not None
        else None,
        blocked=len(c.k) == 1,
        near=traffic is not None,
    )


def _traffic(target: Target, c: Contraction, form: Form, lanes: int, streams: int) -> Traffic | None:
    """The traffic of the operands of a product of matrices, or of their rows; None for other contractions."""
    left, right = reads_of(c.left, c.m, c.k), reads_of(c.right, c.n, c.k)
    if left is None or right is None:
        return None
    packed = form.left != "in place", form.right in ("whole", "panels")
    sums = form.right == "updates", form.right == "blocks"
    return Traffic(target, left, right, *packed, lanes, c.dtype.itemsize, streams, *sums)


def whole_cycles(target: Target, c: Contraction, load: Load, own: Var | None, rate: float | None = None) -> float:
    """Cycles to pack an operand as a whole: to copy each element, at a `rate` of the right operand, there and back."""
    batch = prod(v.extent for v in c.batch if load.index.coefficient(v))
    elements = batch * c.depth * (own.extent if own is not None else 1)
    if rate is None:
        beside = own is not None and load.index.coefficient(own) == 1
        rate = costs.copy_cycles(tile_lanes(target, c)) * 2 if beside else costs.GATHER_CYCLES
    nbytes = elements * c.dtype.itemsize
    moved = 2 * nbytes / costs.copy_bytes_per_cycle(target, nbytes)
    # What other cores packed last is in their second-level caches, and the rest in the next one, as ever.
    remote = costs.REMOTE_LINE_CYCLES * min(nbytes, costs.l2_bytes(target)) / target.line_bytes
    return costs.PACKING_CYCLES + elements * rate + moved + remote


def _store_cycles(target: Target, c: Contraction, form: Form) -> float:
    """Cycles by which a vector of the result takes longer to store: lanes one by one, if they run along its rows."""
    if not form.swapped:
        return 0.0
    close = c.rows * c.dtype.itemsize < target.line_bytes
    return tile_lanes(target, c) * (costs.STORE_CYCLES if close else costs.FAR_STORE_CYCLES)


def _transposes(target: Target, c: Contraction, lanes: int) -> int:
    """The stride of the run along which packing transposes squares in registers, if panels stay in cache; or else 0."""
    run = transposed_run(c.right, c.k, [v.extent for v in c.k])
    if len(c.k) == 1:
        return run.stride if run.steps > 1 else 0
    fits = run.steps >= lanes and c.depth * lanes * c.dtype.itemsize <= costs.panel_bytes(target) // 2
    return run.stride if fits else 0


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
    packing : float
        Cycles to pack all panels.
    far : bool
        Whether panels are packed from a matrix in memory: then several tiles are side by side in one.
    left_element : float
        Cycles to convert an element of the left operand where it is loaded.
    left_beforehand, right_beforehand : float
        Cycles to convert an operand beforehand; 0 for one that is not converted, or is packed.
    split_share : float
        Share of the vectors of the right operand that lie across two cache lines.
    taps : int
        Steps of k that read about the same lines of the right operand: the taps in a row of a window.
    shared, packed : bool
        Whether threads share the tiles, and whether panels are packed: then a row group is a unit, otherwise a tile is.
    updates : bool
        Whether sums wait in the second-level cache while tiles walk all columns, for a few steps of k at a time.
    blocks : bool
        Whether the sums of a unit wait in the second-level cache while tiles walk all of them, for a block of k.
    before : float
        Cycles to pack operands as wholes.
    stores : float
        Extra cycles per vector of the result.
    traffic : Traffic or None
        Where the operands of a plain product come from.
    result : ResultTraffic or None
        Where its result goes.
    blocked : bool
        Whether panels are packed in blocks of k.
    near : bool
        Whether, without `traffic`, lines of the right operand come from the first-level cache however many there are.
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
    far: bool
    left_element: float
    left_beforehand: float
    right_beforehand: float
    taps: int
    split_share: float
    shared: bool
    packed: bool
    updates: bool
    blocks: bool
    before: float
    stores: float
    traffic: Traffic | None
    result: ResultTraffic | None
    blocked: bool
    near: bool

    def tiles(self) -> Iterator[Tile]:
        """The tiles that fit the registers."""
        columns = ceil(self.columns / self.lanes)
        available = self.target.tile_registers - 2 * self.shuffles
        heights, widest = range(1, min(self.rows, self.most_rows, costs.MAX_ROWS) + 1), costs.MAX_VECTORS
        if self.updates:
            heights, widest = range(self.rows, self.rows + 1), costs.UPDATE_VECTORS
        for vectors in range(1, min(columns, widest) + 1):
            for rows in heights:
                for stack in self.stacks:
                    fits = (rows + 1 + self.shuffles) * vectors * stack <= available
                    if fits and (stack == 1 or vectors == columns):
                        yield Tile(rows, vectors, stack)
        # All columns of few rows, so that the right operand streams from its first element to its last. The vectors of
        # a single row need no registers, because each of them is used once.
        registers = columns + 2 if self.rows == 1 else (self.rows + 1) * columns
        if self.streams_rows and columns > widest and registers <= available:
            yield Tile(self.rows, columns)

    @property
    def streams_rows(self) -> bool:
        """Whether the right operand of a plain product is read in place, row by row."""
        return self.blocked and self.shuffles == 0 and not (self.packed or self.updates or self.blocks)

    def cheapest(self, order: Order = "columns") -> tuple[float, Tile]:
        """The first of `ranked_tiles`."""
        return _cheapest(self, order)

    def least(self) -> float:
        """A lower bound of the cycles of the cheapest tile."""
        return min(_shortlist(self).values()) + self.packs

    @property
    def packs(self) -> float:
        """Least cycles to pack operands: as wholes, and every panel once."""
        return self.before + self.packing * self.batches

    def cost(self, tile: Tile, order: Order = "columns") -> tuple[float, int]:
        """Estimated cycles with the outer loop over columns or rows; ties go to the larger tile.

        Infinite for tiles whose blocks of rows have no chunk of packed panels to walk.
        """
        rows, vectors, stack = tile
        columns = ceil(self.columns / self.lanes)
        # Strided loads cannot fill zeros past the end: every addition to a partial vector is masked.
        masked = costs.MASKED_COST if self.shuffles and self.columns % self.lanes else 1.0
        # Of a plain product; `near` says so where traffic is left out.
        chunks = self.packed and self.blocked and self.near and order == "rows"
        wide, groups, block = self._blocking(tile, chunks)
        if chunks and (wide < costs.MIN_CHUNK_TILES or vectors < costs.MIN_CHUNK_VECTORS):
            return inf, 0
        pages, lines, waits, between = self._waits(tile, order, wide, block)
        total = between
        for height, many_rows in _tile_counts(self.rows, rows):
            for width, many in _tile_counts(columns, vectors):
                step = max(self._step_cycles(height, width, stack, masked, wide), pages, lines)
                step += waits
                if self.traffic is not None:
                    together = wide if self.packed or self.blocks else 0
                    step += self.traffic.first_cycles(rows, vectors, step, together, groups)
                once = costs.TILE_CYCLES + height * width * self.stores
                if self.result is not None:
                    once += self.result.written(height, width, order, step * self.depth)
                if self.updates or self.blocks:
                    once += (costs.TILE_CYCLES + 2 * height * width) * (self.depth / (block or costs.UPDATE_STEPS))
                total += many_rows * many * (step * self.depth / stack + once)
        edges = (self.rows % rows > 0) + (columns % vectors > 0)
        if self.packed:
            total += self._packing(chunks) * groups
            if not block:
                total += self._panel_cycles(vectors * self.lanes)
        in_columns = not (chunks or self.updates or self.blocks) and (self.packed or order == "columns")
        if self.result is not None and self.shared and in_columns:
            products = self._step_cycles(rows, vectors, 1, 1.0, 1) * self.depth
            total += self.result.coherence_misses(rows, vectors, products)
        blocks = groups if self.packed or self.blocks else ceil(self.rows / rows)
        units = self.batches // stack * blocks * ceil(columns / vectors / wide)
        idle = costs.idle(self.target, units) if self.shared else 1.0
        cycles = total * self.batches * (1 + costs.EDGE_COST * edges) * idle + self.before
        left, right = self._conversions(tile)
        return cycles + min(left, self.left_beforehand) + min(right, self.right_beforehand), -rows * vectors * stack

    def _blocking(self, tile: Tile, chunks: bool) -> tuple[int, int, int]:
        """Tiles side by side in a unit, groups of rows, and the steps of k of a block; 0 for all of them."""
        columns, wide, block = tile.vectors * self.lanes, 1, 0
        extents = self.target, self.rows, self.columns
        if self.blocks:
            return k_blocks(*extents, self.depth, self.batches, (tile.rows, columns), self.itemsize)
        if chunks:
            wide, block = l2_chunk(self.target, self.columns, self.depth, columns, self.itemsize)
        else:
            wide = tiles_per_panel(self.target, self.columns, self.batches, columns) if self.far else 1
            if self.packed and self.blocked and self.traffic is not None:
                block = panel_steps(self.target, self.rows, self.depth, columns * self.itemsize, wide)
        return wide, row_groups(*extents, self.batches, tile.rows, wide * columns, chunks), block

    def _waits(self, tile: Tile, order: Order, wide: int, block: int) -> tuple[float, float, float, float]:
        """Cycles per step of a tile: for addresses, for transfers, and exposed; and of all sums between blocks of k."""
        if self.traffic is None:
            return 0.0, 0.0, 0.0, 0.0
        width = tile.vectors * self.lanes * self.itemsize
        pages, lines, waits = self.traffic.step_cycles(tile.rows, tile.vectors, order, block, wide)
        nbytes = self.rows * self.columns * self.itemsize
        spilled = 2 * nbytes * (ceil(self.depth / block) - 1) / self.target.l2_bytes_per_cycle if block else 0.0
        jumps = self.result.jumps(order, width * wide) if self.result is not None else 0.0
        return pages, lines, waits, spilled + jumps

    def _packing(self, chunks: bool) -> float:
        """Cycles to pack all panels once: to copy them, and for the transfers that nothing hides."""
        nbytes = self.depth * self.columns * self.itemsize
        if self.traffic is None or nbytes <= costs.l1_bytes(self.target):
            return self.packing
        transfers = costs.CHUNK_TRANSFERS if chunks else costs.PANEL_TRANSFERS
        exposed = costs.EXPOSED_TRANSFERS if costs.hides_latency(self.target) else 1.0
        cycles = self.packing + exposed * transfers * nbytes / self.target.l2_bytes_per_cycle
        if chunks and self.traffic.right.nbytes > costs.l3_block_bytes(self.target):
            # A chunk from memory is more than prefetches bring beside the products of the one before.
            cycles += costs.exposed_transfers(self.target) * nbytes / costs.far_bytes_per_cycle(self.target)
        return cycles

    def _panel_cycles(self, width: int) -> float:
        """Cycles to write panels of so many columns and all steps of k, and to read them, beyond the second level."""
        if width * self.depth * self.itemsize <= costs.l2_block_bytes(self.target):
            return 0.0
        return 2 * self.depth * self.columns * self.itemsize / self.target.l3_bytes_per_cycle

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
        compute += costs.broadcast_cycles(self.target, height, width * stack)
        # Windows are not aligned: a vector reaches into the next cache line.
        lines = costs.unaligned_loads(self.target) if self.taps > 1 and not self.packed else 1
        loads = costs.load_cycles(self.target, width * stack * (1 + self.shuffles) * lines, height, width * stack == 1)
        row = width * stack * self.lanes * self.itemsize
        streams = not self.near and row * self.depth * 2 > costs.l1_bytes(self.target) and wide == 1
        stream = row / self.taps / self.target.l2_bytes_per_cycle if streams else 0.0
        splits = width * stack * self._split_cycles if self.taps == 1 else 0.0
        return max(compute + costs.TILE_STEP_CYCLES, loads, stream, costs.chain_cycles(self.target)) + splits

    @property
    def _split_cycles(self) -> float:
        """Cycles by which a vector of the right operand takes longer than an aligned one, on average."""
        jumps = self.traffic is not None and self.traffic.right.jumps
        looked_up = jumps and self.depth > costs.NEAR_TLB_PAGES
        return self.split_share * self.target.split_load_cycles * (2 if looked_up else 1)


@lru_cache(maxsize=4096)
def _cheapest(model: CostModel, order: Order) -> tuple[float, Tile]:
    """Best-first search, since traffic only adds cycles. Cached because plans are compared."""
    best = (inf, 0), Tile(1, 1)
    for tile, least in sorted(_shortlist(model).items(), key=lambda found: found[1]):
        if least + model.packs > best[0][0]:
            break
        best = min(best, (model.cost(tile, order), tile), key=lambda found: found[0])
    (cycles, _), tile = best
    return cycles, tile


def forget_tiles() -> None:
    """Forget the tiles that were found, because numbers of `adjoint.costs` have changed."""
    _cheapest.cache_clear()
    _without_traffic.cache_clear()


def _shortlist(model: CostModel) -> dict[Tile, float]:
    """The tiles that traffic may make the cheapest: those that are hardly slower without any, and their cycles then."""
    return _without_traffic(replace(model, traffic=None, result=None, before=0.0, stores=0.0, packing=0.0))


@lru_cache(maxsize=4096)
def _without_traffic(model: CostModel) -> dict[Tile, float]:
    cycles = {tile: model.cost(tile)[0] for tile in model.tiles()}
    least = min(cycles.values())
    return {tile: found for tile, found in cycles.items() if found <= costs.SHORTLIST * least}


def _tile_counts(extent: int, tile: int) -> list[tuple[int, int]]:
    """Tilings of an axis as ``(size, count)``: whole tiles and a remainder."""
    full, rest = divmod(extent, tile)
    return [(tile, full)] * (full > 0) + [(rest, 1)] * (rest > 0)
