"""Expansion of transcendental functions, so that only functions with an instruction of their own are left.

Before::

    kernel y: computes %y
      4 units, on one thread; 4 flops, 32 bytes
      reads x f32[4] by 1; writes y f32[4] by 1
      for u in 0..4 units:
        y[u] = exp(x[u])

After::

    kernel y: computes %y
      4 units, on one thread; 4 flops, 32 bytes
      reads x f32[4] by 1; writes y f32[4] by 1
      for u in 0..4 units:
        t0 = select(lt(x[u], -176.0), -176.0, x[u])
        t1 = select(gt(t0, 89.0), 89.0, t0)
        t2 = fma(t1, 1.4426950408889634, 12583166.0)
        t3 = sub(t2, 12583166.0)
        t4 = fma(t3, -1.428606765330187e-06, fma(t3, -0.693145751953125, t1))
        t5 = fma(fma(fma(0.0013836428988724947, t4, 0.00836913101375103), t4, 0.041668105870485306), t4, 0.16666516661643982)
        y[u] = scaleb(fma(fma(fma(t5, t4, 0.4999999403953552), t4, 1.0), t4, 1.0), t2)

It runs after all passes that recognize functions by name, and before code generation.
"""  # noqa: E501, the printer breaks lines at expressions only

from dataclasses import replace

from adjoint.kernel.ir import Apply, Expr, Kernel, postorder, roots_of, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.lower.vector_math import EXPANSIONS, expand

__all__ = ["expand_math"]


def expand_math(kernel: Kernel) -> Kernel:
    """The kernel with transcendental functions expanded to arithmetic; the same kernel if it has none."""
    computed = postorder([expr for statement in walk(kernel.body) for expr in roots_of(statement)])
    if not any(isinstance(expr, Apply) and expr.function in EXPANSIONS for expr in computed):
        return kernel
    return replace(kernel, body=rewritten(kernel.body, apply=_expanded))


def _expanded(expr: Apply) -> Expr:
    made = expand(expr.function, expr.operands, expr.operands[0].dtype)
    return expr if made is None else made
