"""Decompositions of small matrices: the functions of ``torch.linalg`` by QR, eigenvalues and singular values."""

from typing import Any, NamedTuple

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Value, is_float
from adjoint.tensor.creation import zeros
from adjoint.tensor.promotion import promoted
from adjoint.tensor.record import operation

__all__ = [
    "cond",
    "eigh",
    "eigvalsh",
    "lstsq",
    "matrix_rank",
    "pinv",
    "qr",
    "spectral_norm",
    "svd",
    "svdvals",
]


class QR(NamedTuple):
    """The factors of a QR decomposition."""

    Q: Any
    R: Any


class Eigen(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class SVD(NamedTuple):
    """The factors of a singular value decomposition."""

    U: Any
    S: Any
    Vh: Any


class LeastSquares(NamedTuple):
    """A least-squares solution, and the sums of the squares of what is left."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


#: A number, one number for each matrix, or the default.
Tolerance = Value | float | None

_qr, _eigh, _svd = operation(ops.qr), operation(ops.eigh), operation(ops.svd)


def qr(A: Any, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and upper triangular R, with ``A = Q @ R``.

    Signs are those of LAPACK, as in PyTorch. The gradient is infinite or NaN if columns are linearly dependent.

    Parameters
    ----------
    A : Tensor
        Floats ``[..., m, n]``.
    mode : {"reduced", "complete", "r"}, default "reduced"
        "reduced" for ``[..., m, k]`` and ``[..., k, n]``, where k is the smaller size; "complete" for m instead of k,
        if m is not greater than n; "r" for R only, and an empty Q.

    Raises
    ------
    InvalidValueError
        If the mode is not one of these, or "complete" for more rows than columns.
    """
    if mode not in ("reduced", "complete", "r"):
        raise InvalidValueError(f"qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}; use 'reduced'")
    if mode == "complete" and len(A.shape) > 1 and A.shape[-2] > A.shape[-1]:
        raise InvalidValueError(
            f"qr: mode 'complete' needs matrices with at most as many rows as columns, got {tuple(A.shape)}; use "
            "'reduced'"
        )
    q, r = _qr(A)
    return QR(zeros(0, dtype=A.dtype), r) if mode == "r" else QR(q, r)


def eigh(A: Any, UPLO: str = "L") -> Eigen:
    """The eigenvalues of symmetric matrices, ascending, and their vectors, as columns.

    The signs of vectors are arbitrary and differ from PyTorch's. Vectors of equal values contribute 0 to the
    gradient, where PyTorch's is infinite.

    Parameters
    ----------
    A : Tensor
        Floats ``[..., n, n]``, whose symmetric part is decomposed.
    UPLO : {"L", "U"}, default "L"
        No effect: PyTorch reads one triangle only.

    Raises
    ------
    InvalidValueError
        If `UPLO` is something else.
    """
    if UPLO.upper() not in ("L", "U"):
        raise InvalidValueError(f"eigh: UPLO must be 'L' or 'U', got {UPLO!r}; use 'L'")
    return Eigen(*_eigh(A))


def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric matrices, ascending: `eigh`."""
    return eigh(A, UPLO).eigenvalues


def svd(A: Any, full_matrices: bool = True) -> SVD:
    """U, the singular values, descending, and V transposed, with ``A = U @ diag(S) @ Vh``.

    The signs of vectors are arbitrary and differ from PyTorch's. Vectors of values that are equal or 0
    contribute 0 to the gradient, where PyTorch's is infinite.

    Parameters
    ----------
    A : Tensor
        Floats ``[..., m, n]``.
    full_matrices : bool, default True
        Must be False unless the matrices are square: there are as many vectors as values.

    Raises
    ------
    InvalidValueError
        If more vectors than values are wanted.
    """
    if full_matrices and len(A.shape) > 1 and A.shape[-1] != A.shape[-2]:
        raise InvalidValueError(
            f"svd: full_matrices=True needs square matrices, got {tuple(A.shape)}; pass full_matrices=False"
        )
    return SVD(*_svd(A))


def svdvals(A: Any) -> Any:
    """The singular values of matrices, descending."""
    return _svd(A)[1]


@operation
def _pinv(x: Value, atol: Tolerance, rtol: Tolerance, hermitian: bool) -> Value:
    *batch, rows, columns = x.shape
    if 0 in (rows, columns):
        return ops.full(0.0, (*batch, columns, rows), x.dtype)
    if hermitian:
        values, v = ops.eigh(x)
        u = v
    else:
        u, values, vh = ops.svd(x)
        v = ops.swapaxes(vh, -2, -1)
    kept = _above(values, atol, rtol, x)
    inverse = ops.where(kept, ops.reciprocal(ops.where(kept, values, 1.0)), 0.0)
    return ops.matmul(ops.multiply(v, ops.expand_dims(inverse, -2)), u, transpose_b=True)


def _above(values: Value, atol: Tolerance, rtol: Tolerance, x: Value) -> Value:
    """Which values of matrices are greater than `atol`, and than `rtol` times the greatest one.

    Without either, `rtol` is the greater size times the machine epsilon; it is 0 if there is only `atol`.
    """
    sizes = ops.abs(values)
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps) if atol is None else 0.0
    least = ops.multiply(ops.max(sizes, -1), rtol)
    if atol is not None:
        least = ops.maximum(least, ops.cast(atol, x.dtype) if isinstance(atol, Value) else atol)
    return ops.greater(sizes, ops.expand_dims(least, -1))


def pinv(A: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """The pseudoinverse of matrices, by their singular values.

    The gradient is that of a matrix of full rank: of others it lacks what the singular vectors of 0 contribute, which
    PyTorch's has.

    Parameters
    ----------
    A : Tensor
        Floats ``[..., m, n]``.
    atol : float or Tensor, optional
        Singular values of at most this count as 0; a tensor has one for each matrix. Default: 0.
    rtol : float or Tensor, optional
        Those of at most this, times the greatest one of their matrix, count as 0 too. Default: the greater size times
        the machine epsilon, or 0 if `atol` is given.
    hermitian : bool, default False
        Whether the matrices are symmetric: their eigenvalues are used then.
    """
    return _pinv(A, _number(atol), _number(rtol), bool(hermitian))


def matrix_rank(A: Any, tol: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """The number of singular values of matrices that are not counted as 0: all above `tol`.

    Parameters
    ----------
    A : Tensor
        Floats ``[..., m, n]``.
    tol : float or Tensor, optional
        Another name for `atol`.
    atol, rtol : float or Tensor, optional
        As for `pinv`.
    hermitian : bool, default False
        No effect: singular values are the absolute eigenvalues.

    Raises
    ------
    InvalidValueError
        If there are both `tol` and `atol`.
    """
    del hermitian
    if tol is not None and atol is not None:
        raise InvalidValueError(
            f"matrix_rank: tol is another name for atol, got tol={tol!r} and atol={atol!r}; omit tol"
        )
    return _matrix_rank(A, _number(tol if atol is None else atol), _number(rtol))


@operation
def _matrix_rank(x: Value, atol: Tolerance, rtol: Tolerance) -> Value:
    if 0 in x.shape[-2:]:
        return ops.full(0, x.shape[:-2], "i64")
    return ops.count_nonzero(_above(ops.svd(x)[1], atol, rtol, x), -1)


def _number(tolerance: Any) -> Any:
    """A tolerance as `operation` takes it: a tensor, a float or None."""
    return float(tolerance) if isinstance(tolerance, int | float) else tolerance


def cond(A: Any, p: float | str | None = None) -> Any:
    """The condition number: the greatest singular value divided by the least; for p = -2, the inverse.

    Parameters
    ----------
    A : Tensor
        Floats ``[..., m, n]``.
    p : {None, 2, -2}, optional
        The norm; None is 2.

    Raises
    ------
    InvalidValueError
        If it is another one.
    """
    if p not in (None, 2, -2):
        raise InvalidValueError(
            f"cond: p must be None, 2 or -2, got {p!r}; multiply matrix_norm of the matrix and of its inverse"
        )
    values = svdvals(A)
    first, last = values[..., 0], values[..., -1]
    return last / first if p == -2 else first / last


@operation
def spectral_norm(x: Value, kind: str | float, dim: tuple[int, int], keepdim: bool) -> Value:
    """A norm of matrices along two axes by their singular values: "nuc", 2 or -2."""
    rank = len(x.shape)
    rows, columns = (axis % rank for axis in dim)
    rest = [axis for axis in range(rank) if axis not in (rows, columns)]
    values = ops.svd(ops.permute(x, (*rest, rows, columns)))[1]
    reduce: Any = {"nuc": ops.sum, 2: ops.max, -2: ops.min}[kind]
    found: Value = reduce(values, -1)
    kept = tuple(1 if axis in (rows, columns) else n for axis, n in enumerate(x.shape))
    return ops.reshape(found, kept) if keepdim else found


@operation
def _least_squares(a: Value, b: Value) -> Value:
    a, b = promoted(a, b)
    if a.shape[-2] >= a.shape[-1]:
        q, r = ops.qr(a)
        return ops.solve_triangular(r, ops.matmul(q, b, transpose_a=True), upper=True)
    q, r = ops.qr(ops.swapaxes(a, -2, -1))
    return ops.matmul(q, ops.solve_triangular(r, b, upper=True, transposed=True))


def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """X for which the sum of the squares of ``A @ X - B`` is least, by a QR decomposition; of several, the least.

    As PyTorch's driver "gels", it assumes matrices of full rank: otherwise elements are infinite or NaN. `rank` and
    `singular_values` of the result are empty.

    Parameters
    ----------
    A : Tensor
        Floats ``[..., m, n]``.
    B : Tensor
        Right sides ``[..., m, k]``.
    rcond : float, optional
        No effect.
    driver : {"gels"}, optional
        The only one.

    Raises
    ------
    InvalidValueError
        If the driver is another one.
    TypeRuleError
        If the right sides are no matrices of as many rows.
    """
    del rcond
    if driver not in (None, "gels"):
        raise InvalidValueError(f"lstsq: driver must be 'gels', got {driver!r}; omit it")
    if not is_float(A.dtype) or len(B.shape) < 2 or A.shape[-2:-1] != B.shape[-2:-1]:
        raise TypeRuleError(
            f"lstsq: right sides must be columns [..., m, k] beside matrices [..., m, n] of floats, got shapes "
            f"{tuple(A.shape)} and {tuple(B.shape)}; reshape one"
        )
    solution = _least_squares(A, B)
    empty = zeros(0, dtype=A.dtype)
    rows, columns = A.shape[-2:]
    residuals = (A @ solution - B).square().sum(-2) if rows > columns else empty
    return LeastSquares(solution, residuals, zeros(0, dtype="i64"), empty)
