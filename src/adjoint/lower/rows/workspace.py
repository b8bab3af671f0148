"""What the algorithms on rows share: operands, scratch memory, and loops over a row in vectors."""

from collections.abc import Callable
from dataclasses import field
from math import prod

import numpy as np

from adjoint import costs
from adjoint.ir import DTYPES, Value
from adjoint.kernel.index import Dynamic, Index, Var, as_index, flatten
from adjoint.kernel.ir import Buffer, Const, Coordinate, Expr, For, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.inlining import Inliner, RowAlgorithm, compute_dtype
from adjoint.lower.loops import vector_loops

__all__ = ["I64", "Workspace"]

I64 = DTYPES["i64"]


@dataclass
class Workspace:
    """The row or matrix that a unit computes.

    Parameters
    ----------
    root : Value
        The value that the algorithm computes.
    buffer : Buffer
        Its memory.
    description : RowAlgorithm
        The operands of this unit.
    at : tuple of Index
        The coordinates of the row or matrix in the result.
    inliner : Inliner
        Builds expressions, and reads operands.
    target : Target
        The CPU.
    dtype : numpy.dtype
        The dtype of the arithmetic.
    lanes : int
        Elements of a vector of that dtype.
    """

    root: Value
    buffer: Buffer
    description: RowAlgorithm
    at: tuple[Index, ...]
    inliner: Inliner
    target: Target
    dtype: np.dtype = field(init=False)
    lanes: int = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = compute_dtype(self.root.dtype)
        self.lanes = self.target.lanes(self.dtype)

    def call(self, function: str, *args: Expr) -> Expr:
        """A scalar function of elements."""
        return self.inliner.call(function, *args)

    def select(self, condition: Expr, then: Expr, other: Expr) -> Expr:
        """One of two elements."""
        return self.inliner.select(condition, then, other)

    def number(self, value: float | int, dtype: np.dtype | None = None) -> Const:
        """A constant; by default of the dtype of the arithmetic."""
        return Const(value, self.dtype if dtype is None else dtype)

    def coordinate(self, index: Index | Var | int) -> Expr:
        """An index as a number."""
        return Coordinate(as_index(index), I64)

    def scratch(self, name: str, size: int, dtype: np.dtype | None = None) -> Buffer:
        """Memory of the thread."""
        return Buffer(name, self.dtype if dtype is None else dtype, size, "scratch")

    def register(self, name: str, dtype: np.dtype | None = None, size: int = 1) -> Buffer:
        """Registers."""
        return Buffer(name, self.dtype if dtype is None else dtype, size, "register")

    def load(self, buffer: Buffer, index: Index | int = 0) -> Expr:
        """An element of memory."""
        return self.inliner.load(buffer, as_index(index))

    def store(self, buffer: Buffer, index: Index | int, value: Expr) -> Store:
        """Write an element of memory."""
        return Store(((buffer, as_index(index), value),))

    def operand(self, number: int, *index: Index | int) -> Expr:
        """An element of an operand's row or matrix."""
        return self.description.reads[number](tuple(map(as_index, index)))

    def result(self, *index: Index | int) -> Index:
        """The place in memory of an element of the row or matrix."""
        return flatten((*self.at, *map(as_index, index)), self.root.shape)

    def give(self, value: Expr, *index: Index | int) -> Store:
        """Write an element of the result."""
        return self.store(self.buffer, self.result(*index), self.inliner.stored(value, self.buffer.dtype))

    def place(self, position: Expr, size: int) -> Index:
        """An integer that is a coordinate from 0 to ``size - 1``."""
        return as_index(Dynamic(position, size))

    def each(self, count: int, body: Callable[[Index], Stmt], lanes: int = 0) -> tuple[Stmt, ...]:
        """A statement for each coordinate of a row, in vectors."""
        return vector_loops(count, lanes or self.lanes, lambda at, _: (body(at),))

    def accumulate(
        self,
        count: int,
        steps: tuple[Var, Index],
        start: Callable[[Index], Expr],
        term: Callable[[Index], tuple[Expr, Expr]],
        finish: Callable[[Index, Expr], Stmt],
    ) -> tuple[Stmt, ...]:
        """For each coordinate of a row ``start - sum of products``, in the order of the steps.

        Parameters
        ----------
        count : int
            Length of the row.
        steps : pair of Var and Index
            The variable of the sum, and the number of terms.
        start : callable
            Maps a coordinate to what the products are subtracted from.
        term : callable
            Maps a coordinate to two factors.
        finish : callable
            Maps a coordinate and the difference to the statement that stores it.
        """
        var, until = steps
        out: list[Stmt] = []

        def block(base: Index, vectors: int, lanes: int) -> tuple[Stmt, ...]:
            held = self.register("acc", size=vectors * self.lanes)  # whole vectors, which are loaded as such

            def over(body: Callable[[Index, Index], Stmt]) -> Stmt:
                vector, lane = Var("q", vectors), Var("l", lanes)
                own = as_index(vector) * lanes + as_index(lane)
                inner = For(lane, (body(base + own, own),), "vector")
                return For(vector, (inner,), "unroll") if vectors > 1 else inner

            def subtract(at: Index, own: Index) -> Stmt:
                left, right = term(at)
                return self.store(held, own, self.call("fma", self.call("neg", left), right, self.load(held, own)))

            return (
                over(lambda at, own: self.store(held, own, start(at))),
                For(var, (over(subtract),), until=until),
                over(lambda at, own: finish(at, self.load(held, own))),
            )

        base = 0
        # Several vectors at once, then single ones, then what is left.
        for vectors, lanes in (
            (costs.MATRIX_ROW_VECTORS, self.lanes),
            (1, self.lanes),
            (1, max(count % self.lanes, 1)),
        ):
            many, size = (count - base) // (vectors * lanes), vectors * lanes
            if many:
                step = Var("v", many)
                body = block(as_index(step) * size + base, vectors, lanes)
                out += (For(step, body),) if many > 1 else body
                base += many * size
        return tuple(out)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compute."""
        return not prod(self.root.shape)
