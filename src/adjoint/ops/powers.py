"""Elementwise powers and roots."""

from typing import ClassVar

import ml_dtypes
import numpy as np

from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import divide, multiply, negative, subtract
from adjoint.ops.base import Builder, Sample, Scalar
from adjoint.ops.build import Argument, broadcast_operands
from adjoint.ops.create import Full
from adjoint.ops.logic import equal, greater_equal, logical_and, logical_not, where
from adjoint.ops.piecewise import abs
from adjoint.ops.rules import (
    FloatOp,
    NumberOp,
    binary_samples,
    floats,
    integer_samples,
    operands,
    refused,
    require,
    rounded,
    unary_samples,
)
from adjoint.ops.transcendental import log

__all__ = [
    "Power",
    "Reciprocal",
    "Rsqrt",
    "Sqrt",
    "Square",
    "power",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "square",
]


@dataclass(frozen=True, slots=True)
class Power(FloatOp):
    """``x ** y`` for floats: NaN if x is negative and y is not an integer; ``x ** 0`` is 1 for every x.

    As in PyTorch, the gradient for x is 0 where y is 0, and the gradient for y is 0 where x is 0 and ``y >= 0``, and
    NaN where x is negative.
    """

    name: ClassVar[str] = "power"
    arity: ClassVar[int] = 2
    flops: ClassVar[float] = 30.0

    def infer(self, *inputs: TensorType) -> TensorType:
        """Floats of one type, which is also the result's."""
        operands(self, inputs, 2)
        require(self, inputs, "float", "cast to a float such as f32, or multiply an integer by itself")
        return FloatOp.infer(self, *inputs)

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.power`."""
        return rounded(np.power, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:
        """``ct * y * x**(y-1)`` and ``ct * out * log(x)``, with 0 where a factor is 0 and another infinite.

        Operands are replaced by 1 *before* the function that is singular there, so that the derivatives of this graph
        are finite too.
        """
        bare = logical_and(equal(x, 0.0), greater_equal(y, 0.0))
        log_x = log(where(bare, 1.0, x))
        return (multiply(ct, _slope(x, y)), multiply(ct, multiply(out, log_x)))

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """The power of two elements."""
        return k.call("pow", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Positive bases; zeros, negative bases and integer exponents, without a finite-difference check."""
        base = np.array([0, 0, 0, -2, -2, -2, 3, 0, 1], np.float32)
        exponent = np.array([0, 2, -1, 3, -2, 0.5, 0, 0.5, np.nan], np.float32)
        return [
            *binary_samples(cls(), 0.5, 2.0),
            Sample(cls(), (floats(7, low=0.5, dtype="f64"), floats(7, low=-3.0, high=3.0, dtype="f64", seed=9))),
            Sample(cls(), (base, exponent), gradient=False),
            refused(cls(), ((3,), "i32"), ((3,), "i32"), error="power: the dtype must be float, got i32[3]"),
        ]


def _slope(x: Value, y: Value) -> Value:
    """``y * x**(y-1)``, or 0 where y is 0."""
    if isinstance(y.op, Full):
        exponent = float(y.op.value)
        return multiply(power(x, exponent - 1.0), exponent) if exponent else multiply(x, 0.0)
    # If y is 0, x**-1 must be finite for the product to be 0, which holds from the smallest normal number on.
    tiny = float(ml_dtypes.finfo(x.dtype).tiny)  # type: ignore[no-untyped-call]
    small = logical_not(greater_equal(abs(x), tiny))
    singular = logical_and(equal(y, 0.0), small)
    return multiply(y, power(where(singular, 1.0, x), subtract(y, 1.0)))


@dataclass(frozen=True, slots=True)
class Square(NumberOp):
    """``x * x``. Integers wrap around."""

    name: ClassVar[str] = "square"
    arity: ClassVar[int] = 1

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.square`."""
        return rounded(np.square, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``2 * x * ct``; none for integers."""
        return (multiply(ct, multiply(x, 2.0)) if is_float(x.dtype) else None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The square of an element."""
        return k.call("mul", x, x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats and integers."""
        good = [sample for sample in unary_samples(cls()) if not sample.error]
        return [*good, *integer_samples(cls())]


@dataclass(frozen=True, slots=True)
class Sqrt(FloatOp):
    """The square root; NaN for negative numbers. Its gradient at 0 is infinite, as in PyTorch."""

    name: ClassVar[str] = "sqrt"
    flops: ClassVar[float] = 4.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.sqrt`."""
        return rounded(np.sqrt, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct / (2 * out)``."""
        return (divide(ct, multiply(out, 2.0)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The square root of an element."""
        return k.call("sqrt", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Positive numbers; 0, infinity and negative numbers."""
        edges = np.array([0, np.inf, -1, -0.0, 4], np.float32)
        return [*unary_samples(cls(), 0.25, 4.0), Sample(cls(), (edges,), gradient=False)]


@dataclass(frozen=True, slots=True)
class Rsqrt(FloatOp):
    """``1 / sqrt(x)``; infinity for 0, NaN for negative numbers."""

    name: ClassVar[str] = "rsqrt"
    flops: ClassVar[float] = 8.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The reciprocal of `numpy.sqrt`."""
        return rounded(lambda wide: 1 / np.sqrt(wide), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """``(-ct / 2 * out) / x``; ``out ** 3`` could overflow although the gradient does not."""
        return (divide(multiply(multiply(ct, -0.5), out), x),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """A root and a division."""
        return k.call("div", k.const(1.0, k.dtype(x)), k.call("sqrt", x))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Positive numbers; 0, infinity and negative numbers."""
        edges = np.array([0, np.inf, -1, 4], np.float32)
        return [*unary_samples(cls(), 0.25, 4.0), Sample(cls(), (edges,), gradient=False)]


@dataclass(frozen=True, slots=True)
class Reciprocal(FloatOp):
    """``1 / x``; an infinity for 0."""

    name: ClassVar[str] = "reciprocal"
    flops: ClassVar[float] = 4.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """``1 / x`` in NumPy."""
        return rounded(lambda wide: 1 / wide, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``-ct * out * out``."""
        return (negative(multiply(multiply(ct, out), out)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The reciprocal of an element."""
        return k.call("div", k.const(1.0, k.dtype(x)), x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Numbers of one sign; zeros and infinity."""
        edges = np.array([0, -0.0, np.inf, -4], np.float32)
        negative_ones = floats(3, low=-2.0, high=-0.5, dtype="f64")
        return [
            *unary_samples(cls(), 0.5, 3.0),
            Sample(cls(), (negative_ones,)),
            Sample(cls(), (edges,), gradient=False),
        ]


def power(x: Argument, y: Argument) -> Value:
    """``x ** y`` for floats, broadcast; scalars and arrays are promoted. See `Power` for its gradients."""
    return apply(Power(), *broadcast_operands("power", x, y))


def square(x: Value) -> Value:
    """``x * x``."""
    return apply(Square(), x)


def sqrt(x: Value) -> Value:
    """The square root, for floats."""
    return apply(Sqrt(), x)


def rsqrt(x: Value) -> Value:
    """``1 / sqrt(x)``, for floats."""
    return apply(Rsqrt(), x)


def reciprocal(x: Value) -> Value:
    """``1 / x``, for floats."""
    return apply(Reciprocal(), x)
