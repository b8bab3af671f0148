"""Sorting of rows, and binary search in sorted rows. `adjoint.ops.ordering` has the functions, for any axis."""

from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import DTYPES, TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.rules import operands, refused, require
from adjoint.ops.sampling import spread
from adjoint.ops.vectorizing import all_mapped

__all__ = ["ArgSort", "SearchSorted"]

I64 = DTYPES["i64"]


@dataclass(frozen=True, slots=True)
class ArgSort(Operator):
    """The i64 positions of the elements of each row along the last axis, in ascending or descending order.

    The sort is stable: equal elements stay in the order of their positions. NaN is greater than any number, and all NaN
    are equal, as are zeros of both signs and subnormal numbers, which are flushed.

    Parameters
    ----------
    descending : bool, default False
        The greatest element first.
    """

    name: ClassVar[str] = "argsort"
    descending: bool = False

    def infer(self, *inputs: TensorType) -> TensorType:
        """The operand's shape in i64."""
        operands(self, inputs, 1)
        (x,) = inputs
        if not x.rank:
            raise TypeRuleError(f"argsort: a scalar has no axis to sort, got {x}; reshape it to [1]")
        return TensorType(x.shape, I64)

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.argsort`, which is stable and has NaN last."""
        wide = x.astype(np.float32) if is_float(x.dtype) and x.dtype.itemsize == 2 else x
        if not self.descending:
            return np.argsort(wide, -1, kind="stable").astype(I64)
        # Of the reversed row, so that equal elements are in the order of their positions after the result is reversed.
        backwards = np.argsort(wide[..., ::-1], -1, kind="stable")[..., ::-1]
        return np.asarray(max(x.shape[-1] - 1, 0) - backwards, I64)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: positions are not differentiable; the gradient of sorted elements is that of `gather`."""
        return (None,)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """The whole row, described with `Builder.row_algorithm`."""
        row = index[:-1]
        options = ("descending",) if self.descending else ()
        return k.row_algorithm("argsort", 1, [(x.type.shape[-1:], lambda i: x((*row, *i)))], options)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """The same for more rows."""
        return apply(self, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both orders, ties, NaN and infinities, all kinds of dtypes, one and several blocks; sizes 0 and 1."""
        odd = np.array([1, np.nan, -np.inf, 0.0, -0.0, 1, np.inf, np.nan, -1], np.float32)
        wide = np.array([5, -(2**40), 5, 2**62, -1, 5])
        return [
            Sample(cls(), (spread(2, 77).round(1),)),
            Sample(cls(True), (spread(2, 300, dtype="f64").round(1),)),
            Sample(cls(), (odd,)),
            Sample(cls(True), (odd,)),
            Sample(cls(True), (np.array([3, -1, 3, 0, 2.5]).astype(DTYPES["bf16"]),)),
            Sample(cls(), (odd.astype(np.float64),)),
            Sample(cls(True), (wide,)),
            Sample(cls(), (wide.astype(np.uint64),)),
            Sample(cls(True), (np.array([[3, 200, 3], [0, 255, 1]], np.uint8),)),
            Sample(cls(), (np.array([True, False, True, False]),)),
            Sample(cls(), (spread(3, 1),)),
            Sample(cls(), (spread(2, 0),)),
            refused(cls(), ((), "f32"), error="argsort: a scalar has no axis to sort, got f32[]; reshape it to [1]"),
        ]


@dataclass(frozen=True, slots=True)
class SearchSorted(Operator):
    """Where values belong in sorted rows: the i64 number of elements that are smaller, found by binary search.

    Rows are ascending; nothing checks it. As in PyTorch, a NaN among the values belongs behind all elements.

    Parameters
    ----------
    right : bool, default False
        Count the elements that are equal to a value too.
    """

    name: ClassVar[str] = "searchsorted"
    right: bool = False

    def infer(self, *inputs: TensorType) -> TensorType:
        """The shape of the values in i64."""
        operands(self, inputs, 2)
        rows, values = inputs
        require(self, inputs, "float integer unsigned", "cast it to i32")
        if rows.dtype != values.dtype:
            raise TypeRuleError(f"searchsorted: dtypes must be equal, got {rows} and {values}; cast one of them")
        shared = rows.rank == 1
        if not rows.rank or not (shared or (values.rank and rows.shape[:-1] == values.shape[:-1])):
            raise TypeRuleError(
                f"searchsorted: there must be one sorted row for all values, or one for each row of them, got {rows} "
                f"for {values}; reshape one"
            )
        return TensorType(values.shape, I64)

    def reference(self, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        """`numpy.searchsorted`, row by row."""
        side: Any = "right" if self.right else "left"
        wide: list[Any] = [
            x.astype(np.float32) if is_float(x.dtype) and x.dtype.itemsize == 2 else x for x in (rows, values)
        ]
        if rows.ndim == 1:
            return np.asarray(np.searchsorted(wide[0], wide[1], side=side), I64)
        result = np.zeros(values.shape, I64)
        for at in np.ndindex(values.shape[:-1]):
            result[at] = np.searchsorted(wide[0][at], wide[1][at], side=side)
        return result

    def vjp(self, ct: Value, out: Value, rows: Value, values: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: positions are not differentiable."""
        return None, None

    def lower(self, k: Builder, index: Index, rows: Operand, values: Operand) -> Scalar:
        """A binary search without branches: each step adds a power of two if the element before it is still smaller."""
        size = rows.type.shape[-1]
        lead = index[:-1] if rows.type.rank > 1 else ()
        value, found = values(index), k.const(0, I64)
        for step in reversed(range(size.bit_length())):
            further = k.call("add", found, k.const(1 << step, I64))
            here = rows((*lead, k.position(k.call("sub", further, k.const(1, I64)), size)))
            smaller = k.call("not", k.call("gt" if self.right else "ge", here, value))
            fits = k.call("le", further, k.const(size, I64))
            found = k.select(k.call("and", fits, smaller), further, found)
        return found

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same for more values, or for more rows."""
        rows, values = inputs
        if not mapped[0] and len(rows.shape) == 1:
            return apply(self, rows, values)
        rows, values = all_mapped(mapped, inputs)
        if len(rows.shape) == 2 and len(values.shape) != 2:
            flat = values.reshape(values.shape[0], -1 if 0 not in values.shape else 0)
            return apply(self, rows, flat).reshape(*values.shape)
        return apply(self, rows, values)

    @classmethod
    def samples(cls) -> list[Sample]:
        """One row and several, both sides, ties, several dtypes; values outside; no elements, no values."""
        row = np.array([-1.0, 0.0, 0.0, 0.5, 2.0], np.float32)
        values = np.array([[-2.0, 0.0, 0.25], [0.5, 2.0, 3.0]], np.float32)
        return [
            Sample(cls(), (row, values)),
            Sample(cls(True), (row, values)),
            Sample(cls(), (np.stack([row, row * 2]).astype(np.float64), values.astype(np.float64))),
            Sample(cls(True), (np.array([1, 3, 3], np.int32), np.array(3, np.int32))),
            Sample(cls(), (spread(0), spread(2))),
            Sample(cls(), (np.array([1.0], np.float32), spread(2, 0))),
            refused(cls(), ((3,), "f32"), ((2,), "f64"), error="dtypes must be equal, got f32[3] and f64[2]"),
            refused(
                cls(), ((2, 3), "f32"), ((3, 2), "f32"), error="one for each row of them, got f32[2,3] for f32[3,2"
            ),
            refused(cls(), ((3,), "bool"), ((2,), "bool"), error="got bool[3]; cast it to i32"),
        ]
