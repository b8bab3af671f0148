"""Rows in random order, all or some of them."""

from collections.abc import Sequence

import numpy as np

from adjoint.data.checking import require_flag
from adjoint.data.draw import Draw
from adjoint.data.samplers.base import STREAM, Sampler, fewer, integers, optional_count, rows_below

__all__ = ["RandomSampler", "SubsetRandomSampler"]


class RandomSampler(Sampler):
    """Rows in random order.

    Parameters
    ----------
    replacement : bool, default False
        Whether rows are drawn independently. Otherwise each occurs once before one occurs again.
    num_samples : int, optional
        How many; default: the number of rows.
    """

    def __init__(self, replacement: bool = False, num_samples: int | None = None) -> None:
        self._replacement = require_flag("RandomSampler", "replacement", replacement)
        self._most = optional_count("RandomSampler", num_samples)

    def order(self, count: int, draw: Draw) -> np.ndarray:
        """Permutations of the rows, the last one cut off; or independent rows."""
        size = self.size(count)
        if self._replacement:
            # The remainders of 64-bit words are even but for one part in 2**64 / rows.
            drawn: np.ndarray = np.remainder(draw.words(STREAM, size), np.uint64(max(count, 1))).view(np.int64)
            return drawn
        if size <= count:
            return draw.permutation(STREAM, count)[:size]
        words = draw.words(STREAM, -(-size // count) * count).reshape(-1, count)
        return np.argsort(words, axis=1, kind="stable").reshape(-1)[:size]

    def size(self, count: int) -> int:
        """The number of samples."""
        return count if self._most is None or not count else self._most


class SubsetRandomSampler(Sampler):
    """Some rows in random order.

    Parameters
    ----------
    indices : sequence of int
        The rows.
    num_samples : int, optional
        How many of them; default: all.
    """

    def __init__(self, indices: Sequence[int] | np.ndarray, num_samples: int | None = None) -> None:
        self._indices = integers("SubsetRandomSampler", indices)
        self._most = optional_count("SubsetRandomSampler", num_samples)

    def order(self, count: int, draw: Draw) -> np.ndarray:
        """A permutation of the rows, or the beginning of it."""
        rows = rows_below("SubsetRandomSampler", self._indices, count)
        drawn: np.ndarray = rows[draw.permutation(STREAM, len(rows))[: self._most]]
        return drawn

    def size(self, count: int) -> int:
        """How many are listed, or the number of samples."""
        return fewer(len(rows_below("SubsetRandomSampler", self._indices, count)), self._most)
