"""Where the random numbers of datasets come from: functions of a seed, the epoch and the place in the pipeline."""

from dataclasses import dataclass

import numpy as np

from adjoint.philox import philox_words, sorted_permutation, uniform_numbers

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
    """

    seed: int
    epoch: int

    def words(self, stream: int, count: int) -> np.ndarray:
        """Random words for the operation with this number, uint64 [count]."""
        return philox_words(self._key(), (0, self.epoch % _WORDS, stream), count)

    def permutation(self, stream: int, count: int) -> np.ndarray:
        """The numbers below `count` in random order, int64."""
        return sorted_permutation(self.words(stream, count))

    def uniforms(self, stream: int, count: int) -> np.ndarray:
        """Numbers from [0, 1), float64 [count]."""
        return uniform_numbers(self.words(stream, count))

    def generator(self, stream: int, index: int) -> np.random.Generator:
        """The generator of one item: for each index another one, whatever was computed before.

        Indices begin at 1 in the counter; 0 is that of `words`.
        """
        counter = np.array([0, index + 1, self.epoch % _WORDS, stream], np.uint64)
        return np.random.Generator(np.random.Philox(key=np.array(self._key(), np.uint64), counter=counter))

    def branch(self, number: int) -> "Draw":
        """The draw of one of several combined datasets; that of the first one is the same."""
        if number == 0:
            return self
        word = philox_words((self.seed, _DOMAIN), (_WORDS - 1, 0, number), 1)
        return Draw(int(word[0]), self.epoch)

    def repetition(self, number: int, count: int) -> "Draw":
        """The draw of a repetition, if a dataset is repeated `count` times in each epoch."""
        return Draw(self.seed, self.epoch * count + number)

    def _key(self) -> tuple[int, int]:
        return self.seed, _DOMAIN


def stream_of(operation: int, shard: int) -> int:
    """The stream of an operation that draws numbers for items of a shard."""
    return shard << _OPERATION_BITS | operation
