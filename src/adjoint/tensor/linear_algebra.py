"""Products of vectors, matrices and batches of them, and `einsum`."""

import string
from collections.abc import Sequence
from math import prod
from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Value
from adjoint.tensor.autocasting import low_precision
from adjoint.tensor.promotion import promoted
from adjoint.tensor.record import operation
from adjoint.tensor.shapes import common_shape

__all__ = ["addmm", "addmv", "baddbmm", "bmm", "dot", "einsum", "inner", "mm", "mv", "outer", "tensordot", "trace"]


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
    x, y = promoted(input, vec2)
    return ops.multiply(ops.expand_dims(x, 1), y)


@operation
def inner(input: Value, other: Value) -> Value:
    """The inner products along the last axes of two tensors."""
    if not input.shape or not other.shape:
        return ops.multiply(*promoted(input, other))
    left, right = (ops.reshape(x, (prod(x.shape[:-1]), x.shape[-1])) for x in (input, other))
    return ops.reshape(ops.matmul(left, right, transpose_b=True), (*input.shape[:-1], *other.shape[:-1]))


def _scaled(x: Value, factor: float) -> Value:
    return x if factor == 1 else ops.multiply(x, factor)


def _plus(input: Value, product: Value, beta: float, alpha: float) -> Value:
    return _scaled(product, alpha) if beta == 0 else ops.add(_scaled(input, beta), _scaled(product, alpha))


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


@operation
def trace(input: Value) -> Value:
    """The sum of the diagonal of a matrix."""
    _require_ranks("trace", (input, 2))
    return ops.sum(_diagonal(input, 0, 1))


def _diagonal(x: Value, first: int, second: int) -> Value:
    """The diagonal of two axes of one size, as the last axis."""
    rest = [n for n in range(len(x.shape)) if n not in (first, second)]
    size = min(x.shape[first], x.shape[second])
    square = ops.slice_axis(ops.slice_axis(x, first, 0, size), second, 0, size)
    flat = ops.reshape(ops.permute(square, [*rest, first, second]), (*(x.shape[n] for n in rest), size * size))
    return ops.slice_axis(flat, -1, 0, size * size, size + 1) if size else flat


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
    from left to right, two at a time, each pair by one matrix product.

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
    terms, result = _parsed(equation, operands)
    values = [_without_repeats(x, term) for x, term in zip(promoted(*operands), terms, strict=True)]
    value, names = values[0]
    for n, (other, others) in enumerate(values[1:], 1):
        later = set(result).union(*(held for _, held in values[n + 1 :]))
        value, names = _contracted(value, names, other, others, later)
    gone = [n for n, name in enumerate(names) if name not in result]
    if gone:
        value, names = ops.sum(value, gone), [name for name in names if name in result]
    return ops.permute(value, [names.index(name) for name in result])


def _parsed(equation: str, operands: Sequence[Value]) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand and of the result; ``...`` becomes the numbers of its axes, from the last one."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise InvalidValueError(
            f"einsum: the equation must have one term per operand, got {equation!r} with {len(operands)}; correct it"
        )
    found = []
    for term, x in zip(terms, operands, strict=True):
        letters = term.replace("...", "")
        hidden = len(x.shape) - len(letters)
        if set(letters) - set(string.ascii_letters) or hidden < 0 or (hidden and "..." not in term):
            raise InvalidValueError(
                f"einsum: each term must have one letter per axis, got {term!r} for {x.type}; correct {equation!r}"
            )
        before, dots, after = term.partition("...")
        found.append([*before, *(str(n) for n in range(hidden, 0, -1) if dots), *after])
    hidden_axes = sorted({name for names in found for name in names if name.isdigit()}, key=int, reverse=True)
    if arrow:
        before, dots, after = right.partition("...")
        result = [*before, *(hidden_axes if dots else ()), *after]
    else:
        counts = [name for names in found for name in names if not name.isdigit()]
        result = [*hidden_axes, *sorted(name for name in set(counts) if counts.count(name) == 1)]
    unknown = [name for name in result if not any(name in names for names in found)]
    if unknown or len(set(result)) != len(result):
        raise InvalidValueError(
            f"einsum: the result must have letters of the operands, each once, got {right!r}; correct {equation!r}"
        )
    return found, result


def _without_repeats(x: Value, names: list[str]) -> tuple[Value, list[str]]:
    """The diagonal of axes that have one name."""
    names = list(names)
    for name in list(dict.fromkeys(names)):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            x = _diagonal(x, first, second)
            names = [one for n, one in enumerate(names) if n not in (first, second)] + [name]
    return x, names


def _contracted(x: Value, xs: list[str], y: Value, ys: list[str], later: set[str]) -> tuple[Value, list[str]]:
    """The product of two operands, summed over the names that nothing later has."""
    for own, other, which in ((xs, ys, 0), (ys, xs, 1)):
        alone = [n for n, name in enumerate(own) if name not in other and name not in later]
        if alone:
            summed = ops.sum((x, y)[which], alone)
            x, y = (summed, y) if which == 0 else (x, summed)
    xs, ys = ([name for name in names if name in others or name in later] for names, others in ((xs, ys), (ys, xs)))
    sizes = dict(zip(xs, x.shape, strict=True))
    for name, size in zip(ys, y.shape, strict=True):
        (sizes[name],) = common_shape("einsum", [(sizes.get(name, 1),), (size,)])
    x, y = (
        ops.broadcast_to(v, [sizes[name] if name in other else size for name, size in zip(own, v.shape, strict=True)])
        for v, own, other in ((x, xs, ys), (y, ys, xs))
    )
    batch = [name for name in xs if name in ys and name in later]
    inner = [name for name in xs if name in ys and name not in later]
    left = [name for name in xs if name not in ys]
    right = [name for name in ys if name not in xs]

    def arranged(value: Value, names: list[str], groups: Sequence[list[str]]) -> Value:
        moved = ops.permute(value, [names.index(name) for group in groups for name in group])
        return ops.reshape(moved, [*(sizes[n] for n in groups[0]), *(prod(sizes[n] for n in g) for g in groups[1:])])

    if inner:
        product = ops.matmul(arranged(x, xs, (batch, left, inner)), arranged(y, ys, (batch, inner, right)))
    else:
        factor = arranged(x, xs, (batch, left, [])), arranged(y, ys, (batch, [], right))
        product = ops.multiply(*ops.broadcast(*factor))
    names = [*batch, *left, *right]
    return ops.reshape(product, [sizes[name] for name in names]), names
