"""Products of vectors, matrices and batches of them, and `einsum`."""

from collections.abc import Sequence
from math import prod
from typing import Any

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import Value, is_float
from adjoint.tensor.arithmetic import plus, times
from adjoint.tensor.autocasting import full_precision, low_precision
from adjoint.tensor.promotion import promoted
from adjoint.tensor.record import operation

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "dot",
    "einsum",
    "ger",
    "inner",
    "mm",
    "mv",
    "outer",
    "tensordot",
    "trace",
    "vdot",
]


def _require_ranks(name: str, *operands: tuple[Value, int]) -> None:
    for value, rank in operands:
        if len(value.shape) != rank:
            words = {1: "a vector", 2: "a matrix", 3: "a batch of matrices"}[rank]
            raise TypeRuleError(f"{name}: the operand must be {words}, got {value.type}; use matmul for other shapes")


@low_precision
@operation
def mm(input: Value, mat2: Value) -> Value:
    """The product of two matrices."""
    _require_ranks("mm", (input, 2), (mat2, 2))
    return ops.matmul(input, mat2)


@low_precision
@operation
def bmm(input: Value, mat2: Value) -> Value:
    """The products of two batches of matrices, of shapes ``[b, n, m]`` and ``[b, m, p]``."""
    _require_ranks("bmm", (input, 3), (mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise TypeRuleError(f"bmm: batches must have the same size, got {input.type} and {mat2.type}; use matmul")
    return ops.matmul(input, mat2)


@operation
def mv(input: Value, vec: Value) -> Value:
    """The product of a matrix and a vector."""
    _require_ranks("mv", (input, 2), (vec, 1))
    return ops.matmul(input, vec)


@operation
def dot(input: Value, tensor: Value) -> Value:
    """The inner product of two vectors."""
    _require_ranks("dot", (input, 1), (tensor, 1))
    return ops.matmul(input, tensor)


@operation
def outer(input: Value, vec2: Value) -> Value:
    """All products of an element of one vector and one of another: a matrix."""
    _require_ranks("outer", (input, 1), (vec2, 1))
    return times(ops.expand_dims(input, 1), vec2)  # type: ignore[no-any-return]


ger = outer


@low_precision
@operation
def inner(input: Value, other: Value) -> Value:
    """The inner products along the last axes of two tensors."""
    if not input.shape or not other.shape:
        return times(input, other)  # type: ignore[no-any-return]
    left, right = (ops.reshape(x, (prod(x.shape[:-1]), x.shape[-1])) for x in (input, other))
    return ops.reshape(ops.matmul(left, right, transpose_b=True), (*input.shape[:-1], *other.shape[:-1]))


def _scaled(x: Value, factor: float) -> Value:
    """Times a factor, which for integers is one too, rounded towards zero, and for bools is false if it is 0."""
    if not is_float(x.dtype):
        factor = bool(factor) if x.dtype.kind == "b" else int(factor)
    return x if factor == 1 else times(x, factor)


def _plus(input: Value, product: Value, beta: float, alpha: float) -> Value:
    scaled = _scaled(product, alpha)
    return scaled if beta == 0 else plus(_scaled(input, beta), scaled)


@low_precision
@operation
def addmm(input: Value, mat1: Value, mat2: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    """``beta * input + alpha * mat1 @ mat2``, for matrices; `input` broadcasts."""
    _require_ranks("addmm", (mat1, 2), (mat2, 2))
    return _plus(input, ops.matmul(mat1, mat2), beta, alpha)


@operation
def addmv(input: Value, mat: Value, vec: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    """``beta * input + alpha * mat @ vec``, for a matrix and a vector."""
    _require_ranks("addmv", (mat, 2), (vec, 1))
    return _plus(input, ops.matmul(mat, vec), beta, alpha)


@low_precision
@operation
def baddbmm(input: Value, batch1: Value, batch2: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    """``beta * input + alpha * batch1 @ batch2``, for batches of matrices; `input` broadcasts."""
    _require_ranks("baddbmm", (batch1, 3), (batch2, 3))
    return _plus(input, ops.matmul(batch1, batch2), beta, alpha)


@full_precision
@operation
def trace(input: Value) -> Value:
    """The sum of the diagonal of a matrix."""
    _require_ranks("trace", (input, 2))
    return ops.sum(ops.diagonal(input))


@low_precision
@operation
def tensordot(a: Value, b: Value, dims: int | Sequence[Any] = 2) -> Value:
    """The sum of products over several axes of two tensors.

    Parameters
    ----------
    a, b : Tensor
        The operands.
    dims : int or pair of sequences of int, default 2
        The number of last axes of `a` and first axes of `b`, or the axes of each.
    """
    if isinstance(dims, int):
        of_a, of_b = list(range(len(a.shape) - dims, len(a.shape))), list(range(dims))
    else:
        of_a, of_b = ([axes] if isinstance(axes, int) else list(axes) for axes in dims)
        of_a, of_b = [n % len(a.shape) for n in of_a], [n % len(b.shape) for n in of_b]
    sizes = [a.shape[n] for n in of_a]
    if sizes != [b.shape[n] for n in of_b]:
        raise TypeRuleError(
            f"tensordot: the axes must have the same sizes, got axes {of_a} of {a.type} and {of_b} of {b.type}"
        )
    left = [n for n in range(len(a.shape)) if n not in of_a]
    right = [n for n in range(len(b.shape)) if n not in of_b]
    rows = ops.reshape(ops.permute(a, [*left, *of_a]), (prod(a.shape[n] for n in left), prod(sizes)))
    columns = ops.reshape(ops.permute(b, [*of_b, *right]), (prod(sizes), prod(b.shape[n] for n in right)))
    return ops.reshape(ops.matmul(rows, columns), [*(a.shape[n] for n in left), *(b.shape[n] for n in right)])


def einsum(equation: str, *operands: Any) -> Any:
    """The sum of products of elements whose axes are named by letters: ``einsum("bij,bjk->bik", x, y)``.

    Letters that the result does not have are summed over; ``...`` stands for axes that broadcast. Operands are combined
    two at a time, each pair by one matrix product, in the order that takes few multiplications.

    Parameters
    ----------
    equation : str
        The letters of each operand and, after ``->``, those of the result; default: those that occur once, sorted.
    *operands : Tensor
        As many as the equation has, or one sequence of them.
    """
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    return _einsum(equation, *given)


@low_precision
@operation
def _einsum(equation: str, *operands: Value) -> Value:
    return ops.einsum(equation, *promoted(*operands))


@operation
def addr(input: Value, vec1: Value, vec2: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    """``beta * input + alpha * outer(vec1, vec2)``; `input` broadcasts."""
    _require_ranks("addr", (vec1, 1), (vec2, 1))
    return _plus(input, times(ops.expand_dims(vec1, 1), vec2), beta, alpha)


@low_precision
@operation
def addbmm(input: Value, batch1: Value, batch2: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    """``beta * input + alpha * the sum of batch1 @ batch2`` over the batch; `input` broadcasts."""
    _require_ranks("addbmm", (batch1, 3), (batch2, 3))
    return _plus(input, ops.einsum("bij,bjk->ik", batch1, batch2), beta, alpha)


vdot = dot
