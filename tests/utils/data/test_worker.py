"""Data loaders with workers: the same batches in the same order, seeds, and iterable datasets."""

import itertools
import multiprocessing
import os
import random
import time
from typing import NamedTuple

import numpy as np
import pytest

import adjoint as torch
from adjoint.data import Prefetcher
from adjoint.errors import InvalidValueError, WorkerError
from adjoint.tensor.storage import is_exported
from adjoint.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, get_worker_info
from adjoint.utils.data.worker import base_seed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the datasets are classes of this file")


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert multiprocessing.active_children() == []


class Pair(NamedTuple):
    image: object
    label: object


class Images(Dataset):
    """Items of several kinds, large enough for shared memory."""

    def __len__(self):
        return 11

    def __getitem__(self, index):
        return {"pair": Pair(np.full((40, 30), index, np.float32), index), "name": str(index), "half": index / 2}


class Stream(IterableDataset):
    """Numbers that the workers share out."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.count)) if info is None else iter(range(info.id, self.count, info.num_workers))


class Drawn(Dataset):
    """What a worker knows and draws."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = get_worker_info()
        draws = (random.random(), np.random.random(), torch.default_generator.initial_seed())
        return info.id, info.num_workers, info.seed, type(info.dataset).__name__, *draws


def listed(batch):
    pair = batch["pair"]
    return [pair.image.tolist(), pair.label.tolist(), batch["name"], batch["half"].tolist(), type(pair).__name__]


@pytest.mark.parametrize(
    "settings", [{"batch_size": 3, "shuffle": True}, {"batch_size": 3, "sampler": [7, 2, 1, 4, 0]}]
)
def test_batches_do_not_depend_on_the_number_of_workers(settings):
    def epochs(workers):
        generator = torch.Generator().manual_seed(1)
        loader = DataLoader(Images(), generator=generator, num_workers=workers, **settings)
        found = [[listed(batch) for batch in loader] for _ in range(2)]
        return found, generator.host_state(), len(loader)

    alone = epochs(0)
    assert epochs(2) == alone
    assert len(alone[0][0]) == alone[2]


def test_single_items_and_batches_of_an_own_sampler():
    items = list(DataLoader(Images(), batch_size=None, num_workers=2))
    assert [item["pair"].label for item in items] == list(range(11))
    assert isinstance(items[0]["pair"].image, torch.Tensor)
    loader = DataLoader(range(9), batch_sampler=[[4], [2, 8], [1]], num_workers=2)
    assert [batch.tolist() for batch in loader] == [[4], [2, 8], [1]]


def test_batches_share_the_memory_of_the_workers():
    for number, batch in enumerate(DataLoader(Images(), num_workers=1)):
        image = batch["pair"].image
        assert not image.elements().array.flags.owndata
        assert not is_exported(image._storage)  # a step reads it without a copy
        assert (image * 2).sum().item() == 2 * 1200 * number


def test_rows_of_tensors_need_no_workers():
    loader = DataLoader(Subset(TensorDataset(np.arange(9)), [5, 3, 1]), 2, num_workers=2)
    batches = iter(loader)
    assert next(batches)[0].tolist() == [5, 3]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("persistent", [False, True])
def test_an_iterable_dataset_is_shared_out(persistent):
    # As torch.utils.data.DataLoader(Stream(11), 2, num_workers=2, ...) of PyTorch 2.13.
    loader = DataLoader(Stream(11), 2, num_workers=2, persistent_workers=persistent)
    expected = [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]
    assert next(iter(loader)).tolist() == [0, 2]
    assert [[batch.tolist() for batch in loader] for _ in range(2)] == [expected, expected]
    loader = DataLoader(Stream(11), 2, num_workers=2, drop_last=True)
    assert [batch.tolist() for batch in loader] == expected[:-1]
    assert list(DataLoader(Stream(3), None, num_workers=5)) == [0, 1, 2]


def test_seeds_of_workers():
    generator = torch.Generator().manual_seed(5)
    loader = DataLoader(Drawn(), None, num_workers=2, generator=generator)
    first, second = list(loader), list(loader)
    seed = base_seed(5, 0, 0)
    assert [item[:4] for item in first] == [[i, 2, seed + i, "Drawn"] for i in (0, 1, 0, 1)]
    assert [item[6] for item in first[:2]] == [seed, seed + 1]
    for number, item in enumerate(first[:2]):
        words = [(seed + number) % 2**32, (seed + number) // 2**32]
        assert item[4:6] == [random.Random(seed + number).random(), np.random.RandomState(words).random()]
    assert not {item[4] for item in first} & {item[4] for item in second}  # another seed in each epoch
    again = DataLoader(Drawn(), None, num_workers=2, generator=torch.Generator().manual_seed(5))
    assert list(again) == first
    assert get_worker_info() is None


def test_persistent_workers_and_the_function_that_starts_them(tmp_path):
    def started(number):
        (tmp_path / f"{os.getpid()}").write_text(str(number))

    loader = DataLoader(range(4), num_workers=2, persistent_workers=True, worker_init_fn=started)
    for _ in range(2):
        assert [batch.item() for batch in loader] == [0, 1, 2, 3]
    assert sorted(file.read_text() for file in tmp_path.iterdir()) == ["0", "1"]
    assert len(multiprocessing.active_children()) == 2
    del loader


def test_leaving_a_loop_ends_the_workers():
    for _ in DataLoader(Images(), num_workers=2):
        break
    assert multiprocessing.active_children() == []


def test_batches_as_they_are_ready():
    class Uneven(Images):
        def __getitem__(self, index):
            multiprocessing.Event().wait(0.3 if index == 0 else 0)
            return index

    batches = DataLoader(Uneven(), None, num_workers=2, prefetch_factor=3, in_order=False)
    found = list(batches)
    assert found[0] != 0
    assert sorted(found) == list(range(11))


def test_errors_of_workers():
    class Broken(Images):
        def __getitem__(self, index):
            if index == 3:
                raise FileNotFoundError("image 3")
            if index == 5:
                time.sleep(100)
            return os._exit(2) if index == 4 else index

    with pytest.raises(FileNotFoundError, match="image 3") as caught:
        list(DataLoader(Broken(), batch_sampler=[[0, 1], [2, 3]], num_workers=2))
    assert "while it worked on item 1, [2, 3]:\nTraceback" in caught.value.__notes__[0]
    with pytest.raises(WorkerError, match=r"ended with exit status 2 while it worked on item 0, \[4\]; do not end"):
        list(DataLoader(Broken(), batch_sampler=[[4]], num_workers=1))
    with pytest.raises(
        WorkerError, match=r"the timeout of 0.05 seconds, while it worked on item 0, \[5\] at .*_worker.py:"
    ):
        list(DataLoader(Broken(), batch_sampler=[[5]], num_workers=1, timeout=0.05))
    with pytest.raises(InvalidValueError, match="WorkerPool: context must be one of"):
        list(DataLoader(Broken(), num_workers=1, multiprocessing_context="threads"))


def test_two_iterations_of_one_loader_at_a_time():
    loader = DataLoader(range(5), num_workers=1)
    pairs = zip(loader, loader, strict=True)
    assert [(a.item(), b.item()) for a, b in pairs] == [(n, n) for n in range(5)]
    persistent = DataLoader(range(5), num_workers=1, persistent_workers=True)
    with pytest.raises(InvalidValueError, match="a pool goes through one iterable at a time"):
        list(itertools.islice(zip(persistent, persistent, strict=True), 2))


def test_workers_of_a_loop_in_another_thread():
    with Prefetcher(DataLoader(Images(), 4, num_workers=2)) as batches:
        assert [batch["pair"].label.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    with Prefetcher(DataLoader(Images(), 1, num_workers=2)) as batches:
        next(batches)
