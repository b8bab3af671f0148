"""Elementwise operators that are not differentiable everywhere: extrema, absolute value, relu, clip, sign, rounding.

Where the derivative is not unique, the convention is PyTorch's, stated in each class.
"""

import math
from typing import ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import multiply
from adjoint.ops.base import Builder, Sample, Scalar
from adjoint.ops.build import Argument, broadcast_operands, full_like
from adjoint.ops.create import scalar_misfit
from adjoint.ops.logic import equal, greater, greater_equal, less, less_equal, logical_and, where
from adjoint.ops.rules import (
    FloatOp,
    NumberOp,
    binary_samples,
    floats,
    integer_samples,
    refused,
    rounded,
    unary_samples,
)

__all__ = [
    "Abs",
    "Clip",
    "Floor",
    "Maximum",
    "Minimum",
    "Relu",
    "Round",
    "Sign",
    "abs",
    "clip",
    "floor",
    "maximum",
    "minimum",
    "relu",
    "sign",
]

_NAN, _INF = math.nan, math.inf


def _good_floats(op: NumberOp) -> list[Sample]:
    """Float samples of a unary operator that also accepts integers."""
    return [sample for sample in unary_samples(op) if not sample.error]


def _shared(ct: Value, x: Value, y: Value, loses: Value) -> Value:
    """The cotangent of x: 0 where x loses, half where x and y are equal, otherwise all."""
    zero = full_like(ct, 0.0)
    return where(equal(x, y), multiply(ct, 0.5), where(loses, zero, ct))


@dataclass(frozen=True, slots=True)
class Maximum(NumberOp):
    """The greater of two numbers; NaN if either is NaN. The gradient is split equally between ties."""

    name: ClassVar[str] = "maximum"

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.maximum`."""
        return rounded(np.maximum, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent for the greater, half for each if they are equal, both if either is NaN; none for integers."""
        if not is_float(x.dtype):
            return (None, None)
        return (_shared(ct, x, y, less(x, y)), _shared(ct, x, y, less(y, x)))

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """The maximum of two elements."""
        return k.call("max", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, integers; ties and NaN."""
        edges = (np.array([_NAN, 1, _NAN, -_INF, 2], np.float32), np.array([1, _NAN, _NAN, _INF, 2], np.float32))
        return [*binary_samples(cls()), *integer_samples(cls()), Sample(cls(), edges, gradient=False)]


@dataclass(frozen=True, slots=True)
class Minimum(NumberOp):
    """The smaller of two numbers; NaN if either is NaN. The gradient is split equally between ties."""

    name: ClassVar[str] = "minimum"

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.minimum`."""
        return rounded(np.minimum, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent for the smaller, half for each if they are equal, both if either is NaN; none for integers."""
        if not is_float(x.dtype):
            return (None, None)
        return (_shared(ct, x, y, less(y, x)), _shared(ct, x, y, less(x, y)))

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """The minimum of two elements."""
        return k.call("min", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, integers; ties and NaN."""
        edges = (np.array([_NAN, 1, _NAN, -_INF, 2], np.float32), np.array([1, _NAN, _NAN, _INF, 2], np.float32))
        return [*binary_samples(cls()), *integer_samples(cls()), Sample(cls(), edges, gradient=False)]


@dataclass(frozen=True, slots=True)
class Abs(NumberOp):
    """The absolute value; its gradient at 0 is 0. The most negative integer wraps around to itself."""

    name: ClassVar[str] = "abs"
    arity: ClassVar[int] = 1

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.abs`."""
        return rounded(np.abs, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * sign(x)``; none for integers."""
        return (multiply(ct, sign(x)) if is_float(x.dtype) else None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The absolute value of an element; unsigned integers are unchanged."""
        return x if k.dtype(x).kind == "u" else k.call("abs", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats and integers; 0, infinity and NaN."""
        edges = np.array([0, -0.0, -_INF, _NAN], np.float32)
        return [*_good_floats(cls()), *integer_samples(cls()), Sample(cls(), (edges,), gradient=False)]


@dataclass(frozen=True, slots=True)
class Sign(NumberOp):
    """-1, 0 or 1, and NaN for NaN. Piecewise constant, so the gradient is 0 everywhere."""

    name: ClassVar[str] = "sign"
    arity: ClassVar[int] = 1

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.sign`."""
        return rounded(np.sign, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: the gradient is 0."""
        return (None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """Two comparisons; 0 and NaN, which satisfy neither, are returned unchanged."""
        dtype = k.dtype(x)
        zero, one = k.const(0, dtype), k.const(1, dtype)
        if dtype.kind == "u":
            return k.call("min", x, one)
        below = k.select(k.call("lt", x, zero), k.const(-1, dtype), x)
        return k.select(k.call("gt", x, zero), one, below)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats and integers; 0, infinities and NaN."""
        edges = np.array([0, -0.0, -_INF, _INF, _NAN, 1e-30], np.float32)
        return [*_good_floats(cls()), *integer_samples(cls()), Sample(cls(), (edges,), gradient=False)]


@dataclass(frozen=True, slots=True)
class Relu(NumberOp):
    """``max(x, 0)``; NaN for NaN. Its gradient at 0 is 0."""

    name: ClassVar[str] = "relu"
    arity: ClassVar[int] = 1

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.maximum` with 0."""
        return rounded(lambda wide: np.maximum(wide, 0), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """The cotangent where the result is positive, so x need not be kept; none for integers."""
        if not is_float(x.dtype):
            return (None,)
        return (where(greater(out, 0.0), ct, 0.0),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The maximum of the element and 0."""
        return k.call("max", x, k.const(0, k.dtype(x)))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats and integers; 0, infinities and NaN."""
        edges = np.array([0, -_INF, _INF, _NAN], np.float32)
        return [*_good_floats(cls()), *integer_samples(cls()), Sample(cls(), (edges,), gradient=False)]


@dataclass(frozen=True, slots=True)
class Clip(FloatOp):
    """Clamp floats to ``[low, high]``; NaN is unchanged. The gradient is passed on where ``low <= x <= high``.

    Parameters
    ----------
    low : float
        Lower bound, or ``-inf``.
    high : float
        Upper bound, at least `low`, or ``inf``.
    """

    name: ClassVar[str] = "clip"
    flops: ClassVar[float] = 2.0
    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if not self.low <= self.high:
            raise InvalidValueError(f"clip: low must be at most high, got {self.low} and {self.high}; swap them?")

    def infer(self, *inputs: TensorType) -> TensorType:
        """Floats whose dtype can hold the bounds; returns the same type."""
        type_ = FloatOp.infer(self, *inputs)
        for bound in (self.low, self.high):
            misfit = scalar_misfit(bound, type_.dtype)
            if misfit:
                raise TypeRuleError(f"clip: the bounds must fit the operand's dtype: {misfit}")
        return type_

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.clip`."""
        return rounded(lambda wide: np.clip(wide, self.low, self.high), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent where x is in the closed interval."""
        low, high = (float(np.asarray(bound).astype(x.dtype)) for bound in (self.low, self.high))
        inside = logical_and(greater_equal(x, low), less_equal(x, high))
        return (where(inside, ct, 0.0),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """A maximum and a minimum."""
        dtype = k.dtype(x)
        return k.call("min", k.call("max", x, k.const(self.low, dtype)), k.const(self.high, dtype))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Bounds on both sides, on one side, and equal bounds; x on a bound, infinities and NaN."""
        edges = np.array([-1, 1, -_INF, _INF, _NAN, 0.1], np.float32)
        too_wide = Sample(cls(-1e9, 1e9), (np.zeros(2, np.float16),), error="-1000000000.0 overflows f16")
        return [
            *unary_samples(cls(-1.0, 0.75)),
            Sample(cls(-_INF, 0.5), (floats(3, 5, dtype="f64"),)),
            Sample(cls(0.25, _INF), (floats(3, 5, dtype="f64"),)),
            Sample(cls(0.5, 0.5), (floats(4),)),
            Sample(cls(-1.0, 1.0), (edges,), gradient=False),
            too_wide,
        ]


@dataclass(frozen=True, slots=True)
class Floor(FloatOp):
    """The greatest integer not above x. Piecewise constant, so the gradient is 0 everywhere."""

    name: ClassVar[str] = "floor"

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.floor`."""
        return rounded(np.floor, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: the gradient is 0."""
        return (None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """An element rounded down."""
        return k.call("floor", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both signs; whole numbers, numbers beyond the range of integers, infinities and NaN."""
        edges = np.array([2, -2, -0.5, 1e30, -1e30, _INF, -_INF, _NAN], np.float32)
        return [*unary_samples(cls(), -5.0, 5.0), Sample(cls(), (edges,), gradient=False)]


@dataclass(frozen=True, slots=True)
class Round(FloatOp):
    """The nearest integer, halves to the even one. Piecewise constant, so the gradient is 0 everywhere."""

    name: ClassVar[str] = "round"

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.rint`."""
        return rounded(np.rint, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: the gradient is 0."""
        return (None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """An element rounded."""
        return k.call("rint", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both signs; halves, numbers beyond the range of integers, infinities and NaN."""
        edges = np.array([0.5, 1.5, -0.5, -2.5, 3.5, 1e30, _INF, -_INF, _NAN], np.float32)
        return [
            Sample(cls(), (floats(7, low=-5.0, high=5.0),)),
            Sample(cls(), (edges,), gradient=False),
            refused(cls(), ((3,), "i32"), error="round: the dtype must be float, got i32[3]; cast to"),
        ]


def maximum(x: Argument, y: Argument) -> Value:
    """The greater of two, broadcast; ties split the gradient. Scalars and arrays are promoted."""
    return apply(Maximum(), *broadcast_operands("maximum", x, y))


def minimum(x: Argument, y: Argument) -> Value:
    """The smaller of two, broadcast; ties split the gradient. Scalars and arrays are promoted."""
    return apply(Minimum(), *broadcast_operands("minimum", x, y))


def abs(x: Value) -> Value:
    """The absolute value; its gradient at 0 is 0."""
    return apply(Abs(), x)


def sign(x: Value) -> Value:
    """-1, 0 or 1, without a gradient."""
    return apply(Sign(), x)


def relu(x: Value) -> Value:
    """``max(x, 0)``; its gradient at 0 is 0."""
    return apply(Relu(), x)


def clip(x: Value, low: float, high: float) -> Value:
    """Floats clamped to ``[low, high]``; the gradient is passed on within the closed interval.

    Raises
    ------
    InvalidValueError
        If `low` is above `high`, or either is NaN.
    """
    return apply(Clip(low, high), x)


def floor(x: Value) -> Value:
    """Floats rounded down, without a gradient."""
    return apply(Floor(), x)
