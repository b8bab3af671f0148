"""What the result of a product adds to the time of its tiles: lines that are written, and the order of their rows."""

from math import ceil

from adjoint import costs
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.blocking import l2_panels
from adjoint.lower.contractions.traffic import Order

__all__ = ["ResultTraffic"]


@dataclass(frozen=True, slots=True)
class ResultTraffic:
    """Where the result of a plain product goes.

    Parameters
    ----------
    target : Target
        The CPU.
    rows, columns, depth, batches, itemsize, lanes : int
        Extents of the product, bytes of an element, and lanes of a vector.
    packed : bool
        Whether panels of the right operand are packed: then a unit is a panel, or a group of rows of it.
    streams : int
        Tensors that the epilogue walks row by row.
    """

    target: Target
    rows: int
    columns: int
    depth: int
    batches: int
    itemsize: int
    lanes: int
    packed: bool
    streams: int

    @property
    def nbytes(self) -> int:
        """Bytes of one product of a batch."""
        return self.rows * self.columns * self.itemsize

    def written(self, height: int, width: int, order: Order, products: float) -> float:
        """Cycles to write a tile of a large result that so many cycles of products do not hide.

        A line across the ends of tiles is written by both, unless one follows the other.
        """
        line, run = self.target.line_bytes, width * self.lanes * self.itemsize
        panels = order == "columns" or self.packed
        if panels and (self.columns * self.itemsize % line or run % line):
            run += line - self.itemsize
        cycles = costs.written_cycles(self.target, height * run, self.nbytes * self.batches)
        if cycles and panels and self.columns * self.itemsize >= costs.PAGE_STRIDE:
            cycles = max(cycles, height * costs.written_row_cycles(self.target))
        return max(cycles - products, costs.EXPOSED_TRANSFERS * cycles)

    def coherence_misses(self, rows: int, vectors: int, products: float) -> float:
        """Cycles of coherence misses, if threads walk the result panel by panel: false sharing by prefetch.

        The next tile of a panel is rows away, and those that a prefetcher expects behind the last one of a thread
        belong to the next thread, which waits until it has them back. A tile that is walked along the rows is followed
        by lines of the same thread. So many cycles of `products` hide what a tile waits for.
        """
        blocks, panels = ceil(self.rows / rows), ceil(self.columns / (vectors * self.lanes))
        if blocks == 1 or panels == 1:
            return 0.0
        lines = rows * max(vectors * self.lanes * self.itemsize / self.target.line_bytes, 1)
        exposed = max(costs.COHERENCE_MISS_CYCLES - products / lines, 0)
        if self.packed:
            return panels * min(blocks / 2, costs.TILES_AHEAD) * lines * exposed
        return self.rows * costs.MISSES_PER_ROW * exposed

    def jumps(self, order: Order, panel: int) -> float:
        """Cycles to reach rows of what the epilogue of a large result accesses, panel by panel on other pages.

        Not if that is the result alone, whose stores do not wait for their lines. Rows of a small result whose distance
        is that of pages compete for the same sets of the first-level cache.
        """
        row = self.columns * self.itemsize
        if (order == "rows" and not self.packed) or row < costs.PAGE_STRIDE:
            return 0.0
        if self.nbytes <= costs.l2_bytes(self.target):
            near = self.nbytes * self.batches <= costs.l2_bytes(self.target) and row % costs.PAGE_STRIDE == 0
            return self.rows * (ceil(row / panel) - 1) * costs.CONFLICTING_ROW_CYCLES if near else 0.0
        if not self.packed:
            numbers = self.rows, self.columns, self.depth, self.itemsize, panel // self.itemsize
            panel *= l2_panels(self.target, *numbers)
        tensors = 1 + 2 * self.streams if self.streams > 1 else 0
        near = self.nbytes * self.batches * tensors <= costs.l3_block_bytes(self.target)
        visit = costs.l3_row_cycles(self.target) if near else costs.FAR_ROW_CYCLES
        return self.rows * (ceil(row / panel) - 1) * tensors * visit
