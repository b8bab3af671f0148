"""Rows of tensors: the batches are those of collated items, in memory that is used again when nobody sees it."""

import re

import numpy as np
import pytest

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.tensor import from_array
from adjoint.utils.data import DataLoader, Subset, TensorDataset, default_collate
from adjoint.utils.data.gather import gather_of

X = np.arange(22, dtype=np.float32).reshape(11, 2)
Y = np.arange(11) % 3


def both(dataset, **settings):
    """The batches as copied rows, and as collated items."""
    for collate in (None, lambda items: default_collate(items)):
        yield [
            [part.tolist() for part in batch] if isinstance(batch, list) else batch.tolist()
            for batch in DataLoader(dataset, collate_fn=collate, **settings)
        ]


@pytest.mark.parametrize(
    "dataset",
    [
        TensorDataset(X, Y),
        TensorDataset(from_array(X)),
        Subset(TensorDataset(X, Y), [3, -1, 5, 0, 3]),
        Subset(Subset(TensorDataset(X, Y), range(1, 11, 2)), np.array([4, 0, -2])),
        Subset(TensorDataset(X), []),
        X,
        Y,
    ],
)
@pytest.mark.parametrize(
    "settings", [{"batch_size": 4}, {"batch_size": 2, "drop_last": True}, {"batch_sampler": [[0], [2, -1, 1]]}]
)
def test_copied_rows_are_those_of_collated_items(dataset, settings):
    if len(dataset) == 0:
        settings = {"batch_size": 4}
    assert gather_of(dataset) is not None
    copied, collated = both(dataset, **settings)
    assert copied == collated
    assert (copied == []) == (len(dataset) == 0)


def test_rows_are_copies_in_aligned_memory():
    (x, _) = next(iter(DataLoader(TensorDataset(X, Y), 3)))
    assert x.elements().address % 64 == 0
    assert x.elements().array.flags.c_contiguous
    assert not np.shares_memory(x.numpy(), X)
    assert (x.dtype, x.shape) == (np.float32, (3, 2))


def test_memory_is_used_again_when_nobody_sees_it():
    addresses = [x.elements().address for (x,) in DataLoader(TensorDataset(X), 1)]
    assert len(set(addresses)) == 2  # a loop has the last batch while it asks for the next


def test_batches_that_are_kept_stay_as_they_are():
    batches = list(DataLoader(TensorDataset(X), 1))
    arrays = [x.numpy() for (x,) in DataLoader(TensorDataset(X), 1)]
    assert [x.tolist() for (x,) in batches] == [array.tolist() for array in arrays] == [[row] for row in X.tolist()]


def test_operations_that_have_not_run_read_the_batch_that_they_were_given():
    doubled = [x + x for (x,) in DataLoader(TensorDataset(X[:4]), 1)]
    assert [x.tolist() for x in doubled] == [[row] for row in (2 * X[:4]).tolist()]


def test_a_change_of_the_dataset_is_seen_by_the_next_batch():
    array = X.copy()
    seen = []
    for (x,) in DataLoader(TensorDataset(array), 5):
        seen.append(x.tolist()[0])
        array += 100
    assert seen == [[0, 1], [110, 111], [220, 221]]


def test_own_items_are_not_bypassed():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return 2 * index

    class Fetched(TensorDataset):
        def __getitems__(self, indices):
            return [-index for index in indices]

    class Moved(Subset):
        def __getitem__(self, index):
            return index + 100

    assert [b.tolist() for b in DataLoader(Doubled(X[:3]), 2)] == [[0, 2], [4]]
    assert [b.tolist() for b in DataLoader(Fetched(X[:3]), 2)] == [[0, -1], [-2]]
    assert gather_of(Moved(TensorDataset(X), [0])) is None
    assert gather_of(Subset({"a": 1}, ["a"])) is None


@pytest.mark.parametrize(
    ("loader", "error", "message"),
    [
        (
            lambda: DataLoader(TensorDataset(X), 2, sampler=[0, 1, 11]),
            InvalidValueError,
            "DataLoader: indices must be below the number of rows, 11, got 11; check the sampler or the subset",
        ),
        (
            lambda: DataLoader(Subset(TensorDataset(X), [0, -12]), 2),
            InvalidValueError,
            "DataLoader: indices must be below the number of rows, 11, got -12; check the sampler or the subset",
        ),
        (
            lambda: DataLoader(TensorDataset(X), 2, sampler=[0.5]),
            TypeRuleError,
            "DataLoader: indices must be a sequence of integers, got float64[1]; convert them",
        ),
        (
            lambda: DataLoader(Subset(from_array(X, requires_grad=True), [0]), 2),
            TypeRuleError,
            "TensorDataset takes tensors without gradients, got one that requires a gradient; pass tensor.detach()",
        ),
    ],
)
def test_refusals(loader, error, message):
    with pytest.raises(error, match=re.escape(message)):
        list(loader())
