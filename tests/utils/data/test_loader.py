"""The data loader: its batches, its length, its seeds, and the arguments that it refuses."""

import re
from itertools import chain

import numpy as np
import pytest

import adjoint as torch
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.kernel.program import Argument
from adjoint.runtime.arguments import accept
from adjoint.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
    get_worker_info,
)


class Squares(Dataset):
    """Items made one by one."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return {"number": index, "square": np.float32(index**2)}


class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


class Counted(Stream):
    def __len__(self):
        return self.count


def numbers(loader):
    return [batch["number"].tolist() for batch in loader]


def test_items_are_collated():
    batches = list(DataLoader(Squares(5), batch_size=2))
    assert [batch["square"].tolist() for batch in batches] == [[0, 1], [4, 9], [16]]
    assert batches[0]["square"].dtype == np.float32


def test_the_names_of_a_training_script():
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(np.zeros((4, 2))), batch_size=2)
    assert [x.shape for (x,) in loader] == [(2, 2), (2, 2)]
    assert torch.utils.data.DataLoader is DataLoader
    assert DataLoader[int] is not None
    assert get_worker_info() is None


@pytest.mark.parametrize("dataset", [Squares(20), TensorDataset(np.arange(20))])
def test_shuffling_is_reproducible(dataset):
    def epochs(loader):
        return [[b[0].tolist() if isinstance(b, list) else b["number"].tolist() for b in loader] for _ in range(2)]

    torch.manual_seed(3)
    first = epochs(DataLoader(dataset, 8, shuffle=True))
    torch.manual_seed(3)
    assert epochs(DataLoader(dataset, 8, shuffle=True)) == first
    generator = torch.Generator().manual_seed(3)
    assert epochs(DataLoader(dataset, 8, shuffle=True, generator=generator)) == first
    assert first[0] != first[1]
    assert [len(batch) for batch in first[0]] == [8, 8, 4]
    assert all(sorted(chain(*epoch)) == list(range(20)) for epoch in first)


@pytest.mark.parametrize(
    ("settings", "batches"),
    [
        ({"batch_size": 2, "drop_last": True}, [[0, 1], [2, 3]]),
        ({"batch_size": 2, "sampler": [4, 0, 1]}, [[4, 0], [1]]),
        ({"batch_sampler": [[1], [4, 2, 0]]}, [[1], [4, 2, 0]]),
        ({"batch_sampler": BatchSampler(SequentialSampler(range(4)), 3, True)}, [[0, 1, 2]]),
        ({"batch_size": None}, [0, 1, 2, 3, 4]),
    ],
)
def test_order_and_batches(settings, batches):
    loader = DataLoader(Squares(5), **settings)
    found = [b["number"] if settings.get("batch_size", 1) is None else b["number"].tolist() for b in loader]
    assert (found, len(loader)) == (batches, len(batches))


def test_a_dataset_may_make_whole_batches():
    class Batched(Squares):
        def __getitems__(self, indices):
            return [10 * index for index in indices]

    assert [batch.tolist() for batch in DataLoader(Batched(3), 2)] == [[0, 10], [20]]


@pytest.mark.parametrize(
    ("settings", "batches"),
    [
        ({"batch_size": 2}, [[0, 1], [2, 3], [4]]),
        ({"batch_size": 2, "drop_last": True, "shuffle": False}, [[0, 1], [2, 3]]),
        ({"batch_size": None}, [0, 1, 2, 3, 4]),
    ],
)
def test_a_stream(settings, batches):
    loader = DataLoader(Counted(5), **settings)
    assert [batch if isinstance(batch, int) else batch.tolist() for batch in loader] == batches
    assert len(loader) == len(batches)


def test_a_stream_without_a_length_can_be_listed():
    assert len(list(DataLoader(Stream(5), 2))) == 3


def test_an_own_collate_function():
    assert list(DataLoader("abcde", 2, collate_fn="".join)) == ["ab", "cd", "e"]


def test_a_step_reads_batches_without_a_copy():
    (x,) = next(iter(DataLoader(TensorDataset(np.zeros((4, 2), np.float32)), 2)))
    read = accept("step", Argument("x", (2, 2), np.dtype(np.float32), 0), x)
    assert np.shares_memory(read, x.elements().array)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: DataLoader(iter([1])),
            TypeRuleError,
            "DataLoader takes a dataset with __getitem__ and __len__, or an IterableDataset, got a list_iterator; "
            "derive its class from Dataset or IterableDataset",
        ),
        (
            lambda: DataLoader(Dataset(), shuffle=True),
            TypeRuleError,
            "DataLoader: the dataset must have a length, got a Dataset without one; define __len__",
        ),
        (
            lambda: DataLoader([1], -4),
            InvalidValueError,
            "DataLoader: batch_size must be an integer of at least 1, got -4; choose another",
        ),
        (
            lambda: DataLoader([1], 2.0),
            InvalidValueError,
            "DataLoader: batch_size must be an integer of at least 1, got 2.0; choose another",
        ),
        (
            lambda: DataLoader([1], shuffle="yes"),
            InvalidValueError,
            "DataLoader: shuffle must be True or False, got 'yes'; choose one",
        ),
        (
            lambda: DataLoader([1], shuffle=True, sampler=[0]),
            InvalidValueError,
            "DataLoader: sampler decides the order, got shuffle=True as well; pass one of them",
        ),
        (
            lambda: DataLoader([1], 2, True, batch_sampler=[[0]], sampler=[0], drop_last=True),
            InvalidValueError,
            "DataLoader: batch_sampler decides the batches, got batch_size and shuffle and sampler and drop_last as "
            "well; pass one of them",
        ),
        (
            lambda: DataLoader([1], batch_size=None, drop_last=True),
            InvalidValueError,
            "DataLoader: without batches there is no last one, got batch_size=None and drop_last=True; leave one out",
        ),
        (
            lambda: DataLoader(Stream(1), shuffle=True),
            InvalidValueError,
            "DataLoader: the order of an IterableDataset is its own, got shuffle=True; leave it out, and shuffle in "
            "the dataset",
        ),
        (
            lambda: DataLoader(Stream(1), sampler=[0]),
            InvalidValueError,
            "DataLoader: the order of an IterableDataset is its own, got a sampler; leave it out, and shuffle in the "
            "dataset",
        ),
        (
            lambda: DataLoader([1], num_workers=-1),
            InvalidValueError,
            "DataLoader: num_workers must be an integer of at least 0, got -1; choose another",
        ),
        (
            lambda: DataLoader([1], timeout=-1),
            InvalidValueError,
            "DataLoader: timeout must be at least 0 seconds, got -1; choose another",
        ),
        (
            lambda: DataLoader([1], prefetch_factor=0),
            InvalidValueError,
            "DataLoader: prefetch_factor must be an integer of at least 1, got 0; choose another",
        ),
        (
            lambda: DataLoader([1], worker_init_fn=3),
            TypeRuleError,
            "DataLoader: worker_init_fn must be callable, got an int; pass a function",
        ),
        (
            lambda: DataLoader([1], collate_fn=3),
            TypeRuleError,
            "DataLoader: collate_fn must be callable, got an int; pass a function",
        ),
        (
            lambda: DataLoader([1], generator=3),
            TypeRuleError,
            "DataLoader: generator must be an adjoint.Generator, got an int; pass "
            "adjoint.Generator().manual_seed(seed)",
        ),
        (
            lambda: setattr(DataLoader([1]), "batch_size", 3),
            InvalidValueError,
            "DataLoader: batch_size cannot be changed, got 3; make another loader, which costs next to nothing",
        ),
        (
            lambda: len(DataLoader(Stream(1))),
            TypeRuleError,
            "DataLoader: the dataset must have a length, got a Stream without one; define __len__",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
