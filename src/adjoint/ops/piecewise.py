"""Elementwise operators with kinks and steps: extremes, absolute value, relu, clip, sign, floor.

Where a derivative is not unique the convention is PyTorch's; each class says it.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import multiply
from adjoint.ops.base import Builder, Sample, Scalar
from adjoint.ops.build import Argument, broadcast_operands, full_like
from adjoint.ops.create import scalar_misfit
from adjoint.ops.logic import equal, greater, greater_equal, less, less_equal, logical_and, where
from adjoint.ops.rules import FloatOp, NumberOp, binary_samples, floats, integer_samples, rounded, unary_samples

__all__ = [
    "Abs",
    "Clip",
    "Floor",
    "Maximum",
    "Minimum",
    "Relu",
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
    """Float samples of a unary operator that takes integers too."""
    return [sample for sample in unary_samples(op) if not sample.error]


def _shared(ct: Value, x: Value, y: Value, loses: Value) -> Value:
    """The cotangent of x: none of it where x loses, half where x and y are equal, else all."""
    zero = full_like(ct, 0.0)
    return where(equal(x, y), multiply(ct, 0.5), where(loses, zero, ct))


@dataclass(frozen=True, slots=True)
class Maximum(NumberOp):
    """The greater of two; NaN where one is NaN. Ties share the gradient equally."""

    name: ClassVar[str] = "maximum"

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.maximum`."""
        return rounded(np.maximum, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent to the greater, half to each of equals, to both beside a NaN; none for integers."""
        if not is_float(x.dtype):
            return (None, None)
        return (_shared(ct, x, y, less(x, y)), _shared(ct, x, y, less(y, x)))

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """One maximum."""
        return k.call("max", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, integers; ties and NaN."""
        edges = (np.array([_NAN, 1, _NAN, -_INF, 2], np.float32), np.array([1, _NAN, _NAN, _INF, 2], np.float32))
        return [*binary_samples(cls()), *integer_samples(cls()), Sample(cls(), edges, gradient=False)]


@dataclass(frozen=True, slots=True)
class Minimum(NumberOp):
    """The smaller of two; NaN where one is NaN. Ties share the gradient equally."""

    name: ClassVar[str] = "minimum"

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.minimum`."""
        return rounded(np.minimum, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent to the smaller, half to each of equals, to both beside a NaN; none for integers."""
        if not is_float(x.dtype):
            return (None, None)
        return (_shared(ct, x, y, less(y, x)), _shared(ct, x, y, less(x, y)))

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """One minimum."""
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
        """One absolute value; unsigned integers have it."""
        return x if k.dtype(x).kind == "u" else k.call("abs", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats and integers; 0, infinity and NaN."""
        edges = np.array([0, -0.0, -_INF, _NAN], np.float32)
        return [*_good_floats(cls()), *integer_samples(cls()), Sample(cls(), (edges,), gradient=False)]


@dataclass(frozen=True, slots=True)
class Sign(NumberOp):
    """-1, 0 or 1, and NaN of NaN. It is constant between its steps: the gradient is 0 everywhere."""

    name: ClassVar[str] = "sign"
    arity: ClassVar[int] = 1

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.sign`."""
        return rounded(np.sign, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: nothing flows back."""
        return (None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """Two comparisons; what is on neither side, 0 and NaN, is its own sign."""
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
    """``max(x, 0)``; NaN of NaN. Its gradient at 0 is 0."""

    name: ClassVar[str] = "relu"
    arity: ClassVar[int] = 1

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.maximum` with 0."""
        return rounded(lambda wide: np.maximum(wide, 0), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """The cotangent where the result is positive, so that x need not be kept; none for integers."""
        if not is_float(x.dtype):
            return (None,)
        return (where(greater(out, 0.0), ct, 0.0),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """One maximum."""
        return k.call("max", x, k.const(0, k.dtype(x)))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats and integers; 0, infinities and NaN."""
        edges = np.array([0, -_INF, _INF, _NAN], np.float32)
        return [*_good_floats(cls()), *integer_samples(cls()), Sample(cls(), (edges,), gradient=False)]


@dataclass(frozen=True, slots=True)
class Clip(FloatOp):
    """Floats limited to ``[low, high]``; NaN stays. The gradient passes where ``low <= x <= high``.

    Parameters
    ----------
    low : float
        Lower bound; ``-inf`` for none.
    high : float
        Upper bound, at least `low`; ``inf`` for none.
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
        """Floats whose dtype holds the bounds in, the same type out."""
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
        """The cotangent where x is inside the closed interval."""
        low, high = (float(np.asarray(bound).astype(x.dtype)) for bound in (self.low, self.high))
        inside = logical_and(greater_equal(x, low), less_equal(x, high))
        return (where(inside, ct, 0.0),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """A maximum and a minimum."""
        dtype = k.dtype(x)
        return k.call("min", k.call("max", x, k.const(self.low, dtype)), k.const(self.high, dtype))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both sides, one side, an empty interval's edge; x on a bound, infinities and NaN."""
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
    """The greatest whole number that is at most x. Constant between steps: the gradient is 0 everywhere."""

    name: ClassVar[str] = "floor"

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.floor`."""
        return rounded(np.floor, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: nothing flows back."""
        return (None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """One rounding down."""
        return k.call("floor", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both signs; whole numbers, beyond the range of integers, infinities and NaN."""
        edges = np.array([2, -2, -0.5, 1e30, -1e30, _INF, -_INF, _NAN], np.float32)
        return [*unary_samples(cls(), -5.0, 5.0), Sample(cls(), (edges,), gradient=False)]


def maximum(x: Argument, y: Argument) -> Value:
    """The greater of two, broadcast; ties share the gradient. A scalar adopts the other's dtype."""
    return apply(Maximum(), *broadcast_operands("maximum", x, y))


def minimum(x: Argument, y: Argument) -> Value:
    """The smaller of two, broadcast; ties share the gradient. A scalar adopts the other's dtype."""
    return apply(Minimum(), *broadcast_operands("minimum", x, y))


def abs(x: Value) -> Value:
    """The absolute value; its gradient at 0 is 0."""
    return apply(Abs(), x)


def sign(x: Value) -> Value:
    """-1, 0 or 1; no gradient flows."""
    return apply(Sign(), x)


def relu(x: Value) -> Value:
    """``max(x, 0)``; its gradient at 0 is 0."""
    return apply(Relu(), x)


def clip(x: Value, low: float, high: float) -> Value:
    """Floats limited to ``[low, high]``; the gradient passes inside, bounds included.

    Raises
    ------
    InvalidValueError
        If `low` is above `high` or one is NaN.
    """
    return apply(Clip(low, high), x)


def floor(x: Value) -> Value:
    """Floats rounded down; no gradient flows."""
    return apply(Floor(), x)
