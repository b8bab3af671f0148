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
    # Error 2**-56.0.
    F64: (
        0.12837916709551256,
        0.6366197723675836,
        0.1027726033017887,
        -0.01912844700506909,
        -0.00020919469485626753,
        0.001696206385842078,
        -0.0005901255533593907,
        2.5878605868130194e-05,
        6.449185687195999e-05,
        -2.9724038664176253e-05,
        3.4072546296987315e-06,
        2.835152672880644e-06,
        -1.7415590325346152e-06,
        3.3637351352511863e-07,
        1.3717646655450438e-07,
        -1.4175899345102616e-07,
        6.573223858437793e-08,
        -2.0962232975320667e-08,
        4.997594799599514e-09,
        -9.082008627958926e-10,
        1.2483774185817095e-10,
        -1.2610654291538524e-11,
        8.845327441241865e-13,
        -3.850420038335506e-14,
        7.833979140191814e-16,
    ),
}

#: Above, erf is 1.
_ONE = {F32: 3.95, F64: 5.95}


def erf(x: Term, form: Format) -> Term:
    """The error function within 1.9 ulp, relative also around 0, and never beyond 1."""
    a = absolute(x).clip(None, _ONE[form])
    u = fma(a, horner(a, _RATE[form]), a)
    return with_sign_of(absolute(less_one(-u, 0, form)), x, form)
