"""The batched matrix product, with either operand optionally transposed."""

from math import prod
from typing import ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.build import as_operand
from adjoint.ops.rules import operands, refused, require, rounded
from adjoint.ops.sampling import spread
from adjoint.ops.shape import broadcast_to, reshape, squeeze
from adjoint.ops.vectorizing import all_mapped

__all__ = ["MatMul", "flattened", "matmul"]


@dataclass(frozen=True, slots=True)
class MatMul(Operator):
    """``result[..., m, n] = sum over k of a[..., m, k] * b[..., k, n]``.

    Operands have rank 2 or more and equal leading (batch) axes. 16-bit floats are multiplied and added in f32 and
    rounded once; integers wrap around.

    Parameters
    ----------
    transpose_a : bool, default False
        The first operand is stored with its last two axes swapped, ``a[..., k, m]``.
    transpose_b : bool, default False
        The second operand is stored with its last two axes swapped, ``b[..., n, k]``.
    """

    name: ClassVar[str] = "matmul"
    flops: ClassVar[float] = 2.0
    transpose_a: bool = False
    transpose_b: bool = False

    def infer(self, *inputs: TensorType) -> TensorType:
        """Batch axes, rows of the first operand, columns of the second."""
        operands(self, inputs, 2)
        require(self, inputs, "float integer unsigned", "cast it to i32 first")
        a, b = inputs
        if a.dtype != b.dtype:
            raise TypeRuleError(f"matmul: operands must have the same dtype, got {a} and {b}; cast one of them")
        if a.rank < 2 or b.rank < 2:
            raise TypeRuleError(
                f"matmul: operands must have rank 2 or more, got {a} and {b}; use ops.matmul, which also accepts "
                "vectors"
            )
        if a.shape[:-2] != b.shape[:-2]:
            raise TypeRuleError(
                f"matmul: batch dimensions must be equal, got {a} and {b}; use ops.matmul, which broadcasts them"
            )
        (m, inner_a), (inner_b, n) = _matrix(a, self.transpose_a), _matrix(b, self.transpose_b)
        if inner_a != inner_b:
            raise TypeRuleError(_inner_differ(a, b, self.transpose_a, self.transpose_b))
        return a.with_shape((*a.shape[:-2], m, n))

    def reference(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """`numpy.matmul`."""
        left = np.swapaxes(a, -1, -2) if self.transpose_a else a
        right = np.swapaxes(b, -1, -2) if self.transpose_b else b
        return rounded(np.matmul, left, right)

    def vjp(self, ct: Value, out: Value, a: Value, b: Value) -> tuple[Value | None, ...]:
        """A matrix product for each, with other flags, so nothing is transposed in memory. None for integers."""
        if not is_float(out.dtype):
            return None, None
        ta, tb = self.transpose_a, self.transpose_b
        grad_a = apply(MatMul(tb, True), b, ct) if ta else apply(MatMul(False, not tb), ct, b)
        grad_b = apply(MatMul(True, ta), ct, a) if tb else apply(MatMul(not ta, False), a, ct)
        return grad_a, grad_b

    def lower(self, k: Builder, index: Index, a: Operand, b: Operand) -> Scalar:
        """A sum of products over the inner axis."""
        *batch, m, n = index
        inner = a.type.shape[-2 if self.transpose_a else -1]

        def product(r: Index) -> Scalar:
            left = (*batch, r[0], m) if self.transpose_a else (*batch, m, r[0])
            right = (*batch, n, r[0]) if self.transpose_b else (*batch, r[0], n)
            return k.call("mul", a(left), b(right))

        return k.reduce("add", (inner,), product)

    def neutral(self, *inputs: Value) -> tuple[Value | float | None, ...]:  # noqa: ARG002
        """0 in either operand."""
        return 0, 0

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """One product of more rows where merging axes moves no element, otherwise a batch of products."""
        a, b = inputs
        (m, inner), (_, n) = _matrix(a.type, self.transpose_a), _matrix(b.type, self.transpose_b)
        if not mapped[1] and len(b.shape) == 2 and (not self.transpose_a or 1 in (m, inner)):
            rows = reshape(a, (a.shape[0] * m, inner))
            return reshape(apply(MatMul(False, self.transpose_b), rows, b), (a.shape[0], m, n))
        if not mapped[0] and len(a.shape) == 2 and (self.transpose_b or 1 in (inner, n)) and 1 in (m, n):
            # The product of the transposes: the columns of `b` are its rows, and a row or column needs no transposing.
            rows = reshape(b, (b.shape[0] * n, inner))
            return reshape(apply(MatMul(False, not self.transpose_a), rows, a), (b.shape[0], m, n))
        return apply(self, *all_mapped(mapped, inputs))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Every combination of flags with no, one and two batch axes; sizes 0 and 1; integers."""
        flags = [(False, False), (False, True), (True, False), (True, True)]
        good = [
            Sample(cls(ta, tb), _pair(batch, *sizes, ta=ta, tb=tb))
            for ta, tb in flags
            for batch, sizes in (((), (3, 4, 5)), ((2,), (3, 2, 4)), ((2, 3), (2, 4, 1)))
        ]
        vector = np.array([[2, -3], [4, 1]], np.int32)
        return [
            *good,
            *(Sample(cls(ta, tb), _pair((), 3, 7, 2, ta=ta, tb=tb, dtype="f64")) for ta, tb in flags),
            Sample(cls(), _pair((), 1, 6, 1)),
            Sample(cls(), _pair((), 4, 1, 3)),
            Sample(cls(), _pair((), 2, 0, 3)),
            Sample(cls(), _pair((0,), 2, 3, 2)),
            Sample(cls(), _pair((), 0, 3, 2)),
            Sample(cls(), _pair((), 3, 8, 2, dtype="bf16"), gradient=False),
            Sample(cls(False, True), (vector, vector)),
            *cls._bad(),
        ]

    @classmethod
    def _bad(cls) -> list[Sample]:
        def bad(op: MatMul, a: tuple[int, ...], b: tuple[int, ...], error: str) -> Sample:
            return refused(op, (a, "f32"), (b, "f32"), error=error)

        differ = "matmul: inner dimensions differ, "
        return [
            bad(cls(), (64, 784), (10, 784), differ + "f32[64,784] @ f32[10,784]; transpose the second operand?"),
            bad(cls(False, True), (4, 3), (3, 5), differ + "f32[4,3] @ f32[3,5].T; leave the second operand as it is?"),
            bad(cls(), (3, 4), (3, 5), differ + "f32[3,4] @ f32[3,5]; transpose the first operand?"),
            bad(cls(), (3, 4), (5, 3), differ + "f32[3,4] @ f32[5,3]; transpose both operands, or exchange them?"),
            bad(cls(), (64, 784), (128, 10), "f32[64,784] @ f32[128,10]; change 784 or 128 to match the other"),
            bad(cls(), (3,), (3, 2), "rank 2 or more, got f32[3] and f32[3,2]"),
            bad(cls(), (2, 3, 4), (4, 5), "batch dimensions must be equal, got f32[2,3,4] and f32[4,5]"),
            refused(
                cls(),
                ((2, 3), "f32"),
                ((3, 2), "f64"),
                error="matmul: operands must have the same dtype",
            ),
            refused(cls(), ((2, 2), "bool"), ((2, 2), "bool"), error="got bool[2,2]; cast it to i32 first"),
        ]


def _pair(
    batch: tuple[int, ...], m: int, inner: int, n: int, ta: bool = False, tb: bool = False, dtype: str = "f32"
) -> tuple[np.ndarray, np.ndarray]:
    a = (*batch, inner, m) if ta else (*batch, m, inner)
    b = (*batch, n, inner) if tb else (*batch, inner, n)
    return spread(*a, dtype=dtype), spread(*b, dtype=dtype, low=-1.3, high=1.7)


def _matrix(x: TensorType, transposed: bool) -> tuple[int, int]:
    rows, columns = x.shape[-2:]
    return (columns, rows) if transposed else (rows, columns)


def _inner_differ(a: TensorType, b: TensorType, ta: bool, tb: bool) -> str:
    """The error for different inner dimensions, with the change that would make them equal if there is one."""

    def fits(flip_a: bool, flip_b: bool) -> bool:
        return _matrix(a, ta != flip_a)[1] == _matrix(b, tb != flip_b)[0]

    flat = None if ta else flattened(a.shape, _matrix(b, tb)[0])
    if flat:
        fix = f"x.flatten({len(flat) - 1}) makes {a.with_shape(flat)} of the first operand"
    elif fits(False, True):
        fix = "leave the second operand as it is?" if tb else "transpose the second operand?"
    elif fits(True, False):
        fix = "leave the first operand as it is?" if ta else "transpose the first operand?"
    elif fits(True, True):
        fix = "transpose both operands, or exchange them?"
        if ta != tb:
            fix = f"transpose the {'second' if ta else 'first'} operand instead?"
    else:
        fix = f"change {_matrix(a, ta)[1]} or {_matrix(b, tb)[0]} to match the other"
    return f"matmul: inner dimensions differ, {a}{'.T' * ta} @ {b}{'.T' * tb}; {fix}"


def flattened(shape: tuple[int, ...], size: int) -> tuple[int, ...] | None:
    """The shape with its last axes joined into one of that size, as before a linear layer; None if that is not so."""
    for axis in range(1, len(shape) - 1):
        if prod(shape[axis:]) == size:
            return (*shape[:axis], size)
    return None


def matmul(a: Value | np.ndarray, b: Value | np.ndarray, transpose_a: bool = False, transpose_b: bool = False) -> Value:
    """The matrix product, like `numpy.matmul`.

    A vector is treated as a row on the left and as a column on the right, and the result lacks that axis. Batch axes
    are broadcast. A product of a batch and one matrix, ``x[B,T,D] @ w[D,E]``, is a single product of ``x[B*T,D]``, and
    so is the gradient of ``w``.

    Parameters
    ----------
    a, b : Value or numpy.ndarray
        Rank 1 or more, one dtype. One of them may be an array, which becomes a constant of the other's dtype by the
        table of `adjoint.ops.promotion`.
    transpose_a, transpose_b : bool, default False
        Swap the last two axes of the operand, which must have rank 2 or more.

    Raises
    ------
    TypeRuleError
        If inner dimensions or dtypes differ, or batch axes do not broadcast.
    """
    a, b = as_operand("matmul", a, b), as_operand("matmul", b, a)
    _check_shapes(a, b, transpose_a, transpose_b)
    left = reshape(a, (1, *a.shape)) if len(a.shape) == 1 else a
    right = reshape(b, (*b.shape, 1)) if len(b.shape) == 1 else b
    result = _product(left, right, transpose_a, transpose_b)
    gone = [axis for axis, operand in ((-2, a), (-1, b)) if len(operand.shape) == 1]
    return squeeze(result, gone) if gone else result


def _product(a: Value, b: Value, transpose_a: bool, transpose_b: bool) -> Value:
    """The product of operands of rank 2 or more."""
    op = MatMul(transpose_a, transpose_b)
    one_matrix = prod(b.shape[:-2]) == 1 and len(b.shape) <= len(a.shape)
    if one_matrix and len(a.shape) > 2 and not transpose_a:
        flat = reshape(a, (prod(a.shape[:-1]), a.shape[-1]))
        result = apply(op, flat, reshape(b, b.shape[-2:]))
        return reshape(result, (*a.shape[:-1], result.shape[-1]))
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise TypeRuleError(
            f"matmul: batch dimensions must be equal or 1, got {a.type} and {b.type}; reshape one"
        ) from None
    return apply(op, broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(b, (*batch, *b.shape[-2:])))


def _check_shapes(a: Value, b: Value, transpose_a: bool, transpose_b: bool) -> None:
    """Check inner dimensions, vectors and scalars before reshaping, so that errors show the user's own shapes."""
    for value, transposed in ((a, transpose_a), (b, transpose_b)):
        if not value.shape:
            raise TypeRuleError(f"matmul: operands must not be scalars, got {a.type} @ {b.type}; use multiply instead")
        if transposed and len(value.shape) == 1:
            raise TypeRuleError(f"matmul: only matrices can be transposed, got {value.type}; omit the flag")
    if len(a.shape) > 1 and len(b.shape) > 1:
        if a.dtype != b.dtype:
            raise TypeRuleError(
                f"matmul: operands must have the same dtype, got {a.type} and {b.type}; cast one of them"
            )
        if _matrix(a.type, transpose_a)[1] != _matrix(b.type, transpose_b)[0]:
            raise TypeRuleError(_inner_differ(a.type, b.type, transpose_a, transpose_b))
        return
    inner_a = a.shape[-2 if transpose_a else -1]
    inner_b = b.shape[-2 if len(b.shape) > 1 and not transpose_b else -1]
    if inner_a != inner_b:
        raise TypeRuleError(
            f"matmul: inner dimensions differ, {a.type}{'.T' * transpose_a} @ {b.type}{'.T' * transpose_b}; "
            f"change {inner_a} or {inner_b} to match the other"
        )
