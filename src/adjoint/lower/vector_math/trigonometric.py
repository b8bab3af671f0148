"""sin and cos: ``x = h*pi + r`` with ``|r| <= pi/2``; both are then plus or minus sin(r). And atan.

The numbers are computed by docs/design/vector_math_coefficients.py.
"""

from __future__ import annotations

from math import pi

from adjoint.lower.vector_math.terms import (
    F32,
    F64,
    Format,
    Term,
    absolute,
    bits,
    eq,
    floats,
    fma,
    horner,
    select,
    with_sign_of,
)

__all__ = ["atan", "cos", "sin"]

#: pi in parts. All but the last are so short that h times them is exact, with or without fma, where |x| is at most
#: 1e5 (f32) or 1e8 (f64); what is left of x is nearly always exact too, until the last part rounds it.
_PI: dict[Format, tuple[float, ...]] = {
    F32: (3.140625, 0.000965118408203125, 2.384185791015625e-06, 1.5099580252808664e-07),
    F64: (3.141592651605606, 1.984187036896401e-09, 1.2246467991473532e-16),
}

#: ``(sin(r) - r) / r**3`` in ``r**2`` for ``|r| <= 1.582``; the error is relative to ``sin(r)``.
_TAIL = {
    # Error 2**-27.1.
    F32: (-0.16666659712791443, 0.008333065547049046, -0.00019809331570286304, 2.6048369363707025e-06),
    # Error 2**-61.4.
    F64: (
        -0.16666666666666666,
        0.008333333333333203,
        -0.00019841269841210435,
        2.755731921112475e-06,
        -2.5052106857209766e-08,
        1.6058938371784202e-10,
        -7.642945446702252e-13,
        2.720592867755449e-15,
    ),
}

#: ``(atan(x) - x) / x**3`` in ``x**2`` for ``|x| <= 1``; the error is relative to ``atan(x)``.
_ATAN = {
    # Error 2**-28.2.
    F32: (
        -0.33333298563957214,
        0.1999852955341339,
        -0.14264042675495148,
        0.10951541364192963,
        -0.08403532952070236,
        0.05799848213791847,
        -0.031258560717105865,
        0.010978300124406815,
        -0.0018120278837159276,
    ),
    # Error 2**-57.4.
    F64: (
        -0.3333333333333307,
        0.19999999999951748,
        -0.1428571428258791,
        0.11111111007334612,
        -0.09090907007637894,
        0.0769227988676941,
        -0.0666640440416542,
        0.05880529686807881,
        -0.05253526218904648,
        0.04722346404050175,
        -0.04219238370612793,
        0.03664305314487096,
        -0.029905577494668246,
        0.02198686838870945,
        -0.01390237896602637,
        0.00719774209361011,
        -0.0028855339953334225,
        0.0008315322534173633,
        -0.00015220508545601055,
        1.322938160358459e-05,
    ),
}


def sin(x: Term, form: Format) -> Term:
    """The sine within 2 ulp where ``|x| <= 1e5`` (f32) or 1e8 (f64).

    Near multiples of pi far from 0, f32 results are exact to 1e-9 absolutely instead. Beyond that range the error
    grows with ``|x|``, first where there is no fma, until it is as large as the result, which stays within [-1, 1].
    Infinity gives NaN.
    """
    shifted = fma(x, 1 / pi, form.magic)
    y = _signed_sine(x, shifted - form.magic, bits(shifted, form), form)
    return select(eq(x, 0.0), x, y)


def cos(x: Term, form: Format) -> Term:
    """The cosine within 2 ulp, where and in the sense that `sin` is: ``cos(r + pi/2 + j*pi) = -(-1)**j * sin(r)``."""
    shifted = fma(x, 1 / pi, -0.5) + form.magic
    return _signed_sine(x, shifted - form.magic + 0.5, bits(shifted, form) ^ 1, form)


def _signed_sine(x: Term, h: Term, parity: Term, form: Format) -> Term:
    """``sin(x - h*pi)``, negated where the lowest bit of `parity` is set."""
    r = x
    for part in _PI[form]:
        r = fma(h, -part, r)
    z = r * r
    # At pi/2 rounding may end above 1; and where |x| is so large that r is not small, there is only noise to clip.
    y = fma(r * z, horner(z, _TAIL[form]), r).clip(-1.0, 1.0)
    return floats(bits(y, form) ^ (parity << (form.integer.itemsize * 8 - 1)), form)


def atan(x: Term, form: Format) -> Term:
    """The inverse tangent within 2 ulp: a polynomial up to 1, and ``pi/2 - atan(1/x)`` beyond."""
    a = absolute(x)
    large = a > 1.0
    r = select(large, 1.0 / a, a)
    z = r * r
    y = fma(r * z, horner(z, _ATAN[form]), r)
    return with_sign_of(select(large, pi / 2 - y, y), x, form)
