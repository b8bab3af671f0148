"""Transcendental functions as arithmetic: the same on every target, without libm, branches or tables.

::

    exp(x)  becomes  p(r) * 2**k        r, k from three fma; p a polynomial of six; 2**k made of bits

Every function states its largest error in ulp (units in the last place) of the exact result; the bounds are
measured in tests/lower/test_vector_math.py over all binades, and hold with fma. A target without fma rounds
``x*y + z`` twice, which costs up to 1 ulp more. NaN goes through; infinities and subnormal numbers are right too.

The arithmetic must be done as it is written: a code generator may not reassociate it, nor assume that there are no
NaNs or infinities.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adjoint.errors import VerifyError
from adjoint.kernel.ir import Expr
from adjoint.lower.vector_math.error_function import erf, erfc, erfinv
from adjoint.lower.vector_math.exponential import exp, expm1, sigmoid, tanh
from adjoint.lower.vector_math.gamma import lgamma
from adjoint.lower.vector_math.logarithm import log, log1p, log2
from adjoint.lower.vector_math.power import exp2, pow
from adjoint.lower.vector_math.terms import FORMATS, Term
from adjoint.lower.vector_math.trigonometric import atan, cos, sin

__all__ = ["EXPANSIONS", "expand"]

#: How each function is expanded: from its operands and their format to the result.
EXPANSIONS: dict[str, Callable[..., Term]] = {
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "sin": sin,
    "cos": cos,
    "erf": erf,
    "pow": pow,
    "exp2": exp2,
    "log2": log2,
    "atan": atan,
    "erfc": erfc,
    "erfinv": erfinv,
    "lgamma": lgamma,
}


def expand(function: str, args: tuple[Expr, ...], dtype: np.dtype) -> Expr | None:
    """A function of operands as arithmetic that every target has instructions for.

    Parameters
    ----------
    function : str
        One of `adjoint.kernel.scalars`.
    args : tuple of Expr
        Its operands, of that dtype.
    dtype : numpy dtype
        float32 or float64.

    Returns
    -------
    Expr or None
        None for a function that needs no expansion. Operands and other shared parts are shared objects.

    Raises
    ------
    VerifyError
        For a function that needs expansion at another dtype.
    """
    expansion = EXPANSIONS.get(function)
    if expansion is None:
        return None
    form = FORMATS.get(dtype)
    if form is None:
        raise VerifyError(f"{function}: computes in float32 or float64, got {dtype}; cast the operands first")
    return expansion(*map(Term, args), form).expr
