"""Recipes for factorizations and linear systems of small matrices near the identity."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from adjoint import ops
from adjoint.ir import Value, apply
from adjoint.ops.base import Operator
from adjoint.ops.decompositions import OrthonormalFactor, SingularValues, SymmetricEigen
from adjoint.ops.factorizations import Determinant
from adjoint.testing.growing import Growing, Node

__all__ = ["MATRIX_RECIPES"]

#: Maximum number of rows.
_MOST = 6


def _square(g: Growing) -> Value:
    """The identity plus small multiples of matrices of elements of the graph."""
    x = g.pick(rank=2)
    n = min(*x.value.shape[-2:], _MOST)
    lead = x.value.shape[:-2]
    cut = ops.slice(x.value, [0] * (len(lead) + 2), [*lead, n, n])
    # The sum of the magnitudes of a row is at most a half, so by Gershgorin's theorem no eigenvalue is near 0.
    small = ops.multiply(cut, 0.5 / (n * max(x.bound, 1.0)))
    return ops.add(small, ops.eye(n, dtype=x.value.dtype))


def _cholesky(g: Growing) -> Node:
    return Node(ops.cholesky(_square(g), g.flag()), 1.3, False)


def _right_sides(g: Growing, a: Value) -> Node:
    return g.parameter((*a.shape[:-1], g.choose((1, 3, 9))), "float", a.dtype)


def _solve(g: Growing) -> Node:
    a = _square(g)
    b = _right_sides(g, a)
    return Node(ops.solve(a, b.value), 2 * b.bound, False)


def _solve_triangular(g: Growing) -> Node:
    a = _square(g)
    b = _right_sides(g, a)
    return Node(ops.solve_triangular(a, b.value, g.flag(), g.flag(), g.flag()), 2 * b.bound, False)


def _determinant(g: Growing) -> Node:
    wanted = g.choose(("value", "log_magnitude", "sign"))
    return Node(apply(Determinant(wanted), _square(g)), 1.5**_MOST, False)


def _decomposition(operator: Operator) -> Callable[[Growing], Node]:
    """A decomposition of a matrix whose eigenvalues and singular values lie at least 1 apart."""

    def recipe(g: Growing) -> Node:
        a = _square(g)
        steps = 2 * np.arange(a.shape[-1])
        apart = ops.multiply(ops.eye(a.shape[-1], dtype=a.dtype), ops.constant(steps.astype(a.dtype)))
        return Node(apply(operator, ops.add(a, apart)), 2.0 * _MOST, False)

    return recipe


#: Recipes by operator name.
MATRIX_RECIPES: Mapping[str, Callable[[Growing], Node]] = MappingProxyType(
    {
        "cholesky": _cholesky,
        "solve": _solve,
        "solve_triangular": _solve_triangular,
        "determinant": _determinant,
        "orthonormal_factor": _decomposition(OrthonormalFactor()),
        "symmetric_eigen": _decomposition(SymmetricEigen()),
        "singular_values": _decomposition(SingularValues()),
    }
)
