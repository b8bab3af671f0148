"""pow and exp2: ``2**(y * log2(x))``, where the logarithm and the product are sums of two floats.

One float would not do: an exponent of 100 takes 7 bits from its fraction, and the power is as inexact as that.
Products of upper halves of floats are exact, so no fma is needed.
The numbers are computed by docs/design/vector_math_coefficients.py.
"""

from __future__ import annotations

from math import inf, nan

from adjoint.kernel.ir import Const
from adjoint.lower.vector_math.logarithm import split
from adjoint.lower.vector_math.terms import (
    F32,
    F64,
    Format,
    Term,
    absolute,
    bits,
    eq,
    floats,
    horner,
    ne,
    rint,
    root,
    scaleb,
    select,
    upper,
)

__all__ = ["exp2", "pow"]

#: ``(log(m) * 3/(2*s) - 3 - s**2) / s**4`` in ``s**2``, where ``s = (m - 1) / (m + 1)``; error relative to ``log(m)``.
_IN_S = {
    # Error 2**-36.8.
    F32: (0.6000022888183594, 0.42820629477500916, 0.3512970805168152),
    # Error 2**-66.3.
    F64: (
        0.6000000000000337,
        0.42857142855154673,
        0.33333333778949265,
        0.2727267663126929,
        0.23080132342290421,
        0.19885310409371848,
        0.19793727044914688,
    ),
}

#: 2 / (3 * log(2)) in two parts, the first of half the significand.
_SCALE = {
    F32: (0.961669921875, 0.00012677205086220056),
    F64: (0.9617966860532761, 7.872699542894897e-09),
}

#: ``(2**r - 1) / r`` for ``|r| <= 1/2``; the error is relative to ``2**r``.
_EXP2 = {
    # Error 2**-27.5.
    F32: (
        0.6931472420692444,
        0.24022655189037323,
        0.05550277233123779,
        0.009617104195058346,
        0.001341485301963985,
        0.000157865637447685,
    ),
    # Error 2**-55.5.
    F64: (
        0.6931471805599453,
        0.24022650695910072,
        0.055504108664821736,
        0.009618129107628562,
        0.0013333558146381367,
        0.000154035303931703,
        1.5252733865206148e-05,
        1.3215487004547402e-06,
        1.0178047378872173e-07,
        7.054814507073904e-09,
        4.4572624640397313e-10,
        2.5855508565710317e-11,
    ),
}

#: Below and above, 2**e is 0 and infinity.
_LIMITS = {F32: (-151.0, 129.0), F64: (-1076.0, 1025.0)}

#: With an exponent as large as this, every power but that of 1 is 0 or infinity.
_LARGEST = {F32: 2.0**33, F64: 2.0**65}


def exp2(x: Term, form: Format) -> Term:
    """``2**x`` within 1 ulp; exact for integers, subnormal, 0 and infinite where it should be."""
    start = form.magic + 2 * form.bias
    # As far below as `scaleb` reaches, where -inf underflows nowhere.
    kept = x.clip(-2.0 * form.bias, form.bias + 2.0)
    shifted = kept + start
    return scaleb(horner(kept - (shifted - start), (1.0, *_EXP2[form])), shifted)


def pow(x: Term, y: Term, form: Format) -> Term:
    """``x**y`` within 1.5 ulp; special cases as in IEEE 754: ``pow(0, 0)`` is 1, ``pow(-2, 3)`` is -8.

    Constant exponents of 1/2 and of small integers are roots and products instead, no less exact and far cheaper.
    """
    if isinstance(y.expr, Const):
        short = _constant_power(x, float(y.expr.value))
        if short is not None:
            return short
    a = absolute(x)
    e, e_low = _exponent(a, y, form)
    # 0, infinity and NaN have plain logarithms; y = 0 is seen to last.
    total = select((a > 0.0) & (a < inf), e + e_low, y * select(eq(a, 0.0), a.constant(-inf), a))
    magnitude = _exp2(total, e, e_low, form)
    whole, half = eq(rint(y), y), y * 0.5
    odd = whole & ne(rint(half), half)
    power = floats(bits(magnitude, form) ^ select(odd, bits(x, form) & form.sign_mask, 0), form)
    # A number below 0 has no power of a fraction; -0 and -inf do.
    power = select((x < 0.0) & (x > -inf), select(whole, power, nan), power)
    return select(eq(x, 1.0), 1.0, select(eq(y, 0.0), 1.0, power))


def _constant_power(x: Term, y: float) -> Term | None:
    """``x**y`` by a few operations, where few are exact enough and have no overflow of their own."""
    if y < 0.0:
        inverse = _constant_power(x, -y) if y in (-0.5, -1.0) else None
        return None if inverse is None else 1.0 / inverse
    if y == 0.5:
        # Unlike sqrt, pow takes -0 to 0 and -inf to infinity.
        return select(eq(x, -inf), inf, root(x) + 0.0)
    products = {0.0: lambda: x.constant(1.0), 1.0: lambda: x, 2.0: lambda: x * x, 3.0: lambda: x * x * x}
    return products[y]() if y in products else None


def _exponent(a: Term, y: Term, form: Format) -> tuple[Term, Term]:
    """``y * log2(a)`` as the sum of two, for finite a above 0."""
    high, low = _log2(a, form)
    y = y.clip(-_LARGEST[form], _LARGEST[form])
    y_high = upper(y, form)
    return y_high * high, (y - y_high) * high + y * low


def _log2(a: Term, form: Format) -> tuple[Term, Term]:
    """``log2(a)`` as the sum of two, the first of half the significand.

    With ``a = 2**k * m`` and ``s = (m - 1) / (m + 1)``: ``log(m) = 2/3 * s * (3 + s**2 + s**4 * polynomial)``. What
    is left of a name's value when its upper half is taken, or when it was rounded, goes by the name with `low`.
    """
    k, m = split(a, form)
    f, d = m - 1.0, m + 1.0
    d_high = upper(d, form)
    d_low = (m - (d - 1.0)) + (d - d_high)
    inverse = 1.0 / d
    s = f * inverse
    s_high = upper(s, form)
    s_low = inverse * ((f - s_high * d_high) - s_high * d_low)
    z = s * s
    square = s_high * s_high
    rest = z * z * horner(z, _IN_S[form]) + s_low * (s_high + s)
    sum_high = upper(square + 3.0 + rest, form)
    sum_low = rest - ((sum_high - 3.0) - square)
    first, second = s_high * sum_high, s_low * sum_high + sum_low * s
    log_high = upper(first + second, form)
    log_low = second - (log_high - first)
    scale_high, scale_low = _SCALE[form]
    first = log_high * scale_high
    second = log_high * scale_low + log_low * (scale_high + scale_low)
    high = upper(first + second + k, form)
    return high, second - ((high - k) - first)


def _exp2(total: Term, e: Term, e_low: Term, form: Format) -> Term:
    """``2**(e + e_low)``; `total` is their sum, or infinite or NaN where that is meant."""
    start = form.magic + 2 * form.bias
    shifted = total + start
    r = (e - (shifted - start)) + e_low
    low, high = _LIMITS[form]
    power = scaleb(horner(r, (1.0, *_EXP2[form])), shifted)
    return select(total > high, inf, select(total < low, 0.0, power))
