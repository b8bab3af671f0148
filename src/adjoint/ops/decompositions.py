"""Decompositions of small matrices, in batches: QR, eigenvalues of symmetric matrices, and singular values.

`adjoint.ops.linalg` has the functions. Each matrix is computed by one thread in its own memory, by a fixed number of
operations. An operator has one result, in which the parts of a decomposition are below each other.
"""

from typing import ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType
from adjoint.ir.value import Op, Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add, divide, multiply, subtract
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.contract import matmul
from adjoint.ops.factorizations import SolveTriangular, lower_triangle, matrices, require_square
from adjoint.ops.logic import equal, where
from adjoint.ops.rules import operands, refused, require, rounded
from adjoint.ops.sampling import spread
from adjoint.ops.shape import slice_axis
from adjoint.ops.views import expand_dims, swapaxes

__all__ = ["SWEEPS", "OrthonormalFactor", "SingularValues", "SymmetricEigen"]

#: How often each pair of rows is rotated. Convergence is quadratic; matrices of 100 rows need 8 sweeps in f64.
SWEEPS = 12


def _tall(op: Op, x: TensorType) -> None:
    require(op, (x,), "float", "cast to a float such as f32 first")
    if x.rank < 2 or x.shape[-2] < x.shape[-1]:
        raise TypeRuleError(
            f"{op.name}: matrices must have at least as many rows as columns, got {x}; transpose or reshape it"
        )


def _rotation(low: float, high: float, between: float) -> tuple[float, float]:
    """The cosine and the sine of the rotation by which a symmetric matrix of two rows becomes diagonal."""
    if between == 0:
        return 1.0, 0.0
    ratio = (high - low) / (2 * between)
    tangent = (-1 if ratio < 0 else 1) / (abs(ratio) + np.sqrt(ratio**2 + 1))
    cosine = 1 / np.sqrt(tangent**2 + 1)
    return cosine, tangent * cosine


def _rotate(rows: np.ndarray, p: int, q: int, cosine: float, sine: float) -> None:
    first, second = cosine * rows[p] - sine * rows[q], sine * rows[p] + cosine * rows[q]
    rows[p], rows[q] = first, second


def _pairs(size: int) -> list[tuple[int, int]]:
    """The pairs of rows of all sweeps, in order."""
    return [(p, q) for _ in range(SWEEPS) for p in range(size) for q in range(size - 1, p, -1)]


def _row(x: Value, at: int) -> Value:
    """A row of each matrix, without its axis."""
    rows = slice_axis(x, len(x.shape) - 2, at, at + 1)
    return rows.reshape((*x.shape[:-2], x.shape[-1]))


def _rows(x: Value, start: int, stop: int) -> Value:
    return slice_axis(x, len(x.shape) - 2, start, stop)


def _off_diagonal(products: Value, values: Value) -> Value:
    """Products of vectors divided by differences of values ``values[j] - values[i]``, and 0 where those are 0."""
    differences = subtract(expand_dims(values, -2), expand_dims(values, -1))
    same = equal(differences, 0.0)
    return where(same, 0.0, divide(products, where(same, 1.0, differences)))


@dataclass(frozen=True, slots=True)
class OrthonormalFactor(Operator):
    """The factor Q of the QR decomposition of matrices ``[m, n]`` with m >= n: Q has the shape of the matrix.

    Signs are those of LAPACK's Householder reflections. The gradient is infinite or NaN for columns that are linearly
    dependent.
    """

    name: ClassVar[str] = "orthonormal_factor"

    def infer(self, *inputs: TensorType) -> TensorType:
        """The operand's type."""
        operands(self, inputs, 1)
        _tall(self, inputs[0])
        return inputs[0]

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The product of the reflections that make the matrix triangular."""

        def reflected(x: np.ndarray) -> np.ndarray:
            found = np.zeros_like(x)
            for at in np.ndindex(x.shape[:-2]):
                matrix, reflections = x[at].copy(), []
                for n in range(x.shape[-1]):
                    v = matrix[:, n].copy()
                    v[:n] = 0
                    if np.any(v[n + 1 :]):
                        v[n] += (1 if v[n] >= 0 else -1) * np.sqrt((v**2).sum())
                        reflections.append(v / np.sqrt((v**2).sum()))
                        matrix -= 2 * np.outer(reflections[-1], reflections[-1] @ matrix)
                factor = np.eye(*matrix.shape, dtype=x.dtype)
                for v in reversed(reflections):
                    factor -= 2 * np.outer(v, v @ factor)
                found[at] = factor
            return found

        return rounded(reflected, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """``(Q @ L + (I - Q @ Q.T) @ ct) @ inv(R).T``; L is the strictly lower triangle of ``W - W.T``, W ``Q.T @ ct``.

        S. Walter, L. Lehmann, "Algorithmic differentiation of linear algebra functions", 2010, section 3.
        """
        factor = matmul(out, x, transpose_a=True)
        products = matmul(out, ct, transpose_a=True)
        skew = lower_triangle(subtract(products, swapaxes(products, -2, -1)), strict=True)
        total = add(ct, matmul(out, subtract(skew, products)))
        return (swapaxes(apply(SolveTriangular(upper=True), factor, swapaxes(total, -2, -1)), -2, -1),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """The whole matrix, described with `Builder.row_algorithm`."""
        return k.row_algorithm("qr", 2, matrices(index[:-2], x))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """More matrices."""
        return apply(self, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Batches, square and tall matrices, sizes 0 and 1, more columns than a vector has lanes; a zero column."""
        return [
            Sample(cls(), (spread(2, 4, 3, dtype="f64") + np.eye(4, 3),)),
            Sample(cls(), (spread(2, 2, dtype="f64") + np.eye(2),)),
            Sample(cls(), (np.asarray(spread(21, 19) + 3 * np.eye(21, 19), np.float32),), gradient=False),
            Sample(cls(), (np.array([[2.0, 0.0], [0.0, 0.0], [0.0, -1.0]]),), gradient=False),
            Sample(cls(), (spread(3, 0),)),
            refused(cls(), ((3, 4), "f32"), error="at least as many rows as columns, got f32[3,4]; transpose or"),
            refused(cls(), ((3, 3), "i32"), error="got i32[3,3]; cast to a float such as f32 first"),
        ]


@dataclass(frozen=True, slots=True)
class SymmetricEigen(Operator):
    """The eigenvalues of symmetric matrices ``[n, n]``, in ascending order, above the eigenvectors, as columns.

    The symmetric part of the matrix is decomposed, by `SWEEPS` sweeps of Jacobi rotations. The signs of vectors are
    arbitrary. Pairs of vectors of equal values contribute 0 to the gradient, where PyTorch's is infinite.
    """

    name: ClassVar[str] = "symmetric_eigen"

    def infer(self, *inputs: TensorType) -> TensorType:
        """One more row than the operand has."""
        operands(self, inputs, 1)
        require_square(self, inputs[0])
        *lead, rows, columns = inputs[0].shape
        return inputs[0].with_shape((*lead, rows + 1, columns))

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The same rotations."""

        def decomposed(x: np.ndarray) -> np.ndarray:
            size, found = x.shape[-1], np.zeros((*x.shape[:-2], x.shape[-1] + 1, x.shape[-1]), x.dtype)
            for at in np.ndindex(x.shape[:-2]):
                matrix, vectors = (x[at] + x[at].T) / 2, np.eye(size, dtype=x.dtype)
                for p, q in _pairs(size):
                    angle = _rotation(matrix[p, p], matrix[q, q], matrix[p, q])
                    for rows in (matrix, vectors, matrix.T):
                        _rotate(rows, p, q, *angle)
                values = np.diagonal(matrix)
                order = np.argsort(values, kind="stable")
                found[at] = np.concatenate([values[order][None], vectors[order].T])
            return found

        return rounded(decomposed, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``V @ (diag(ct_values) + W / (l_j - l_i)) @ V.T``, made symmetric, where W is ``V.T @ ct_vectors``.

        M. Giles, "An extended collection of matrix derivative results", 2008, section 2.2.5.
        """
        size = out.shape[-1]
        values, vectors = _row(out, 0), _rows(out, 1, size + 1)
        inner = _off_diagonal(matmul(vectors, _rows(ct, 1, size + 1), transpose_a=True), values)
        left = add(multiply(vectors, expand_dims(_row(ct, 0), -2)), matmul(vectors, inner))
        total = matmul(left, vectors, transpose_b=True)
        return (multiply(add(total, swapaxes(total, -2, -1)), 0.5),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """The whole matrix, described with `Builder.row_algorithm`."""
        return k.row_algorithm("symmetric_eigen", 2, matrices(index[:-2], x))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """More matrices."""
        return apply(self, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Batches, sizes 0 and 1, more rows than a vector has lanes; a diagonal matrix with equal values."""
        return [
            Sample(cls(), (spread(2, 3, 3, dtype="f64") + np.diag([1.0, 4.0, 2.0]),)),
            Sample(cls(), (spread(1, 1),)),
            Sample(cls(), (spread(9, 9, dtype="f64") + np.diag(np.arange(9)),), gradient=False),
            Sample(cls(), (np.diag([2.0, 1.0, 1.0]),), gradient=False),
            Sample(cls(), (spread(2, 0, 0),)),
            refused(cls(), ((3, 4), "f32"), error="matrices must be square, got f32[3,4]; reshape it to [..., n, n]"),
        ]


@dataclass(frozen=True, slots=True)
class SingularValues(Operator):
    """The singular value decomposition ``U @ diag(s) @ V.T`` of matrices ``[m, n]`` with m >= n.

    U ``[m, n]``, then a row of the values in descending order, then V ``[n, n]``, by `SWEEPS` sweeps of one-sided
    Jacobi rotations. The signs of vectors are arbitrary; a left vector of a value of exactly 0 is zeros. Vectors
    of equal values, or of the value 0, contribute 0 to the gradient, where PyTorch's is infinite.
    """

    name: ClassVar[str] = "singular_values"

    def infer(self, *inputs: TensorType) -> TensorType:
        """The three parts below each other."""
        operands(self, inputs, 1)
        _tall(self, inputs[0])
        *lead, rows, columns = inputs[0].shape
        return inputs[0].with_shape((*lead, rows + 1 + columns, columns))

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The same rotations."""

        def decomposed(x: np.ndarray) -> np.ndarray:
            *lead, rows, size = x.shape
            found = np.zeros((*lead, rows + 1 + size, size), x.dtype)
            for at in np.ndindex(*lead):
                matrix, vectors = x[at].T.copy(), np.eye(size, dtype=x.dtype)
                for p, q in _pairs(size):
                    one, other = matrix[p], matrix[q]
                    angle = _rotation(one @ one, other @ other, one @ other)
                    for each in (matrix, vectors):
                        _rotate(each, p, q, *angle)
                values = np.sqrt((matrix**2).sum(1))
                order = np.argsort(-values, kind="stable")
                unit = matrix / np.where(values == 0, 1.0, values)[:, None]
                found[at] = np.concatenate([unit[order].T, values[order][None], vectors[order].T])
            return found

        return rounded(decomposed, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """The gradient of a decomposition with m >= n.

        J. Townsend, "Differentiating the singular value decomposition", 2016, equations 16 and 34.
        """
        rows, size = x.shape[-2:]
        parts, cts = ((_rows(v, 0, rows), _row(v, rows), _rows(v, rows + 1, rows + 1 + size)) for v in (out, ct))
        (u, values, v), (of_u, of_values, of_v) = parts, cts
        squares = multiply(values, values)
        row, column = expand_dims(values, -2), expand_dims(values, -1)

        def skew(vectors: Value, gradient: Value) -> Value:
            products = matmul(vectors, gradient, transpose_a=True)
            return _off_diagonal(subtract(products, swapaxes(products, -2, -1)), squares)

        def outside(vectors: Value, gradient: Value) -> Value:
            """The part of a gradient that is orthogonal to the vectors, divided by the values; 0 where those are 0."""
            rest = subtract(gradient, matmul(vectors, matmul(vectors, gradient, transpose_a=True)))
            none = equal(row, 0.0)
            return where(none, 0.0, divide(rest, where(none, 1.0, row)))

        inner = add(multiply(skew(u, of_u), row), multiply(column, skew(v, of_v)))
        left = add(matmul(u, inner), multiply(u, expand_dims(of_values, -2)))
        if rows > size:
            left = add(left, outside(u, of_u))
        return (matmul(left, v, transpose_b=True),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """The whole matrix, described with `Builder.row_algorithm`."""
        return k.row_algorithm("singular_values", 2, matrices(index[:-2], x))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """More matrices."""
        return apply(self, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Batches, square and tall matrices, sizes 0 and 1, more columns than a vector has lanes; a zero column."""
        return [
            Sample(cls(), (spread(2, 3, 2, dtype="f64") + np.eye(3, 2) * [3.0, 1.0],)),
            Sample(cls(), (spread(2, 2, dtype="f64") + np.diag([3.0, 1.0]),)),
            Sample(cls(), (spread(10, 9, dtype="f64") + np.eye(10, 9) * np.arange(9),), gradient=False),
            Sample(cls(), (np.array([[2.0, 0.0], [0.0, 0.0], [1.0, 0.0]]),), gradient=False),
            Sample(cls(), (spread(3, 0),)),
            refused(cls(), ((3, 4), "f32"), error="at least as many rows as columns, got f32[3,4]; transpose or"),
        ]
