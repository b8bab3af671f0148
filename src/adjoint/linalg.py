"""Linear algebra, as ``torch.linalg``: systems, factorizations and determinants of small matrices, norms, products.

Each matrix is computed by one thread, in loops of the compiled program. A matrix that is singular or not positive
definite is not refused: results are NaN or infinite then, as the functions say.
"""

from typing import TYPE_CHECKING

from adjoint.missing import missing_name
from adjoint.tensor.arithmetic import matmul
from adjoint.tensor.arranging import cross
from adjoint.tensor.diagonals import diagonal
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


if not TYPE_CHECKING:  # so that type checkers report names that do not exist

    def __getattr__(name):
        """Say what to use instead of a name of PyTorch that is not here."""
        raise missing_name(__name__, name, __all__)
