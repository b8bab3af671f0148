"""Linear algebra of small matrices, in batches: Cholesky factors, linear systems and determinants.

`adjoint.ops.linalg` has the functions. Each matrix is computed by one thread in its own memory. Nothing is raised for a
matrix that has no factor or no inverse: results are NaN or infinite then, as each operator documents.
"""

from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType
from adjoint.ir.value import Op, Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add, multiply, negative
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.contract import matmul
from adjoint.ops.convert import cast
from adjoint.ops.create import iota
from adjoint.ops.logic import equal, greater, greater_equal, where
from adjoint.ops.rules import operands, refused, require, rounded
from adjoint.ops.sampling import spread
from adjoint.ops.shape import broadcast_to, reshape
from adjoint.ops.vectorizing import all_mapped
from adjoint.ops.views import swapaxes

__all__ = [
    "Cholesky",
    "Determinant",
    "Solve",
    "SolveTriangular",
    "eye_like",
    "lower_triangle",
    "matrices",
    "require_square",
]


def require_square(op: Op, x: TensorType) -> None:
    """Refuse an operand that is not of square matrices of floats."""
    require(op, (x,), "float", "cast to a float such as f32 first")
    if x.rank < 2 or x.shape[-1] != x.shape[-2]:
        raise TypeRuleError(f"{op.name}: matrices must be square, got {x}; reshape it to [..., n, n]")


def _right_sides(op: Op, a: TensorType, b: TensorType) -> TensorType:
    """The type of right sides, checked against that of the matrices."""
    require_square(op, a)
    if b.dtype != a.dtype or b.rank != a.rank or b.shape[:-1] != a.shape[:-1]:
        raise TypeRuleError(
            f"{op.name}: right sides must be columns [..., n, k] beside matrices [..., n, n] of one dtype, got {b} for "
            f"{a}; reshape, broadcast or cast one"
        )
    return b


def matrices(row: Index, *given: Operand) -> list[Any]:
    """The last two axes of operands, for `Builder.row_algorithm`."""
    return [(o.type.shape[-2:], lambda i, o=o: o((*row, *i))) for o in given]


def lower_triangle(x: Value, strict: bool = False) -> Value:
    """The elements on and below the diagonals of matrices, or only those below; 0 elsewhere."""
    row, column = (iota(x.shape, len(x.shape) - axis) for axis in (2, 1))
    return where(greater(row, column) if strict else greater_equal(row, column), x, 0.0)


def eye_like(x: Value) -> Value:
    """Identity matrices of the type of `x`."""
    row, column = (iota(x.shape, len(x.shape) - axis) for axis in (2, 1))
    return cast(equal(row, column), x.dtype)


def _well_posed(*shape: int, dtype: str = "f64") -> np.ndarray:
    """Sample matrices that are far from singular."""
    return np.asarray(spread(*shape, dtype=dtype) + 2.5 * np.eye(shape[-1]), spread(1, dtype=dtype).dtype)


def _eliminated(x: np.ndarray) -> tuple[np.ndarray, int]:
    """A matrix after Gaussian elimination with partial pivoting in NumPy, and the sign of its exchanges of rows."""
    rows, sign = x.copy(), 1
    for n in range(len(rows)):
        pivot = n + int(np.argmax(abs(rows[n:, n])))
        if pivot != n:
            rows[[n, pivot]], sign = rows[[pivot, n]], -sign
        if rows[n, n] != 0:
            rows[n + 1 :] -= (rows[n + 1 :, n] / rows[n, n])[:, None] * rows[n]
    return rows, sign


@dataclass(frozen=True, slots=True)
class Cholesky(Operator):
    """The lower triangular factor L of positive definite matrices ``L @ L.T``, of which the lower triangle is read.

    From the first pivot on that is not positive, the elements on and below the diagonal are NaN.
    """

    name: ClassVar[str] = "cholesky"

    def infer(self, *inputs: TensorType) -> TensorType:
        """The operand's type."""
        operands(self, inputs, 1)
        require_square(self, inputs[0])
        return inputs[0]

    def reference(self, x: np.ndarray) -> np.ndarray:
        """Row by row, with NaN for the root of what is not positive."""

        def factor(wide: np.ndarray) -> np.ndarray:
            result = np.zeros_like(wide)
            for s in range(wide.shape[-1]):
                rest = wide[..., s:, s] - (result[..., s:, :s] @ result[..., s, :s, None])[..., 0]
                pivot = rest[..., :1]
                result[..., s:, s] = rest / np.sqrt(np.where(pivot > 0, pivot, np.nan))
            return result

        return rounded(factor, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``S = inv(L).T @ P @ inv(L)``, where P is the lower triangle of ``L.T @ ct`` with half of its diagonal.

        I. Murray, "Differentiation of the Cholesky decomposition", 2016, equation 8. Elements above the diagonal are
        not read, so those below have the sum of both.
        """
        product = lower_triangle(matmul(out, lower_triangle(ct), transpose_a=True))
        halved = multiply(add(product, lower_triangle(product, strict=True)), 0.5)
        left = apply(SolveTriangular(transposed=True), out, halved)
        both = apply(SolveTriangular(transposed=True), out, swapaxes(left, -2, -1))
        total = add(both, swapaxes(both, -2, -1))
        return (multiply(add(lower_triangle(total), lower_triangle(total, strict=True)), 0.5),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """The whole matrix, described with `Builder.row_algorithm`."""
        return k.row_algorithm("cholesky", 2, matrices(index[:-2], x))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """More matrices."""
        return apply(self, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Batches, sizes 0 and 1, more rows than a vector has lanes; a matrix that is not positive definite."""

        def positive(*shape: int, dtype: str = "f64") -> np.ndarray:
            x = spread(*shape)
            return np.asarray(x @ x.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1]), spread(1, dtype=dtype).dtype)

        return [
            Sample(cls(), (positive(2, 3, 3),)),
            Sample(cls(), (positive(1, 1),)),
            Sample(cls(), (positive(37, 37, dtype="f32"),), gradient=False),
            Sample(cls(), (np.array([[4.0, 9.0, 9.0], [2.0, 0.0, 9.0], [1.0, 1.0, 5.0]]),), gradient=False),
            Sample(cls(), (spread(2, 0, 0),)),
            refused(cls(), ((3, 4), "f32"), error="cholesky: matrices must be square, got f32[3,4]; reshape it to"),
            refused(cls(), ((3, 3), "i32"), error="got i32[3,3]; cast to a float such as f32 first"),
        ]


@dataclass(frozen=True, slots=True)
class SolveTriangular(Operator):
    """X with ``A @ X = B``, for triangular matrices A, of which only that triangle is read.

    A zero on the diagonal divides by 0.

    Parameters
    ----------
    upper : bool, default False
        Whether the triangle above the diagonal is read, instead of that below.
    transposed : bool, default False
        Solve ``A.T @ X = B`` instead.
    unit : bool, default False
        Take the diagonal as ones, without reading it.
    """

    name: ClassVar[str] = "solve_triangular"
    upper: bool = False
    transposed: bool = False
    unit: bool = False

    def infer(self, *inputs: TensorType) -> TensorType:
        """The type of the right sides."""
        operands(self, inputs, 2)
        return _right_sides(self, *inputs)

    def reference(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Substitution, row by row."""

        def solved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            matrix = a.swapaxes(-1, -2) if self.transposed else a
            x, rows = np.zeros_like(b), range(a.shape[-1])
            forward = self.upper == self.transposed
            for n in rows if forward else reversed(rows):
                done = slice(0, n) if forward else slice(n + 1, None)
                rest = b[..., n, :] - (matrix[..., n, None, done] @ x[..., done, :])[..., 0, :]
                x[..., n, :] = rest if self.unit else rest / matrix[..., n, n, None]
            return x

        return rounded(solved, a, b)

    def vjp(self, ct: Value, out: Value, a: Value, b: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``inv(A).T @ ct`` for the right sides; minus its product with ``X.T`` for the triangle.

        M. Giles, "An extended collection of matrix derivative results", 2008, section 2.3.1.
        """
        of_b = apply(SolveTriangular(self.upper, not self.transposed, self.unit), a, ct)
        left, right = (out, of_b) if self.transposed else (of_b, out)
        full = negative(matmul(left, right, transpose_b=True))
        if self.upper:
            return swapaxes(lower_triangle(swapaxes(full, -2, -1), self.unit), -2, -1), of_b
        return lower_triangle(full, self.unit), of_b

    def lower(self, k: Builder, index: Index, a: Operand, b: Operand) -> Scalar:
        """The whole matrix, described with `Builder.row_algorithm`."""
        options = tuple(word for word in ("upper", "transposed", "unit") if getattr(self, word))
        return k.row_algorithm("solve_triangular", 2, matrices(index[:-2], a, b), options)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """More matrices."""
        return apply(self, *all_mapped(mapped, inputs))

    @classmethod
    def samples(cls) -> list[Sample]:
        """All triangles, batches, one column and more than a vector has lanes, no columns; a zero on the diagonal."""
        a = _well_posed(3, 3)
        flags = (False, True)
        every = [cls(*given) for given in ((u, t, unit) for u in flags for t in flags for unit in flags)]
        return [
            *(Sample(op, (a, spread(3, 2, dtype="f64")), gradient=not op.transposed) for op in every),
            Sample(cls(transposed=True), (_well_posed(2, 3, 3), spread(2, 3, 1, dtype="f64"))),
            Sample(cls(True), (_well_posed(5, 5, dtype="f32"), spread(5, 83)), gradient=False),
            Sample(cls(), (np.array([[0.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 0.0], [2.0, 3.0]])), gradient=False),
            Sample(cls(), (spread(3, 3), spread(3, 0))),
            refused(cls(), ((3, 3), "f32"), ((2, 3), "f32"), error="of one dtype, got f32[2,3] for f32[3,3]; reshape,"),
            refused(cls(), ((3, 3), "f32"), ((3, 2), "f64"), error="of one dtype, got f64[3,2] for f32[3,3]; reshape,"),
            refused(cls(), ((3,), "f32"), ((3,), "f32"), error="solve_triangular: matrices must be square, got f32[3]"),
        ]


@dataclass(frozen=True, slots=True)
class Solve(Operator):
    """X with ``A @ X = B``, by Gaussian elimination with partial pivoting.

    For a singular matrix, a division by 0 makes elements infinite or NaN.
    """

    name: ClassVar[str] = "solve"

    def infer(self, *inputs: TensorType) -> TensorType:
        """The type of the right sides."""
        operands(self, inputs, 2)
        return _right_sides(self, *inputs)

    def reference(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Elimination, then substitution from the last row on; a division by 0 gives infinities or NaN."""

        def solved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            size, x = a.shape[-1], np.zeros_like(b)
            for at in np.ndindex(a.shape[:-2]):
                matrix, _ = _eliminated(np.concatenate([a[at], b[at]], -1))
                for n in reversed(range(size)):
                    rest = matrix[n, size:] - matrix[n, n + 1 : size] @ x[at][n + 1 :]
                    x[(*at, n)] = rest / matrix[n, n]
            return x

        return rounded(solved, a, b)

    def vjp(self, ct: Value, out: Value, a: Value, b: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``inv(A).T @ ct`` for the right sides; minus its product with ``X.T`` for the matrix.

        M. Giles, "An extended collection of matrix derivative results", 2008, section 2.3.1.
        """
        of_b = apply(self, swapaxes(a, -2, -1), ct)
        return negative(matmul(of_b, out, transpose_b=True)), of_b

    def lower(self, k: Builder, index: Index, a: Operand, b: Operand) -> Scalar:
        """The whole matrix, described with `Builder.row_algorithm`."""
        return k.row_algorithm("solve", 2, matrices(index[:-2], a, b))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """More matrices."""
        return apply(self, *all_mapped(mapped, inputs))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Batches, zeros on the diagonal that need an exchange of rows, sizes 0 and 1, more rows than lanes."""
        return [
            Sample(cls(), (np.array([[0.0, 2.0, 1.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]), spread(3, 2, dtype="f64"))),
            Sample(cls(), (_well_posed(2, 2, 2), spread(2, 2, 1, dtype="f64"))),
            Sample(cls(), (_well_posed(19, 19, dtype="f32"), spread(19, 35)), gradient=False),
            Sample(cls(), (spread(1, 1), spread(1, 0))),
            Sample(cls(), (spread(2, 0, 0), spread(2, 0, 3))),
            refused(cls(), ((3, 3), "f32"), ((2, 3), "f32"), error="of one dtype, got f32[2,3] for f32[3,3]; reshape,"),
            refused(cls(), ((3, 2), "f32"), ((3, 2), "f32"), error="solve: matrices must be square, got f32[3,2]"),
        ]


@dataclass(frozen=True, slots=True)
class Determinant(Operator):
    """The determinant of matrices, the logarithm of its magnitude, or its sign, by Gaussian elimination.

    The determinant of a singular matrix is 0 up to rounding errors, with sign 0 and logarithm -inf if it is exactly 0;
    its gradient is NaN or infinite, because it is computed from the inverse.

    Parameters
    ----------
    wanted : {"value", "log_magnitude", "sign"}, default "value"
        Which of them is computed.
    """

    name: ClassVar[str] = "determinant"
    wanted: str = "value"

    def infer(self, *inputs: TensorType) -> TensorType:
        """The axes before the matrices."""
        operands(self, inputs, 1)
        if self.wanted not in ("value", "log_magnitude", "sign"):
            raise TypeRuleError(
                f"determinant: wanted must be value, log_magnitude or sign, got {self.wanted!r} for {inputs[0]}; "
                "choose one"
            )
        require_square(self, inputs[0])
        return inputs[0].with_shape(inputs[0].shape[:-2])

    def reference(self, x: np.ndarray) -> np.ndarray:
        """From the pivots of an elimination, and the sign of its exchanges of rows."""

        def found(x: np.ndarray) -> np.ndarray:
            result = np.zeros(x.shape[:-2], x.dtype)
            for at in np.ndindex(result.shape):
                matrix, sign = _eliminated(x[at])
                pivots = np.diagonal(matrix)
                logarithm = np.log(abs(pivots)).sum()
                product = sign * (pivots.prod() if self.wanted == "value" else np.sign(pivots).prod())
                result[at] = logarithm if self.wanted == "log_magnitude" else product
            return result

        return rounded(found, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """``ct * det(A) * inv(A).T``, and without the determinant for the logarithm; none for the sign.

        M. Giles, "An extended collection of matrix derivative results", 2008, section 2.2.4.
        """
        if self.wanted == "sign":
            return (None,)
        inverse = apply(Solve(), swapaxes(x, -2, -1), eye_like(x))
        scale = multiply(ct, out) if self.wanted == "value" else ct
        return (multiply(broadcast_to(reshape(scale, (*scale.shape, 1, 1)), x.shape), inverse),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """One number per matrix, described with `Builder.row_algorithm`."""
        return k.row_algorithm("determinant", 0, matrices(index, x), (self.wanted,))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """More matrices."""
        return apply(self, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Batches, exchanges of rows, sizes 0 and 1, more rows than lanes; a matrix of zeros."""
        swapped = np.array([[0.0, 2.0, 1.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
        every = [cls(word) for word in ("value", "log_magnitude", "sign")]
        return [
            *(Sample(op, (np.stack([swapped, -swapped]),)) for op in every),
            *(Sample(op, (np.zeros((2, 2)),), gradient=False) for op in every),
            Sample(cls(), (spread(1, 1),)),
            Sample(cls("log_magnitude"), (_well_posed(21, 21, dtype="f32"),), gradient=False),
            Sample(cls(), (spread(2, 0, 0),), gradient=False),
            refused(cls("rank"), ((2, 2), "f32"), error="must be value, log_magnitude or sign, got 'rank'"),
            refused(cls(), ((3, 2), "f32"), error="determinant: matrices must be square, got f32[3,2]"),
        ]
