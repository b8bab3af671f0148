"""Tangent, inverse trigonometric, hyperbolic and inverse hyperbolic functions, elementwise on floats.

Those without an expansion of their own are composed of one that has (`adjoint.lower.vector_math`) such that no digits
cancel, and their gradients are formulas: the derivatives of the compositions would not be finite everywhere.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add, divide, multiply, negative, subtract
from adjoint.ops.base import Builder, Sample, Scalar
from adjoint.ops.build import Argument, broadcast_operands
from adjoint.ops.logic import equal, where
from adjoint.ops.powers import reciprocal, rsqrt, square
from adjoint.ops.rules import FloatOp, floats, refused, rounded

__all__ = [
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atan2",
    "Atanh",
    "Cosh",
    "Sinh",
    "Tan",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cosh",
    "sinh",
    "tan",
]

_HALF_PI, _LOG_2 = math.pi / 2, math.log(2)
#: Beyond, ``sqrt(x*x + 1)`` is ``|x|`` in float64 and ``x*x`` overflows nowhere below in float32.
_LARGE = 2.0**60
#: Up to here ``e**x`` is finite in float32.
_SMALL_EXPONENT = 88.0


class _Arithmetic:
    """Scalar functions of elements, written as methods."""

    def __init__(self, k: Builder, dtype: np.dtype) -> None:
        self._k, self._dtype = k, dtype

    def __getattr__(self, function: str) -> Callable[..., Scalar]:
        return lambda *args: self._k.call(function, *map(self.scalar, args))

    def scalar(self, x: Any) -> Scalar:
        """A number as a constant."""
        return self._k.const(x, self._dtype) if isinstance(x, int | float) else x

    def select(self, condition: Scalar, then: Any, other: Any) -> Scalar:
        """One of two."""
        return self._k.select(condition, self.scalar(then), self.scalar(other))

    def signed(self, magnitude: Scalar, x: Scalar) -> Scalar:
        """`magnitude` with the sign of x; x itself if it is 0, so that -0.0 stays what it is."""
        return self.select(self.eq(x, 0.0), x, self.select(self.lt(x, 0.0), self.neg(magnitude), magnitude))


def arithmetic_of(k: Builder, x: Scalar) -> Any:
    """Arithmetic on elements of the dtype of x."""
    return _Arithmetic(k, k.dtype(x))


@dataclass(frozen=True, slots=True)
class SmoothOp(FloatOp):
    """A float function of one operand, with its NumPy function, its sampled interval and its special values."""

    flops: ClassVar[float] = 25.0
    numpy: ClassVar[Callable[..., Any]]
    interval: ClassVar[tuple[float, float]] = (-2.0, 2.0)
    edges: ClassVar[tuple[float, ...]] = (0.0, -0.0, 1e-20, 1.0, -1.0, 40.0, np.inf, -np.inf, np.nan)

    def reference(self, x: np.ndarray) -> np.ndarray:
        """NumPy's function."""
        return rounded(type(self).numpy, x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Two dtypes, a 16-bit float; special values."""
        low, high = cls.interval
        op = cls()
        return [
            Sample(op, (floats(3, 4, low=low, high=high),)),
            Sample(op, (floats(9, low=low, high=high, dtype="f64", seed=2),)),
            Sample(op, (floats(5, low=low, high=high, dtype="f16", seed=3),), gradient=False),
            *(Sample(op, (np.array(cls.edges, dtype),), gradient=False) for dtype in (np.float32, np.float64)),
            refused(op, ((3,), "i32"), error=f"{cls.name}: the dtype must be float, got i32[3]; cast to"),
        ]


@dataclass(frozen=True, slots=True)
class Tan(SmoothOp):
    """The tangent of x radians; NaN for infinities."""

    name: ClassVar[str] = "tan"
    numpy: ClassVar[Callable[..., Any]] = np.tan
    interval: ClassVar[tuple[float, float]] = (-1.4, 1.4)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * (1 + out**2)``."""
        return (multiply(ct, add(square(out), 1.0)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The sine divided by the cosine."""
        m = arithmetic_of(k, x)
        return m.div(m.sin(x), m.cos(x))


@dataclass(frozen=True, slots=True)
class Atan(SmoothOp):
    """The inverse tangent, between -pi/2 and pi/2."""

    name: ClassVar[str] = "atan"
    numpy: ClassVar[Callable[..., Any]] = np.arctan
    interval: ClassVar[tuple[float, float]] = (-4.0, 4.0)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct / (1 + x**2)``."""
        return (divide(ct, add(square(x), 1.0)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The inverse tangent of an element."""
        return k.call("atan", x)


@dataclass(frozen=True, slots=True)
class Asin(SmoothOp):
    """The inverse sine, between -pi/2 and pi/2; NaN outside [-1, 1]."""

    name: ClassVar[str] = "asin"
    numpy: ClassVar[Callable[..., Any]] = np.arcsin
    interval: ClassVar[tuple[float, float]] = (-0.95, 0.95)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct / sqrt(1 - x**2)``."""
        return (multiply(ct, _slope_of_asin(x)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """``atan(x / sqrt((1 - x) * (1 + x)))``: the factors are exact where they are small."""
        m = arithmetic_of(k, x)
        return m.atan(m.div(x, m.sqrt(m.mul(m.sub(1.0, x), m.add(x, 1.0)))))


@dataclass(frozen=True, slots=True)
class Acos(SmoothOp):
    """The inverse cosine, between 0 and pi; NaN outside [-1, 1]."""

    name: ClassVar[str] = "acos"
    numpy: ClassVar[Callable[..., Any]] = np.arccos
    interval: ClassVar[tuple[float, float]] = (-0.95, 0.95)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``-ct / sqrt(1 - x**2)``."""
        return (negative(multiply(ct, _slope_of_asin(x))),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """``2 * atan(sqrt((1 - x) / (1 + x)))``, relative also near 1, where it is 0."""
        m = arithmetic_of(k, x)
        return m.mul(m.atan(m.sqrt(m.div(m.sub(1.0, x), m.add(x, 1.0)))), 2.0)


def _slope_of_asin(x: Value) -> Value:
    return rsqrt(multiply(subtract(1.0, x), add(x, 1.0)))


@dataclass(frozen=True, slots=True)
class Sinh(SmoothOp):
    """The hyperbolic sine."""

    name: ClassVar[str] = "sinh"
    numpy: ClassVar[Callable[..., Any]] = np.sinh
    edges: ClassVar[tuple[float, ...]] = (0.0, -0.0, 1e-20, 89.0, -89.0, 800.0, np.inf, -np.inf, np.nan)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * cosh(x)``."""
        return (multiply(ct, cosh(x)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """``(e + e / (e + 1)) / 2`` with ``e = expm1(|x|)``; where that might overflow, ``exp(|x|/2)**2 / 2``."""
        m = arithmetic_of(k, x)
        a = m.abs(x)
        grown = m.expm1(m.min(a, _SMALL_EXPONENT))
        small = m.mul(m.add(grown, m.div(grown, m.add(grown, 1.0))), 0.5)
        return m.signed(m.select(m.gt(a, _SMALL_EXPONENT), _half_exponential(m, a), small), x)


@dataclass(frozen=True, slots=True)
class Cosh(SmoothOp):
    """The hyperbolic cosine."""

    name: ClassVar[str] = "cosh"
    numpy: ClassVar[Callable[..., Any]] = np.cosh
    edges: ClassVar[tuple[float, ...]] = (0.0, 1e-20, 89.0, -89.0, 800.0, np.inf, -np.inf, np.nan)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * sinh(x)``."""
        return (multiply(ct, sinh(x)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """``(e + 1 / e) / 2`` with ``e = exp(|x|)``; where that might overflow, ``exp(|x|/2)**2 / 2``."""
        m = arithmetic_of(k, x)
        a = m.abs(x)
        grown = m.exp(m.min(a, _SMALL_EXPONENT))
        small = m.mul(m.add(grown, m.div(1.0, grown)), 0.5)
        return m.select(m.gt(a, _SMALL_EXPONENT), _half_exponential(m, a), small)


def _half_exponential(m: Any, a: Scalar) -> Scalar:
    """``exp(a) / 2``, which is finite somewhat longer than ``exp(a)``."""
    root = m.exp(m.mul(a, 0.5))
    return m.mul(m.mul(root, 0.5), root)


@dataclass(frozen=True, slots=True)
class Asinh(SmoothOp):
    """The inverse hyperbolic sine."""

    name: ClassVar[str] = "asinh"
    numpy: ClassVar[Callable[..., Any]] = np.arcsinh
    edges: ClassVar[tuple[float, ...]] = (0.0, -0.0, 1e-20, -1e-4, 1e30, -1e38, np.inf, -np.inf, np.nan)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct / sqrt(x**2 + 1)``."""
        return (multiply(ct, rsqrt(add(square(x), 1.0))),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """``log1p(a + a**2 / (1 + sqrt(a**2 + 1)))`` for ``a = |x|``; ``log(a) + log(2)`` for huge ones."""
        m = arithmetic_of(k, x)
        a = m.abs(x)
        few = m.min(a, _LARGE)
        squared = m.mul(few, few)
        small = m.log1p(m.add(few, m.div(squared, m.add(m.sqrt(m.add(squared, 1.0)), 1.0))))
        return m.signed(m.select(m.gt(a, _LARGE), m.add(m.log(a), _LOG_2), small), x)


@dataclass(frozen=True, slots=True)
class Acosh(SmoothOp):
    """The inverse hyperbolic cosine; NaN below 1."""

    name: ClassVar[str] = "acosh"
    numpy: ClassVar[Callable[..., Any]] = np.arccosh
    interval: ClassVar[tuple[float, float]] = (1.1, 6.0)
    edges: ClassVar[tuple[float, ...]] = (1.0, 0.5, -3.0, 1.001, 1e30, 1e38, np.inf, -np.inf, np.nan)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct / sqrt(x**2 - 1)``."""
        return (multiply(ct, rsqrt(multiply(subtract(x, 1.0), add(x, 1.0)))),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """``log1p(t + sqrt(t * (t + 2)))`` for ``t = x - 1``; ``log(x) + log(2)`` for huge ones."""
        m = arithmetic_of(k, x)
        t = m.sub(m.min(x, _LARGE), 1.0)
        small = m.log1p(m.add(t, m.sqrt(m.mul(t, m.add(t, 2.0)))))
        return m.select(m.gt(x, _LARGE), m.add(m.log(x), _LOG_2), m.select(m.lt(x, 1.0), math.nan, small))


@dataclass(frozen=True, slots=True)
class Atanh(SmoothOp):
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond."""

    name: ClassVar[str] = "atanh"
    numpy: ClassVar[Callable[..., Any]] = np.arctanh
    interval: ClassVar[tuple[float, float]] = (-0.9, 0.9)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct / (1 - x**2)``."""
        return (divide(ct, multiply(subtract(1.0, x), add(x, 1.0))),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """``log1p(2 * a / (1 - a)) / 2`` for ``a = |x|``."""
        m = arithmetic_of(k, x)
        a = m.abs(x)
        return m.signed(m.mul(m.log1p(m.div(m.add(a, a), m.sub(1.0, a))), 0.5), x)


@dataclass(frozen=True, slots=True)
class Atan2(FloatOp):
    """The angle of the point (x, y), between -pi and pi: ``atan(y / x)`` in the right quadrant.

    Signs of zeros count, as in IEEE 754. The gradient at the origin is 0, where PyTorch's is NaN.
    """

    name: ClassVar[str] = "atan2"
    arity: ClassVar[int] = 2
    flops: ClassVar[float] = 45.0

    def reference(self, y: np.ndarray, x: np.ndarray) -> np.ndarray:
        """`numpy.arctan2`."""
        return rounded(np.arctan2, y, x)

    def vjp(self, ct: Value, out: Value, y: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * x / (x**2 + y**2)`` and ``-ct * y / (x**2 + y**2)``."""
        total = add(square(x), square(y))
        origin = equal(total, 0.0)
        share = multiply(ct, where(origin, 0.0, reciprocal(where(origin, 1.0, total))))
        return multiply(share, x), negative(multiply(share, y))

    def scalar(self, k: Builder, y: Scalar, x: Scalar) -> Scalar:
        """The inverse tangent of the smaller by the greater magnitude, then pi/2 and pi minus that where it is due."""
        m = arithmetic_of(k, x)
        wide, high = m.abs(x), m.abs(y)
        less, more = m.min(wide, high), m.max(wide, high)
        # 0/0 and inf/inf are NaN, but the angles are those of 0 and of the diagonal.
        ratio = m.select(m.eq(more, 0.0), 0.0, m.select(m.eq(less, math.inf), 1.0, m.div(less, more)))
        angle = m.atan(ratio)
        angle = m.select(m.gt(high, wide), m.sub(_HALF_PI, angle), angle)
        angle = m.select(_below(m, x), m.sub(math.pi, angle), angle)
        return m.select(_below(m, y), m.neg(angle), angle)

    @classmethod
    def samples(cls) -> list[Sample]:
        """All quadrants; the axes, signed zeros, infinities and NaN."""
        corners = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
        pairs = [grid.reshape(-1) for grid in np.meshgrid(corners, corners)]
        return [
            Sample(cls(), (floats(3, 4), floats(3, 4, seed=1))),
            Sample(cls(), (floats(9, dtype="f64", seed=2), floats(9, dtype="f64", seed=3))),
            Sample(cls(), (floats(5, dtype="bf16"), floats(5, dtype="bf16", seed=1)), gradient=False),
            *(Sample(cls(), tuple(p.astype(d) for p in pairs), gradient=False) for d in (np.float32, np.float64)),
            refused(cls(), ((3,), "i32"), ((3,), "i32"), error="atan2: the dtype must be float, got i32[3]; cast to"),
        ]


def _below(m: Any, x: Scalar) -> Scalar:
    """Whether the sign is negative, that of -0.0 too."""
    return m.lt(m.select(m.eq(x, 0.0), m.div(1.0, x), x), 0.0)


def tan(x: Value) -> Value:
    """The tangent, for floats, in radians."""
    return apply(Tan(), x)


def asin(x: Value) -> Value:
    """The inverse sine, for floats."""
    return apply(Asin(), x)


def acos(x: Value) -> Value:
    """The inverse cosine, for floats."""
    return apply(Acos(), x)


def atan(x: Value) -> Value:
    """The inverse tangent, for floats."""
    return apply(Atan(), x)


def atan2(y: Argument, x: Argument) -> Value:
    """The angle of the point (x, y), between -pi and pi, broadcast. Scalars and arrays are promoted.

    The gradient at the origin is 0, where PyTorch's is NaN.
    """
    return apply(Atan2(), *broadcast_operands("atan2", y, x))


def sinh(x: Value) -> Value:
    """The hyperbolic sine, for floats."""
    return apply(Sinh(), x)


def cosh(x: Value) -> Value:
    """The hyperbolic cosine, for floats."""
    return apply(Cosh(), x)


def asinh(x: Value) -> Value:
    """The inverse hyperbolic sine, for floats."""
    return apply(Asinh(), x)


def acosh(x: Value) -> Value:
    """The inverse hyperbolic cosine, for floats."""
    return apply(Acosh(), x)


def atanh(x: Value) -> Value:
    """The inverse hyperbolic tangent, for floats."""
    return apply(Atanh(), x)
