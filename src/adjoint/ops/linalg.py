"""Linear algebra of small matrices, in batches: factorizations, linear systems, inverses and determinants.

Nothing is raised for a matrix that is singular or not positive definite: results are NaN or infinite then.
"""

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import add, multiply
from adjoint.ops.contract import matmul
from adjoint.ops.decompositions import OrthonormalFactor, SingularValues, SymmetricEigen
from adjoint.ops.diagonals import triu
from adjoint.ops.factorizations import Cholesky, Determinant, Solve, SolveTriangular, eye_like
from adjoint.ops.logic import less, where
from adjoint.ops.rules import require_float
from adjoint.ops.shape import broadcast_to, slice_axis
from adjoint.ops.views import expand_dims, squeeze, swapaxes

__all__ = [
    "cholesky",
    "cholesky_solve",
    "det",
    "eigh",
    "inv",
    "logdet",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
]


def cholesky(x: Value, upper: bool = False) -> Value:
    """The lower triangular factor L of symmetric positive definite matrices ``L @ L.T``; not checked.

    The symmetric part of `x` is factored, so its gradient is symmetric. From the first pivot on that is not positive,
    the elements of the triangle are NaN.

    Parameters
    ----------
    x : Value
        Floats ``[..., n, n]``.
    upper : bool, default False
        Return the transpose of L.
    """
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise TypeRuleError(f"cholesky: matrices must be square, got {x.type}; reshape it to [..., n, n]")
    found = apply(Cholesky(), multiply(add(x, swapaxes(x, -2, -1)), 0.5))
    return swapaxes(found, -2, -1) if upper else found


def _systems(name: str, a: Value, b: Value) -> tuple[Value, Value]:
    """Matrices and right sides, with the axes in front broadcast."""
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise TypeRuleError(f"{name}: both must be matrices or batches of them, got {a.type} and {b.type}; reshape one")
    try:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise TypeRuleError(
            f"{name}: batch dimensions must be equal or 1, got {a.type} and {b.type}; reshape one"
        ) from None
    return broadcast_to(a, (*lead, *a.shape[-2:])), broadcast_to(b, (*lead, *b.shape[-2:]))


def solve_triangular(
    a: Value, b: Value, upper: bool = False, transposed: bool = False, unitriangular: bool = False
) -> Value:
    """X with ``A @ X = B``, for triangular matrices, of which the other triangle is not read.

    Parameters
    ----------
    a : Value
        Floats ``[..., n, n]``.
    b : Value
        ``[..., n, k]``, of the same dtype; axes in front broadcast.
    upper : bool, default False
        Read the triangle above the diagonal, instead of that below.
    transposed : bool, default False
        Solve ``A.T @ X = B`` instead.
    unitriangular : bool, default False
        Take the diagonal as ones, without reading it.
    """
    return apply(SolveTriangular(upper, transposed, unitriangular), *_systems("solve_triangular", a, b))


def cholesky_solve(b: Value, factor: Value, upper: bool = False) -> Value:
    """X with ``L @ L.T @ X = B``, given the factor of `cholesky`.

    Parameters
    ----------
    b : Value
        Right sides ``[..., n, k]``.
    factor : Value
        The factor ``[..., n, n]``.
    upper : bool, default False
        The factor is the transpose of L.
    """
    half = solve_triangular(factor, b, upper, upper)
    return solve_triangular(factor, half, upper, not upper)


def solve(a: Value, b: Value) -> Value:
    """X with ``A @ X = B``, by Gaussian elimination with partial pivoting.

    For a singular matrix, elements of the result are infinite or NaN.

    Parameters
    ----------
    a : Value
        Floats ``[..., n, n]``.
    b : Value
        Of the same dtype: ``[..., n, k]``, where axes in front broadcast, or one vector per matrix ``[..., n]``.
    """
    if len(a.shape) > 1 and (len(b.shape) == 1 or b.shape == a.shape[:-1]):
        return squeeze(apply(Solve(), *_systems("solve", a, expand_dims(b, -1))), -1)
    return apply(Solve(), *_systems("solve", a, b))


def inv(x: Value) -> Value:
    """The inverses of matrices ``[..., n, n]`` of floats; infinite or NaN if a matrix is singular."""
    if len(x.shape) < 2:
        raise TypeRuleError(f"inv: matrices must be square, got {x.type}; reshape it to [..., n, n]")
    return apply(Solve(), x, eye_like(x))


def det(x: Value) -> Value:
    """The determinants of matrices ``[..., n, n]`` of floats; at a singular matrix, the gradient is infinite or NaN."""
    return apply(Determinant(), x)


def slogdet(x: Value) -> tuple[Value, Value]:
    """The signs of determinants and the logarithms of their magnitudes: 0 and -inf if a determinant is 0."""
    return apply(Determinant("sign"), x), apply(Determinant("log_magnitude"), x)


def logdet(x: Value) -> Value:
    """The logarithms of determinants: NaN if a determinant is negative, -inf if it is 0."""
    sign, logarithm = slogdet(x)
    return where(less(sign, 0.0), float("nan"), logarithm)


def _require_matrices(name: str, x: Value) -> None:
    require_float(name, x)
    if len(x.shape) < 2:
        raise TypeRuleError(f"{name}: the operand must be a matrix or a batch of them, got {x.type}; reshape it")


def qr(x: Value) -> tuple[Value, Value]:
    """Q ``[..., m, k]`` with orthonormal columns and upper triangular R ``[..., k, n]``, where k is the smaller size.

    Computed by Householder reflections, with LAPACK's signs. The gradient is infinite or NaN if the first k columns are
    linearly dependent.

    Parameters
    ----------
    x : Value
        Floats ``[..., m, n]``.
    """
    _require_matrices("qr", x)
    rows, columns = x.shape[-2:]
    q = apply(OrthonormalFactor(), slice_axis(x, len(x.shape) - 1, 0, rows) if columns > rows else x)
    return q, triu(matmul(q, x, transpose_a=True))


def eigh(x: Value) -> tuple[Value, Value]:
    """The eigenvalues ``[..., n]`` of symmetric matrices, ascending, and eigenvectors, as columns of ``[..., n, n]``.

    The symmetric part of `x` is decomposed, by Jacobi rotations, so its gradient is symmetric. The signs of vectors are
    arbitrary. Vectors of equal values contribute 0 to the
    gradient, where PyTorch's is infinite.

    Parameters
    ----------
    x : Value
        Floats ``[..., n, n]``.
    """
    found = apply(SymmetricEigen(), x)
    return _line(found, 0), slice_axis(found, len(x.shape) - 2, 1, x.shape[-1] + 1)


def svd(x: Value) -> tuple[Value, Value, Value]:
    """U ``[..., m, k]``, the singular values ``[..., k]``, descending, and V transposed ``[..., k, n]``.

    Here k is the smaller of m and n. Computed by one-sided Jacobi rotations. The signs of vectors are arbitrary, and
    vectors of a value of exactly 0 may be zeros. Vectors of values that are equal or 0
    contribute 0 to the gradient, where PyTorch's is infinite.

    Parameters
    ----------
    x : Value
        Floats ``[..., m, n]``.
    """
    _require_matrices("svd", x)
    rows, columns = x.shape[-2:]
    if rows < columns:
        left, values, right = svd(swapaxes(x, -2, -1))
        return swapaxes(right, -2, -1), values, swapaxes(left, -2, -1)
    found, axis = apply(SingularValues(), x), len(x.shape) - 2
    right = slice_axis(found, axis, rows + 1, rows + 1 + columns)
    return slice_axis(found, axis, 0, rows), _line(found, rows), swapaxes(right, -2, -1)


def _line(x: Value, at: int) -> Value:
    """A row of each matrix, without its axis."""
    return squeeze(slice_axis(x, len(x.shape) - 2, at, at + 1), -2)
