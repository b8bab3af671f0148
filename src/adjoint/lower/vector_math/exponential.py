"""exp, expm1, sigmoid, tanh: ``e**x = 2**k * e**r`` with ``r = x - k*log(2)`` in ``[-log(2)/2, log(2)/2]``.

The numbers are computed by docs/design/vector_math_coefficients.py.
"""

from __future__ import annotations

from math import log

from adjoint.lower.vector_math.terms import (
    F32,
    F64,
    Format,
    Term,
    absolute,
    bits,
    floats,
    fma,
    horner,
    scaleb,
    select,
    with_sign_of,
)

__all__ = ["LOG_2", "exp", "expm1", "less_one", "power_of_two", "sigmoid", "tanh"]

_LOG2_E = 1.0 / log(2.0)

#: log(2) in two parts. The first ends in zeros, so that k times it is exact, with or without fma.
LOG_2 = {
    F32: (0.693145751953125, 1.428606765330187e-06),
    F64: (0.693147180559663, 2.8235290563031577e-13),
}

#: ``(e**r - 1 - r) / r**2`` for ``|r| <= log(2)/2``; the error is relative to ``e**r``.
_TAIL = {
    # Error 2**-28.2.
    F32: (0.4999999403953552, 0.16666516661643982, 0.041668105870485306, 0.00836913101375103, 0.0013836428988724947),
    # Error 2**-56.5.
    F64: (
        0.5000000000000011,
        0.1666666666666641,
        0.041666666666529226,
        0.00833333333349561,
        0.0013888888943912748,
        0.0001984126950478494,
        2.4801492773868685e-05,
        2.7557587337175704e-06,
        2.7630374395394733e-07,
        2.4999962374502677e-08,
    ),
}

#: Below and above, e**x is 0 and infinity. It is 0 from -104 (-746) on; without an
#: instruction, `scaleb` is two products with powers of two, one of which is 0 that far below, so that e**-inf, of which
#: masks are full, underflows nowhere: a processor takes some hundred cycles for a product that does.
_LIMITS = {F32: (-176.0, 89.0), F64: (-1418.0, 710.0)}

#: Below, expm1 is -1.
_MINUS_ONE = {F32: -18.0, F64: -40.0}

#: ``(tanh(x) - x) / x**3`` in ``x**2`` for ``|x| <= 0.55``; the error is relative to ``tanh(x)``.
_TANH = {
    # Error 2**-29.6.
    F32: (
        -0.33333316445350647,
        0.13332544267177582,
        -0.0538475476205349,
        0.02105117030441761,
        -0.006244756747037172,
    ),
    # Error 2**-55.5.
    F64: (
        -0.33333333333332316,
        0.13333333333168937,
        -0.05396825387616594,
        0.02186948597649304,
        -0.008863194523314485,
        0.003591719832249239,
        -0.0014532173473584473,
        0.0005791385935385788,
        -0.00021030474963378473,
        5.102297500448844e-05,
    ),
}

#: Above, tanh is 1.
_TANH_ONE = {F32: 10.0, F64: 20.0}

#: Below, tanh is less than 1/2, and 1 minus something would lose digits.
_TANH_SMALL = 0.55


def exp(x: Term, form: Format) -> Term:
    """``e**x`` within 1 ulp; subnormal results, 0 and infinity come out where they should."""
    return _exp(x.clip(*_LIMITS[form]), form)


def sigmoid(x: Term, form: Format) -> Term:
    """``1 / (1 + e**-x)`` within 2 ulp, relative also where it tends to 0: from ``e**-|x|``, which is at most 1."""
    e = _exp((-absolute(x)).clip(_LIMITS[form][0], None), form)
    d = e + 1.0
    y = select(x < 0.0, e, 1.0) / d
    # d was rounded by the last term; to first order that changes y by as much.
    return fma((d - 1.0) - e, y, y)


def expm1(x: Term, form: Format) -> Term:
    """``e**x - 1`` within 1.8 ulp, relative also around 0."""
    # Half of it, because 2**k itself overflows just before e**x does.
    half = less_one(x.clip(_MINUS_ONE[form], _LIMITS[form][1]), 1, form)
    # Nearer to 0 than the step of 1, x itself is nearest; that keeps subnormals and the sign of 0.
    return select(absolute(x) < 2.0 ** -(form.mantissa + 2), x, half + half)


def tanh(x: Term, form: Format) -> Term:
    """The hyperbolic tangent within 1.7 ulp, relative also around 0, and never beyond 1.

    A polynomial where it is below 1/2, else ``1 - 1 / ((e**(2*|x|) + 1) / 2)``.
    """
    a = absolute(x).clip(None, _TANH_ONE[form])
    shifted, r = _reduce(a + a, form.bias - 1, form)
    mean = fma(_exp_near_0(r, form), power_of_two(bits(shifted, form), form), 0.5)
    z = a * a
    small = fma(a * z, horner(z, _TANH[form]), a)
    return with_sign_of(select(a < _TANH_SMALL, small, 1.0 - 1.0 / mean), x, form)


def _exp(x: Term, form: Format) -> Term:
    """``e**x`` where x is within the limits."""
    shifted, r = _reduce(x, 2 * form.bias, form)
    return scaleb(_exp_near_0(r, form), shifted)


def _exp_near_0(r: Term, form: Format) -> Term:
    """``e**r`` for ``|r| <= log(2)/2``."""
    return horner(r, (1.0, 1.0, *_TAIL[form]))


def less_one(x: Term, halvings: int, form: Format) -> Term:
    """``(e**x - 1) / 2**halvings``, relative also around 0: ``2**k * (e**r - 1) + (2**k - 1)``.

    For x that is neither below where it is -1 nor above where ``2**(k - halvings)`` overflows.
    """
    shifted, r = _reduce(x, form.bias - halvings, form)
    scale = power_of_two(bits(shifted, form), form)
    curve = r * r * horner(r, _TAIL[form])
    # 2**k - 1 + 2**k * r is where digits cancel; the fma loses none of them, and the rest is small.
    return fma(scale, curve, fma(scale, r, scale - 0.5**halvings))


def _reduce(x: Term, offset: int, form: Format) -> tuple[Term, Term]:
    """``(magic + k + offset, r)``: the integer k nearest to ``x / log(2)`` is left in the low bits of a float."""
    start = form.magic + offset
    shifted = fma(x, _LOG2_E, start)
    k = shifted - start
    high, low = LOG_2[form]
    return shifted, fma(k, -low, fma(k, -high, x))


def power_of_two(biased: Term, form: Format) -> Term:
    """``2**(biased - bias)`` from the low bits of an integer; those above the exponent's are dropped."""
    return floats(biased << form.mantissa, form)
