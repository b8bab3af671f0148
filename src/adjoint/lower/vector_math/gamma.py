"""lgamma: a polynomial between 1 and 2, the recurrence up to 8, Stirling's series beyond, and reflection below 0.

The numbers are computed by docs/design/vector_math_coefficients.py.
"""

from __future__ import annotations

from math import inf, log, pi

from adjoint.lower.vector_math.logarithm import log as logarithm
from adjoint.lower.vector_math.terms import F32, F64, Format, Term, absolute, eq, fma, horner, rint, select
from adjoint.lower.vector_math.trigonometric import sin

__all__ = ["lgamma"]

#: ``lgamma(1 + u) / (u * (u - 1))`` for u from 0 to 1; the error is relative.
_NEAR_1 = {
    # Error 2**-26.3.
    F32: (
        0.5772156715393066,
        -0.2452521175146103,
        0.15544721484184265,
        -0.11520332843065262,
        0.09202993661165237,
        -0.07452155649662018,
        0.055247727781534195,
        -0.03223925456404686,
        0.01221438404172659,
        -0.0021543477196246386,
    ),
    # Error 2**-56.7.
    F64: (
        0.5772156649015329,
        -0.24525136852258017,
        0.15543426586372203,
        -0.1151465425440254,
        0.09223900771645564,
        -0.07731815234564886,
        0.06673150142031808,
        -0.05877572752775022,
        0.05254054012774495,
        -0.047458113674256244,
        0.043056309802215025,
        -0.038776064619670814,
        0.03391228227387627,
        -0.027851054330587727,
        0.02059305211314124,
        -0.013088322304928684,
        0.006807909377689742,
        -0.0027407328641854173,
        0.0007927940987968824,
        -0.00014560876689310686,
        1.2694903501053034e-05,
    ),
}

#: ``B(2j) / (2j * (2j - 1))`` in powers of ``1/x**2`` (Abramowitz and Stegun, 6.1.41).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)

#: From here on, Stirling's series is used.
_LARGE = 8


def lgamma(x: Term, form: Format) -> Term:
    """The logarithm of the absolute gamma function within 5 ulp for x above 0.

    Below, the error is that of ``log(pi / |x * sin(pi*x)|) - lgamma(|x|)``: 5 ulp of the greater of the two, which are
    nearly equal around the zeros.
    """
    a = absolute(x)
    y = _of_positive(a, form)
    sine = absolute(sin((a - rint(a)) * pi, form))
    reflected = logarithm(pi / (a * sine), form) - y
    # Nearer to 0, lgamma(-a) and lgamma(a) are equal, and a * sine would underflow.
    y = select(x < -(2.0 ** -(form.mantissa + 1)), reflected, y)
    return select(eq(a, inf), a, y)


def _of_positive(a: Term, form: Format) -> Term:
    """For numbers that are not negative."""
    u, product = a - 1.0, a.constant(1.0)
    for _ in range(_LARGE - 2):
        product = select(u >= 1.0, product * u, product)
        u = select(u >= 1.0, u - 1.0, u)
    small, large = a < 1.0, a >= float(_LARGE)
    u = select(small, a, u)
    logs = logarithm(select(large | small, a, product), form)
    near = fma(u * (u - 1.0), horner(u, _NEAR_1[form]), select(small, -logs, logs))
    inverse = 1.0 / a
    terms = _STIRLING[: 4 if form is F32 else len(_STIRLING)]
    series = fma(inverse, horner(inverse * inverse, terms), 0.5 * log(2 * pi) - 0.5)
    return select(large, fma(a - 0.5, logs - 1.0, series), near)
