"""Keys of random tensors: made from seeds, and from other keys. `adjoint.ops.random` exports them."""

from collections.abc import Sequence
from math import prod

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import is_integer
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import divide, multiply
from adjoint.ops.convert import cast
from adjoint.ops.create import constant, full, iota
from adjoint.ops.shape import broadcast_to, expand_dims, reshape, stack
from adjoint.ops.threefry import WORD, WORDS, Threefry, require_key

__all__ = ["Shape", "as_key", "fold_in", "is_number", "key", "key_array", "sizes", "split", "words_of"]

#: A shape as it is written: an int means one axis.
Shape = int | Sequence[int]


def key(seed: int | Value) -> Value:
    """A key, u32[2], from a seed: the same numbers as ``jax.random.PRNGKey``.

    Parameters
    ----------
    seed : int or Value
        An integer of 64 bits, with or without a sign, or an integer tensor, each element of which becomes a key along
        the last axis of the result.
    """
    if not isinstance(seed, Value):
        return constant(key_array(seed))
    if not is_integer(seed.dtype):
        raise TypeRuleError(f"key: the seed must be an integer, got {seed.type}; cast it to i64")
    return stack(words_of(cast(seed, "u64")), -1)


def key_array(seed: int) -> np.ndarray:
    """The key of a seed as an array, for an argument or a state of a compiled function.

    Parameters
    ----------
    seed : int
        From ``-2**63`` to ``2**64 - 1``.

    Raises
    ------
    InvalidValueError
        If it is no such integer.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not -(2**63) <= seed < 2**64:
        raise InvalidValueError(f"key: the seed must be an integer of 64 bits, got {seed!r}; pass one such as 0")
    return np.array([(int(seed) >> 32) % WORD, int(seed) % WORD], np.uint32)


def split(key: Value, num: Shape = 2) -> Value:
    """Other keys made of a key, which is not used itself any more.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    num : int or sequence of int, default 2
        How many keys, or the shape of a tensor of keys.

    Returns
    -------
    Value
        u32[num, 2], after the leading axes of `key`.
    """
    keys = as_key("split", key)
    shape = sizes(num)
    lead, count = keys.shape[:-1], prod(shape)
    counter = multiply(iota((count, WORDS), 0, "u32"), iota((count, WORDS), 1, "u32"))
    each = (*lead, count, WORDS)
    made = apply(Threefry(), broadcast_to(expand_dims(keys, -2), each), broadcast_to(counter, each))
    return reshape(made, (*lead, *shape, WORDS))


def fold_in(key: Value, data: int | Value) -> Value:
    """Another key made of a key and a number, such as that of a layer or step.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    data : int or Value
        An integer from 0 to ``2**32 - 1``, or an integer tensor, of which the lower 32 bits count; its shape broadcasts
        with the leading axes of the key.
    """
    keys = as_key("fold_in", key)
    if not isinstance(data, Value):
        if isinstance(data, bool) or not isinstance(data, int | np.integer) or not 0 <= data < WORD:
            raise InvalidValueError(
                f"fold_in: the data must be an integer from 0 to 2**32 - 1, got {data!r}; pass one such as 0"
            )
        data = full(int(data), (), "u32")
    if not is_integer(data.dtype):
        raise TypeRuleError(f"fold_in: the data must be an integer, got {data.type}; cast it to u32")
    try:
        lead = np.broadcast_shapes(keys.shape[:-1], data.shape)
    except ValueError:
        raise TypeRuleError(
            f"fold_in: the data must broadcast with the leading axes of the key, got {keys.type} and {data.type}; "
            "reshape it"
        ) from None
    each = (*lead, WORDS)
    number = broadcast_to(expand_dims(cast(data, "u32"), -1), each)
    counter = multiply(number, iota(each, -1, "u32"))
    return apply(Threefry(), broadcast_to(keys, each), counter)


def sizes(shape: Shape) -> tuple[int, ...]:
    """A shape as a tuple."""
    return (int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)


def is_number(x: object) -> bool:
    """Whether it is a Python or NumPy number, and no bool."""
    return isinstance(x, int | float | np.integer | np.floating) and not isinstance(x, bool)


def as_key(name: str, key: object) -> Value:
    """A key, u32[..., 2], of which an array becomes a constant; raises for anything else. `name` is the function."""
    if isinstance(key, np.ndarray):
        key = constant(key)
    if not isinstance(key, Value):
        raise TypeRuleError(f"{name}: a key must be a graph value, got {key!r}; make one with ops.random.key(seed)")
    require_key(name, key.type)
    return key


def words_of(word: Value) -> tuple[Value, Value]:
    """The upper and the lower 32 bits of u64."""
    return cast(divide(word, WORD), "u32"), cast(word, "u32")
