"""Inlining: the element of a value at an index, as a kernel expression.

As in Halide, a value that is not stored is inlined into its consumers. `Inliner.element` asks an operator for one
element, and the operator asks for those of its operands; a value in memory becomes a load, one that another part of the
kernel left in a register is bound to it, everything else is computed in place. Index maps compose on the way, so that a
transpose, slice or broadcast costs nothing.

A choice by position guards what it reads. Where an index is within its buffer whatever is chosen, as in an image with
zeros between its elements, the guard is dropped: lanes that read neighbours are then a vector load, not a gather::

    select(lt(i % 2, 1), x[i // 2 if lt(i % 2, 1)], 0)  ->  select(lt(i % 2, 1), x[i // 2], 0)
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from adjoint.ir import DTYPES, TensorType, Value
from adjoint.kernel.index import Dynamic, Index, Var, as_index, flatten
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Expr, Load
from adjoint.kernel.scalars import SCALARS
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Dot, Operator

__all__ = [
    "ExprBuilder",
    "FusedAttention",
    "Inliner",
    "PrefixScan",
    "Reduction",
    "RowAlgorithm",
    "Scatter",
    "Source",
    "compute_dtype",
    "output_vars",
]

BOOL = DTYPES["bool"]
F32 = DTYPES["f32"]
I32 = DTYPES["i32"]
I64 = DTYPES["i64"]
_HALF = frozenset((DTYPES["f16"], DTYPES["bf16"]))


@dataclass(frozen=True, slots=True)
class Source:
    """An operand as an operator's `lower` sees it."""

    type: TensorType
    read: Callable[[Sequence[Index | int]], Any]

    def __call__(self, index: Sequence[Index | int]) -> Any:
        """Its element at an index."""
        return self.read(index)


@dataclass(frozen=True, eq=False)
class Reduction:
    """An element that reduces `body` over `vars`: what `Builder.reduce` returns."""

    kind: str
    vars: tuple[Var, ...]
    body: Expr


@dataclass(frozen=True, eq=False)
class Scatter:
    """Rows added at given positions: what `Builder.scatter_add` returns."""

    rows: int
    count: int
    id: Expr
    update: Expr


@dataclass(frozen=True, eq=False)
class PrefixScan:
    """A carry that is updated along an axis: what `Builder.prefix_scan` returns. `next` is the carry after a step."""

    axis: int
    start: Expr
    next: Expr
    exclusive: bool
    reverse: bool


@dataclass(frozen=True, eq=False)
class FusedAttention:
    """A product whose weights are functions of dot products: what `Builder.fused_attention` returns."""

    kind: str
    count: int
    dots: tuple[Dot, ...]
    weight: Callable[[Index, Sequence[Expr]], Expr]
    values: Callable[[Index], Expr] | None
    span: tuple[Index, Index] | None
    factor: Callable[[Index], Expr] | None


@dataclass(frozen=True, eq=False)
class RowAlgorithm:
    """Rows computed by a sequential algorithm each: what `Builder.row_algorithm` returns."""

    name: str
    rank: int
    shapes: tuple[tuple[int, ...], ...]
    reads: tuple[Callable[[tuple[Index, ...]], Expr], ...]
    options: tuple[str, ...]


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the arithmetic: half floats are stored in 16 bits and computed in float32."""
    return F32 if dtype in _HALF else dtype


def output_vars(shape: Sequence[int], prefix: str = "i") -> tuple[Var, ...]:
    """A loop variable for each axis."""
    return tuple(Var(f"{prefix}{axis}", size) for axis, size in enumerate(shape))


@dataclass
class ExprBuilder:
    """Implements `adjoint.ops.base.Builder` with kernel expressions."""

    #: The literal arrays that were read, by their bytes and dtype.
    literals: dict[tuple[bytes, np.dtype], Buffer] = field(default_factory=dict)
    #: Where it does not hold, elements are 0 and nothing is read.
    guard: Expr | None = None
    #: Whether all of the guard comes from choices: where it does not hold, what is read is dropped.
    dropped: bool = False
    #: Coordinates that the next reductions run over, where a kernel has chosen its loops already.
    reduce_index: tuple[Index, ...] | None = None
    #: The carry of the next prefix scan, where a kernel has a register for it already.
    carry: Expr | None = None

    def const(self, value: float | int | bool, dtype: np.dtype) -> Expr:
        """A constant."""
        return Const(value, compute_dtype(dtype))

    def constant_data(self, data: bytes, shape: tuple[int, ...], dtype: np.dtype, index: Sequence[Any]) -> Expr:
        """An element of a literal array, which is a buffer of the program."""
        return self.load(self.literal(data, dtype), flatten(map(as_index, index), shape))

    def literal(self, data: bytes, dtype: np.dtype) -> Buffer:
        """The buffer of a literal array."""
        made = Buffer(f"literal{len(self.literals)}", dtype, len(data) // dtype.itemsize, "literal")
        return self.literals.setdefault((data, dtype), made)

    def load(self, buffer: Buffer, index: Index) -> Expr:
        """An element of a buffer, in the dtype of the arithmetic; guarded where it may be out of bounds."""
        surely = index.low >= 0 and index.high < buffer.size
        guard = None if self.dropped and surely else self.guard
        return self.stored(Load(buffer, index, guard), compute_dtype(buffer.dtype))

    def call(self, function: str, *args: Expr) -> Expr:
        """A scalar function; constant conditions are folded."""
        if function in ("and", "or") and args[0].dtype == BOOL:
            known = function == "or"
            if any(isinstance(a, Const) and bool(a.value) == known for a in args):
                return Const(known, BOOL)
            args = tuple(a for a in args if not isinstance(a, Const)) or args[:1]
            if len(args) == 1:
                return args[0]
        dtype = BOOL if SCALARS[function].result == "bool" else args[0].dtype
        return Apply(function, args, dtype)

    def select(self, condition: Expr, then: Expr, other: Expr) -> Expr:
        """`then` where the condition holds, else `other`."""
        return Apply("select", (condition, then, other), then.dtype)

    def cast(self, x: Expr, dtype: np.dtype) -> Expr:
        """`x` converted; a cast to a half float rounds, and stays in float32."""
        made = x if x.dtype == dtype else Apply("cast", (x,), dtype)
        return Apply("cast", (made,), F32) if dtype in _HALF else made

    def stored(self, x: Expr, dtype: np.dtype) -> Expr:
        """`x` in the dtype that it is stored in."""
        return x if x.dtype == dtype else Apply("cast", (x,), dtype)

    def dtype(self, x: Expr) -> np.dtype:
        """Dtype of an element."""
        return x.dtype

    def coordinate(self, i: Index | int, dtype: np.dtype) -> Expr:
        """A coordinate as a number."""
        index = as_index(i)
        to = compute_dtype(dtype)
        if not index.terms:
            return Const(index.constant if to.kind in "iu" else float(index.constant), to)
        made = Coordinate(index, I64)
        return made if to == I64 else Apply("cast", (made,), to)

    def position(self, x: Expr, size: int) -> Index:
        """An integer element as a coordinate, clamped to the axis: nothing is ever read out of bounds."""
        if isinstance(x, Const):
            return as_index(min(max(int(x.value), 0), max(size - 1, 0)))
        wide = self.cast(x, I64)
        clamped = self.call("min", self.call("max", wide, Const(0, I64)), Const(max(size - 1, 0), I64))
        return as_index(Dynamic(clamped, size))

    def inside(self, i: Index | int, start: int, stop: int) -> Expr:
        """Whether ``start <= i < stop``; a constant where the range of `i` decides."""
        index = as_index(i)
        if start <= index.low and index.high < stop:
            return Const(True, BOOL)
        if index.high < start or index.low >= stop:
            return Const(False, BOOL)
        # 32 bits where they suffice: twice as many lanes per comparison.
        narrow = min(index.low, start) >= -(2**31) and max(index.high, stop) < 2**31
        dtype = I32 if narrow else I64
        number = Coordinate(index, dtype)
        tests = []
        if index.low < start:
            tests.append(self.call("ge", number, Const(start, dtype)))
        if index.high >= stop:
            tests.append(self.call("lt", number, Const(stop, dtype)))
        return tests[0] if len(tests) == 1 else self.call("and", *tests)

    def choose(self, condition: Expr, then: Callable[[], Expr], other: Callable[[], Expr]) -> Expr:
        """Like `select`, with guarded reads on both sides."""
        if isinstance(condition, Const):
            return then() if condition.value else other()
        outer, dropped = self.guard, self.dropped
        try:
            self.dropped = dropped or outer is None
            self.guard = condition if outer is None else self.call("and", outer, condition)
            yes = then()
            negated = self.call("not", condition)
            self.guard = negated if outer is None else self.call("and", outer, negated)
            no = other()
        finally:
            self.guard, self.dropped = outer, dropped
        return self.select(condition, yes, no)

    def reduce(self, kind: str, extents: Sequence[int], body: Callable[[tuple[Index, ...]], Expr]) -> Reduction:
        """Describe a reduction; the kernel builder decides how it runs."""
        vars_ = output_vars(extents, "r")
        index = self.reduce_index or tuple(as_index(v) for v in vars_)
        return Reduction(kind, vars_, body(index))

    def scatter_add(
        self, rows: int, count: int, ids: Callable[[Index], Expr], updates: Callable[[Index], Expr]
    ) -> Scatter:
        """Describe rows that are added at given positions."""
        n = self.reduce_index[0] if self.reduce_index else as_index(Var("n", count))
        return Scatter(rows, count, ids(n), updates(n))

    def prefix_scan(
        self,
        axis: int,
        size: int,
        start: Expr,
        step: Callable[[Index, Expr], Expr],
        exclusive: bool = False,
        reverse: bool = False,
    ) -> PrefixScan:
        """Describe one step of a prefix scan."""
        n = self.reduce_index[0] if self.reduce_index else as_index(Var("n", size))
        return PrefixScan(axis, start, step(n, self.carry or start), exclusive, reverse)

    def fused_attention(
        self,
        kind: str,
        count: int,
        dots: Sequence[Dot],
        weight: Callable[[Index, Sequence[Expr]], Expr],
        values: Callable[[Index], Expr] | None = None,
        span: tuple[Index | int, Index | int] | None = None,
        factor: Callable[[Index], Expr] | None = None,
    ) -> FusedAttention:
        """Describe a product whose weights are functions of dot products."""
        bounds = None if span is None else (as_index(span[0]), as_index(span[1]))
        return FusedAttention(kind, count, tuple(dots), weight, values, bounds, factor)

    def row_algorithm(
        self,
        name: str,
        rank: int,
        operands: Sequence[tuple[tuple[int, ...], Callable[[tuple[Index, ...]], Expr]]],
        options: tuple[str, ...] = (),
    ) -> RowAlgorithm:
        """Describe rows that are computed by a sequential algorithm each."""
        shapes, reads = tuple(shape for shape, _ in operands), tuple(read for _, read in operands)
        return RowAlgorithm(name, rank, shapes, reads, options)


class Inliner(ExprBuilder):
    """Computes elements of graph values from buffers.

    Parameters
    ----------
    buffers : mapping
        The buffers of the values in memory (row-major).
    literals : mapping
        The buffers of all literal arrays of the program.
    own : collection of Value
        Values to compute although they have a buffer.
    """

    def __init__(
        self,
        buffers: Mapping[Value, Buffer],
        literals: Mapping[tuple[bytes, np.dtype], Buffer],
        own: Collection[Value] = (),
    ) -> None:
        super().__init__()
        self.buffers = buffers
        self.known_literals = literals
        self.own = own
        self.registers: dict[Value, Expr] = {}
        #: The guard is in the key itself, not by its address, which another may have once it is gone.
        self._memo: dict[tuple[Value, tuple[Index, ...], Expr | None], Expr] = {}

    def literal(self, data: bytes, dtype: np.dtype) -> Buffer:
        """The buffer of a literal array."""
        return self.known_literals[(data, dtype)]

    def bind(self, value: Value, expr: Expr) -> None:
        """Use `expr` as the element of `value`, at whatever index."""
        self.registers[value] = expr

    def element(self, value: Value, index: Sequence[Index | int]) -> Expr:
        """The element of `value` at `index`; a description such as `Reduction` where the operator gives one."""
        held = self.registers.get(value)
        if held is not None:
            return held
        where = tuple(as_index(i) for i in index)
        key = (value, where, self.guard)
        made = self._memo.get(key)
        if made is None:
            buffer = self.buffers.get(value)
            if buffer is not None and value not in self.own:
                made = self.load(buffer, flatten(where, value.shape))
            else:
                made = self.describe(value, where)
            self._memo[key] = made
        return made

    def describe(self, value: Value, index: tuple[Index, ...]) -> Any:
        """The operator's own description of an element, even where the value is in memory."""
        op = value.op
        assert isinstance(op, Operator)
        operands = [Source(v.type, partial(self.element, v)) for v in value.inputs]
        return op.lower(self, index, *operands)
