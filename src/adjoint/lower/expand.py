"""Expansion of transcendental functions, so that only functions with an instruction of their own are left.

::

    y[i] = exp(x[i])     becomes     y[i] = (polynomial in x[i], scaled by a power of two)

It runs after all passes that recognize functions by name, and before code generation.
"""

from dataclasses import replace

from adjoint.kernel.ir import Apply, Expr, Kernel
from adjoint.kernel.rewrite import rewritten
from adjoint.lower.vector_math import expand

__all__ = ["expand_math"]


def expand_math(kernel: Kernel) -> Kernel:
    """The kernel with transcendental functions expanded to arithmetic."""
    return replace(kernel, body=rewritten(kernel.body, apply=_expanded))


def _expanded(expr: Apply) -> Expr:
    made = expand(expr.function, expr.operands, expr.operands[0].dtype)
    return expr if made is None else made
