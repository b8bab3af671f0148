"""Epochs of data loaders by number, their position, and their orders as arrays."""

import itertools
import json

import numpy as np
import pytest

import adjoint as torch
from adjoint.errors import InvalidValueError
from adjoint.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)


class Numbers:
    """A dataset whose items are made one by one."""

    def __len__(self):
        return 11

    def __getitem__(self, index):
        return index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(11))


def generator(seed=4):
    return torch.Generator().manual_seed(seed)


def batches(iterator):
    return [(batch[0] if isinstance(batch, list) else batch).tolist() for batch in iterator]


SAMPLERS = {
    "permutation": lambda: RandomSampler(range(11), generator=generator()),
    "several": lambda: RandomSampler(range(11), num_samples=25, generator=generator()),
    "replacement": lambda: RandomSampler(range(11), True, generator=generator()),
    "subset": lambda: SubsetRandomSampler([4, 2, 9, 1, 7], generator=generator()),
    "weighted": lambda: WeightedRandomSampler(np.arange(11.0), 9, generator=generator()),
    "without": lambda: WeightedRandomSampler(np.arange(11.0), 9, False, generator=generator()),
    "sequential": lambda: SequentialSampler(range(11)),
    "list": lambda: [3, 1, 4, 1, 5],
}


@pytest.mark.parametrize("dataset", [Numbers(), TensorDataset(np.arange(11))])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_epochs_by_number_are_those_of_iteration(dataset, sampler):
    loader = DataLoader(dataset, 2, sampler=SAMPLERS[sampler]())
    iterated = [batches(loader) for _ in range(3)]
    other = DataLoader(dataset, 2, sampler=SAMPLERS[sampler]())
    for number, start in itertools.product((2, 0, 1), (0, 2, 50)):
        assert batches(other.epoch(number, start)) == iterated[number][start:]
    assert batches(other) == iterated[0]  # nothing has been drawn
    assert batches(DataLoader(dataset, 2, sampler=SAMPLERS[sampler](), drop_last=True).epoch(1)) == [
        batch for batch in iterated[1] if len(batch) == 2
    ]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_position_in_an_epoch(sampler):
    for dataset, stop in ((Numbers(), 2), (TensorDataset(np.arange(11)), 0), (Numbers(), None)):
        loader = DataLoader(dataset, 2, sampler=SAMPLERS[sampler]())
        first = batches(loader)
        position = loader.state_dict()
        assert (position["epoch"], position["batches"]) == (1, 0)
        running = iter(loader)
        begun = batches(itertools.islice(running, len(loader) if stop is None else stop))
        state = json.loads(json.dumps(loader.state_dict()))
        expected = batches(running), batches(loader)
        resumed = DataLoader(dataset, 2, sampler=SAMPLERS[sampler]())
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert (batches(resumed), batches(resumed)) == expected
        assert len(begun) + len(expected[0]) == len(first)
        resumed = DataLoader(dataset, 2, sampler=SAMPLERS[sampler]())
        resumed.load_state_dict(position)
        assert batches(resumed) == begun + expected[0]


def test_a_stream_goes_on_at_a_batch():
    loader = DataLoader(Stream(), 3)
    assert batches(loader.epoch(5, 2)) == [[6, 7, 8], [9, 10]]
    next(iter(loader))
    resumed = DataLoader(Stream(), 3)
    resumed.load_state_dict(loader.state_dict())
    assert batches(resumed) == [[3, 4, 5], [6, 7, 8], [9, 10]]
    assert len(batches(resumed)) == 4


def test_epochs_by_number_with_workers():
    loader = DataLoader(Numbers(), 2, True, generator=generator(), num_workers=2)
    assert batches(loader.epoch(1, 2)) == batches(DataLoader(Numbers(), 2, True, generator=generator()).epoch(1))[2:]
    next(iter(loader))
    resumed = DataLoader(Numbers(), 2, True, generator=generator(9))
    resumed.load_state_dict(loader.state_dict())
    assert batches(resumed) == batches(loader.epoch(0, 1))


def test_samplers_of_ones_own_are_told_the_epoch():
    class Shifted:
        first = 0

        def set_epoch(self, number):
            self.first = number

        def __iter__(self):
            return iter(range(self.first, self.first + 4))

        def __len__(self):
            return 4

    loader = DataLoader(Numbers(), 2, sampler=Shifted())
    assert batches(loader.epoch(3)) == [[3, 4], [5, 6]]
    assert batches(loader.epoch(1, 1)) == [[3, 4]]


def test_the_default_generator():
    torch.manual_seed(4)
    loader = DataLoader(Numbers(), 11, True)
    expected = [batches(DataLoader(Numbers(), 11, True, generator=generator()).epoch(n)) for n in range(2)]
    assert [batches(loader.epoch(n)) for n in range(2)] == expected
    torch.manual_seed(5)  # what is drawn later does not change epochs by number
    assert batches(loader.epoch(1)) == expected[1]
    resumed = DataLoader(Numbers(), 11, True)
    resumed.load_state_dict(loader.state_dict())
    assert batches(resumed.epoch(1)) == expected[1]


@pytest.mark.parametrize("subset", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_orders_as_arrays_are_those_of_iteration(subset, drop_last):
    images, labels = np.arange(22, dtype=np.float32).reshape(11, 2), np.arange(11)
    dataset = TensorDataset(images, labels)
    if subset:
        dataset = Subset(Subset(dataset, [9, 1, 3, 0, 8, -1]), [2, 1, 0, 4, 5])
    loader = DataLoader(dataset, 2, True, generator=generator(), drop_last=drop_last)
    arrays = DataLoader(dataset, 2, True, generator=generator(), drop_last=drop_last).arrays()
    assert (len(arrays), arrays.batch_size, arrays.drop_last) == (len(loader), 2, drop_last)
    assert np.shares_memory(arrays.tables[0].array, images)
    for number in range(2):
        found = [(x.tolist(), y.tolist()) for x, y in arrays.epoch(number)]
        assert found == [(x.tolist(), y.tolist()) for x, y in loader]
        assert all(x == [[2 * row, 2 * row + 1] for row in y] for x, y in found)


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(Numbers(), 2),
        DataLoader(TensorDataset(np.arange(5)), None),
        DataLoader(TensorDataset(np.arange(5)), 2, collate_fn=list),
        DataLoader(TensorDataset(np.arange(5)), 2, sampler=[1, 2]),
        DataLoader(np.arange(5), 2),
        DataLoader(TensorDataset(np.arange(5)), 6, drop_last=True),
        DataLoader(Stream(), 2),
    ],
)
def test_other_batches_are_no_arrays(loader):
    assert loader.arrays() is None


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda loader: loader.epoch(-1),
            "DataLoader.epoch: number must be an integer of at least 0, got -1; choose another",
        ),
        (
            lambda loader: loader.epoch(0, 1.5),
            "DataLoader.epoch: start must be an integer of at least 0, got 1.5; choose another",
        ),
        (
            lambda loader: loader.load_state_dict({"epoch": 1}),
            "DataLoader: a state must be what state_dict() returned, got {'epoch': 1}; pass that of a loader",
        ),
        (
            lambda loader: loader.load_state_dict(3),
            "DataLoader: a state must be what state_dict() returned, got 3; pass that of a loader",
        ),
    ],
)
def test_refusals(use, message):
    with pytest.raises(InvalidValueError) as caught:
        use(DataLoader(Numbers(), 2))
    assert caught.value.message == message
