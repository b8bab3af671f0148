"""Random tensors inside a graph, as pure functions of a key: ``ops.random.normal(key, (3,))``.

A key is a tensor u32[2], an ordinary operand: usually a state of the model, in whose place the step returns another
key. The same key gives the same numbers, so every key is used once only, for one tensor, or to make other keys by
`split` and `fold_in`. The numbers are the same bits on any number of threads and on every target with fused
multiply-adds; those of `bits`, `uniform`, `bernoulli`, `randint` and `permutation`, on every target.

The functions are called as in JAX. `key`, `split`, `fold_in` and `bits` also give JAX's numbers (those of its default
generator, see `adjoint.ops.threefry`); the distributions do not, because they use more of the bits.

A key may have leading axes, u32[..., 2]: then each draws a tensor of its own, along the last axes of the result.
"""

import numpy as np

from adjoint import costs
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import DTYPES, as_dtype, dtype_name, is_integer
from adjoint.ir.value import Value
from adjoint.ops.arithmetic import add, divide, multiply, subtract
from adjoint.ops.convert import cast
from adjoint.ops.create import constant, full, iota, scalar_misfit
from adjoint.ops.index import take
from adjoint.ops.logic import equal, less, logical_and, logical_or
from adjoint.ops.piecewise import maximum
from adjoint.ops.random_distributions import (
    beta,
    categorical,
    cauchy,
    dirichlet,
    exponential,
    gamma,
    geometric,
    gumbel,
    laplace,
    lognormal,
    poisson,
    truncated_normal,
)
from adjoint.ops.random_floats import Bound, draw, normal, spread_to, uniform, unit_floats
from adjoint.ops.random_keys import Shape, fold_in, is_number, key, key_array, split, words_of
from adjoint.ops.reduce import sum
from adjoint.ops.rules import require_float
from adjoint.ops.shape import broadcast_to, expand_dims
from adjoint.ops.threefry import WORD, WORDS, RandomBits

__all__ = [
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "cauchy",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "geometric",
    "gumbel",
    "key",
    "key_array",
    "laplace",
    "lognormal",
    "normal",
    "permutation",
    "permutation_array",
    "poisson",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]

#: A bound of integers: a number for all elements, or a tensor.
IntBound = int | Value | np.ndarray


def bits(key: Value, shape: Shape = (), dtype: object = "u32") -> Value:
    """Random integers of all bits of an unsigned dtype.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    shape : int or sequence of int, default ()
        Shape of what a key draws.
    dtype : str or numpy dtype, default "u32"
        u8, u16, u32 or u64.
    """
    to = as_dtype(dtype)
    if to.kind != "u":
        raise TypeRuleError(f"bits: the dtype must be unsigned, got {dtype_name(to)}; use u32, or randint")
    return cast(draw("bits", key, shape, 64 if to.itemsize == 8 else 32), to)


def bernoulli(key: Value, p: Bound = 0.5, shape: Shape | None = None) -> Value:
    """Random truth, True with probability `p`.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    p : float, Value or numpy.ndarray, default 0.5
        The probability, a number from 0 to 1 or a float tensor that broadcasts to the result. It counts in multiples of
        ``2**-24``, or ``2**-53`` for a tensor of f64, rounded up, and has no gradient.
    shape : int or sequence of int, optional
        Shape of what a key draws; default: that of `p`.
    """
    if isinstance(p, np.ndarray):
        p = constant(p, "f32")
    if isinstance(p, Value):
        require_float("bernoulli", p)
        sizes: Shape = p.shape if shape is None else shape
        unit = unit_floats("bernoulli", key, sizes, p.dtype, least=24)
        return less(unit, spread_to("bernoulli", cast(p, unit.dtype), unit))
    if not is_number(p) or not 0 <= p <= 1:
        raise InvalidValueError(f"bernoulli: p must be from 0 to 1, got {p!r}; pass a probability")
    return less(unit_floats("bernoulli", key, () if shape is None else shape, DTYPES["f32"]), p)


def randint(key: Value, shape: Shape, low: IntBound, high: IntBound, dtype: object = "i64") -> Value:
    """Random integers, evenly distributed in ``[low, high)``.

    ``low + floor(r * (high - low))``, where r is a multiple of ``2**-64`` in ``[0, 1)``, computed exactly. So the
    probabilities of two integers differ by a part of ``(high - low) / 2**64`` at most, of less than 2e-9 for up to
    ``2**32`` integers.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    shape : int or sequence of int
        Shape of what a key draws.
    low, high : int, Value or numpy.ndarray
        The bounds: numbers, or integer tensors that broadcast to the result. Where tensors leave no integer, as `high`
        is not above `low`, the result is `low`.
    dtype : str or numpy dtype, default "i64"
        An integer dtype.
    """
    to = as_dtype(dtype)
    if not is_integer(to):
        raise TypeRuleError(f"randint: the dtype must be an integer, got {dtype_name(to)}; use i64, or uniform")
    word = draw("randint", key, shape, 64)
    if not isinstance(low, Value | np.ndarray) and not isinstance(high, Value | np.ndarray):
        _require_integers(low, high, to)
        count = int(high) - int(low)
        share = word if count == WORD**2 else _share(word, full(count, word.shape, "u64"), count < WORD)
        return add(cast(share, to), int(low))
    start, stop = (spread_to("randint", _integer(x), word) for x in (low, high))
    span = cast(maximum(subtract(stop, start), 0), "u64")
    return cast(add(start, cast(_share(word, span, narrow=False), "i64")), to)


def permutation(key: Value, x: int | Value) -> Value:
    """The numbers from 0 to ``x - 1``, or the elements of a tensor along its first axis, in random order.

    Number n is put at the place that its 32 random bits have among those of all numbers in order; equal ones keep their
    order. All pairs are compared, which takes time with the square of their number. `permutation_array` sorts instead,
    outside of graphs, and gives the same numbers.

    Parameters
    ----------
    key : Value
        A key, u32[2].
    x : int or Value
        How many numbers, or a tensor of at least one axis; at most ``2**16`` of them.

    Returns
    -------
    Value
        i64[x], or a tensor of the type of `x`.
    """
    if isinstance(x, Value):
        if not x.shape:
            raise TypeRuleError(f"permutation: a tensor must have an axis, got {x.type}; pass its size or reshape it")
        return take(x, permutation(key, x.shape[0])) if x.shape[0] else x
    if isinstance(x, bool) or not isinstance(x, int | np.integer) or not 0 <= x <= costs.MAX_PERMUTED:
        raise InvalidValueError(
            f"permutation: the number of elements must be an integer from 0 to {costs.MAX_PERMUTED}, got {x!r}; "
            "permutation_array takes any number of them, outside of graphs"
        )
    drawn = draw("permutation", key, (int(x),), 32)
    pairs = (*drawn.shape, int(x))
    mine, other = broadcast_to(expand_dims(drawn, -1), pairs), broadcast_to(expand_dims(drawn, -2), pairs)
    earlier = less(iota(pairs, -1, "i32"), iota(pairs, -2, "i32"))
    before = logical_or(less(other, mine), logical_and(equal(other, mine), earlier))
    return cast(sum(cast(before, "i32"), -1), "i64")


def permutation_array(key: np.ndarray, count: int) -> np.ndarray:
    """The numbers of `permutation` in NumPy, in time that grows little faster than their number.

    Parameters
    ----------
    key : numpy.ndarray
        A key, uint32 of shape (2,), such as that of `key_array`.
    count : int
        How many numbers.

    Returns
    -------
    numpy.ndarray
        int64 of shape (count,).
    """
    words = np.asarray(key)
    if words.dtype != np.uint32 or words.shape != (WORDS,):
        raise InvalidValueError(
            f"permutation_array: a key must be an array of two uint32, got {words.dtype}{list(words.shape)}; "
            "make one with key_array(seed)"
        )
    order = np.argsort(RandomBits((count,)).reference(words), kind="stable")
    places = np.empty(count, np.int64)
    places[order] = np.arange(count)
    return places


def _integer(x: IntBound) -> Value:
    """A bound of `randint` as i64."""
    if isinstance(x, np.ndarray):
        x = constant(x)
    if not isinstance(x, Value):
        _require_integers(x, x + 1, DTYPES["i64"])
        return full(int(x), (), "i64")
    if not is_integer(x.dtype):
        raise TypeRuleError(f"randint: a bound must be an integer, got {x.type}; cast it to i64")
    return cast(x, "i64")


def _require_integers(low: int, high: int, dtype: np.dtype) -> None:
    """Raise unless the dtype holds the integers in ``[low, high)``, and there are some."""
    for bound in (low, high):
        if isinstance(bound, bool) or not isinstance(bound, int | np.integer):
            raise InvalidValueError(f"randint: a bound must be an integer, got {bound!r}; pass one such as 10")
    if low >= high:
        raise InvalidValueError(f"randint: low must be below high, got {low} and {high}; exchange them?")
    for number in (int(low), int(high) - 1):
        misfit = scalar_misfit(number, dtype)
        if misfit:
            raise InvalidValueError(f"randint: {misfit}")


def _share(word: Value, span: Value, narrow: bool) -> Value:
    """``word * span // 2**64``, in u64; `narrow` is whether the span has at most 32 bits.

    By products of halves, as Warren, "Hacker's Delight", 2nd edition, 8-2.
    """
    high, low = (cast(half, "u64") for half in words_of(word))
    if narrow:
        return divide(add(multiply(high, span), divide(multiply(low, span), WORD)), WORD)
    top, bottom = (cast(half, "u64") for half in words_of(span))
    middle = add(multiply(high, bottom), divide(multiply(low, bottom), WORD))
    carry = add(multiply(low, top), cast(cast(middle, "u32"), "u64"))
    return add(add(multiply(high, top), divide(middle, WORD)), divide(carry, WORD))
