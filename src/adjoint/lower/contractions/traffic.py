"""Cache traffic of a matrix product's operands: which cache a tile reads them from, and how many lines of it.

The analytical model of BLIS, for operands that are read through their strides as well as packed ones: a block that is
used again stays in a cache if it fits its share of the bytes *and* of the sets that its rows map to (compare Low et
al., "Analytical modeling is enough for high-performance BLIS", 2016).
"""

from collections.abc import Sequence
from math import ceil, gcd, prod
from typing import Literal, NamedTuple

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Cache, Target
from adjoint.lazy_dataclass import dataclass

__all__ = ["Block", "Order", "Reads", "Traffic", "line_cycles", "reads_of", "split_share"]

#: What tiles walk in their outer loop: panels of columns, or blocks of rows.
Order = Literal["columns", "rows"]


class Block(NamedTuple):
    """Part of a matrix in memory: `rows` runs of `nbytes`, `pitch` bytes apart."""

    rows: int
    nbytes: int
    pitch: int

    def stays_in(self, cache: Cache, room: int) -> bool:
        """Whether the block stays in `room` bytes of a cache; runs at some pitches share few sets.

        Caches are indexed by physical addresses, of which a virtual one determines those within a page.
        """
        way = cache.nbytes // cache.ways
        spread = max(gcd(self.pitch, way, costs.PAGE_BYTES), self.nbytes)
        return self.rows * spread <= room


def line_cycles(target: Target, block: Block, streams: int = 0) -> float:
    """Cycles per line to read a block again: none from the first-level cache, else those of where it stays.

    The epilogue walks so many tensors in memory meanwhile, which take their share of the caches.
    """
    if block.stays_in(target.l1, costs.l1_bytes(target) // (1 + streams)):
        return 0.0
    if block.stays_in(target.l2, costs.l2_block_bytes(target) // (1 + streams)):
        return costs.l2_read_cycles(target, target.line_bytes)
    near = block.rows * block.nbytes <= costs.l3_block_bytes(target)
    return target.line_bytes / (target.l3_bytes_per_cycle if near else costs.far_bytes_per_cycle(target))


@dataclass(frozen=True, slots=True)
class Reads:
    """How tiles read one operand of a product.

    Parameters
    ----------
    across, along : int
        Bytes between neighbors along the operand's own axis (m or n), and between steps of k.
    extent, depth : int
        Extents of these axes.
    itemsize : int
        Bytes of an element.
    nbytes : int
        Bytes of the buffer, with all matrices of a batch.
    """

    across: int
    along: int
    extent: int
    depth: int
    itemsize: int
    nbytes: int

    @property
    def runs_along_k(self) -> bool:
        """Whether steps of k are closer than neighbors."""
        return self.along < self.across

    def block(self, count: int, steps: int) -> Block:
        """The memory of `count` neighbors for so many steps of k."""
        if self.runs_along_k:
            return Block(count, max(steps * self.along, self.itemsize), self.across)
        return Block(steps, max(count * self.across, self.itemsize), self.along)

    def lines(self, target: Target, count: int, steps: int) -> tuple[float, float]:
        """Cache lines per step of k that `count` neighbors are on, and those of them that the last tile has left in L2.

        A line across the ends of tiles is read by both, if the lines of so many steps stay there until the next tile.
        """
        line = target.line_bytes
        if self.runs_along_k:
            kept = Block(count, line, self.across).stays_in(target.l1, costs.l1_lines_bytes(target))
            return (count * min(self.along / line, 1.0) if kept else count), 0.0
        if not self.across or self.across > line:
            return (count if self.across else min(self.along / line, 1.0)), 0.0
        run = count * self.across / line
        strip = Block(steps, line, self.along)
        shared = 0.0 if self.along % line == 0 and (count * self.across) % line == 0 else 1 - self.itemsize / line
        if strip.stays_in(target.l1, costs.l1_bytes(target)):
            return run, 0.0
        return (run, shared) if strip.stays_in(target.l2, costs.l2_block_bytes(target)) else (run + shared, 0.0)

    def leaps(self, target: Target, count: int) -> float:
        """Lines per step of k, at most 1, of `count` neighbors that no hardware prefetcher follows.

        It follows lines that are near each other, and streams on a few pages, from tile to tile.
        """
        near = costs.SKIPPED_LINES * target.line_bytes, costs.HARDWARE_STREAMS * costs.PAGE_BYTES
        if self._skipped(count) <= near[0] or self.depth * self.along <= near[1]:
            return 0.0
        return min(self.lines(target, count, 1)[0], 1.0)

    def _skipped(self, count: int) -> int:
        """Bytes between what two steps of k read of `count` neighbors."""
        return self.along - count * self.across

    @property
    def jumps(self) -> bool:
        """Whether steps of k go to other pages."""
        return not self.runs_along_k and self.along >= costs.PAGE_STRIDE

    def pages(self) -> float:
        """Cycles per step of k to translate its address."""
        if not self.jumps or self.extent * self.depth * self.itemsize <= costs.PAGE_BYTES:
            return 0.0
        return costs.PAGE_CYCLES if self.depth <= costs.TLB_PAGES else costs.WALK_CYCLES

    def is_easy(self, target: Target, lanes: int) -> bool:
        """Whether tiles wait for the operand hardly more than for a packed one, whatever their size.

        Either it is small, or steps along k are contiguous and the lines of several neighbors do not conflict. Vectors
        of `lanes` neighbors are not read along k.
        """
        if self.runs_along_k and lanes == 1:
            return Block(costs.MAX_ROWS, target.line_bytes, self.across).stays_in(
                target.l1, costs.l1_lines_bytes(target)
            )
        return self.block(self.extent, self.depth).stays_in(target.l1, costs.l1_bytes(target))

    def row_cycles(self, target: Target) -> float:
        """Cycles to reach a row of the operand that nothing has prefetched."""
        return costs.l3_row_cycles(target) if self.nbytes <= costs.l3_block_bytes(target) else costs.FAR_ROW_CYCLES

    def first(self, target: Target, count: int, how: Literal["tiles", "copies", "streams"] = "tiles") -> float:
        """Cycles per step of k to read `count` neighbors for the first time, from where the operand is.

        Tiles wait for a row in memory and then for its lines, copies for both at once; and streams, which read a few
        whole rows before the next, for the lines only, since the hardware prefetcher follows them. It fetches lines
        between short runs that are close to each other, too.
        """
        if self.nbytes <= costs.l2_bytes(target):
            return 0.0
        near = self.nbytes <= costs.l3_block_bytes(target)
        run = count * self.itemsize
        close = self._skipped(count) <= costs.SKIPPED_LINES * target.line_bytes
        if how != "streams" and not self.runs_along_k and close:
            run = self.along
        moved = run / (target.l3_bytes_per_cycle if near else costs.far_bytes_per_cycle(target))
        if run <= target.line_bytes and not self.runs_along_k and self.along > 2 * target.line_bytes:
            moved *= costs.SINGLE_LINES
        if how == "streams" or not self.jumps:
            return moved
        row = self.row_cycles(target)
        return row + moved if how == "tiles" and not near else max(row, moved)

    def packed(self, width: int, itemsize: int) -> "Reads":
        """The same of the packed operand, whose panels are so wide."""
        nbytes = self.extent * self.depth * itemsize
        return Reads(itemsize, width * itemsize, self.extent, self.depth, itemsize, nbytes)


def reads_of(load: Load, own: Var | None, k: Sequence[Var]) -> Reads | None:
    """How an operand is read that walks one axis of the result, or none, and one summed axis; None of most others.

    Of several summed axes, steps may go to other rows (the positions of sequences, by time or by sequence); what counts
    is the distance of the closest rows.
    """
    size, extent = load.dtype.itemsize, own.extent if own is not None else 1
    across = load.index.coefficient(own) if own is not None else 0
    steps = [load.index.coefficient(v) for v in k]
    if not k or across is None or None in steps:
        return None
    along = min(abs(step or 0) for step in steps)
    if len(k) > 1 and (not across or along < abs(across) * extent):
        return None
    depth = prod(v.extent for v in k)
    return Reads(abs(across) * size, along * size, extent, depth, size, load.buffer.nbytes)


def split_share(target: Target, load: Load, steps: Sequence[Var], lanes: int) -> float:
    """Share of the vectors of a load that lie across two cache lines: of the places where they start, by its axes."""
    line, itemsize = target.line_bytes, load.dtype.itemsize
    apart = (abs(load.index.coefficient(v) or 0) * itemsize for v in steps)
    starts = range(0, line, gcd(line, *apart))
    return sum(start + lanes * itemsize > line for start in starts) / len(starts)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The cycles that tiles of a product wait for its operands.

    Parameters
    ----------
    target : Target
        The CPU.
    left, right : Reads
        How the operands are read.
    left_packed, right_packed : bool
        Whether an operand is packed in panels as wide as the tile.
    lanes : int
        Lanes of a vector.
    itemsize : int
        Bytes of an element of a packed operand.
    streams : int
        Tensors in memory that the epilogue walks meanwhile.
    updates : bool
        Whether tiles walk all columns of the right operand before the next steps of k (rank-k updates).
    blocks : bool
        Whether all tiles of a unit meet a block of k before the next one, which is prefetched meanwhile.
    """

    target: Target
    left: Reads
    right: Reads
    left_packed: bool
    right_packed: bool
    lanes: int
    itemsize: int
    streams: int = 0
    updates: bool = False
    blocks: bool = False

    def step_cycles(
        self, rows: int, vectors: int, order: Order, block: int = 0, wide: int = 1
    ) -> tuple[float, float, float]:
        """Cycles per step of k of a tile: for addresses, to transfer lines again, and what nothing hides of that.

        `block` are the steps for which a panel of the right operand is used before the next; all of them if it is 0.
        With blocks of rows in the outer loop, it is a chunk of `wide` panels, if that is more than 1.
        """
        columns = vectors * self.lanes
        left = self.left.packed(rows, self.itemsize) if self.left_packed else self.left
        right = self.right.packed(columns, self.itemsize) if self.right_packed else self.right
        block, streams = block or right.depth, self.streams
        if self.blocks:
            again_left, again_right = left.block(rows, block), right.block(wide * columns, block)
        elif order == "columns":
            again_left, again_right = self._all(left, rows, self.left_packed), right.block(columns, block)
        elif wide > 1:
            # Between two uses of a row, as much of a panel streams past it; between those of a chunk, a block of rows.
            streams = 0
            again_left = Block(1, (rows + columns) * block * self.itemsize, 0)
            again_right = Block(1, wide * columns * block * self.itemsize, 0)
        else:
            again_left, again_right = left.block(rows, left.depth), self._all(right, columns, self.right_packed)
        lines = exposed = 0.0
        for reads, count, again, again_read in (
            (left, rows, again_left, right.extent > columns),
            (right, columns, again_right, left.extent > rows),
        ):
            if again_read:
                cycles = self._lines(reads, count, again, block, streams)
                lines += cycles
                apart = reads.along > max(count * reads.across, reads.itemsize)
                exposed += cycles * costs.exposed_transfers(self.target, apart)
        if self.blocks:
            # The pages of a block stay in the TLB, and its lines have been prefetched.
            return 0.0, lines, exposed
        instructions, stalls = (rows + 1) * vectors, 0.0
        if not self.left_packed:
            other = right.extent, columns
            stalls = self._stalls(left, rows, again_left, other, order == "rows", instructions)
        if not (self.right_packed or self.updates):
            other = left.extent, rows
            waits = self._stalls(right, columns, again_right, other, order == "columns", instructions)
            stalls = max(stalls, waits)
        pages = left.pages() + (0.0 if self.updates else right.pages())
        if costs.hides_latency(self.target):
            return pages, lines, exposed + stalls
        return 0.0, lines, exposed + stalls + pages

    def first_cycles(self, rows: int, vectors: int, step: float, wide: int, groups: int = 1) -> float:
        """Cycles per step of k to read operands the first time, beyond a tile's own; the average over all tiles.

        Multiply-adds hide the way of what tiles read in place, but not of what is packed, in panels of `wide` tiles if
        that is not 0, each by so many `groups` of rows.
        """
        columns = vectors * self.lanes
        if self.blocks:
            return self._first_of_blocks(rows, columns, step, wide)
        left = self.left.first(self.target, rows) - (0 if self.left_packed else step)
        if wide:
            right = self.right.first(self.target, columns * wide, "copies") / wide * groups
        elif self.right_packed:
            right = self.right.first(self.target, columns)
        else:
            right = self.right.first(self.target, columns, "streams" if self.updates else "tiles") - step
        return max(left, 0) / ceil(self.right.extent / columns) + max(right, 0) / ceil(self.left.extent / rows)

    def _first_of_blocks(self, rows: int, columns: int, step: float, wide: int) -> float:
        """The same if the next block streams in while all tiles of a unit meet the one before."""
        tiles = ceil(self.left.extent / rows) * wide
        moved = lines = exposed = 0.0
        for reads, count in ((self.left, self.left.extent), (self.right, columns * wide)):
            if reads.nbytes > costs.l2_bytes(self.target):
                first = reads.first(self.target, count, "streams")
                moved += first
                if reads.nbytes > costs.l3_block_bytes(self.target):
                    exposed += first * costs.exposed_transfers(self.target)
                lines += count * min(reads.across, reads.along) / self.target.line_bytes
        return max(moved / tiles - step, exposed / tiles) + lines / tiles * costs.PREFETCH_CYCLES

    def _stalls(
        self, reads: Reads, count: int, again: Block, other: tuple[int, int], outer: bool, instructions: int
    ) -> float:
        """Cycles per step of so many instructions to wait for lines of `count` neighbors, which no prefetcher follows.

        Those that tiles read again, unless they stay in the second-level cache; then those that the first of them
        reads. There are software prefetches for these if the operand is walked by the `outer` loop and the `other` one
        has enough neighbors. It is given by their number and how many of them a tile has.
        """
        neighbors, each = other
        if reads.nbytes <= costs.l2_bytes(self.target) * 3 // 4:
            return 0.0
        leaps = reads.leaps(self.target, count)
        stalls = leaps * costs.stall_cycles(self.target, instructions, reads.nbytes)
        if not again.stays_in(self.target.l2, costs.l2_block_bytes(self.target) // (1 + self.streams)):
            return stalls
        if neighbors >= costs.MIN_PREFETCHED_ROWS:
            if outer:
                return 0.0
            if costs.hides_latency(self.target):
                # Schedulers hide the latency of the third-level cache, but not if steps are on more pages than
                # prefetchers follow (Zen 4: 20 to 50 cycles per line of images on 70 to 180 pages).
                stalls = leaps * reads.row_cycles(self.target)
        return stalls / ceil(neighbors / each)

    def _all(self, reads: Reads, count: int, packed: bool) -> Block:
        """The memory of the whole operand; packed, its panels follow each other."""
        if packed:
            panels = ceil(reads.extent / count)
            return Block(1, panels * count * reads.depth * reads.itemsize, 0)
        return reads.block(reads.extent, reads.depth)

    def _lines(self, reads: Reads, count: int, block: Block, steps: int, streams: int) -> float:
        """Cycles per step of k to read `count` neighbors of a block that was read before."""
        fresh, left = reads.lines(self.target, count, steps)
        near = costs.l2_read_cycles(self.target, self.target.line_bytes)
        wait = fresh * line_cycles(self.target, block, streams) + left * near
        # Lines beside those of a jump have been prefetched, unless that many map to the same sets.
        beside = Block(steps, 2 * count * reads.itemsize, reads.along)
        room = costs.l2_block_bytes(self.target) // (1 + self.streams)
        if reads.jumps and not block.stays_in(self.target.l2, room) and not beside.stays_in(self.target.l2, room):
            wait = max(wait, reads.row_cycles(self.target))
        return wait
