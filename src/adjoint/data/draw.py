"""Where the random numbers of datasets come from: functions of a seed, the epoch and the place in the pipeline."""

from dataclasses import replace

import numpy as np

from adjoint.lazy_dataclass import dataclass
from adjoint.philox import philox_generator, philox_words, sorted_permutation, uniform_numbers

__all__ = ["Draw", "stream_of"]

#: The second word of the key, so that the numbers differ from those of other uses of the same seed: "datasets".
_DOMAIN = 0x6461746173657473

#: The lower part of a stream is the number of an operation, the upper part that of a shard.
_OPERATION_BITS = 32

_WORDS = 2**64


@dataclass(frozen=True, slots=True)
class Draw:
    """One epoch of a dataset, from which all its random numbers follow.

    Parameters
    ----------
    seed : int
        From 0 to ``2**64 - 1``.
    epoch : int
        Counted from 0.
    order_seed : int or None, default None
        If given, rows are in the same order in each epoch, that of this seed, as parts of a split must be.
    """

    seed: int
    epoch: int
    order_seed: int | None = None

    def words(self, stream: int, count: int) -> np.ndarray:
        """Random words that decide about the order of rows, uint64 [count].

        Parameters
        ----------
        stream : int
            Number of the operation that draws (`stream_of`).
        count : int
            How many.
        """
        seed, epoch = (self.seed, self.epoch) if self.order_seed is None else (self.order_seed, 0)
        return philox_words((seed, _DOMAIN), (0, epoch % _WORDS, stream), count)

    def chunk(self, stream: int, number: int, count: int) -> np.ndarray:
        """The words of one of many parts, each of `count` words; other ones than those of `words`."""
        seed, epoch = (self.seed, self.epoch) if self.order_seed is None else (self.order_seed, 0)
        return philox_words((seed, _DOMAIN), (number + 1, epoch % _WORDS, stream), count)

    def permutation(self, stream: int, count: int) -> np.ndarray:
        """The numbers below `count` in random order, int64."""
        return sorted_permutation(self.words(stream, count))

    def uniforms(self, stream: int, count: int) -> np.ndarray:
        """Numbers from [0, 1), float64 [count]."""
        return uniform_numbers(self.words(stream, count))

    def generator(self, stream: int, index: int) -> np.random.Generator:
        """The generator of one item: another one for each index, whatever was computed before.

        Its index is counted from 1 in the counter, where 0 is that of `words`.
        """
        return philox_generator((self.seed, _DOMAIN), (index + 1, self.epoch % _WORDS, stream))

    def branch(self, number: int) -> "Draw":
        """The draw of one of several combined datasets; that of the first one is the same."""
        if number == 0:
            return self
        order_seed = None if self.order_seed is None else _mixed(self.order_seed, number)
        return Draw(_mixed(self.seed, number), self.epoch, order_seed)

    def repetition(self, number: int, count: int) -> "Draw":
        """The draw of a repetition, if a dataset is repeated `count` times in each epoch."""
        return replace(self, epoch=self.epoch * count + number)

    def in_order_of(self, seed: int) -> "Draw":
        """The draw in which all epochs have the order of one seed."""
        return self if self.order_seed is not None else replace(self, order_seed=seed)


def _mixed(seed: int, number: int) -> int:
    """Another seed for each number."""
    return int(philox_words((seed, _DOMAIN), (_WORDS - 1, 0, number), 1)[0])


def stream_of(operation: int, shard: int) -> int:
    """The stream of an operation that draws numbers for items of a shard."""
    return shard << _OPERATION_BITS | operation
