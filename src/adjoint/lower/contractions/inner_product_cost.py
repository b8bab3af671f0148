"""What inner products cost whose tiles walk all of k at once, where k has several axes: gradients of weights.

The cycles of the multiply-adds, loads and sums of all tiles; or, where that takes longer, those of reading both
operands again from the caches. That each is read once, perhaps from memory, is left out, as in the estimates of other
kinds.
"""

from collections.abc import Iterator
from itertools import product
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.traffic import Block, line_cycles
from adjoint.lower.loops import pieces

__all__ = ["TileWalk"]


@dataclass(frozen=True, slots=True)
class TileWalk:
    """How the tiles of such inner products walk the result and both operands.

    Parameters
    ----------
    target : Target
        The CPU.
    contraction : Contraction
        The contraction.
    along : Var
        The summed axis that lanes run along.
    lanes : int
        Partial sums of each element.
    rows, columns : int
        Elements of the result in a tile along `m` and `across`.
    taps : int
        Extent of the axis that is whole in each tile; 1 if there is none.
    across : Var or None
        The axis along which the columns of a tile run.
    inside : int
        Iterations of the axes that are looped over inside a unit.
    steps, blocks : int
        Steps of the summed axes but `along`, and the blocks that they are divided into.
    """

    target: Target
    contraction: Contraction
    along: Var
    lanes: int
    rows: int
    columns: int
    taps: int
    across: Var | None
    inside: int
    steps: int
    blocks: int

    def cycles(self) -> float:
        """Estimated cycles on one core."""
        c = self.contraction
        moved = self._moved()
        busy = sum(count * self._tile(height, width) for count, height, width in self._tiles())
        results = prod(v.extent for v in c.axes)
        return max(busy, moved) + costs.EXPOSED_TRANSFERS * moved + results * costs.REDUCE_LANES_CYCLES

    @property
    def _registers(self) -> int:
        """Registers of a vector of partial sums."""
        return max(self.lanes // self.target.lanes(self.contraction.dtype), 1)

    @property
    def _outer(self) -> int:
        """Iterations of the axes that are outside a tile's rows and columns and a unit."""
        c = self.contraction
        wide = self.across.extent if self.across is not None else 1
        return prod(v.extent for v in c.axes) // (c.rows * wide * self.taps * self.inside)

    def _tiles(self) -> Iterator[tuple[int, int, int]]:
        """So many tiles of so many rows and columns."""
        wide = self.across.extent if self.across is not None else 1
        rows, columns = pieces(self.contraction.rows, self.rows), pieces(wide, self.columns)
        for (_, down, height), (_, across, width) in product(rows, columns):
            yield down * across * self._outer, height, width

    def _tile(self, height: int, width: int) -> float:
        """Cycles of all products of a tile, whose operands are in the first-level cache."""
        c, target, registers, width = self.contraction, self.target, self._registers, width * self.taps
        compute = costs.multiply_add_cycles(target, height * width * registers)
        loads = height * self._loads(c.left) + width * self._loads(c.right)
        step = max(compute, loads * registers / target.load_units, costs.chain_cycles(target))
        vectors = ceil(self.along.extent / self.lanes)
        products = self.steps * (vectors * step + costs.STEP_CYCLES)
        if self.inside == 1:
            return products
        sums = self.inside * height * width * self.lanes * c.dtype.itemsize
        spilled = self.blocks * height * width * registers * costs.spill_cycles(target, sums)
        return self.inside * (products + spilled)

    def _loads(self, load: Load) -> float:
        """Loads that take as long as that of a vector: more of apart elements, or one that crosses cache lines."""
        c, target = self.contraction, self.target
        step = load.index.coefficient(self.along)
        if step is None:
            return costs.JOINED_ROW_LOADS
        if step != 1:
            return costs.STRIDED_LOADS
        others = [v for v in (*c.axes, *c.k) if v is not self.along and load.index.coefficient(v)]
        line = target.line_bytes // c.dtype.itemsize
        aligned = all((load.index.coefficient(v) or 0) % line == 0 for v in others)
        return 1.0 if aligned else 1.0 + costs.CROSSING_LOADS * min(target.vector_bytes / target.line_bytes, 1.0)

    def _moved(self) -> float:
        """Cycles to read both operands again, from where they are when a tile meets them; all kinds read them once."""
        c = self.contraction
        groups = prod(v.extent for v in c.axes if c.left.index.coefficient(v) and c.right.index.coefficient(v))
        left, right = (load.buffer.nbytes // groups for load in (c.left, c.right))
        wide = self.across.extent if self.across is not None else 1
        down, across = ceil(c.rows / self.rows), ceil(wide / self.columns)
        outer = self._outer // groups
        row = left * self.rows // c.rows
        lines = [
            (outer - 1, left, left + right),
            (outer * (across - 1), left, row),
            (outer - 1, right, left + right),
            (outer * (down - 1), right, right + row),
        ]
        return groups * sum(
            many * nbytes / self.target.line_bytes * line_cycles(self.target, Block(1, between, 0))
            for many, nbytes, between in lines
        )
