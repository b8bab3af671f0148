"""Generators: their numbers are Philox's, their state can be kept, and permutations are even."""

import re

import numpy as np
import pytest

import adjoint
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.generator import Generator, as_generator, host_permutation

WORD = 2**64


def philox(counter, key):
    """Philox-4x64-10 of Salmon et al. (2011), section 4.3."""
    for number in range(10):
        if number:
            key = [(key[0] + 0x9E3779B97F4A7C15) % WORD, (key[1] + 0xBB67AE8584CAA73B) % WORD]
        high0, low0 = divmod(0xD2E7470EE14C6C93 * counter[0], WORD)
        high1, low1 = divmod(0xCA5A826395121157 * counter[2], WORD)
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
    return counter


def test_the_reference_gives_the_published_block():
    # The first known answer of philox4x64-10 in Random123's kat_vectors.
    expected = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    assert philox([0, 0, 0, 0], [0, 0]) == expected


def test_words_are_philox_of_the_seed_and_the_number_of_the_draw():
    generator = Generator().manual_seed(-3)
    key = [WORD - 3, int.from_bytes(b"adjoint", "big")]
    assert generator.words(2).tolist() == philox([1, 0, 0, 0], key)[:2]
    assert generator.words(6).tolist() == philox([1, 0, 1, 0], key) + philox([2, 0, 1, 0], key)[:2]
    assert generator.initial_seed() == WORD - 3


def test_uniforms_are_the_upper_53_bits():
    words = Generator().manual_seed(1).words(5)
    assert Generator().manual_seed(1).uniforms(5).tolist() == [int(word) // 2**11 / 2**53 for word in words]


def test_a_state_continues_where_it_was_taken():
    generator = Generator().manual_seed(2**64 - 1)
    generator.words(1)
    state = generator.get_state()
    expected = generator.words(3).tolist()
    other = Generator()
    other.set_state(state)
    assert (other.words(3).tolist(), other.initial_seed()) == (expected, 2**64 - 1)


def test_seed_draws_another_seed():
    generator = Generator()
    seeds = {generator.seed() for _ in range(3)}
    assert len(seeds) == 3
    assert generator.initial_seed() in seeds


def test_manual_seed_seeds_the_default_generator():
    assert adjoint.manual_seed(5) is adjoint.default_generator
    first = host_permutation(20, as_generator(None, "f"))
    second = host_permutation(20, as_generator(None, "f"))
    adjoint.manual_seed(5)
    assert host_permutation(20, adjoint.default_generator).tolist() == first.tolist() != second.tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 5, 256, 1000])
def test_a_permutation_has_every_number_once(n):
    assert sorted(host_permutation(n, Generator())) == list(range(n))


def test_all_permutations_are_equally_likely():
    generator = Generator().manual_seed(0)
    seen = {}
    for _ in range(2400):
        order = tuple(host_permutation(4, generator))
        seen[order] = seen.get(order, 0) + 1
    # Pearson's statistic of 24 classes; 49.7 is exceeded with probability 0.001.
    assert len(seen) == 24
    assert sum((count - 100) ** 2 / 100 for count in seen.values()) < 49.7


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: adjoint.manual_seed(2**64),
            InvalidValueError,
            "manual_seed: the seed must be an integer of 64 bits, got 18446744073709551616; pass one such as 0",
        ),
        (
            lambda: Generator().manual_seed(1.5),
            InvalidValueError,
            "manual_seed: the seed must be an integer of 64 bits, got 1.5; pass one such as 0",
        ),
        (
            lambda: Generator("cuda"),
            InvalidValueError,
            "Generator: the device must be 'cpu', got 'cuda'; leave it out",
        ),
        (
            lambda: Generator().set_state(np.zeros(3)),
            TypeRuleError,
            "set_state: a state must be u8[24], got float64[3]; pass what get_state() returned",
        ),
        (
            lambda: as_generator(np.random.default_rng(0), "random_split"),
            TypeRuleError,
            "random_split: generator must be an adjoint.Generator, got a Generator; pass "
            "adjoint.Generator().manual_seed(seed)",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
