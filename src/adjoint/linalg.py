"""Linear algebra, as ``torch.linalg``: systems, factorizations and determinants of small matrices, and products.

Each matrix is computed by one thread, in loops of the compiled program. A matrix that is singular or not positive
definite is not refused: results are NaN or infinite then, as the functions say.
"""

from typing import TYPE_CHECKING, Any

from adjoint.missing import missing_name
from adjoint.tensor import arranging, diagonals
from adjoint.tensor.arithmetic import matmul
from adjoint.tensor.systems import cholesky, det, inv, matrix_power, multi_dot, slogdet, solve, solve_triangular

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "inv",
    "matmul",
    "matrix_power",
    "multi_dot",
    "slogdet",
    "solve",
    "solve_triangular",
]


def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross product of vectors of 3 elements along an axis, by default the last one; operands broadcast."""
    return arranging.cross(input, other, dim)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """A diagonal of each matrix, which are the last two axes by default, as a new last axis."""
    return diagonals.diagonal(A, offset, dim1, dim2)


if not TYPE_CHECKING:  # so that type checkers report names that do not exist

    def __getattr__(name):
        """Say what to use instead of a name of PyTorch that is not here."""
        raise missing_name(__name__, name, __all__)
