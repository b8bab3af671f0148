"""Samplers: which rows of a source an epoch has, and in which order.

An order is a pure function of the number of rows, the seed of the dataset and the epoch. It depends on nothing that was
drawn before, nor on the number of workers.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adjoint.data.checking import require_count, require_flag
from adjoint.data.draw import Draw
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of

__all__ = [
    "DistributedSampler",
    "IndexSampler",
    "PKSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "SubsetSampler",
    "WeightedRandomSampler",
    "as_sampler",
]

#: The stream of sources, the first one of a pipeline.
_STREAM = 0


class Sampler:
    """The rows of an epoch. A subclass defines `order` and `size`.

    Attributes
    ----------
    shard : int
        The number of the shard that the rows are, 0 for all rows.
    random : bool
        Whether the order differs between epochs.
    """

    shard = 0
    random = False

    def order(self, count: int, draw: Draw) -> np.ndarray:  # noqa: ARG002 - for subclasses
        """The rows of an epoch.

        Parameters
        ----------
        count : int
            The number of rows of the source.
        draw : Draw
            The seed and the epoch: random numbers come from ``draw.permutation(0, n)``, ``draw.uniforms(0, n)`` and
            ``draw.words(0, n)``, each a pure function of them.

        Returns
        -------
        numpy.ndarray
            int64, of length ``size(count)``.
        """
        raise TypeRuleError(
            f"{type(self).__name__}: a sampler must define order(count, draw), got none; return the rows of an epoch"
        )

    def size(self, count: int) -> int:
        """The number of rows of each epoch."""
        return len(self.order(count, Draw(0, 0)))


class SequentialSampler(Sampler):
    """Rows in ascending order.

    Parameters
    ----------
    start_index : int, default 0
        The first row.
    num_samples : int, optional
        How many; default: all that follow.
    """

    def __init__(self, start_index: int | None = None, num_samples: int | None = None) -> None:
        self._first = require_count("SequentialSampler", "start_index", start_index or 0, 0)
        self._most = _optional("SequentialSampler", num_samples)

    def order(self, count: int, draw: Draw) -> np.ndarray:  # noqa: ARG002 - the order is always the same
        """The numbers from the first row on."""
        return np.arange(self._first, self._first + self.size(count))

    def size(self, count: int) -> int:
        """The rest of the rows, or the number of samples."""
        if self._first >= max(count, 1):
            raise InvalidValueError(
                f"SequentialSampler: start_index must be below the number of rows, {count}, got {self._first}; choose "
                "another"
            )
        return _fewer(count - self._first, self._most)


class RandomSampler(Sampler):
    """Rows in random order.

    Parameters
    ----------
    replacement : bool, default False
        Whether rows are drawn independently. Otherwise each occurs once before one occurs again.
    num_samples : int, optional
        How many; default: the number of rows.
    """

    random = True

    def __init__(self, replacement: bool = False, num_samples: int | None = None) -> None:
        self._replacement = require_flag("RandomSampler", "replacement", replacement)
        self._most = _optional("RandomSampler", num_samples)

    def order(self, count: int, draw: Draw) -> np.ndarray:
        """Permutations of the rows, the last one cut off; or independent rows."""
        size = self.size(count)
        if self._replacement:
            # The remainders of 64-bit words are even but for one part in 2**64 / rows.
            drawn: np.ndarray = np.remainder(draw.words(_STREAM, size), np.uint64(max(count, 1))).view(np.int64)
            return drawn
        if size <= count:
            return draw.permutation(_STREAM, count)[:size]
        words = draw.words(_STREAM, -(-size // count) * count).reshape(-1, count)
        return np.argsort(words, axis=1, kind="stable").reshape(-1)[:size]

    def size(self, count: int) -> int:
        """The number of samples."""
        return count if self._most is None or not count else self._most


class IndexSampler(Sampler):
    """The rows that an iterable of integers lists anew in each epoch.

    An epoch can only be resumed if the iterable has the same integers again.

    Parameters
    ----------
    indices : iterable of int
        The rows.
    """

    def __init__(self, indices: Iterable[int]) -> None:
        self._indices = indices

    def order(self, count: int, draw: Draw) -> np.ndarray:  # noqa: ARG002 - the iterable decides
        """The integers."""
        return _rows_below("sampler", list(self._indices), count)


class SubsetSampler(Sampler):
    """Some rows, in the given order.

    Parameters
    ----------
    indices : sequence of int
        The rows.
    num_samples : int, optional
        How many of them; default: all.
    """

    def __init__(self, indices: Sequence[int] | np.ndarray, num_samples: int | None = None) -> None:
        self._name = type(self).__name__
        self._indices = _integers(self._name, indices)[: _optional(self._name, num_samples)]

    def order(self, count: int, draw: Draw) -> np.ndarray:  # noqa: ARG002 - the order is always the same
        """The rows."""
        return _rows_below(self._name, self._indices, count)

    def size(self, count: int) -> int:
        """How many are listed."""
        return len(_rows_below(self._name, self._indices, count))


class SubsetRandomSampler(Sampler):
    """Some rows in random order.

    Parameters
    ----------
    indices : sequence of int
        The rows.
    num_samples : int, optional
        How many of them; default: all.
    """

    random = True

    def __init__(self, indices: Sequence[int] | np.ndarray, num_samples: int | None = None) -> None:
        self._indices = _integers("SubsetRandomSampler", indices)
        self._most = _optional("SubsetRandomSampler", num_samples)

    def order(self, count: int, draw: Draw) -> np.ndarray:
        """A permutation of the rows, or the beginning of it."""
        rows = _rows_below("SubsetRandomSampler", self._indices, count)
        drawn: np.ndarray = rows[draw.permutation(_STREAM, len(rows))[: self._most]]
        return drawn

    def size(self, count: int) -> int:
        """How many are listed, or the number of samples."""
        return _fewer(len(_rows_below("SubsetRandomSampler", self._indices, count)), self._most)


class WeightedRandomSampler(Sampler):
    """Rows drawn with given probabilities.

    Parameters
    ----------
    weights : sequence of float
        The weight of each row; they need not sum to 1.
    num_samples : int, optional
        How many to draw; default: the number of weights.
    replacement : bool, default True
        Whether they are drawn independently, by the inverse of the cumulative weights. Otherwise no row occurs twice
        (P. Efraimidis, P. Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters 97,
        2006).

    Raises
    ------
    InvalidValueError
        If a weight is negative or not finite, or fewer are positive than are to be drawn.
    """

    random = True

    def __init__(self, weights: Sequence[float], num_samples: int | None = None, replacement: bool = True) -> None:
        name = "WeightedRandomSampler"
        self._weights = np.array(weights, np.float64)
        if self._weights.ndim != 1 or not self._weights.size:
            raise InvalidValueError(
                f"{name}: weights must be a sequence of numbers, got the shape {self._weights.shape}; flatten it"
            )
        self._replacement = require_flag(name, "replacement", replacement)
        self._size = _optional(name, num_samples) or len(self._weights)
        wrong = ~(np.isfinite(self._weights) & (self._weights >= 0))
        if wrong.any():
            place = int(wrong.argmax())
            raise InvalidValueError(
                f"{name}: weights must be finite and at least 0, got {self._weights[place]} at {place}; change it"
            )
        positive, needed = int(np.count_nonzero(self._weights)), 1 if self._replacement else self._size
        if positive < needed:
            raise InvalidValueError(
                f"{name}: at least {needed} of the weights must be positive, got {positive}; change one, or draw fewer "
                "or with replacement"
            )

    def order(self, count: int, draw: Draw) -> np.ndarray:
        """Rows in the order in which they are drawn."""
        if len(self._weights) != count:
            raise InvalidValueError(
                f"WeightedRandomSampler: there must be a weight for each of {count} rows, got {len(self._weights)}; "
                "pass as many"
            )
        positive = np.flatnonzero(self._weights)
        weights = self._weights[positive]
        if self._replacement:
            ends = np.cumsum(weights)
            drawn = np.searchsorted(ends, draw.uniforms(_STREAM, self._size) * ends[-1], side="right")
            drawn = np.minimum(drawn, len(ends) - 1)  # a product may be rounded up to the sum of all weights
        else:
            keys = np.log1p(-draw.uniforms(_STREAM, len(weights))) / weights
            drawn = np.argsort(-keys, kind="stable")[: self._size]
        rows: np.ndarray = positive[drawn].astype(np.int64, copy=False)
        return rows

    def size(self, count: int) -> int:  # noqa: ARG002 - the weights decide
        """How many are drawn."""
        return self._size


class DistributedSampler(Sampler):
    """The rows of one of several shards: every `num_shards`-th row.

    All shards have equally many rows; those that are missing at the end are taken from the beginning. With an `offset`,
    no row occurs twice, and some shards may have one row less.

    Parameters
    ----------
    num_shards : int
        How many shards there are.
    shard_id : int
        Which one, from 0 to ``num_shards - 1``.
    shuffle : bool, default True
        Whether rows are in a random order, the same for all shards, before they are distributed.
    num_samples : int, optional
        How many rows of the shard; default: all.
    offset : int, default -1
        The shard that has the first row; -1 is shard 0, with rows repeated at the end.
    """

    def __init__(
        self,
        num_shards: int,
        shard_id: int,
        shuffle: bool = True,
        num_samples: int | None = None,
        offset: int = -1,
    ) -> None:
        name = "DistributedSampler"
        self._shards = require_count(name, "num_shards", num_shards)
        self.shard = require_count(name, "shard_id", shard_id, 0)
        self._offset = require_count(name, "offset", offset, -1)
        for what, given in (("shard_id", self.shard), ("offset", self._offset)):
            if given >= self._shards:
                raise InvalidValueError(
                    f"{name}: {what} must be below num_shards, {self._shards}, got {given}; shards are counted from 0"
                )
        self.random = require_flag(name, "shuffle", shuffle)
        self._most = _optional(name, num_samples)

    def order(self, count: int, draw: Draw) -> np.ndarray:
        """The rows of the shard."""
        rows = draw.permutation(_STREAM, count) if self.random else np.arange(count)
        if self._offset < 0:
            places = np.arange(self.shard, self.shard + self._even(count) * self._shards, self._shards)
            rows = rows[places % max(count, 1)]
        else:
            rows = rows[(self.shard - self._offset) % self._shards :: self._shards]
        return rows[: self._most]

    def _even(self, count: int) -> int:
        return -(-count // self._shards)

    def size(self, count: int) -> int:
        """The number of rows of the shard."""
        if self._offset < 0:
            return _fewer(self._even(count), self._most)
        first = (self.shard - self._offset) % self._shards
        return _fewer(max(-(-(count - first) // self._shards), 0), self._most)


class PKSampler(Sampler):
    """`num_val` random rows of each of some classes, as P x K batches of metric learning need them.

    Parameters
    ----------
    labels : sequence
        The class of each row.
    num_val : int
        How many rows of each class, the K.
    num_class : int, optional
        How many classes, the P, in random order; default: all, in ascending order.
    """

    random = True

    def __init__(self, labels: Sequence[Any] | np.ndarray, num_val: int, num_class: int | None = None) -> None:
        classes, numbers = np.unique(np.asarray(labels), return_inverse=True)
        self._rows = [np.flatnonzero(numbers == number) for number in range(len(classes))]
        self._count = len(numbers)
        self._each = require_count("PKSampler", "num_val", num_val)
        self._classes = _optional("PKSampler", num_class)
        if self._classes is not None and self._classes > len(classes):
            raise InvalidValueError(
                f"PKSampler: num_class must be at most the number of classes, {len(classes)}, got {self._classes}; "
                "choose another"
            )
        fewest = min((len(rows) for rows in self._rows), default=0)
        if fewest < self._each:
            raise InvalidValueError(
                f"PKSampler: num_val must be at most the number of rows of each class, {fewest}, got {self._each}; "
                "choose another"
            )

    def order(self, count: int, draw: Draw) -> np.ndarray:
        """Rows of one class after the other."""
        if count != self._count:
            raise InvalidValueError(
                f"PKSampler: there must be a label for each of {count} rows, got {self._count}; pass as many"
            )
        rank = draw.permutation(_STREAM, count)
        chosen = range(len(self._rows))
        if self._classes is not None:
            # Classes in the order of the ranks of their first rows, which are random.
            chosen = sorted(chosen, key=lambda number: rank[self._rows[number][0]])[: self._classes]  # type: ignore[assignment]
        parts = [self._rows[number][np.argsort(rank[self._rows[number]])][: self._each] for number in chosen]
        return np.concatenate(parts)

    def size(self, count: int) -> int:  # noqa: ARG002 - the labels decide
        """Classes times rows of each."""
        return self._each * (len(self._rows) if self._classes is None else self._classes)


def as_sampler(
    name: str,
    shuffle: bool | None,
    sampler: object,
    num_samples: int | None,
    num_shards: int | None,
    shard_id: int | None,
) -> Sampler:
    """The sampler that the arguments of a source describe; `name` is the source, for errors.

    Raises
    ------
    InvalidValueError
        If arguments exclude each other, or only one of `num_shards` and `shard_id` is given.
    """
    if (num_shards is None) != (shard_id is None):
        missing = "num_shards" if num_shards is None else "shard_id"
        raise InvalidValueError(f"{name}: num_shards and shard_id belong together, got no {missing}; pass both")
    if sampler is None:
        mixed = False if shuffle is None else require_flag(name, "shuffle", shuffle)
        if num_shards is not None and shard_id is not None:
            return DistributedSampler(num_shards, shard_id, mixed, num_samples)
        return RandomSampler(num_samples=num_samples) if mixed else _Head(name, num_samples)
    for what, given in (("shuffle", shuffle), ("num_samples", num_samples), ("num_shards", num_shards)):
        if given is not None:
            raise InvalidValueError(f"{name}: the sampler decides the order, got {what} as well; pass one of them")
    if isinstance(sampler, Sampler):
        return sampler
    if isinstance(sampler, Iterable) and iter(sampler) is not sampler:
        return IndexSampler(sampler)
    raise TypeRuleError(
        f"{name}: sampler must be a Sampler or a collection of integers, got {kind_of(sampler)}; pass one such as "
        "RandomSampler()"
    )


class _Head(SequentialSampler):
    """The first rows, also of none."""

    def __init__(self, name: str, num_samples: int | None) -> None:
        self._first, self._most = 0, _optional(name, num_samples)


def _optional(name: str, num_samples: int | None) -> int | None:
    return None if num_samples is None else require_count(name, "num_samples", num_samples)


def _fewer(count: int, most: int | None) -> int:
    return count if most is None else min(count, most)


def _integers(name: str, given: object) -> np.ndarray:
    found = np.asarray(given)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeRuleError(
            f"{name}: indices must be a sequence of integers, got {found.dtype}{list(found.shape)}; convert them"
        )
    return found.astype(np.int64)


def _rows_below(name: str, given: object, count: int) -> np.ndarray:
    """Indices of rows; negative ones count from the end."""
    found = _integers(name, given)
    wrong = (found < -count) | (found >= count)
    if wrong.any():
        raise InvalidValueError(
            f"{name}: indices must be below the number of rows, {count}, got {found[wrong.argmax()]}; correct it"
        )
    return np.where(found < 0, found + count, found)
