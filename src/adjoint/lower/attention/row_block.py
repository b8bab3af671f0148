"""The rows of a unit of attention, the scratch memory of the thread that computes them, and loops over them."""

from collections.abc import Callable
from functools import cached_property
from math import ceil

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, For, Stmt, Store
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.inlining import FusedAttention, Inliner
from adjoint.lower.attention.plan import AttentionPlan, FusedOperator, describe
from adjoint.lower.context import Context

__all__ = ["RowBlock"]


@dataclass(frozen=True)
class RowBlock:
    """The rows of a unit of work, and the scratch memory of the thread that computes them.

    Parameters
    ----------
    plan : AttentionPlan
        The kernel's plan.
    at : tuple of Index
        Coordinates on the batch axes.
    next_at : tuple of Index
        Those of the next element of the batch.
    first : Index
        The first row.
    count : int
        Number of rows. The last vector may have spare lanes, which compute and are not stored.
    """

    plan: AttentionPlan
    at: tuple[Index, ...]
    next_at: tuple[Index, ...]
    first: Index
    count: int

    @property
    def vectors(self) -> int:
        """Vectors that hold all rows."""
        return ceil(self.count / self.plan.lanes)

    @property
    def width(self) -> int:
        """Lanes of all vectors."""
        return self.plan.lanes * self.vectors

    @cached_property
    def packed(self) -> tuple[Buffer, ...]:
        """The packed elements of a block of steps, ``[step, element]``."""
        plan = self.plan
        return tuple(Buffer(f"steps{n}", plan.dtype, plan.block * c.size, "scratch") for n, c in enumerate(plan.packed))

    @cached_property
    def panels(self) -> tuple[Buffer, ...]:
        """The packed factors of the rows for each dot product, ``[d, row]``."""
        return tuple(self._scratch(f"panel{n}", dot.depth) for n, dot in enumerate(self.plan.dots))

    @cached_property
    def dots(self) -> tuple[Buffer, ...]:
        """Dot products of a block, ``[step, row]``."""
        return tuple(self._scratch(f"dots{n}", self.plan.block) for n, _ in enumerate(self.plan.dots))

    @cached_property
    def weights(self) -> tuple[Buffer, ...]:
        """Weights of a block, ``[step, row]``: in place of the dot products, as far as there are as many."""
        more = range(len(self.dots), len(self.plan.weights))
        made = *self.dots, *(self._scratch(f"weights{n}", self.plan.block) for n in more)
        return made[: len(self.plan.weights)]

    @cached_property
    def sums(self) -> tuple[Buffer, ...]:
        """Sums of each operator, ``[column, row]``."""
        operators = enumerate(self.plan.operators)
        return tuple(self._scratch(f"sums{n}", self.plan.whole_columns(operator)) for n, operator in operators)

    @cached_property
    def transposed(self) -> Buffer:
        """Sums of one operator, ``[row, column]``."""
        return self._scratch("turned", max(map(self.plan.whole_columns, self.plan.operators)))

    @cached_property
    def row_max(self) -> tuple[Buffer, ...]:
        """The running maximum of each row, for weights that are exponents."""
        return self._each_weight("top")

    @cached_property
    def row_sum(self) -> tuple[Buffer, ...]:
        """The running sum of exponentials, relative to the running maximum."""
        return self._each_weight("total")

    @cached_property
    def rescale(self) -> tuple[Buffer, ...]:
        """The factors by which to rescale the sums."""
        return self._each_weight("scale")

    def _each_weight(self, name: str) -> tuple[Buffer, ...]:
        return tuple(self._scratch(f"{name}{n}", 1) for n, _ in enumerate(self.plan.weights))

    def _scratch(self, name: str, count: int) -> Buffer:
        return Buffer(name, self.plan.dtype, count * self.width, "scratch")

    def describe(
        self, context: Context, operator: FusedOperator, row: Index, column: Index | int = 0
    ) -> tuple[Inliner, FusedAttention]:
        """The description of an operator at a row and a column, and the inliner that made it."""
        index = (*self.at, self.first + row, as_index(column))
        return describe(context, operator.group, index if operator.columns else index[:-1])

    def registers(self, name: str, count: int = 1) -> Buffer:
        """Registers for `count` elements of each row."""
        return Buffer(name, self.plan.dtype, count * self.width, "register")

    def each(self, body: Callable[[Index], Store], count: int = 1) -> tuple[Stmt, ...]:
        """Unrolled: `body` at ``element * width + row`` for the rows of each of `count` elements."""
        i, vector, lane = Var("i", count), Var("v", self.vectors), Var("l", self.plan.lanes)
        spot = as_index(i) * self.width + as_index(vector) * self.plan.lanes + as_index(lane)
        loop = For(vector, (For(lane, (body(spot),), "vector"),), "unroll")
        return (For(i, (loop,), "unroll"),) if count > 1 else (loop,)

    def tiles(self, count: int, body: Callable[[int, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """Loop over whole tiles of steps or columns and a remainder; `body` takes the size and the first element."""
        many, rest = divmod(count, self.plan.tile)
        iteration = Var("t", many)
        loop: list[Stmt] = [For(iteration, body(self.plan.tile, as_index(iteration) * self.plan.tile))] if many else []
        return (*loop, *body(rest, as_index(many * self.plan.tile))) if rest else tuple(loop)
