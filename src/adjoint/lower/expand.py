"""Rewrites kernels so that only functions with an instruction of their own are left.

::

    y[i] = exp(x[i])     becomes     y[i] = (polynomial in x[i], scaled by a power of two)

It runs after everything that wants to know a function by name, and before code generation.
"""

from dataclasses import replace

from adjoint.kernel.ir import Apply, Coordinate, Expr, For, Kernel, Load, Prefetch, Stmt, Store, When, postorder
from adjoint.lower.vector_math import expand

__all__ = ["expand_math"]


def expand_math(kernel: Kernel) -> Kernel:
    """The kernel with transcendental functions as arithmetic."""
    return replace(kernel, body=tuple(_statement(s) for s in kernel.body))


def _statement(statement: Stmt) -> Stmt:
    if isinstance(statement, For):
        return For(statement.var, tuple(map(_statement, statement.body)), statement.kind)
    if isinstance(statement, When):
        then, other = tuple(map(_statement, statement.then)), tuple(map(_statement, statement.other))
        return When(statement.index, statement.low, statement.high, then, other)
    if isinstance(statement, Prefetch):
        return statement
    values = _expressions([value for _, _, value in statement.targets])
    return Store(tuple((b, i, v) for (b, i, _), v in zip(statement.targets, values, strict=True)))


def _expressions(roots: list[Expr]) -> list[Expr]:
    """Rebuild expressions bottom-up, sharing what was shared."""
    new: dict[int, Expr] = {}
    for expr in postorder(roots):
        new[id(expr)] = _node(expr, new)
    return [new[id(r)] for r in roots]


def _node(expr: Expr, new: dict[int, Expr]) -> Expr:
    if isinstance(expr, Load) and expr.guard is not None:
        guard = new[id(expr.guard)]
        return expr if guard is expr.guard else Load(expr.buffer, expr.index, guard)
    if not isinstance(expr, Apply) or isinstance(expr, Coordinate):
        return expr
    args = tuple(new[id(a)] for a in expr.operands)
    expanded = expand(expr.function, args, args[0].dtype)
    if expanded is not None:
        return expanded
    same = all(a is b for a, b in zip(args, expr.operands, strict=True))
    return expr if same else Apply(expr.function, args, expr.dtype)
