"""The generator against its published blocks, and random bits against those that JAX draws."""

import numpy as np
import pytest

from adjoint.ir import TensorType
from adjoint.ops.threefry import RandomBits, Threefry, threefry2x32
from tests.ops.running import lowered

#: Of the known answers that come with the paper (Random123, tests/kat_vectors, threefry2x32 with 20 rounds): counter,
#: key and block.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]
#: What ``jax.random.bits(jax.random.PRNGKey(42), ...)`` of JAX 0.10.2 gives: shape (2, 3), and 64 bits of shape (3,).
KEY = np.array([0, 42], np.uint32)
JAX_32 = [[0x7D1C13A2, 0xAE0730D9, 0x9DC3F9F9], [0x8F9EC1D7, 0x735D7315, 0x95FB4ED8]]
JAX_64 = [0x6D3E048F1022172D, 0x03D7B32DADD083F4, 0x92FB20EA0F38D913]


@pytest.mark.parametrize(("counter", "key", "block"), KNOWN)
def test_blocks_are_the_published_ones(counter, key, block):
    counter, key = np.array(counter, np.uint32), np.array(key, np.uint32)
    assert Threefry().reference(key, counter).tolist() == list(block)
    assert lowered(Threefry(), key, counter).tolist() == list(block)


def test_random_bits_are_those_of_jax():
    assert RandomBits((2, 3)).reference(KEY).tolist() == JAX_32
    assert RandomBits((3,), 64).reference(KEY).tolist() == JAX_64
    assert lowered(RandomBits((2, 3)), KEY).tolist() == JAX_32
    assert lowered(RandomBits((3,), 64), KEY).tolist() == JAX_64


@pytest.mark.parametrize("width", [1, 8, 31])
def test_fewer_bits_are_the_upper_ones(width):
    assert RandomBits((2, 3), width).reference(KEY).tolist() == [[x >> (32 - width) for x in row] for row in JAX_32]
    assert RandomBits((3,), 32 + width).reference(KEY).tolist() == [x >> (32 - width) for x in JAX_64]
    assert RandomBits((3,), width).infer(TensorType((2,), "u32")) == TensorType((3,), "u32")
    assert RandomBits((3,), 32 + width).infer(TensorType((2,), "u32")) == TensorType((3,), "u64")


def test_each_key_draws_what_it_draws_alone():
    keys = np.array([[1, 2], [3, 4], [2**32 - 1, 7]], np.uint32)
    together = RandomBits((2, 5)).reference(keys)
    for number, key in enumerate(keys):
        np.testing.assert_array_equal(together[number], RandomBits((2, 5)).reference(key))


def test_a_row_does_not_depend_on_the_number_of_rows():
    np.testing.assert_array_equal(RandomBits((9, 4)).reference(KEY)[:3], RandomBits((3, 4)).reference(KEY))


def test_one_bit_of_key_or_counter_changes_half_of_the_bits():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (4, 500), np.uint32)
    before = np.stack(threefry2x32((words[0], words[1]), (words[2], words[3])))
    for changed in range(4):
        other = words.copy()
        other[changed] ^= np.uint32(1) << rng.integers(0, 32, 500, np.uint32)
        after = np.stack(threefry2x32((other[0], other[1]), (other[2], other[3])))
        share = np.unpackbits((before ^ after).view(np.uint8)).mean()
        # 32,000 bits: five standard deviations of their mean.
        assert abs(share - 0.5) < 5 * 0.5 / 32_000**0.5
