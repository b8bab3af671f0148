"""Sums over the rows of a batch that are present, for batches of fewer rows than the graph is written for.

They are operators so that fusion treats them like the sums over all rows: with a selection in front of an ordinary sum,
the selected elements would be stored wherever several sums need them. `adjoint.transforms.mask_batch` introduces them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import DTYPES, TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import multiply, subtract
from adjoint.ops.axes import fill, shifted, without
from adjoint.ops.base import Builder, Coordinate, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.centred import CentredSquares
from adjoint.ops.create import full, iota
from adjoint.ops.logic import less, where
from adjoint.ops.rules import operands, refused, require, rounded
from adjoint.ops.sampling import spread
from adjoint.ops.shape import broadcast_to, reduced_shape, reshape, spread_back, sum
from adjoint.ops.vectorizing import all_mapped

__all__ = ["PresentSquares", "PresentSum", "present"]

_ROWS = TensorType((), DTYPES["i32"])


def present(rows: Value, shape: tuple[int, ...], axis: int, each: int) -> Value:
    """Whether the row that an element belongs to is present.

    Parameters
    ----------
    rows : Value
        i32 scalar, the number of rows that are present; they come first.
    shape : tuple of int
        Shape of the result, which is bool.
    axis : int
        The batch axis of that shape.
    each : int
        Number of consecutive elements along the batch axis that belong to the same row.
    """
    size = shape[axis]
    inside = less(iota(size, dtype="i32"), multiply(rows, each) if each > 1 else rows)
    return broadcast_to(reshape(inside, (size, *(1 for _ in shape[axis + 1 :]))), shape)


@dataclass(frozen=True, slots=True)
class _OverRows(Operator):
    """Base class: a reduction over axes that include the batch axis.

    Parameters
    ----------
    axes : tuple of int
        The axes to reduce, counted from the start, ascending.
    batch : int
        The batch axis, one of them.
    each : int, default 1
        Number of consecutive elements along the batch axis that belong to the same row.
    """

    axes: tuple[int, ...]
    batch: int
    each: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))

    def _result(self, x: TensorType, rows: TensorType) -> TensorType:
        """The type of the result; raises if an operand or attribute is wrong."""
        require(self, (x,), "float integer unsigned", "cast it to i32 first")
        result = x.with_shape(reduced_shape(self.name, x, self.axes, keepdims=False))
        if self.batch not in self.axes:
            raise TypeRuleError(
                f"{self.name}: the batch axis must be one of the axes, got {self.batch} and {self.axes}; reduce it too"
            )
        if self.each < 1 or x.shape[self.batch] % self.each:
            raise TypeRuleError(
                f"{self.name}: each must divide the size of the batch axis, got {self.each} for axis {self.batch} of "
                f"{x}; pass the number of elements in a row"
            )
        if rows != _ROWS:
            raise TypeRuleError(f"{self.name}: rows must be {_ROWS}, got {rows}; cast it to i32")
        return result

    def _kept(self, array: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The rows of an array that are present."""
        count = min(max(int(rows), 0) * self.each, array.shape[self.batch])
        return np.take(array, range(count), self.batch)

    def _summed(
        self, k: Builder, index: Index, x: Operand, rows: Operand, element: Callable[[Index], Scalar]
    ) -> Scalar:
        """The sum of `element` over the rows that are present."""

        def term(r: tuple[Coordinate, ...]) -> Scalar:
            at = fill(index, self.axes, r)
            row = k.coordinate(at[self.batch] // self.each, DTYPES["i32"])
            made = element(at)
            return k.select(k.call("lt", row, rows(())), made, k.const(0, k.dtype(made)))

        return k.reduce("add", [x.type.shape[axis] for axis in self.axes], term)

    def _vectorized(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The operator along a mapped axis if all positions have the same number of rows."""
        *data, rows = inputs
        op = replace(self, axes=shifted(self.axes), batch=self.batch + 1)
        return apply(op, *all_mapped(mapped[:-1], data), rows)

    def _mask(self, x: Value, rows: Value) -> Value:
        """Which elements of mapped data belong to rows that are present, given a number of rows for each position."""
        each = reshape(multiply(rows, self.each), (-1, *(1 for _ in x.shape[1:])))
        return less(iota(x.shape, self.batch + 1, "i32"), each)

    def _spread(self, ct: Value, x: Value, rows: Value) -> Value:
        """The cotangent of the sum for each of its terms, 0 for those of absent rows."""
        mask = present(rows, x.shape, self.batch, self.each)
        return where(mask, spread_back(ct, x.shape, self.axes), full(0.0, x.shape, ct.dtype))


@dataclass(frozen=True, slots=True)
class PresentSum(_OverRows):
    """`ReduceSum` over the rows that are present, of which the second operand, an i32 scalar, is the number.

    Parameters
    ----------
    axes : tuple of int
        The axes to sum over, counted from the start, ascending.
    batch : int
        The batch axis, one of them.
    each : int, default 1
        Number of consecutive elements along the batch axis that belong to the same row.
    """

    name: ClassVar[str] = "present_sum"

    def infer(self, *inputs: TensorType) -> TensorType:
        """The shape without the axes."""
        operands(self, inputs, 2)
        return self._result(*inputs)

    def reference(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """`numpy.sum` of the rows that are present."""
        return rounded(lambda wide: wide.sum(self.axes, dtype=wide.dtype), self._kept(x, rows))

    def vjp(self, ct: Value, out: Value, x: Value, rows: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent for every element of a row that is present, 0 for the others."""
        return (self._spread(ct, x, rows) if is_float(x.dtype) else None), None

    def lower(self, k: Builder, index: Index, x: Operand, rows: Operand) -> Scalar:
        """A reduction whose terms are 0 for absent rows."""
        return self._summed(k, index, x, rows, x)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same sum over the other axes; with numbers of rows that differ, a sum with 0 for absent rows."""
        if not mapped[-1]:
            return self._vectorized(mapped, *inputs)
        x, rows = all_mapped(mapped, inputs)
        return sum(where(self._mask(x, rows), x, 0), shifted(self.axes))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Some rows, all, more than there are; several elements to a row; integers."""
        return [
            Sample(cls((0,), 0), (spread(5, 3), _count(3))),
            Sample(cls((0, 1), 0), (spread(4, 2, dtype="f64"), _count(4))),
            Sample(cls((0, 2, 3), 0), (spread(3, 2, 4, 5), _count(2))),
            Sample(cls((0,), 0, 3), (spread(12, 2, dtype="f64"), _count(3))),
            Sample(cls((0, 1), 1), (spread(3, 4), _count(9))),
            Sample(cls((0,), 0), (spread(6, dtype="bf16"), _count(5)), gradient=False),
            Sample(cls((0,), 0), (np.array([1, 2, 3], np.int32), _count(2))),
            refused(cls((1,), 0), ((2, 3), "f32"), ((), "i32"), error="one of the axes, got 0 and (1,)"),
            refused(cls((0,), 0, 2), ((3,), "f32"), ((), "i32"), error="got 2 for axis 0 of f32[3]"),
            refused(cls((0,), 0), ((3,), "f32"), ((), "i64"), error="present_sum: rows must be i32[], got i64[]"),
            refused(cls((0,), 0), ((3,), "bool"), ((), "i32"), error="got bool[3]; cast it to i32 first"),
        ]


@dataclass(frozen=True, slots=True)
class PresentSquares(_OverRows):
    """`CentredSquares` over the rows that are present, of which the third operand, an i32 scalar, is the number.

    The second operand is the mean of these rows and gets no cotangent, for the reason given there.

    Parameters
    ----------
    axes : tuple of int
        The axes to sum over, counted from the start, ascending.
    batch : int
        The batch axis, one of them.
    each : int, default 1
        Number of consecutive elements along the batch axis that belong to the same row.
    """

    name: ClassVar[str] = "present_squares"
    flops: ClassVar[float] = 3.0

    def infer(self, *inputs: TensorType) -> TensorType:
        """The shape without the axes."""
        operands(self, inputs, 3)
        x, mean, rows = inputs
        require(self, (x,), "float", "cast to a float such as f32 first")
        result = self._result(x, rows)
        if mean != result:
            raise TypeRuleError(f"present_squares: the mean must be {result}, got {mean} for {x}; reshape or cast it")
        return result

    def reference(self, x: np.ndarray, mean: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """`numpy.sum` of the squares."""

        def squares(a: Any, m: Any) -> Any:
            return np.sum(np.square(a - np.expand_dims(m, self.axes)), self.axes, dtype=a.dtype)

        return rounded(squares, self._kept(x, rows), mean)

    def vjp(self, ct: Value, out: Value, x: Value, mean: Value, rows: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``2 * ct * (x - mean)`` for the rows that are present."""
        twice = self._spread(multiply(ct, 2.0), x, rows)
        return multiply(twice, subtract(x, spread_back(mean, x.shape, self.axes))), None, None

    def lower(self, k: Builder, index: Index, x: Operand, mean: Operand, rows: Operand) -> Scalar:
        """A reduction whose terms are 0 for absent rows."""

        def square(at: Index) -> Scalar:
            centred = k.call("sub", x(at), mean(without(at, self.axes)))
            return k.call("mul", centred, centred)

        return self._summed(k, index, x, rows, square)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same over the other axes; with numbers of rows that differ, absent rows are replaced by the mean."""
        if not mapped[-1]:
            return self._vectorized(mapped, *inputs)
        x, mean, rows = all_mapped(mapped, inputs)
        axes = shifted(self.axes)
        return apply(CentredSquares(axes), where(self._mask(x, rows), x, spread_back(mean, x.shape, axes)), mean)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Some rows and all of them, with their means."""

        def sample(op: PresentSquares, x: np.ndarray, rows: int) -> Sample:
            mean = np.mean(op._kept(x, np.asarray(rows)), op.axes, x.dtype)
            return Sample(op, (x, mean, _count(rows)), gradient=x.dtype == np.float64)

        return [
            sample(cls((0,), 0), spread(5, 3, dtype="f64"), 3),
            sample(cls((0, 2, 3), 0), spread(4, 2, 3, 3, dtype="f64"), 2),
            sample(cls((0,), 0, 2), spread(6, 17), 3),
            refused(cls((0,), 0), ((3, 4), "f32"), ((3,), "f32"), ((), "i32"), error="be f32[4], got f32[3] for"),
            refused(cls((0,), 0), ((3,), "i32"), ((), "i32"), ((), "i32"), error="cast to a float such as f32 first"),
        ]


def _count(rows: int) -> np.ndarray:
    return np.array(rows, np.int32)
