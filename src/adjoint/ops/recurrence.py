"""Linear recurrences along an axis, and what prefix scans have in common.

A prefix scan is one pass over an axis, element after element in the same order on every machine
(`Builder.prefix_scan`). The gradient of a linear recurrence is one too, in the other direction.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import multiply
from adjoint.ops.axes import axis_of
from adjoint.ops.base import Builder, Coordinate, Index, Operand, Operator, Sample, Scalar, same_types
from adjoint.ops.build import broadcast_operands
from adjoint.ops.rules import operands, refused, require, rounded
from adjoint.ops.sampling import spread
from adjoint.ops.shape import pad, slice_axis
from adjoint.ops.vectorizing import all_mapped

__all__ = ["LinearRecurrence", "Scan", "linear_recurrence", "neighbour"]


def neighbour(x: Value, axis: int, before: bool, fill: float = 0) -> Value:
    """For each element the one before it along an axis, or the one after it; `fill` at the end that has none."""
    size = x.shape[axis]
    if not size:
        return x
    ends = [int(n == axis) for n in range(len(x.shape))]
    kept = slice_axis(x, axis, 0, size - 1) if before else slice_axis(x, axis, 1, size)
    return pad(kept, ends, 0, fill) if before else pad(kept, 0, ends, fill)


@dataclass(frozen=True, slots=True)
class Scan(Operator):
    """Base class of the scans.

    Parameters
    ----------
    axis : int
        The axis, counted from the start.
    reverse : bool, default False
        Whether to run from the last element to the first.
    """

    arity: ClassVar[int] = 1
    kinds: ClassVar[str] = "float integer unsigned"
    fix: ClassVar[str] = "cast it to i32 first"
    axis: int
    reverse: bool = False

    def infer(self, *inputs: TensorType) -> TensorType:
        """Operands of one type that have the axis; returns the same type."""
        operands(self, inputs, self.arity)
        require(self, inputs, self.kinds, self.fix)
        x = same_types(self, *inputs)
        if not 0 <= self.axis < x.rank:
            allowed = f"be from 0 to {x.rank - 1}" if x.rank else "exist, and a scalar has none"
            raise TypeRuleError(
                f"{self.name}: the axis must {allowed}, got {self.axis} for {x}; use ops.{self.name}, which accepts "
                "negative ones"
            )
        return x

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same along the axis that follows."""
        return apply(replace(self, axis=self.axis + 1), *all_mapped(mapped, inputs))

    def at(self, index: Index, n: Coordinate) -> Index:
        """The index with n on the axis."""
        return (*index[: self.axis], n, *index[self.axis + 1 :])

    @classmethod
    def scan_samples(cls, *options: dict[str, Any]) -> list[Sample]:
        """Each axis, with lanes along rows and along columns, sizes 0 and 1, a 16-bit float."""
        given = [(spread(3, 5, dtype="f64"), 0), (spread(2, 4, 3, dtype="f64"), 1), (spread(11), 0), (spread(9, 3), 1)]
        many = cls.arity
        good = [
            Sample(cls(axis, **option), (x, np.flip(x).copy())[:many]) for option in options for x, axis in given[:2]
        ]
        good += [Sample(cls(axis), (x, np.flip(x).copy())[:many]) for x, axis in given[2:]]
        for x, axis in [(spread(0, 3), 0), (spread(2, 0), 0), (spread(1, 1), 1)]:
            good.append(Sample(cls(axis), (x, x)[:many]))
        half = spread(2, 6, dtype="bf16")
        bad = (((2, 3), "f32"),) * many
        return [
            *good,
            Sample(cls(1), (half, half)[:many], gradient=False),
            refused(cls(2), *bad, error=f"{cls.name}: the axis must be from 0 to 1, got 2 for f32[2,3]; use"),
            refused(
                cls(0), *(((), "f32"),) * many, error="the axis must exist, and a scalar has none, got 0 for f32[]"
            ),
            refused(cls(0), *(((2,), "bool"),) * many, error=f"got bool[2]; {cls.fix}"),
        ]


@dataclass(frozen=True, slots=True)
class LinearRecurrence(Scan):
    """``s[n] = a[n] * s[n - 1] + b[n]`` along an axis, with ``s[-1] = 0``; of 16-bit floats in f32.

    Parameters
    ----------
    axis : int
        The axis, counted from the start.
    reverse : bool, default False
        Whether to run from the last element to the first: ``s[n] = a[n] * s[n + 1] + b[n]``.
    """

    name: ClassVar[str] = "linear_recurrence"
    flops: ClassVar[float] = 2.0
    arity: ClassVar[int] = 2
    kinds: ClassVar[str] = "float"
    fix: ClassVar[str] = "cast to a float such as f32 first"

    def reference(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The formula in a loop."""

        def run(wide_a: np.ndarray, wide_b: np.ndarray) -> np.ndarray:
            rows_a, rows_b = (np.moveaxis(x, self.axis, 0) for x in (wide_a, wide_b))
            made = np.empty_like(rows_b)
            carry = np.zeros_like(rows_b[0]) if len(rows_b) else rows_b
            for n in reversed(range(len(rows_b))) if self.reverse else range(len(rows_b)):
                carry = made[n] = rows_a[n] * carry + rows_b[n]
            return np.ascontiguousarray(np.moveaxis(made, 0, self.axis))

        return rounded(run, a, b)

    def vjp(self, ct: Value, out: Value, a: Value, b: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """For b, the same recurrence of the cotangent in the other direction; for a, that times the element before."""
        following = neighbour(a, self.axis, self.reverse)
        sums = apply(LinearRecurrence(self.axis, not self.reverse), following, ct)
        return multiply(sums, neighbour(out, self.axis, not self.reverse)), sums

    def lower(self, k: Builder, index: Index, a: Operand, b: Operand) -> Scalar:
        """A prefix scan with one multiply-add a step."""

        def step(n: Coordinate, carry: Scalar) -> Scalar:
            at = self.at(index, n)
            return k.call("fma", a(at), carry, b(at))

        start = k.const(0.0, b.type.dtype)
        return k.prefix_scan(self.axis, b.type.shape[self.axis], start, step, reverse=self.reverse)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both directions."""
        return cls.scan_samples({"reverse": False}, {"reverse": True})


def linear_recurrence(a: Value, b: Value, axis: int, reverse: bool = False) -> Value:
    """``s[n] = a[n] * s[n - 1] + b[n]`` along an axis, with ``s[-1] = 0``: moving averages, filters, discounted sums.

    Parameters
    ----------
    a, b : Value
        Floats of one dtype, broadcast to a common shape. 16-bit floats are computed in f32.
    axis : int
        The axis, negative counting from the end.
    reverse : bool, default False
        Run from the last element to the first: ``s[n] = a[n] * s[n + 1] + b[n]``.
    """
    first, second = broadcast_operands("linear_recurrence", a, b)
    at = axis_of("linear_recurrence", axis, len(first.shape))
    return apply(LinearRecurrence(at, reverse), first, second)
