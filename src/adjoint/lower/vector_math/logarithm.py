"""log, log2 and log1p: ``log(2**k * (1 + f)) = k*log(2) + log(1 + f)`` with ``1 + f`` between sqrt(1/2) and sqrt(2).

The numbers are computed by docs/design/vector_math_coefficients.py.
"""

from __future__ import annotations

from math import inf, nan, sqrt
from math import log as exact_log

from adjoint.lower.vector_math.exponential import LOG_2
from adjoint.lower.vector_math.terms import (
    F32,
    Format,
    Term,
    absolute,
    bits,
    eq,
    floats,
    fma,
    horner,
    select,
    to_float,
)

__all__ = ["log", "log1p", "log2", "split"]

#: f32: ``(log(1 + f) - f + f**2/2) / f**3``; error 2**-27.2 of the logarithm.
_IN_F = (
    0.3333333134651184,
    -0.2500081956386566,
    0.20001225173473358,
    -0.1662335991859436,
    0.14201781153678894,
    -0.13160184025764465,
    0.1276141107082367,
    -0.07634277641773224,
)

#: f64: ``(log(1 + f) - 2*s) / s**3`` in ``s**2`` where ``s = f / (2 + f)``; error 2**-59.5 of the logarithm.
_IN_S = (
    0.6666666666666734,
    0.39999999999417063,
    0.28571428741886884,
    0.22222198622334288,
    0.18183561864690262,
    0.1531411153102151,
    0.14795356843878857,
)


def log(x: Term, form: Format) -> Term:
    """The natural logarithm within 1 ulp, also of subnormals."""
    k, m = split(x, form)
    return _specials(_sum(k, m - 1.0, form), x, 0.0)


def log2(x: Term, form: Format) -> Term:
    """The logarithm to base 2 within 2 ulp, also of subnormals; exact for powers of 2."""
    k, m = split(x, form)
    return _specials(fma(_sum(k.constant(0.0), m - 1.0, form), 1 / exact_log(2.0), k), x, 0.0)


def log1p(x: Term, form: Format) -> Term:
    """``log(1 + x)`` within 1.5 ulp, relative also around 0.

    The exponent k comes from 1 + x, but ``f = 2**-k * (1 + x) - 1`` from x itself: nothing of x is lost. All of it
    is done with a quarter of 1 + x, so that neither 2**k nor 2**-k leaves the range of the format.
    """
    biased = _exponent(fma(x, 0.25, 0.25), form)
    scale = floats(2 * form.one - biased, form)
    f = fma(scale, x * 0.25, scale * 0.25 - 1.0)
    k = to_float(biased >> form.mantissa, form.bias - 2, form)
    y = _specials(_sum(k, f, form), x, -1.0)
    # Nearer to 0 than the step of 1, x itself is nearest; that keeps subnormals and the sign of 0.
    return select(absolute(x) < 2.0 ** -(form.mantissa + 2), x, y)


def split(x: Term, form: Format) -> tuple[Term, Term]:
    """``(k, m)`` with ``x == 2**k * m`` and m between sqrt(1/2) and sqrt(2), for finite x above 0."""
    small = x < form.smallest_normal
    normal = select(small, x * 2.0**form.mantissa, x)
    biased = _exponent(normal, form)
    m = floats(bits(normal, form) - biased + form.one, form)
    bias = select(small, x.constant(form.bias + form.mantissa), form.bias)
    return to_float(biased >> form.mantissa, bias, form), m


def _exponent(x: Term, form: Format) -> Term:
    """The biased exponent of ``x / sqrt(1/2)``, in its place among the bits."""
    return (bits(x, form) + (form.one - form.bits_of(sqrt(0.5)))) & form.exponent_mask


def _sum(k: Term, f: Term, form: Format) -> Term:
    """``k*log(2) + log(1 + f)``, the small parts first."""
    high, low = LOG_2[form]
    square = f * f
    if form is F32:
        rest = fma(square, -0.5, fma(square * f, horner(f, _IN_F), k * low))
    else:
        s = f / (f + 2.0)
        z = s * s
        half = square * 0.5
        # log(1 + f) = f - half + s * (half + s**2 * polynomial)
        rest = fma(s, fma(z, horner(z, _IN_S), half), k * low) - half
    return fma(k, high, f + rest)


def _specials(y: Term, x: Term, pole: float) -> Term:
    """-inf at the pole, NaN below it and for NaN, infinity for infinity, else y."""
    y = select(x < inf, y, x)
    return select(x > pole, y, select(eq(x, pole), x.constant(-inf), nan))
