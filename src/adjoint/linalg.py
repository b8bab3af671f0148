"""Linear algebra, as ``torch.linalg``: systems, factorizations and determinants of small matrices, and products.

Each matrix is computed by one thread, in loops of the compiled program. A matrix that is singular or not positive
definite is not refused: results are NaN or infinite then, as the functions say.
"""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from adjoint.errors import InvalidValueError
from adjoint.missing import missing_name
from adjoint.tensor import arranging, diagonals
from adjoint.tensor.arithmetic import matmul
from adjoint.tensor.decompositions import (
    cond,
    eigh,
    eigvalsh,
    lstsq,
    matrix_rank,
    pinv,
    qr,
    spectral_norm,
    svd,
    svdvals,
)
from adjoint.tensor.norms import vector_norm
from adjoint.tensor.systems import cholesky, det, inv, matrix_power, multi_dot, slogdet, solve, solve_triangular

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "vecdot",
    "vector_norm",
]


def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross product of vectors of 3 elements along an axis, by default the last one; operands broadcast."""
    return arranging.cross(input, other, dim)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """A diagonal of each matrix, which are the last two axes by default, as a new last axis."""
    return diagonals.diagonal(A, offset, dim1, dim2)


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The sums of the products of two tensors along an axis; operands broadcast."""
    return (x * y).sum(dim)


def norm(
    A: Any,
    ord: float | str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """The norm of vectors or matrices.

    Parameters
    ----------
    A : Tensor
        Floats.
    ord : float or str, optional
        The order: of `matrix_norm` with two axes, or of a matrix without `dim`; otherwise of `vector_norm`. By default,
        the root of the sum of the squares.
    dim : int or sequence of int, optional
        The axes; default: all.
    keepdim : bool, default False
        Keep the axes, with size 1.
    dtype : dtype, optional
        Converted to before the computation.

    Raises
    ------
    InvalidValueError
        If the order is not one of the norm.
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    axes = tuple(range(A.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if len(axes) == 2:
        return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
    if isinstance(ord, str) or len(axes) != 1:
        raise InvalidValueError(
            f"norm: with ord={ord!r} there must be one axis of a vector or two of a matrix, got {len(axes)}; pass dim"
        )
    return vector_norm(A, ord, axes, keepdim, dtype=dtype)


def matrix_norm(
    A: Any, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The norm of matrices: "fro", "nuc", a singular value, or a sum of absolute values of a column or row.

    Parameters
    ----------
    A : Tensor
        Floats.
    ord : {"fro", "nuc", 2, -2, 1, -1, inf, -inf}, default "fro"
        The root of the sum of squares; "nuc" for the sum of the singular values, 2 and -2 for the greatest and the
        least; 1 and -1 for the greatest and the least sum of absolute values of a column, infinity for rows.
    dim : pair of int, default (-2, -1)
        The axes of the matrices.
    keepdim : bool, default False
        Keep the axes, with size 1.
    dtype : dtype, optional
        Converted to before the computation.

    Raises
    ------
    InvalidValueError
        If the order is another one.
    """
    if ord == "fro":
        return vector_norm(A, 2, tuple(dim), keepdim, dtype=dtype)
    if ord in ("nuc", 2, -2):
        return spectral_norm(A if dtype is None else A.to(dtype), ord, (dim[0], dim[1]), keepdim)
    if ord not in (1, -1, inf, -inf):
        raise InvalidValueError(
            f"matrix_norm: ord must be 'fro', 'nuc', 2, -2, 1, -1, inf or -inf, got {ord!r}; use one of them"
        )
    rows, columns = (axis % A.ndim for axis in dim)
    summed, compared = (rows, columns) if abs(float(ord)) == 1 else (columns, rows)
    sums: Any = vector_norm(A, 1, summed, True, dtype=dtype)
    found = sums.amax(compared, True) if float(ord) > 0 else sums.amin(compared, True)
    return found if keepdim else found.squeeze((rows, columns))


if not TYPE_CHECKING:  # so that type checkers report names that do not exist

    def __getattr__(name):
        """Say what to use instead of a name of PyTorch that is not here."""
        raise missing_name(__name__, name, __all__)
