"""Functions of columns, in this thread and in others."""

import os
import threading

import numpy as np
import pytest

from adjoint.data import GeneratorDataset, NumpySlicesDataset
from adjoint.data.vision import RandomHorizontalFlip
from adjoint.errors import DataError, NameLookupError, TypeRuleError


def table():
    return NumpySlicesDataset(([1, 2, 3], [4, 5, 6], [7, 8, 9]), ["a", "b", "c"])


def rows(dataset, epoch=0, start=0):
    return [tuple(value.tolist() for value in row) for row in dataset.epoch(epoch, start)]


def test_results_take_the_place_of_the_inputs():
    assert rows(table().map(lambda b: b * 10, "b")) == [(1, 40, 7), (2, 50, 8), (3, 60, 9)]
    assert rows(table().map([lambda a: a + 1, lambda a: a * 2])) == [(4, 4, 7), (6, 5, 8), (8, 6, 9)]
    swapped = table().map(lambda c, a: (a, c), ["c", "a"])
    assert (swapped.get_col_names(), rows(swapped)) == (["a", "b", "c"], [(7, 4, 1), (8, 5, 2), (9, 6, 3)])


def test_another_number_of_results_comes_first():
    # The orders and numbers of mindspore.dataset's map of MindSpore 2.
    assert table().map(lambda b: (b, b * 2), "b", ["p", "q"]).get_col_names() == ["p", "q", "a", "c"]
    summed = table().map(lambda b, c: b + c, ["b", "c"], ["p"])
    assert (summed.get_col_names(), rows(summed)) == (["p", "a"], [(11, 1), (13, 2), (15, 3)])


def test_without_names_a_function_takes_as_many_columns_as_it_has_parameters():
    assert rows(table().map(lambda a, b: (b, a)))[0] == (4, 1, 7)
    assert rows(table().map(lambda *all_columns: tuple(-x for x in all_columns)))[0] == (-1, -4, -7)
    assert rows(table().map(lambda a, scale=3: a * scale))[0] == (3, 4, 7)
    assert rows(table().map(np.negative))[0] == (-1, 4, 7)


def test_random_numbers_follow_from_seed_epoch_and_index():
    def noisy(a, rng):
        return a + rng.random()

    data = table().map(noisy).map([noisy, noisy])
    assert rows(data, 1) == rows(data, 1)
    assert rows(data, 1, 2) == rows(data, 1)[2:]
    assert rows(data.with_seed(0), 1) == rows(data, 1)
    drawn = {rows(each, epoch)[n][0] - n for each in (data, data.with_seed(1)) for epoch in (0, 1) for n in range(3)}
    assert len(drawn) == 12
    # Each shard and each repetition draws other numbers.
    shards = [NumpySlicesDataset([0, 0], "a", num_shards=2, shard_id=k).map(noisy) for k in range(2)]
    assert rows(shards[0]) != rows(shards[1])
    assert len(set(rows(shards[0].repeat(4)))) == 4
    # An operation that draws nothing changes no numbers, wherever it is added.
    plain = table().map(lambda a: a).map(noisy).rename("a", "z").take(3)
    assert rows(plain) == rows(table().map(noisy))


def test_transforms_of_images_are_functions_of_rows_and_of_batches():
    images = np.arange(6 * 2 * 3, dtype=np.uint8).reshape(6, 2, 3, 1)
    data = NumpySlicesDataset((images, np.arange(6)), ["image", "label"])
    flipped = set()
    for flip in (data.map(RandomHorizontalFlip()).batch(6), data.batch(6).map(RandomHorizontalFlip())):
        for epoch in range(4):
            ((found, labels),) = flip.epoch(epoch)
            assert labels.tolist() == list(range(6))
            for image, given in zip(found, images, strict=True):
                assert image.tolist() in (given.tolist(), given[:, ::-1].tolist())
                flipped.add(image.tolist() == given.tolist())
    assert flipped == {True, False}


def test_workers_compute_the_same_in_order():
    together = threading.Barrier(3, timeout=20)

    def slow(a, rng):
        together.wait()  # which passes only if three threads are here at once
        return a + rng.random()

    def quick(a, rng):
        return a + rng.random()

    data = NumpySlicesDataset(np.arange(12), "a")
    parallel = data.map(slow, num_parallel_workers=3)
    assert rows(parallel) == rows(data.map(quick))
    assert rows(parallel.batch(2), start=3) == rows(data.map(quick).batch(2))[3:]
    # Where elements come one after the other, functions of three of them run at once.
    stream = GeneratorDataset(lambda: iter(range(12)), "a")
    assert rows(stream.map(slow, num_parallel_workers=3)) == rows(data.map(quick))


def test_worker_processes_compute_the_same():
    def where(a, rng):
        return a + rng.random(), os.getpid()

    data = NumpySlicesDataset(np.arange(8), "a")
    here = data.map(where, output_columns=["a", "process"]).batch(2)
    there = data.map(where, output_columns=["a", "process"], num_parallel_workers=2, python_multiprocessing=True)
    mine, theirs = rows(here, 3, 1), rows(there.batch(2), 3, 1)
    assert [a for a, _ in theirs] == [a for a, _ in mine]
    processes = {process for _, batch in theirs for process in batch}
    assert len(processes) == 2
    assert os.getpid() not in processes
    # Where elements come one after the other, they are read here, and only functions are called there.
    stream = GeneratorDataset(lambda: iter(range(8)), "a")
    there = stream.map(where, output_columns=["a", "process"], num_parallel_workers=2, python_multiprocessing=True)
    assert rows(there.project("a"), 3) == rows(data.map(where, output_columns=["a", "process"]).project("a"), 3)


def test_an_abandoned_epoch_leaves_no_threads():
    before = threading.active_count()
    epoch = table().map(lambda a: a, num_parallel_workers=2).epoch(0)
    next(epoch)
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("adjoint-worker")]
    assert len(workers) == 2
    epoch.close()
    for thread in workers:
        thread.join(20)
    assert threading.active_count() == before


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_names_function_item_and_line(workers):
    def bad(a):
        if a == 3:
            raise ValueError("three\nis too many")
        return a

    line = bad.__code__.co_firstlineno + 2
    with pytest.raises(DataError) as caught:
        rows(table().map(bad, num_parallel_workers=workers), 4)
    message = "map: bad raised ValueError (three) for item 2 of epoch 4; correct the function"
    assert str(caught.value) == f"{message} [at {__file__}:{line}]"
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: table().map(abs, "d"),
            NameLookupError,
            "map: there is no column 'd', the columns are a, b, c; name one",
        ),
        (
            lambda: table().map(3),
            TypeRuleError,
            "map takes a function, got an int; pass something callable",
        ),
        (
            lambda: table().map([]),
            TypeRuleError,
            "map takes at least one function, got an empty list; pass one",
        ),
        (
            lambda: table().map(abs, "a", "b"),
            DataError,
            "map: columns must have different names, got b, b, c; rename output_columns",
        ),
        (
            lambda: rows(table().map(lambda a, b: a + b, ["a", "b"])),
            DataError,
            "map: <lambda> must return a value for each of the columns a, b, got 1 for item 0; name the columns of its "
            "results in output_columns",
        ),
        (
            lambda: table().map(abs, 3),
            TypeRuleError,
            "map: input_columns must be a name or a list of names, got 3; pass strings",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
