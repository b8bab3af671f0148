"""Sums of products whose axes are named by letters, as matrix products of two operands at a time.

Among several operands, the pair comes first whose product takes the fewest multiplications; of such pairs the one with
the smallest result. D. Smith, J. Gray, "opt_einsum - A Python package for optimizing contraction order for einsum-like
expressions", 2018, calls a search like this greedy.
"""

import string
from collections.abc import Sequence
from itertools import combinations
from math import prod

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.value import Value
from adjoint.ops.arithmetic import multiply
from adjoint.ops.build import broadcast
from adjoint.ops.contract import matmul
from adjoint.ops.reduce import sum
from adjoint.ops.shape import broadcast_to, permute, reshape, slice_axis

__all__ = ["diagonal_of", "einsum"]

#: A value and the names of its axes.
_Named = tuple[Value, list[str]]


def einsum(equation: str, *operands: Value) -> Value:
    """The sum of products of elements whose axes are named by letters: ``einsum("bij,bjk->bik", x, y)``.

    A letter that occurs twice in a term takes the diagonal of these axes. Letters that the result does not have are
    summed over; ``...`` stands for axes that broadcast.

    Parameters
    ----------
    equation : str
        The letters of each operand and, after ``->``, those of the result; default: those that occur once, sorted.
    *operands : Value
        As many as the equation has, of one dtype.
    """
    terms, result = _parsed(equation, operands)
    parts = [_without_repeats(x, term) for x, term in zip(operands, terms, strict=True)]
    while len(parts) > 1:
        first, second = _cheapest(parts, result)
        others = [part for n, part in enumerate(parts) if n not in (first, second)]
        later = set(result).union(*(names for _, names in others))
        parts = [*others, _contracted(*parts[first], *parts[second], later)]
    value, names = parts[0]
    gone = [n for n, name in enumerate(names) if name not in result]
    if gone:
        value, names = sum(value, gone), [name for name in names if name in result]
    return permute(value, [names.index(name) for name in result])


def _cheapest(parts: Sequence[_Named], result: Sequence[str]) -> tuple[int, int]:
    """The numbers of the two operands to combine next."""

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        sizes: dict[str, int] = {}
        for n in pair:
            for name, size in zip(parts[n][1], parts[n][0].shape, strict=True):
                sizes[name] = max(sizes.get(name, 1), size)
        kept = set(result).union(*(names for n, (_, names) in enumerate(parts) if n not in pair))
        return prod(sizes.values()), prod(size for name, size in sizes.items() if name in kept)

    return min(combinations(range(len(parts)), 2), key=cost)


def diagonal_of(x: Value, first: int, second: int) -> Value:
    """The main diagonal of two axes, as the last axis."""
    rest = [n for n in range(len(x.shape)) if n not in (first, second)]
    size = min(x.shape[first], x.shape[second])
    square = slice_axis(slice_axis(x, first, 0, size), second, 0, size)
    flat = reshape(permute(square, [*rest, first, second]), (*(x.shape[n] for n in rest), size * size))
    return slice_axis(flat, -1, 0, size * size, size + 1) if size else flat


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


def _without_repeats(x: Value, names: list[str]) -> _Named:
    """The diagonal of axes that have one name."""
    names = list(names)
    for name in list(dict.fromkeys(names)):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            if x.shape[first] != x.shape[second]:
                raise TypeRuleError(
                    f"einsum: axes with one letter must have one size, got {x.shape[first]} and {x.shape[second]} for "
                    f"{name!r} in {x.type}; correct the equation"
                )
            x = diagonal_of(x, first, second)
            names = [one for n, one in enumerate(names) if n not in (first, second)] + [name]
    return x, names


def _contracted(x: Value, xs: list[str], y: Value, ys: list[str], later: set[str]) -> _Named:
    """The product of two operands, summed over the names that nothing later has."""
    for own, other, which in ((xs, ys, 0), (ys, xs, 1)):
        alone = [n for n, name in enumerate(own) if name not in other and name not in later]
        if alone:
            summed = sum((x, y)[which], alone)
            x, y = (summed, y) if which == 0 else (x, summed)
    xs, ys = ([name for name in names if name in others or name in later] for names, others in ((xs, ys), (ys, xs)))
    sizes = dict(zip(xs, x.shape, strict=True))
    for name, size in zip(ys, y.shape, strict=True):
        sizes[name] = _common_size(name, sizes.get(name, 1), size)
    x, y = (
        broadcast_to(v, [sizes[name] if name in other else size for name, size in zip(own, v.shape, strict=True)])
        for v, own, other in ((x, xs, ys), (y, ys, xs))
    )
    batch = [name for name in xs if name in ys and name in later]
    inner = [name for name in xs if name in ys and name not in later]
    left = [name for name in xs if name not in ys]
    right = [name for name in ys if name not in xs]

    def arranged(value: Value, names: list[str], groups: Sequence[list[str]]) -> Value:
        moved = permute(value, [names.index(name) for group in groups for name in group])
        return reshape(moved, [*(sizes[n] for n in groups[0]), *(prod(sizes[n] for n in g) for g in groups[1:])])

    if inner:
        product = matmul(arranged(x, xs, (batch, left, inner)), arranged(y, ys, (batch, inner, right)))
    else:
        factor = arranged(x, xs, (batch, left, [])), arranged(y, ys, (batch, [], right))
        product = multiply(*broadcast(*factor))
    names = [*batch, *left, *right]
    return reshape(product, [sizes[name] for name in names]), names


def _common_size(name: str, first: int, second: int) -> int:
    """The size that two axes of one name are broadcast to."""
    try:
        return int(np.broadcast_shapes((first,), (second,))[0])
    except ValueError:
        raise TypeRuleError(
            f"einsum: axes with one letter must have one size or size 1, got {first} and {second} for {name!r}; "
            "correct the equation"
        ) from None
