"""Random words by key and counter."""

import numpy as np

from adjoint.philox import philox_generator, philox_words, sorted_permutation, uniform_numbers


def test_words_are_those_of_the_published_generator():
    # Known answers of Philox-4x64-10, from kat_vectors of Random123 (D. E. Shaw Research): all bits of key and counter
    # zero. NumPy increments the counter before the first block, so that its lowest word is 2**64 - 1 there.
    zero = np.random.Philox(key=np.zeros(2, np.uint64), counter=np.full(4, 2**64 - 1, np.uint64)).random_raw(4)
    assert [hex(word) for word in zero.tolist()] == [
        "0x16554d9eca36314c", "0xdb20fe9d672d0fdc", "0xd7e772cee186176b", "0x7e68b68aec7ba23b",
    ]  # fmt: skip
    words = philox_words((3, 5), (7, 11, 13), 6)
    again = np.random.Philox(key=np.array([3, 5], np.uint64), counter=np.array([0, 7, 11, 13], np.uint64))
    assert words.tolist() == again.random_raw(6).tolist()
    assert philox_generator((3, 5), (7, 11, 13)).bit_generator.random_raw(6).tolist() == words.tolist()


def test_a_permutation_sorts_the_words():
    words = philox_words((1, 2), (0, 0, 0), 1000)
    assert sorted_permutation(words).tolist() == np.argsort(words, kind="stable").tolist()
    assert sorted_permutation(words[:0]).tolist() == []
    assert sorted_permutation(words[:1]).tolist() == [0]


def test_uniform_numbers_have_53_bits():
    words = np.array([0, 2**11 - 1, 2**11, 2**64 - 1], np.uint64)
    assert uniform_numbers(words).tolist() == [0, 0, 2**-53, 1 - 2**-53]
