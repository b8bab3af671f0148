"""Datasets: items by index, combinations, random splits, and what they refuse."""

import re

import numpy as np
import pytest

import adjoint
from adjoint.errors import AdjointWarning, DataError, InvalidValueError, TypeRuleError
from adjoint.tensor.tensor import Tensor, from_array
from adjoint.utils.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def rows(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def test_an_item_of_tensors_is_a_row_of_each():
    dataset = TensorDataset(from_array(rows(4, 2)), rows(4, dtype=np.int64))
    x, y = dataset[-1]
    assert isinstance(x, Tensor)
    assert (x.tolist(), y.item(), y.shape, len(dataset)) == ([6.0, 7.0], 3, (), 4)
    assert [label.item() for _, label in dataset] == [0, 1, 2, 3]  # ends at the end
    assert dataset[1:3][0].shape == (2, 2)


def test_a_tensor_dataset_shares_the_memory_of_an_array():
    array = rows(3, 2)
    assert np.shares_memory(TensorDataset(array).tensors[0].numpy(), array)


def test_a_concatenation_goes_through_its_parts():
    joined = Subset(range(10), [3, 1]) + Subset(range(10), []) + [7, 8, 9]
    assert isinstance(joined, ConcatDataset)
    assert list(joined) == [3, 1, 7, 8, 9]
    assert (joined[-5], joined[-1], len(joined), joined.cumulative_sizes) == (3, 9, 5, [2, 5])
    for outside in (5, -6):
        with pytest.raises(IndexError):
            joined[outside]


def test_a_subset_selects_items():
    subset = Subset("abcd", [3, 0, 3])
    assert [subset[i] for i in range(len(subset))] == ["d", "a", "d"]
    assert subset.__getitems__([1, 2]) == ["a", "d"]
    assert Subset(TensorDataset(rows(4, 2)), [2, 0])[[0, 1]][0].tolist() == [[4, 5], [0, 1]]


def test_a_subset_fetches_batches_as_its_dataset_does():
    class Batched(Dataset):
        def __getitems__(self, indices):
            return [f"batch {indices}"]

    assert Subset(Batched(), [4, 5, 6]).__getitems__([0, 2]) == ["batch [4, 6]"]


def test_iterable_datasets_are_chained():
    chained = Stream() + Stream()
    assert isinstance(chained, ChainDataset)
    assert list(chained) == [0, 1, 2, 0, 1, 2]


def test_datasets_side_by_side():
    assert list(StackDataset([1, 2], "ab")) == [(1, "a"), (2, "b")]
    named = StackDataset(x=[1, 2], y="ab")
    assert (named[1], len(named)) == ({"x": 2, "y": "b"}, 2)


def test_a_split_has_every_item_once_in_an_order_of_the_seed():
    def split(seed):
        return [list(part) for part in random_split(range(10), [7, 3], adjoint.Generator().manual_seed(seed))]

    parts = split(0)
    assert [len(part) for part in parts] == [7, 3]
    assert sorted(parts[0] + parts[1]) == list(range(10))
    assert parts == split(0) != split(1)
    adjoint.manual_seed(0)
    assert [list(part) for part in random_split(range(10), [7, 3])] == parts


@pytest.mark.parametrize(
    ("lengths", "sizes"), [([0.5, 0.25, 0.25], [6, 3, 2]), ([0.8, 0.2], [9, 2]), ([1], [11]), ([0, 11], [0, 11])]
)
def test_fractions_are_rounded_down_and_the_rest_goes_to_the_parts_in_turn(lengths, sizes):
    assert [len(part) for part in random_split(range(11), lengths)] == sizes


def test_a_fraction_without_items_is_reported():
    with pytest.warns(AdjointWarning, match=r"random_split: part 1 has no items, 0\.01 of 2"):
        random_split(range(2), [0.99, 0.01])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: TensorDataset(),
            DataError,
            "TensorDataset takes at least one tensor, got none; pass the inputs and the targets",
        ),
        (
            lambda: TensorDataset(rows(3, 2), rows(4)),
            DataError,
            "TensorDataset takes tensors with equally many rows, got 3, 4; shorten the longer ones",
        ),
        (
            lambda: TensorDataset([1, 2]),
            TypeRuleError,
            "TensorDataset takes tensors, got a list; convert it with adjoint.tensor(...)",
        ),
        (
            lambda: TensorDataset(np.float32(1)[...]),
            TypeRuleError,
            "TensorDataset takes tensors [N, ...], got a scalar; stack the rows along axis 0",
        ),
        (
            lambda: TensorDataset(from_array(rows(2), requires_grad=True)),
            TypeRuleError,
            "TensorDataset takes tensors without gradients, got one that requires a gradient; pass tensor.detach()",
        ),
        (
            lambda: Dataset()[0],
            TypeRuleError,
            "Dataset: a dataset must define __getitem__(index), got none; define it, or derive Dataset from "
            "IterableDataset",
        ),
        (
            lambda: iter(IterableDataset()),
            TypeRuleError,
            "IterableDataset: an iterable dataset must define __iter__(), got none; define it as a generator",
        ),
        (
            lambda: StackDataset(),
            TypeRuleError,
            "StackDataset takes datasets either in order or by name, got nothing; pass one kind",
        ),
        (
            lambda: StackDataset([1], x=[2]),
            TypeRuleError,
            "StackDataset takes datasets either in order or by name, got both; pass one kind",
        ),
        (
            lambda: StackDataset([1], [2, 3]),
            DataError,
            "StackDataset takes datasets of the same length, got 1, 2; shorten the longer ones",
        ),
        (
            lambda: ConcatDataset([]),
            InvalidValueError,
            "ConcatDataset takes at least one dataset, got an empty list; pass some",
        ),
        (
            lambda: ConcatDataset([Stream()]),
            TypeRuleError,
            "ConcatDataset takes datasets with indices, got an IterableDataset; use ChainDataset",
        ),
        (
            lambda: random_split(Stream(), [1]),
            TypeRuleError,
            "random_split: the dataset must have a length, got a Stream without one; define __len__",
        ),
        (
            lambda: random_split(range(5), [3, 3]),
            InvalidValueError,
            "random_split: lengths must sum to the length of the dataset, 5, or fractions to 1, got [3, 3]; change one",
        ),
        (
            lambda: random_split(range(5), [6, -1]),
            InvalidValueError,
            "random_split: lengths must be numbers of at least 0, got [6, -1]; choose others",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
