"""sin and cos: ``x = h*pi + r`` with ``|r| <= pi/2``; both are then plus or minus sin(r).

The numbers are computed by docs/design/vector_math_coefficients.py.
"""

from __future__ import annotations

from math import pi

from adjoint.lower.vector_math.terms import F32, F64, Format, Term, bits, eq, floats, fma, horner, select

__all__ = ["cos", "sin"]

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
