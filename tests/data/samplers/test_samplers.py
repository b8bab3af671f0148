"""Samplers: which rows, in which order."""

import numpy as np
import pytest

from adjoint.data import (
    DistributedSampler,
    NumpySlicesDataset,
    PKSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    SubsetSampler,
    WeightedRandomSampler,
)
from adjoint.data.draw import Draw
from adjoint.errors import InvalidValueError, TypeRuleError


def order(sampler, count=10, epoch=0, seed=0):
    found = sampler.order(count, Draw(seed, epoch))
    assert found.dtype == np.int64
    assert len(found) == sampler.size(count)
    return found.tolist()


@pytest.mark.parametrize(
    ("offset", "shards"),
    [
        # mindspore.dataset.DistributedSampler(3, k, shuffle=False, offset=...) of MindSpore 2.
        (-1, [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]),
        (0, [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]),
        (1, [[2, 5, 8], [0, 3, 6, 9], [1, 4, 7]]),
        (2, [[1, 4, 7], [2, 5, 8], [0, 3, 6, 9]]),
    ],
)
def test_shards_are_those_of_mindspore(offset, shards):
    assert [order(DistributedSampler(3, k, shuffle=False, offset=offset)) for k in range(3)] == shards


def test_shards_of_a_source():
    shards = [NumpySlicesDataset(np.arange(10), num_shards=3, shard_id=k) for k in range(3)]
    rows = [[int(x) for (x,) in shard.epoch(0)] for shard in shards]
    assert rows == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]
    assert [len(shard) for shard in shards] == [4, 4, 4]
    assert order(DistributedSampler(4, 3, shuffle=False), count=2) == [1]  # more shards than rows


def test_shuffled_shards_share_one_permutation():
    shards = [order(DistributedSampler(2, k), epoch=3) for k in range(2)]
    whole = order(RandomSampler(), epoch=3)
    assert [row for pair in zip(*shards, strict=True) for row in pair] == whole
    assert sorted(whole) == list(range(10))
    assert order(DistributedSampler(2, 0), epoch=4) != shards[0]
    assert order(DistributedSampler(2, 0, num_samples=2), epoch=3) == shards[0][:2]


def test_rows_in_the_given_order():
    # mindspore.dataset.SubsetSampler([4, 1, 4]) and SequentialSampler(2, 3) of 6 rows.
    assert order(SubsetSampler([4, 1, 4]), count=6) == [4, 1, 4]
    assert order(SequentialSampler(2, 3), count=6) == [2, 3, 4]
    assert order(SequentialSampler(4, 8), count=6) == [4, 5]
    assert order(SubsetSampler([-1, 2, 3], num_samples=2), count=6) == [5, 2]


def test_random_rows_are_drawn_anew_in_each_epoch():
    rows = [3, 5, 8, 9]
    first, second = (order(SubsetRandomSampler(rows), epoch=epoch) for epoch in (0, 6))
    assert sorted(first) == sorted(second) == rows
    assert first != second
    assert order(SubsetRandomSampler(rows, num_samples=2)) == first[:2]
    several = order(RandomSampler(num_samples=25))
    assert [sorted(several[:10]), sorted(several[10:20])] == [list(range(10))] * 2
    assert several[:10] != several[10:20]


def test_draws_with_replacement_follow_the_weights():
    drawn = order(RandomSampler(replacement=True, num_samples=4000), count=4)
    assert np.allclose(np.bincount(drawn, minlength=4) / 4000, 1 / 4, atol=0.03)  # over 4 standard deviations
    weights = [1, 0, 2, 5]
    drawn = order(WeightedRandomSampler(weights, 4000), count=4)
    assert np.allclose(np.bincount(drawn, minlength=4) / 4000, np.array(weights) / 8, atol=0.032)
    firsts = [order(WeightedRandomSampler(weights, 2, replacement=False), count=4, seed=n) for n in range(500)]
    assert all(len(set(pair)) == 2 for pair in firsts)
    assert np.allclose(np.bincount([first for first, _ in firsts], minlength=4) / 500, np.array(weights) / 8, atol=0.09)


def test_rows_of_some_classes():
    labels = [0, 1, 2, 0, 1, 2, 0, 1, 2, 2]
    chosen = order(PKSampler(labels, 2))
    assert [labels[row] for row in chosen] == [0, 0, 1, 1, 2, 2]
    assert len(set(chosen)) == 6
    pairs = {tuple(labels[row] for row in order(PKSampler(labels, 3, 2), epoch=n)) for n in range(20)}
    assert pairs == {(a, a, a, b, b, b) for a in range(3) for b in range(3) if a != b}


def test_samplers_of_the_user():
    class Backwards(Sampler):
        def order(self, count, draw):
            return np.arange(count)[::-1].copy() + 0 * draw.epoch

    data = NumpySlicesDataset(np.arange(4), sampler=Backwards())
    assert [int(x) for (x,) in data] == [3, 2, 1, 0]
    data = NumpySlicesDataset(np.arange(4), sampler=range(0, 4, 2))
    assert [int(x) for (x,) in data] == [0, 2]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: DistributedSampler(3, 3),
            InvalidValueError,
            "DistributedSampler: shard_id must be below num_shards, 3, got 3; shards are counted from 0",
        ),
        (
            lambda: order(SubsetSampler([0, 10])),
            InvalidValueError,
            "SubsetSampler: indices must be below the number of rows, 10, got 10; correct it",
        ),
        (
            lambda: SubsetSampler([0.5]),
            TypeRuleError,
            "SubsetSampler: indices must be a sequence of integers, got float64[1]; convert them",
        ),
        (
            lambda: order(SequentialSampler(10)),
            InvalidValueError,
            "SequentialSampler: start_index must be below the number of rows, 10, got 10; choose another",
        ),
        (
            lambda: WeightedRandomSampler([1, -1]),
            InvalidValueError,
            "WeightedRandomSampler: weights must be finite and at least 0, got -1.0 at 1; change it",
        ),
        (
            lambda: WeightedRandomSampler([1, 0], replacement=False),
            InvalidValueError,
            "WeightedRandomSampler: at least 2 of the weights must be positive, got 1; change one, or draw fewer or "
            "with replacement",
        ),
        (
            lambda: order(WeightedRandomSampler([1, 1])),
            InvalidValueError,
            "WeightedRandomSampler: there must be a weight for each of 10 rows, got 2; pass as many",
        ),
        (
            lambda: PKSampler([0, 0, 1], 2),
            InvalidValueError,
            "PKSampler: num_val must be at most the number of rows of each class, 1, got 2; choose another",
        ),
        (
            lambda: NumpySlicesDataset([1], num_shards=2),
            InvalidValueError,
            "NumpySlicesDataset: num_shards and shard_id belong together, got no shard_id; pass both",
        ),
        (
            lambda: NumpySlicesDataset([1], shuffle=True, sampler=RandomSampler()),
            InvalidValueError,
            "NumpySlicesDataset: the sampler decides the order, got shuffle as well; pass one of them",
        ),
        (
            lambda: NumpySlicesDataset([1], sampler=iter([0])),
            TypeRuleError,
            "NumpySlicesDataset: sampler must be a Sampler or a collection of integers, got a list_iterator; pass one "
            "such as RandomSampler()",
        ),
        (
            lambda: NumpySlicesDataset([1], sampler=Sampler()),
            TypeRuleError,
            "Sampler: a sampler must define order(count, draw), got none; return the rows of an epoch",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
