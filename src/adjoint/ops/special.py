"""Logarithms and powers to base 2, error functions and gamma functions, elementwise on floats."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import divide, multiply, negative
from adjoint.ops.base import Builder, Sample, Scalar
from adjoint.ops.powers import square
from adjoint.ops.rules import FloatOp, floats, refused, rounded
from adjoint.ops.transcendental import exp
from adjoint.ops.trigonometric import SmoothOp, arithmetic_of

__all__ = [
    "Erfc",
    "Erfinv",
    "Exp2",
    "Lgamma",
    "Log2",
    "Polygamma",
    "digamma",
    "erfc",
    "erfinv",
    "exp2",
    "lgamma",
    "log2",
    "log10",
    "polygamma",
]

_LOG_2 = math.log(2)
#: ``2/sqrt(pi)``, the slope of erf at 0.
_SLOPE = 2 / math.sqrt(math.pi)
#: Steps of the recurrence by which arguments of polygamma grow, to where the asymptotic series is accurate.
_STEPS = 10
#: Bernoulli numbers B2, B4, ... of the asymptotic series.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _each(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of Python floats, element by element in float64."""
    return np.vectorize(function, otypes=[np.float64])


def _inverse_erf(x: float) -> float:
    """From a quantile of the normal distribution; where that is small, corrected by a step of Newton's method."""
    a = abs(x)
    if not a < 1:
        return math.copysign(math.inf, x) if a == 1 else math.nan
    y = -NormalDist().inv_cdf((1 - a) / 2) / math.sqrt(2)
    if a < 0.5:
        y -= (math.erf(y) - a) / _SLOPE * math.exp(y * y)
    return math.copysign(y, x)


def _log_gamma(x: float) -> float:
    """`math.lgamma`, infinite where that has no value."""
    return math.inf if math.isinf(x) or (x <= 0 and x == math.floor(x)) else math.lgamma(x)


@dataclass(frozen=True, slots=True)
class Exp2(SmoothOp):
    """``2 ** x``, exact for integers."""

    name: ClassVar[str] = "exp2"
    numpy: ClassVar[Callable[..., Any]] = np.exp2
    edges: ClassVar[tuple[float, ...]] = (0.0, 10.0, -3.0, 2000.0, -2000.0, np.inf, -np.inf, np.nan)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * out * log(2)``."""
        return (multiply(ct, multiply(out, _LOG_2)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The power of an element."""
        return k.call("exp2", x)


@dataclass(frozen=True, slots=True)
class Log2(SmoothOp):
    """The logarithm to base 2, exact for powers of 2; minus infinity for 0, NaN for negative numbers."""

    name: ClassVar[str] = "log2"
    numpy: ClassVar[Callable[..., Any]] = np.log2
    interval: ClassVar[tuple[float, float]] = (0.25, 4.0)
    edges: ClassVar[tuple[float, ...]] = (0.0, 8.0, -1.0, 1e-37, 1e38, np.inf, -np.inf, np.nan)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct / (x * log(2))``."""
        return (divide(ct, multiply(x, _LOG_2)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The logarithm of an element."""
        return k.call("log2", x)


@dataclass(frozen=True, slots=True)
class Erfc(SmoothOp):
    """``1 - erf(x)``, relative also where it tends to 0."""

    name: ClassVar[str] = "erfc"
    flops: ClassVar[float] = 60.0
    numpy: ClassVar[Callable[..., Any]] = staticmethod(_each(math.erfc))
    edges: ClassVar[tuple[float, ...]] = (0.0, 1e-20, 5.0, 9.0, -9.0, 30.0, np.inf, -np.inf, np.nan)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``-ct * 2/sqrt(pi) * e**(-x*x)``."""
        return (multiply(ct, multiply(exp(negative(square(x))), -_SLOPE)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The complementary error function of an element."""
        return k.call("erfc", x)


@dataclass(frozen=True, slots=True)
class Erfinv(SmoothOp):
    """The inverse of erf; infinite at -1 and 1, NaN beyond."""

    name: ClassVar[str] = "erfinv"
    flops: ClassVar[float] = 70.0
    numpy: ClassVar[Callable[..., Any]] = staticmethod(_each(_inverse_erf))
    interval: ClassVar[tuple[float, float]] = (-0.99, 0.99)
    edges: ClassVar[tuple[float, ...]] = (0.0, -0.0, 1e-20, 0.999999, 1.0, -1.0, 1.5, np.inf, np.nan)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * sqrt(pi)/2 * e**(out*out)``."""
        return (multiply(ct, multiply(exp(square(out)), 1 / _SLOPE)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The inverse error function of an element."""
        return k.call("erfinv", x)


@dataclass(frozen=True, slots=True)
class Lgamma(SmoothOp):
    """The logarithm of the absolute value of the gamma function; infinite at 0 and negative integers."""

    name: ClassVar[str] = "lgamma"
    flops: ClassVar[float] = 150.0
    numpy: ClassVar[Callable[..., Any]] = staticmethod(_each(_log_gamma))
    interval: ClassVar[tuple[float, float]] = (0.1, 9.0)
    edges: ClassVar[tuple[float, ...]] = (0.0, 1.0, 2.0, -1.0, -2.5, -0.25, 1e-20, 1e30, np.inf, -np.inf, np.nan)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * digamma(x)``."""
        return (multiply(ct, digamma(x)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The logarithm of the gamma function of an element."""
        return k.call("lgamma", x)


def _series(n: int, w: Any) -> Any:
    """Derivative n >= 1 of digamma without its sign and factorial, for large w: the sum of ``(w + k)**-(n + 1)``."""
    total = w**-n / n + w ** -(n + 1) / 2
    for j, bernoulli in enumerate(_BERNOULLI, 1):
        rising = math.prod(range(n + 1, n + 2 * j))
        total = total + bernoulli / math.factorial(2 * j) * rising * w ** -(n + 2 * j)
    return total


def _polygamma(n: int, x: np.ndarray) -> np.ndarray:
    """In float64, with twice the steps of the recurrence of the compiled code."""
    x = x.astype(np.float64)
    reflected = x < 0
    z = np.where(reflected, 1 - x, x)
    w = z + 2 * _STEPS
    if n:
        total = sum((z + step) ** -(n + 1.0) for step in range(2 * _STEPS)) + _series(n, w)
        total = (-1) ** (n + 1) * math.factorial(n) * total
    else:
        powers = (b / (2 * j) * w ** (-2.0 * j) for j, b in enumerate(_BERNOULLI, 1))
        total = np.log(w) - 0.5 / w - sum(powers) - sum(1 / (z + step) for step in range(2 * _STEPS))
    r = x - np.rint(x)
    cotangent = np.sin(np.pi * (0.5 - abs(r))) / np.sin(np.pi * r)
    rest = np.pi * np.polyval(_cotangent_derivative(n)[::-1], cotangent)
    pole = math.nan if n == 0 else (-1) ** (n + 1) * math.inf
    found = np.where(reflected, np.where(r == 0, pole, (-1) ** n * total - rest), total)
    return np.asarray(np.where(x == 0, np.copysign(np.inf, -x), found) if n == 0 else found)


@dataclass(frozen=True, slots=True)
class Polygamma(FloatOp):
    """Derivative n of digamma, the derivative of lgamma; digamma itself for ``n = 0``.

    Around its zeros, the error is that of the terms, which are about 1. As in PyTorch, digamma is infinite at 0 and NaN
    at negative integers, where the others are infinite.

    Parameters
    ----------
    n : int, default 0
        The order, at least 0.
    """

    name: ClassVar[str] = "polygamma"
    flops: ClassVar[float] = 110.0
    n: int = 0

    def __post_init__(self) -> None:
        if self.n < 0:
            raise InvalidValueError(f"polygamma: n must be at least 0, got {self.n}; use lgamma for the integral")

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The recurrence, and the asymptotic series of Abramowitz and Stegun, 6.3.18 and 6.4.11."""
        return rounded(lambda wide: _polygamma(self.n, wide), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct`` times the derivative of the next order."""
        return (multiply(ct, apply(Polygamma(self.n + 1), x)),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The recurrence and the series, and for negative numbers the reflection formula."""
        m = arithmetic_of(k, x)
        below = m.lt(x, 0.0)
        total = self._positive(m, m.select(below, m.sub(1.0, x), x))
        r = m.sub(x, m.rint(x))
        # The cosine as a sine is 0 where it should be.
        cosine = m.sin(m.mul(m.sub(0.5, m.abs(r)), math.pi))
        cotangent = m.div(cosine, m.sin(m.mul(r, math.pi)))
        rest = m.mul(_horner(m, cotangent, _cotangent_derivative(self.n)), -math.pi)
        reflected = m.add(m.neg(total) if self.n % 2 else total, rest)
        pole = math.nan if self.n == 0 else (-1.0) ** (self.n + 1) * math.inf
        found = m.select(below, m.select(m.eq(r, 0.0), pole, reflected), total)
        return m.select(m.eq(x, 0.0), m.div(-1.0, x), found) if self.n == 0 else found

    def _positive(self, m: Any, z: Scalar) -> Scalar:
        inverse = m.div(1.0, m.add(z, float(_STEPS)))
        squared = m.mul(inverse, inverse)
        steps = [m.div(1.0, m.add(z, float(step))) for step in range(_STEPS)]
        n = self.n
        if n == 0:
            coefficients = [-b / (2 * j) for j, b in enumerate(_BERNOULLI, 1)]
            tail = m.fma(squared, _horner(m, squared, coefficients), m.mul(inverse, -0.5))
            return m.sub(m.sub(m.add(tail, m.log(m.add(z, float(_STEPS)))), _total(m, steps[1:])), steps[0])
        coefficients = [
            b / math.factorial(2 * j) * math.prod(range(n + 1, n + 2 * j)) for j, b in enumerate(_BERNOULLI, 1)
        ]
        # n! * (w**-n / n + w**-(n + 1) / 2 + ...): the coefficients times w**-n.
        tail = m.fma(squared, _horner(m, squared, coefficients), m.fma(inverse, 0.5, 1 / n))
        parts = [m.mul(_power(m, inverse, n), tail), *(_power(m, step, n + 1) for step in steps[:0:-1])]
        found = m.add(_total(m, parts), _power(m, steps[0], n + 1))
        return m.mul(found, (-1.0) ** (n + 1) * math.factorial(n))

    @classmethod
    def samples(cls) -> list[Sample]:
        """The first orders; negative numbers, 0, infinity and NaN."""
        edges = np.array([0.0, -0.0, -1.0, -2.5, -0.25, 1e-3, 1e10, np.inf, np.nan])
        return [
            *(Sample(cls(n), (floats(5, low=2.0, high=9.0, dtype="f64", seed=n),)) for n in range(4)),
            Sample(cls(0), (floats(3, 4, low=2.0, high=9.0),)),
            Sample(cls(1), (floats(5, low=0.3, high=2.0, dtype="f16"),), gradient=False),
            *(Sample(cls(n), (edges.astype(np.float32),), gradient=False) for n in range(3)),
            refused(cls(0), ((3,), "i32"), error="polygamma: the dtype must be float, got i32[3]; cast to"),
        ]


def _cotangent_derivative(n: int) -> list[float]:
    """Derivative n of ``cot(pi * x)`` as a polynomial of the cotangent: that of c is ``-pi * (1 + c**2)``."""
    found = [0.0, 1.0]
    for _ in range(n):
        slope = [power * c for power, c in enumerate(found)][1:]
        raised = [0.0, 0.0, *slope]
        found = [-math.pi * (a + b) for a, b in zip([*slope, 0.0, 0.0], raised, strict=True)]
    return found


def _horner(m: Any, x: Scalar, coefficients: list[float]) -> Scalar:
    total = m.scalar(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = m.fma(total, x, c)
    return total


def _total(m: Any, terms: list[Scalar]) -> Scalar:
    """The sum, the last terms, which are smallest, first."""
    total = terms[-1]
    for term in reversed(terms[:-1]):
        total = m.add(total, term)
    return total


def _power(m: Any, x: Scalar, n: int) -> Scalar:
    """``x ** n`` for n of at least 1, by repeated squaring."""
    found = None
    while True:
        if n & 1:
            found = x if found is None else m.mul(found, x)
        n >>= 1
        if not n:
            return found
        x = m.mul(x, x)


def exp2(x: Value) -> Value:
    """``2 ** x``, for floats; exact for integers."""
    return apply(Exp2(), x)


def log2(x: Value) -> Value:
    """The logarithm to base 2, for floats; exact for powers of 2."""
    return apply(Log2(), x)


def log10(x: Value) -> Value:
    """The logarithm to base 10, for floats: ``log2(x) * log10(2)``."""
    return multiply(log2(x), math.log10(2))


def erfc(x: Value) -> Value:
    """``1 - erf(x)``, for floats; relative also where it tends to 0."""
    return apply(Erfc(), x)


def erfinv(x: Value) -> Value:
    """The inverse of the error function, for floats between -1 and 1."""
    return apply(Erfinv(), x)


def lgamma(x: Value) -> Value:
    """The logarithm of the absolute value of the gamma function, for floats."""
    return apply(Lgamma(), x)


def polygamma(n: int, x: Value) -> Value:
    """Derivative n of `digamma`, for floats; `digamma` itself for ``n = 0``."""
    return apply(Polygamma(n), x)


def digamma(x: Value) -> Value:
    """The derivative of `lgamma`, for floats; NaN at negative integers."""
    return apply(Polygamma(0), x)
