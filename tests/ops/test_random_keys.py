"""Keys against those of JAX, and what is no key or seed."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import param
from tests.ops.running import run

random = ops.random
KEY = random.key_array(42)
#: ``jax.random.split(jax.random.PRNGKey(42), 3)`` and ``fold_in(..., 7)`` of JAX 0.10.2.
JAX_SPLIT = [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]]
JAX_FOLDED = [2547012911, 1371500959]


@pytest.mark.parametrize(
    ("seed", "words"),
    [(42, [0, 42]), (-1, [2**32 - 1] * 2), (2**40 + 5, [256, 5]), (2**64 - 2, [2**32 - 1, 2**32 - 2])],
)
def test_keys_of_seeds_are_those_of_jax(seed, words):
    """As ``jax.random.PRNGKey`` of 64 bits."""
    made = random.key_array(seed)
    assert made.dtype == np.uint32
    assert made.tolist() == words
    assert run(lambda: random.key(seed)).tolist() == words
    if seed < 2**63:
        assert run(random.key, np.int64(seed)).tolist() == words


def test_a_tensor_of_seeds_makes_a_key_of_each():
    assert run(random.key, np.array([[5, -1]], np.int32)).tolist() == [[[0, 5], [2**32 - 1] * 2]]


def test_split_keys_are_those_of_jax():
    assert run(lambda key: random.split(key, 3), KEY).tolist() == JAX_SPLIT
    assert run(random.split, KEY).tolist() == JAX_SPLIT[:2]
    assert run(lambda key: random.split(key, (3, 1)), KEY)[:, 0].tolist() == JAX_SPLIT
    assert run(lambda key: random.split(key, 0), KEY).shape == (0, 2)
    both = run(random.split, np.stack([KEY, KEY + np.uint32(1)]))
    assert both[0].tolist() == JAX_SPLIT[:2]
    assert both[1].tolist() == run(random.split, KEY + np.uint32(1)).tolist()


def test_folded_keys_are_those_of_jax():
    assert run(lambda key: random.fold_in(key, 7), KEY).tolist() == JAX_FOLDED
    assert run(random.fold_in, KEY, np.int64(7)).tolist() == JAX_FOLDED
    many = run(random.fold_in, KEY, np.array([6, 7], np.uint8))
    assert many.shape == (2, 2)
    assert many[1].tolist() == JAX_FOLDED
    pairs = run(random.fold_in, np.stack([KEY, KEY]), np.array([7, 8], np.int32))
    assert pairs[0].tolist() == JAX_FOLDED
    assert pairs[1].tolist() != JAX_FOLDED


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (
            lambda _: random.key_array(2**64),
            InvalidValueError,
            f"key: the seed must be an integer of 64 bits, got {2**64}; pass one such as 0",
        ),
        (
            lambda _: random.key(True),
            InvalidValueError,
            "key: the seed must be an integer of 64 bits, got True; pass one such as 0",
        ),
        (
            lambda _: random.key(param("x", ())),
            TypeRuleError,
            "key: the seed must be an integer, got f32[]; cast it to i64",
        ),
        (
            lambda _: random.split(7),
            TypeRuleError,
            "split: a key must be a graph value, got 7; make one with ops.random.key(seed)",
        ),
        (
            lambda _: random.split(param("x", (3,), "u32")),
            TypeRuleError,
            "split: a key must be u32[..., 2], got u32[3]; make one with ops.random.key(seed)",
        ),
        (
            lambda key: random.fold_in(key, -1),
            InvalidValueError,
            "fold_in: the data must be an integer from 0 to 2**32 - 1, got -1; pass one such as 0",
        ),
        (
            lambda key: random.fold_in(key, param("x", ())),
            TypeRuleError,
            "fold_in: the data must be an integer, got f32[]; cast it to u32",
        ),
        (
            lambda key: random.fold_in(random.split(key, 3), param("x", (4,), "i32")),
            TypeRuleError,
            "fold_in: the data must broadcast with the leading axes of the key, got u32[3,2] and i32[4]; reshape it",
        ),
    ],
)
def test_what_is_no_key_seed_or_data(build, error, message):
    with pytest.raises(error) as refusal:
        build(param("key", (2,), "u32"))
    assert refusal.value.message == message
