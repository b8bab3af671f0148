"""Samplers: the order in which a data loader visits the items of a dataset."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.tensor.generator import Generator, as_generator, host_permutation
from adjoint.utils.data.datasets import length_of

__all__ = [
    "BatchSampler",
    "OrderedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "integers",
    "ordered_sampler",
    "require_count",
    "sampler_length",
]

T_co = TypeVar("T_co", covariant=True)


def require_count(name: str, what: str, given: object) -> int:
    """A number that must be an integer of at least 1; `name` is the function and `what` the argument."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise InvalidValueError(f"{name}: {what} must be an integer of at least 1, got {given!r}; choose another")
    return int(given)


def integers(name: str, given: object) -> np.ndarray:
    """Indices as an array, int64; `name` is the function, for the error."""
    found = np.asarray(given)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeRuleError(
            f"{name}: indices must be a sequence of integers, got {found.dtype}{list(found.shape)}; convert them"
        )
    return found.astype(np.int64, copy=False)


class Sampler(Generic[T_co]):
    """Indices of items, or lists of them. A subclass defines ``__iter__()`` and, if it can, ``__len__()``."""

    def __iter__(self) -> Iterator[T_co]:
        raise TypeRuleError(
            f"{type(self).__name__}: a sampler must define __iter__(), got none; define it as a generator of indices"
        )


class OrderedSampler(Sampler[int]):
    """A sampler that knows the indices of a whole epoch at its beginning. A subclass defines `drawn` and ``__len__``.

    A `DataLoader` takes batches from the array instead of visiting indices one by one. An attribute `generator`, if
    there is one, is where the random numbers come from; None means the default generator.
    """

    def order(self) -> np.ndarray:
        """The indices of the next epoch, int64."""
        return self.drawn(as_generator(getattr(self, "generator", None), type(self).__name__))

    def drawn(self, generator: Generator) -> np.ndarray:
        """The indices of an epoch that another generator draws, int64."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        return iter(self.order().tolist())

    def __len__(self) -> int:
        raise NotImplementedError


class SequentialSampler(OrderedSampler):
    """All indices in ascending order.

    Parameters
    ----------
    data_source : dataset
        With a length.
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def drawn(self, generator: Generator) -> np.ndarray:  # noqa: ARG002
        """The numbers below the length of the dataset."""
        return np.arange(len(self), dtype=np.int64)

    def __len__(self) -> int:
        return length_of(self.data_source, "SequentialSampler")


class RandomSampler(OrderedSampler):
    """Indices in random order.

    Parameters
    ----------
    data_source : dataset
        With a length.
    replacement : bool, default False
        Whether indices are drawn independently. Otherwise each occurs once before one occurs again.
    num_samples : int, optional
        How many; default: the length of the dataset.
    generator : Generator, optional
        Where random numbers come from; default: the default generator (`adjoint.manual_seed`).

    Raises
    ------
    InvalidValueError
        If `num_samples` is below 1.
    TypeRuleError
        If the dataset has no length.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._count = None if num_samples is None else require_count("RandomSampler", "num_samples", num_samples)
        length_of(data_source, "RandomSampler")
        as_generator(generator, "RandomSampler")

    @property
    def num_samples(self) -> int:
        """The number of indices of an epoch."""
        return len(self.data_source) if self._count is None else self._count

    def drawn(self, generator: Generator) -> np.ndarray:
        """Permutations of all indices, the last one cut off; or independent indices."""
        items, count = len(self.data_source), self.num_samples
        if items == 0:
            if count:
                raise InvalidValueError(f"RandomSampler: the dataset is empty, got num_samples={count}; leave it out")
            return np.zeros(0, np.int64)
        if self.replacement:
            # The remainders of 64-bit words are even but for one part in 2**64 / items.
            remainders: np.ndarray = np.remainder(generator.words(count), np.uint64(items))
            return remainders.view(np.int64)
        rounds = [host_permutation(items, generator) for _ in range(-(-count // items))]
        return rounds[0] if count == items else np.concatenate(rounds)[:count]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(OrderedSampler):
    """Some indices in random order.

    Parameters
    ----------
    indices : sequence of int
        The indices.
    generator : Generator, optional
        Where random numbers come from; default: the default generator (`adjoint.manual_seed`).
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator
        as_generator(generator, "SubsetRandomSampler")

    def drawn(self, generator: Generator) -> np.ndarray:
        """A permutation of the indices."""
        found = integers("SubsetRandomSampler", self.indices)
        order: np.ndarray = found[host_permutation(len(found), generator)]
        return order

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(OrderedSampler):
    """Indices drawn with given probabilities.

    Parameters
    ----------
    weights : sequence of float
        The weight of each index; they need not sum to 1.
    num_samples : int
        How many to draw.
    replacement : bool, default True
        Whether they are drawn independently, by the inverse of the cumulative weights. Otherwise no index occurs twice
        (P. Efraimidis, P. Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters 97,
        2006).
    generator : Generator, optional
        Where random numbers come from; default: the default generator (`adjoint.manual_seed`).

    Raises
    ------
    InvalidValueError
        If `num_samples` is below 1, a weight is negative or not finite, or fewer are positive than are to be drawn.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        self.num_samples = require_count("WeightedRandomSampler", "num_samples", num_samples)
        self.weights, self.replacement, self.generator = np.array(weights, np.float64), replacement, generator
        as_generator(generator, "WeightedRandomSampler")
        if self.weights.ndim != 1:
            raise InvalidValueError(
                f"WeightedRandomSampler: weights must be a sequence of numbers, got the shape {self.weights.shape}; "
                "flatten it"
            )
        wrong = ~(np.isfinite(self.weights) & (self.weights >= 0))
        if wrong.any():
            place = int(wrong.argmax())
            raise InvalidValueError(
                "WeightedRandomSampler: weights must be finite and at least 0, got "
                f"{self.weights[place]} at {place}; change it"
            )
        positive, needed = int(np.count_nonzero(self.weights)), 1 if replacement else self.num_samples
        if positive < needed:
            raise InvalidValueError(
                f"WeightedRandomSampler: at least {needed} of the weights must be positive, got {positive}; draw fewer "
                "or with replacement"
                if positive
                else "WeightedRandomSampler: a weight must be positive, got only zeros; change one"
            )

    def drawn(self, generator: Generator) -> np.ndarray:
        """Indices in the order in which they are drawn."""
        positive = np.flatnonzero(self.weights)
        weights = self.weights[positive]
        if self.replacement:
            ends = np.cumsum(weights)
            drawn = np.searchsorted(ends, generator.uniforms(self.num_samples) * ends[-1], side="right")
            # A product may be rounded up to the sum of all weights.
            drawn = np.minimum(drawn, len(ends) - 1)
        else:
            keys = np.log1p(-generator.uniforms(len(weights))) / weights
            drawn = np.argsort(-keys, kind="stable")[: self.num_samples]
        order: np.ndarray = positive[drawn].astype(np.int64, copy=False)
        return order

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of indices of another sampler.

    Parameters
    ----------
    sampler : sampler or iterable of int
        The indices.
    batch_size : int
        How many make a batch.
    drop_last : bool
        Whether to omit an incomplete last batch.

    Raises
    ------
    InvalidValueError
        If `batch_size` is below 1.
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        self.sampler = sampler
        self.batch_size = require_count("BatchSampler", "batch_size", batch_size)
        self.drop_last = bool(drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = sampler_length(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def sampler_length(sampler: object) -> int:
    """The number of indices of a sampler."""
    try:
        return len(sampler)  # type: ignore[arg-type]
    except TypeError:
        raise TypeRuleError(
            f"a data loader has a length if its sampler has one, got {kind_of(sampler)}; define __len__, or count the "
            "batches as they come"
        ) from None


def ordered_sampler(batches: object, sampler: object) -> OrderedSampler | None:
    """The sampler of a loader if the order of an epoch is all that decides its batches.

    Parameters
    ----------
    batches : object
        The batch sampler; None if items are not batched.
    sampler : object
        The sampler, which is looked at without a batch sampler.
    """
    if batches is not None:
        if not isinstance(batches, BatchSampler) or type(batches).__iter__ is not BatchSampler.__iter__:
            return None
        sampler = batches.sampler
    if not isinstance(sampler, OrderedSampler) or type(sampler).__iter__ is not OrderedSampler.__iter__:
        return None
    return sampler
