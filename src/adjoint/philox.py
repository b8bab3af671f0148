"""Random numbers on the host as pure functions of a key and a counter, the same on every machine and NumPy version.

They are the raw words of Philox-4x64-10 (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011),
which `numpy.random.Philox` computes. What is made of the words is defined here, because the distributions and
permutations of `numpy.random.Generator` may change between versions of NumPy.
"""

from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

__all__ = ["philox_generator", "philox_words", "sorted_permutation", "uniform_numbers"]


def philox_words(key: tuple[int, int], counter: tuple[int, int, int], count: int) -> np.ndarray:
    """Random words, uint64 [count].

    Parameters
    ----------
    key : tuple of int
        Two words: a seed, and a number that separates its uses.
    counter : tuple of int
        The upper three words of the counter; the lowest one counts blocks of four words.
    count : int
        How many words.
    """
    words: np.ndarray = _philox(key, counter).random_raw(count)
    return words


def philox_generator(key: tuple[int, int], counter: tuple[int, int, int]) -> np.random.Generator:
    """NumPy's generator that draws from these words; its distributions may change between versions of NumPy.

    Parameters
    ----------
    key : tuple of int
        As for `philox_words`.
    counter : tuple of int
        As for `philox_words`.
    """
    return np.random.Generator(_philox(key, counter))


def _philox(key: tuple[int, int], counter: tuple[int, int, int]) -> np.random.Philox:
    # NumPy takes any ISeedSequence; its annotations name SeedSequence only.
    return np.random.Philox(_Key(key), counter=np.array([0, *counter], np.uint64))  # type: ignore[arg-type]


class _Key(ISeedSequence):
    """Gives its two words as the key. With the argument `key`, NumPy first draws a seed that it does not use."""

    def __init__(self, words: tuple[int, int]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        """The words; Philox asks for two of 64 bits."""
        return np.array(self._words[:n_words], dtype)


def uniform_numbers(words: np.ndarray) -> np.ndarray:
    """Numbers from [0, 1) with 53 bits, float64, one for each word."""
    floats: np.ndarray = (words >> np.uint64(11)) * 2.0**-53
    return floats


def sorted_permutation(words: np.ndarray) -> np.ndarray:
    """The numbers below ``len(words)`` in random order, int64.

    It sorts random words whose lower bits are replaced by the numbers. No two words are equal, so every sorting
    algorithm gives the same order; pairs whose remaining upper bits are equal, of which there is less than one for a
    million numbers on average, are in ascending order.
    """
    count = len(words)
    bits = np.uint64(max(count - 1, 1).bit_length())
    numbered = words >> bits << bits
    numbered |= np.arange(count, dtype=np.uint64)
    numbered.sort()
    numbered &= (np.uint64(1) << bits) - np.uint64(1)
    return numbered.view(np.int64)
