"""Exponentials, logarithms and related functions, elementwise on floats.

Gradients are expressed by the result where that is accurate and cheap.
"""

import math
from typing import Any, ClassVar

import numpy as np

from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add, divide, multiply, negative, subtract
from adjoint.ops.base import Builder, Sample, Scalar
from adjoint.ops.rules import FloatOp, rounded, unary_samples

__all__ = [
    "Cos",
    "Erf",
    "Exp",
    "Expm1",
    "Log",
    "Log1p",
    "Sigmoid",
    "Sin",
    "Tanh",
    "cos",
    "erf",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sigmoid",
    "sin",
    "tanh",
]


def _with_edges(op: Any, *edges: float) -> list[Sample]:
    """Samples at special values, without a finite-difference check."""
    return [Sample(op, (np.array(edges, dtype),), gradient=False) for dtype in (np.float32, np.float64)]


@dataclass(frozen=True, slots=True)
class Exp(FloatOp):
    """``e ** x``."""

    name: ClassVar[str] = "exp"
    flops: ClassVar[float] = 12.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.exp`."""
        return rounded(np.exp, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * out``."""
        return (multiply(ct, out),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The exponential of an element."""
        return k.call("exp", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both signs; overflow, underflow, infinities and NaN."""
        return [*unary_samples(cls(), -4.0, 4.0), *_with_edges(cls(), 0, 1000, -1000, np.inf, -np.inf, np.nan)]


@dataclass(frozen=True, slots=True)
class Expm1(FloatOp):
    """``e ** x - 1``, accurate near 0."""

    name: ClassVar[str] = "expm1"
    flops: ClassVar[float] = 16.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.expm1`."""
        return rounded(np.expm1, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * e**x``. ``out + 1`` would be cheaper, but becomes 0 too early for very negative x."""
        return (multiply(ct, exp(x)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The exponential of an element, minus 1."""
        return k.call("expm1", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both signs; tiny and huge numbers."""
        edges = _with_edges(cls(), 0, 1e-10, -1e-5, 1000, -1000, np.inf, -np.inf, np.nan)
        return [*unary_samples(cls(), -4.0, 4.0), *edges]


@dataclass(frozen=True, slots=True)
class Log(FloatOp):
    """The natural logarithm; minus infinity for 0, NaN for negative numbers."""

    name: ClassVar[str] = "log"
    flops: ClassVar[float] = 14.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.log`."""
        return rounded(np.log, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct / x``."""
        return (divide(ct, x),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The logarithm of an element."""
        return k.call("log", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Positive numbers; 0, negative numbers, infinity and NaN."""
        return [*unary_samples(cls(), 0.25, 4.0), *_with_edges(cls(), 0, -1, 1, 1e-37, 1e38, np.inf, np.nan)]


@dataclass(frozen=True, slots=True)
class Log1p(FloatOp):
    """``log(1 + x)``, accurate near 0; minus infinity for -1, NaN below."""

    name: ClassVar[str] = "log1p"
    flops: ClassVar[float] = 18.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.log1p`."""
        return rounded(np.log1p, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct / (1 + x)``."""
        return (divide(ct, add(x, 1.0)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The logarithm of 1 plus the element."""
        return k.call("log1p", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Numbers above -1; tiny numbers, -1 and below, infinity."""
        edges = _with_edges(cls(), 0, 1e-10, -1e-5, -1, -2, 1e38, np.inf, np.nan)
        return [*unary_samples(cls(), -0.75, 4.0), *edges]


@dataclass(frozen=True, slots=True)
class Tanh(FloatOp):
    """The hyperbolic tangent."""

    name: ClassVar[str] = "tanh"
    flops: ClassVar[float] = 16.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.tanh`."""
        return rounded(np.tanh, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * (1 - out) * (1 + out)``. Near 1, ``1 - out**2`` would lose digits by rounding."""
        return (multiply(ct, multiply(subtract(1.0, out), add(out, 1.0))),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The hyperbolic tangent of an element."""
        return k.call("tanh", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both signs; tiny numbers, saturation, infinities and NaN."""
        return [*unary_samples(cls(), -3.0, 3.0), *_with_edges(cls(), 0, 1e-10, 30, -30, np.inf, -np.inf, np.nan)]


@dataclass(frozen=True, slots=True)
class Sigmoid(FloatOp):
    """``1 / (1 + e**-x)``, the logistic function."""

    name: ClassVar[str] = "sigmoid"
    flops: ClassVar[float] = 16.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The formula in NumPy; if e**-x overflows, the result is 0, as it should be."""
        return rounded(lambda wide: 1 / (1 + np.exp(-wide)), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * out * (1 - out)``."""
        return (multiply(ct, multiply(out, subtract(1.0, out))),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The logistic function of an element."""
        return k.call("sigmoid", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both signs; saturation, infinities and NaN."""
        return [*unary_samples(cls(), -4.0, 4.0), *_with_edges(cls(), 0, 1000, -50, -1000, np.inf, -np.inf, np.nan)]


@dataclass(frozen=True, slots=True)
class Sin(FloatOp):
    """The sine of x radians; NaN for infinities."""

    name: ClassVar[str] = "sin"
    flops: ClassVar[float] = 16.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.sin`."""
        return rounded(np.sin, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * cos(x)``."""
        return (multiply(ct, cos(x)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The sine of an element."""
        return k.call("sin", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Several periods; multiples of pi, infinity and NaN."""
        return [*unary_samples(cls(), -7.0, 7.0), *_with_edges(cls(), 0, math.pi, -100, 1000, np.inf, np.nan)]


@dataclass(frozen=True, slots=True)
class Cos(FloatOp):
    """The cosine of x radians; NaN for infinities."""

    name: ClassVar[str] = "cos"
    flops: ClassVar[float] = 16.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.cos`."""
        return rounded(np.cos, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``-ct * sin(x)``."""
        return (negative(multiply(ct, sin(x))),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The cosine of an element."""
        return k.call("cos", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Several periods; multiples of pi/2, infinity and NaN."""
        return [*unary_samples(cls(), -7.0, 7.0), *_with_edges(cls(), 0, math.pi / 2, -100, 1000, np.inf, np.nan)]


@dataclass(frozen=True, slots=True)
class Erf(FloatOp):
    """The error function, ``2/sqrt(pi)`` times the integral of ``e**-t**2`` from 0 to x."""

    name: ClassVar[str] = "erf"
    flops: ClassVar[float] = 18.0

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`math.erf` of every element, in float64 (NumPy lacks it)."""
        return rounded(np.vectorize(math.erf, otypes=[np.float64]), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * 2/sqrt(pi) * e**(-x*x)``."""
        slope = multiply(exp(negative(multiply(x, x))), 2.0 / math.sqrt(math.pi))
        return (multiply(ct, slope),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The error function of an element."""
        return k.call("erf", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both signs; tiny numbers, saturation, infinities and NaN."""
        return [*unary_samples(cls(), -2.5, 2.5), *_with_edges(cls(), 0, 1e-10, 6, -6, np.inf, -np.inf, np.nan)]


def exp(x: Value) -> Value:
    """``e ** x``, for floats."""
    return apply(Exp(), x)


def expm1(x: Value) -> Value:
    """``e ** x - 1``, for floats; accurate near 0."""
    return apply(Expm1(), x)


def log(x: Value) -> Value:
    """The natural logarithm, for floats."""
    return apply(Log(), x)


def log1p(x: Value) -> Value:
    """``log(1 + x)``, for floats; accurate near 0."""
    return apply(Log1p(), x)


def tanh(x: Value) -> Value:
    """The hyperbolic tangent, for floats."""
    return apply(Tanh(), x)


def sigmoid(x: Value) -> Value:
    """``1 / (1 + e**-x)``, for floats."""
    return apply(Sigmoid(), x)


def sin(x: Value) -> Value:
    """The sine, for floats, in radians."""
    return apply(Sin(), x)


def cos(x: Value) -> Value:
    """The cosine, for floats, in radians."""
    return apply(Cos(), x)


def erf(x: Value) -> Value:
    """The error function, for floats."""
    return apply(Erf(), x)
