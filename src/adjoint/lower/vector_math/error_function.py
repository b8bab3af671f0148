"""erf: ``erf(a) = 1 - e**-u`` where ``u = -log(1 - erf(a))`` is a smooth function, ``2/sqrt(pi) * a`` near 0.

The numbers are computed by docs/design/vector_math_coefficients.py.
"""

from __future__ import annotations

from adjoint.lower.vector_math.exponential import less_one
from adjoint.lower.vector_math.terms import F32, F64, Format, Term, absolute, fma, horner, with_sign_of

__all__ = ["erf"]

#: ``u/a - 1`` for ``a`` up to where erf is 1; the error is relative to ``erf(a)``.
_RATE = {
    # Error 2**-27.8.
    F32: (
        0.12837916612625122,
        0.6366195678710938,
        0.10277630388736725,
        -0.019147824496030807,
        -0.00016949369455687702,
        0.0016756555996835232,
        -0.0006373450742103159,
        0.00011885390267707407,
        -9.386842975800391e-06,
    ),
    # Error 2**-53.5.
    F64: (
        0.1283791670955125,
        0.6366197723676116,
        0.10277260330005863,
        -0.019128446963039742,
        -0.00020919523052774397,
        0.0016962105311806334,
        -0.0005901468174893429,
        2.595521830944911e-05,
        6.428998854755781e-05,
        -2.932350238683825e-05,
        2.7958150727374837e-06,
        3.5647373740832513e-06,
        -2.4298410173846987e-06,
        8.537429448727774e-07,
        -1.7410705635132574e-07,
        8.375943228023405e-09,
        7.781276602521136e-09,
        -3.1529112657119694e-09,
        6.810681154497633e-10,
        -9.548007349922225e-11,
        8.720952418184592e-12,
        -4.754849320151091e-13,
        1.1800092935762368e-14,
    ),
}

#: Above, erf is 1.
_ONE = {F32: 3.95, F64: 5.95}


def erf(x: Term, form: Format) -> Term:
    """The error function within 2 ulp, relative also around 0, and never beyond 1."""
    a = absolute(x).clip(None, _ONE[form])
    u = fma(a, horner(a, _RATE[form]), a)
    return with_sign_of(absolute(less_one(-u, 0, form)), x, form)
