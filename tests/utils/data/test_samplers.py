"""Samplers: their order, their distribution, and what they refuse."""

import itertools
import re

import numpy as np
import pytest

from adjoint import Generator
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.utils.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def seeded(seed=0):
    return Generator().manual_seed(seed)


def test_in_sequence():
    sampler = SequentialSampler("abc")
    assert (list(sampler), len(sampler)) == ([0, 1, 2], 3)


def test_random_order_has_every_index_once_and_differs_between_epochs():
    sampler = RandomSampler(range(50), generator=seeded())
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert list(RandomSampler(range(50), generator=seeded())) == first
    assert all(type(index) is int for index in first)


def test_more_samples_than_items_are_whole_rounds_and_part_of_one():
    sampler = RandomSampler(range(4), num_samples=10, generator=seeded())
    order = list(sampler)
    assert len(order) == len(sampler) == 10
    assert sorted(order[:4]) == sorted(order[4:8]) == [0, 1, 2, 3]
    assert len(set(order[8:])) == 2


def test_with_replacement_all_indices_are_equally_likely():
    order = list(RandomSampler(range(10), replacement=True, num_samples=10_000, generator=seeded()))
    # Pearson's statistic of 10 classes; 27.9 is exceeded with probability 0.001.
    assert sum((count - 1000) ** 2 / 1000 for count in np.bincount(order, minlength=10)) < 27.9


def test_an_empty_dataset_has_an_empty_order():
    assert list(RandomSampler([])) == []


def test_a_random_subset():
    sampler = SubsetRandomSampler([7, 3, 5], generator=seeded())
    orders = {tuple(sampler) for _ in range(60)}
    assert orders == set(itertools.permutations([7, 3, 5]))
    assert len(sampler) == 3


def test_weights_are_probabilities():
    weights = [0, 1, 2, 0, 5, 0]
    order = list(WeightedRandomSampler(weights, 8000, generator=seeded()))
    counts = np.bincount(order, minlength=6)
    assert counts[[0, 3, 5]].tolist() == [0, 0, 0]
    # Pearson's statistic of 3 classes; 13.8 is exceeded with probability 0.001.
    assert sum((counts[i] - 1000 * weights[i]) ** 2 / (1000 * weights[i]) for i in (1, 2, 4)) < 13.8


def test_weights_without_replacement():
    sampler = WeightedRandomSampler([1, 0, 2, 3], 2, replacement=False, generator=seeded())
    drawn = [tuple(sampler) for _ in range(3000)]
    # The first of two is drawn by the weights, the second by those of the others.
    expected = {(a, b): w / 6 * v / (6 - w) for (a, w), (b, v) in itertools.permutations([(0, 1), (2, 2), (3, 3)], 2)}
    # Pearson's statistic of 6 classes; 20.5 is exceeded with probability 0.001.
    statistic = sum((drawn.count(pair) - 3000 * p) ** 2 / (3000 * p) for pair, p in expected.items())
    assert set(drawn) == set(expected)
    assert statistic < 20.5
    assert len(sampler) == 2


@pytest.mark.parametrize(
    ("drop_last", "batches"), [(False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])]
)
def test_batches_of_indices(drop_last, batches):
    sampler = BatchSampler(SequentialSampler(range(7)), 3, drop_last)
    assert (list(sampler), len(sampler)) == (batches, len(batches))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: iter(Sampler()),
            TypeRuleError,
            "Sampler: a sampler must define __iter__(), got none; define it as a generator of indices",
        ),
        (
            lambda: list(SequentialSampler(iter([1]))),
            TypeRuleError,
            "SequentialSampler: the dataset must have a length, got a list_iterator without one; define __len__",
        ),
        (
            lambda: RandomSampler(range(3), num_samples=0),
            InvalidValueError,
            "RandomSampler: num_samples must be an integer of at least 1, got 0; choose another",
        ),
        (
            lambda: list(RandomSampler([], num_samples=2)),
            InvalidValueError,
            "RandomSampler: the dataset is empty, got num_samples=2; leave it out",
        ),
        (
            lambda: list(SubsetRandomSampler([0.5, 1.5])),
            TypeRuleError,
            "SubsetRandomSampler: indices must be a sequence of integers, got float64[2]; convert them",
        ),
        (
            lambda: WeightedRandomSampler([[1, 2]], 2),
            InvalidValueError,
            "WeightedRandomSampler: weights must be a sequence of numbers, got the shape (1, 2); flatten it",
        ),
        (
            lambda: WeightedRandomSampler([1, -2], 2),
            InvalidValueError,
            "WeightedRandomSampler: weights must be finite and at least 0, got -2.0 at 1; change it",
        ),
        (
            lambda: WeightedRandomSampler([0, 0], 2),
            InvalidValueError,
            "WeightedRandomSampler: a weight must be positive, got only zeros; change one",
        ),
        (
            lambda: WeightedRandomSampler([1, 0, 1], 3, replacement=False),
            InvalidValueError,
            "WeightedRandomSampler: at least 3 of the weights must be positive, got 2; draw fewer or with replacement",
        ),
        (
            lambda: BatchSampler(range(3), True, False),
            InvalidValueError,
            "BatchSampler: batch_size must be an integer of at least 1, got True; choose another",
        ),
        (
            lambda: len(BatchSampler(iter([1]), 2, False)),
            TypeRuleError,
            "a data loader has a length if its sampler has one, got a list_iterator; define __len__, or count the "
            "batches as they come",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
