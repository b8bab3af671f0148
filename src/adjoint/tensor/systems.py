"""Linear systems, factorizations and determinants of small matrices: the functions of ``torch.linalg``."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Value
from adjoint.tensor.arithmetic import matmul
from adjoint.tensor.autocasting import full_precision, low_precision
from adjoint.tensor.promotion import promoted
from adjoint.tensor.record import operation

__all__ = [
    "chain_matmul",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "inv",
    "inverse",
    "logdet",
    "matrix_power",
    "multi_dot",
    "slogdet",
    "solve",
    "solve_triangular",
    "triangular_solve",
]


class SignLog(NamedTuple):
    """The sign of a determinant, and the logarithm of its magnitude."""

    sign: Any
    logabsdet: Any


class Triangular(NamedTuple):
    """The solution of a triangular system, and its matrix."""

    solution: Any
    cloned_coefficient: Any


@full_precision
@operation
def cholesky(input: Value, upper: bool = False) -> Value:
    """The lower triangular factor L of symmetric positive definite matrices ``L @ L.mT``.

    The symmetric part of the matrices is factored. Unlike in PyTorch, a matrix that is not positive definite is not
    refused: from the first pivot on that is not positive, the elements of the triangle are NaN.

    Parameters
    ----------
    input : Tensor
        Floats ``[..., n, n]``.
    upper : bool, default False
        Return the transpose of L.
    """
    return ops.cholesky(input, upper)


@operation
def cholesky_solve(B: Value, L: Value, upper: bool = False) -> Value:
    """X with ``L @ L.mT @ X = B``, for right sides ``[..., n, k]`` and the factor of `cholesky`."""
    right, factor = promoted(B, L)
    return ops.cholesky_solve(right, factor, upper)


@operation
def cholesky_inverse(L: Value, upper: bool = False) -> Value:
    """The inverse of ``L @ L.mT``, for the factor of `cholesky`."""
    if len(L.shape) < 2 or L.shape[-1] != L.shape[-2]:
        raise TypeRuleError(f"cholesky_inverse: matrices must be square, got {L.type}; pass a factor of cholesky")
    ones = ops.broadcast_to(ops.eye(L.shape[-1], dtype=L.dtype), L.shape)
    return ops.cholesky_solve(ones, L, upper)


@full_precision
@operation
def solve_triangular(A: Value, B: Value, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Value:
    """X with ``A @ X = B``, for triangular matrices, of which the other triangle is not read.

    Parameters
    ----------
    A : Tensor
        Floats ``[..., n, n]``.
    B : Tensor
        ``[..., n, k]``; axes in front broadcast.
    upper : bool
        Whether the triangle above the diagonal is read, or that below.
    left : bool, default True
        False: ``X @ A = B`` for B ``[..., k, n]``.
    unitriangular : bool, default False
        Take the diagonal as ones, without reading it.
    """
    a, b = promoted(A, B)
    if left:
        return ops.solve_triangular(a, b, upper, False, unitriangular)
    return ops.solve_triangular(a, b.mT, upper, True, unitriangular).mT


def triangular_solve(
    b: Any,
    A: Any,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Triangular:
    """X with ``A @ X = b`` or ``A.mT @ X = b``, for triangular matrices, with a copy of A; see `solve_triangular`."""
    return Triangular(_triangular(b, A, upper, transpose, unitriangular), A)


@operation
def _triangular(b: Value, a: Value, upper: bool, transposed: bool, unit: bool) -> Value:
    first, second = promoted(a, b)
    return ops.solve_triangular(first, second, upper, transposed, unit)


@full_precision
@operation
def solve(A: Value, B: Value, *, left: bool = True) -> Value:
    """X with ``A @ X = B``, by Gaussian elimination with partial pivoting.

    Unlike in PyTorch, a singular matrix is not refused: elements of the result are infinite or NaN then.

    Parameters
    ----------
    A : Tensor
        Floats ``[..., n, n]``.
    B : Tensor
        ``[..., n, k]``, where axes in front broadcast, or one vector per matrix ``[..., n]``.
    left : bool, default True
        False: ``X @ A = B``.
    """
    a, b = promoted(A, B)
    if left:
        return ops.solve(a, b)
    return ops.solve(a.mT, b) if len(b.shape) == 1 or b.shape == a.shape[:-1] else ops.solve(a.mT, b.mT).mT


@full_precision
@operation
def inv(A: Value) -> Value:
    """The inverses of matrices ``[..., n, n]``; infinite or NaN if a matrix is singular."""
    return ops.inv(A)


@operation
def det(A: Value) -> Value:
    """The determinants of matrices ``[..., n, n]``; at a singular matrix, the gradient is infinite or NaN."""
    return ops.det(A)


_sign_and_log = operation(ops.slogdet)


def slogdet(A: Any) -> SignLog:
    """The signs of determinants and the logarithms of their magnitudes: 0 and -inf if a determinant is 0."""
    return SignLog(*_sign_and_log(A))


@operation
def logdet(input: Value) -> Value:
    """The logarithms of determinants: NaN if a determinant is negative, -inf if it is 0."""
    return ops.logdet(input)


@low_precision
@operation
def matrix_power(input: Value, n: int) -> Value:
    """Matrices multiplied with themselves, by repeated squaring; negative powers are those of the inverse."""
    if len(input.shape) < 2 or input.shape[-1] != input.shape[-2]:
        raise TypeRuleError(f"matrix_power: matrices must be square, got {input.type}; reshape it to [..., n, n]")
    if n == 0:
        return ops.broadcast_to(ops.eye(input.shape[-1], dtype=input.dtype), input.shape)
    square, power, left = (ops.inv(input) if n < 0 else input), None, abs(n)
    while left:
        if left % 2:
            power = square if power is None else ops.matmul(power, square)
        left //= 2
        square = ops.matmul(square, square) if left else square
    assert power is not None
    return power


def multi_dot(tensors: Sequence[Any]) -> Any:
    """The product of several matrices, in the order of multiplications that takes the fewest of them.

    The first and the last may be vectors. T. Cormen et al., "Introduction to Algorithms", 2009, section 15.2.
    """
    given = list(tensors)
    if len(given) < 2:
        raise InvalidValueError(f"multi_dot: at least two matrices are required, got {len(given)}; pass more")
    inner = [len(x.shape) == 2 or (len(x.shape) == 1 and n in (0, len(given) - 1)) for n, x in enumerate(given)]
    if not all(inner):
        raise TypeRuleError(
            f"multi_dot: operands must be matrices, the first and the last may be vectors, got shapes "
            f"{', '.join(str(tuple(x.shape)) for x in given)}; use matmul"
        )
    rows = [1 if n == 0 and len(x.shape) == 1 else x.shape[0] for n, x in enumerate(given)]
    sizes = [*rows, 1 if len(given[-1].shape) == 1 else given[-1].shape[1]]
    return _product(given, _splits(sizes), 0, len(given) - 1)


def _splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """For each run of factors, the last factor of its left part; factor n has the sizes n and n + 1."""
    count = len(sizes) - 1
    cost = {(n, n): 0 for n in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            found = (
                (cost[first, n] + cost[n + 1, last] + sizes[first] * sizes[n + 1] * sizes[last + 1], n)
                for n in range(first, last)
            )
            cost[first, last], split[first, last] = min(found)
    return split


def _product(given: Sequence[Any], split: dict[tuple[int, int], int], first: int, last: int) -> Any:
    if first == last:
        return given[first]
    middle = split[first, last]
    return matmul(_product(given, split, first, middle), _product(given, split, middle + 1, last))


def chain_matmul(*matrices: Any) -> Any:
    """The product of matrices, in the order of multiplications that takes the fewest of them; see `multi_dot`."""
    given = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], list | tuple) else matrices
    return given[0] if len(given) == 1 else multi_dot(given)


inverse = inv
