"""Kernel expressions that can be written as formulas, and what is known of a floating-point format."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjoint.kernel.ir import Apply, Const, Expr
from adjoint.lazy_dataclass import dataclass

__all__ = [
    "F32",
    "F64",
    "FORMATS",
    "Format",
    "Term",
    "absolute",
    "bits",
    "eq",
    "floats",
    "fma",
    "horner",
    "ne",
    "rint",
    "root",
    "scaleb",
    "select",
    "to_float",
    "upper",
    "with_sign_of",
]

_BOOL = np.dtype(np.bool_)


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE binary format and the signed integers of its width.

    Parameters
    ----------
    dtype, integer : numpy dtype
        The format, and the integers that its bits are looked at as.
    mantissa : int
        Stored bits of the significand: 23 or 52.
    bias : int
        Of the exponent: 127 or 1023.
    """

    dtype: np.dtype
    integer: np.dtype
    mantissa: int
    bias: int

    @property
    def magic(self) -> float:
        """``1.5 * 2**mantissa``: adding it to a number rounds that to an integer, kept in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa

    @property
    def one(self) -> int:
        """Bits of 1.0."""
        return self.bias << self.mantissa

    @property
    def exponent_mask(self) -> int:
        """Bits of the exponent, which are those of infinity."""
        return (2 * self.bias + 1) << self.mantissa

    @property
    def sign_mask(self) -> int:
        """The sign bit, as the signed integer that it is."""
        return -(1 << (self.integer.itemsize * 8 - 1))

    @property
    def smallest_normal(self) -> float:
        """The smallest number of full precision."""
        return 2.0 ** (1 - self.bias)

    def bits_of(self, value: float) -> int:
        """Bits of a number, as an integer."""
        return int(np.asarray(value).astype(self.dtype).view(self.integer))


F32 = Format(np.dtype(np.float32), np.dtype(np.int32), 23, 127)
F64 = Format(np.dtype(np.float64), np.dtype(np.int64), 52, 1023)

#: The formats that functions are expanded for, by dtype.
FORMATS: dict[np.dtype, Format] = {f.dtype: f for f in (F32, F64)}


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An expression with arithmetic written as ``+ - * / < <= > >= & | ^ << >>``. Numbers take on its dtype."""

    expr: Expr

    @property
    def dtype(self) -> np.dtype:
        """The expression's."""
        return self.expr.dtype

    def __add__(self, other: Term | float) -> Term:
        return _apply("add", self, other)

    def __radd__(self, other: float) -> Term:
        return _apply("add", _lift(other, self), self)

    def __sub__(self, other: Term | float) -> Term:
        return _apply("sub", self, other)

    def __rsub__(self, other: float) -> Term:
        return _apply("sub", _lift(other, self), self)

    def __mul__(self, other: Term | float) -> Term:
        return _apply("mul", self, other)

    def __rmul__(self, other: float) -> Term:
        return _apply("mul", self, other)

    def __truediv__(self, other: Term | float) -> Term:
        return _apply("div", self, other)

    def __rtruediv__(self, other: float) -> Term:
        return _apply("div", _lift(other, self), self)

    def __neg__(self) -> Term:
        return _apply("neg", self)

    def __lt__(self, other: Term | float) -> Term:
        return _apply("lt", self, other, dtype=_BOOL)

    def __le__(self, other: Term | float) -> Term:
        return _apply("le", self, other, dtype=_BOOL)

    def __gt__(self, other: Term | float) -> Term:
        return _apply("gt", self, other, dtype=_BOOL)

    def __ge__(self, other: Term | float) -> Term:
        return _apply("ge", self, other, dtype=_BOOL)

    def __and__(self, other: Term | int) -> Term:
        return _apply("and", self, other)

    def __or__(self, other: Term | int) -> Term:
        return _apply("or", self, other)

    def __xor__(self, other: Term | int) -> Term:
        return _apply("xor", self, other)

    def __lshift__(self, by: int) -> Term:
        return _apply("shl", self, by)

    def __rshift__(self, by: int) -> Term:
        return _apply("shr", self, by)

    def constant(self, value: float) -> Term:
        """A constant of the same dtype."""
        return _lift(value, self)

    def clip(self, low: float | None, high: float | None) -> Term:
        """The number kept within bounds; NaN stays NaN. One instruction a bound on most targets."""
        kept = self
        if low is not None:
            kept = select(kept < low, low, kept)
        if high is not None:
            kept = select(kept > high, high, kept)
        return kept


def _lift(value: Term | float, like: Term) -> Term:
    return value if isinstance(value, Term) else Term(Const(value, like.dtype))


def _apply(function: str, *args: Term | float, dtype: np.dtype | None = None) -> Term:
    like = next(a for a in args if isinstance(a, Term))
    return Term(Apply(function, tuple(_lift(a, like).expr for a in args), dtype or like.dtype))


def eq(x: Term, y: Term | float) -> Term:
    """``x == y``, a bool."""
    return _apply("eq", x, y, dtype=_BOOL)


def ne(x: Term, y: Term | float) -> Term:
    """``x != y``, a bool; ``ne(x, x)`` is whether x is NaN."""
    return _apply("ne", x, y, dtype=_BOOL)


def absolute(x: Term) -> Term:
    """``|x|``."""
    return _apply("abs", x)


def rint(x: Term) -> Term:
    """The nearest integer, ties to even."""
    return _apply("rint", x)


def root(x: Term) -> Term:
    """The square root, correctly rounded."""
    return _apply("sqrt", x)


def fma(x: Term, y: Term | float, z: Term | float) -> Term:
    """``x * y + z``, rounded once where the target can."""
    return _apply("fma", x, y, z)


def scaleb(x: Term, shifted: Term) -> Term:
    """``x * 2**k``, subnormal, 0 or infinite where it should be; `shifted` is ``magic + k + 2*bias``."""
    return _apply("scaleb", x, shifted)


def select(condition: Term, then: Term | float, other: Term | float) -> Term:
    """`then` where the condition holds, else `other`; one of them must be a term."""
    like = then if isinstance(then, Term) else other
    assert isinstance(like, Term)
    branches = (_lift(then, like).expr, _lift(other, like).expr)
    return Term(Apply("select", (condition.expr, *branches), like.dtype))


def horner(x: Term, coefficients: Sequence[float]) -> Term:
    """``c[0] + c[1]*x + c[2]*x**2 + ...``: one fma a degree, and the steps near the end round last and least."""
    total = _lift(coefficients[-1], x)
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total


def bits(x: Term, form: Format) -> Term:
    """The bits of a float, as an integer."""
    return Term(Apply("bitcast", (x.expr,), form.integer))


def floats(x: Term, form: Format) -> Term:
    """The float that has these bits."""
    return Term(Apply("bitcast", (x.expr,), form.dtype))


def to_float(x: Term, minus: Term | float, form: Format) -> Term:
    """``x - minus`` as a float, for an integer x in ``[0, 2**(mantissa - 1))`` and a small whole number.

    By x's place in a float's bits: no conversion of 64-bit integers is needed, which few vector units have.
    """
    return floats(x | form.bits_of(form.magic), form) - (minus + form.magic)


def upper(x: Term, form: Format) -> Term:
    """The upper half of a float's significand, so that products of two such halves are exact, also without fma."""
    return floats(bits(x, form) & -(1 << (form.mantissa // 2 + 1)), form)


def with_sign_of(x: Term, of: Term, form: Format) -> Term:
    """`x`, which is not negative, with the sign of `of`."""
    return floats(bits(x, form) | (bits(of, form) & form.sign_mask), form)
