"""Items of Python objects."""

import pickle
from functools import partial

import numpy as np
import pytest

from adjoint.data import GeneratorDataset, NumpySlicesDataset, TextFileDataset
from adjoint.data.draw import Draw
from adjoint.errors import DataError, InvalidValueError, TypeRuleError


def lists(dataset, epoch=0):
    return [tuple(value.tolist() for value in row) for row in dataset.epoch(epoch)]


class Squares:
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return index, index * index


def pairs():
    yield 1, 2
    yield 3, 4


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        (Squares(), [(n, n * n) for n in range(5)]),
        (pairs, [(1, 2), (3, 4)]),
        ([(1, 2), (3, 4)], [(1, 2), (3, 4)]),
        ([{"b": 2, "a": 1}], [(1, 2)]),
        ([[1, 2], [3, 4]], [(1, 2), (3, 4)]),
        ({(1, 2)}, [(1, 2)]),
    ],
)
def test_items_are_rows(source, rows):
    data = GeneratorDataset(source, ["a", "b"])
    assert lists(data) == rows
    assert lists(data, 1) == rows


def test_names_come_from_the_first_item():
    assert GeneratorDataset([{"x": 1, "y": 2}]).get_col_names() == ["x", "y"]
    assert GeneratorDataset(pairs).get_col_names() == ["column_0", "column_1"]
    assert GeneratorDataset(range(3)).get_col_names() == ["column_0"]
    assert lists(GeneratorDataset(pairs)) == [(1, 2), (3, 4)]


def test_types_of_columns():
    (row,) = GeneratorDataset([(1, 2.5)], ["a", "b"], ["float32", None]).take(1)
    assert [value.dtype for value in row] == [np.float32, np.float64]


def test_a_source_with_random_access_is_sampled():
    data = GeneratorDataset(Squares(), ["a", "b"], shuffle=True, num_samples=3, num_parallel_workers=2)
    drawn = lists(data)
    assert len(data) == len({a for a, _ in drawn}) == 3
    assert all(b == a * a for a, b in drawn)
    assert drawn != lists(data, 1)
    assert lists(GeneratorDataset(Squares(), ["a", "b"], sampler=[4, 2])) == [(4, 16), (2, 4)]
    shard = GeneratorDataset(Squares(), ["a", "b"], num_shards=2, shard_id=1)
    assert [a for a, _ in lists(shard)] == [1, 3, 0]


def test_a_stream_is_cut_off():
    assert lists(GeneratorDataset(pairs, ["a", "b"], num_samples=1)) == [(1, 2)]
    assert GeneratorDataset({1, 2, 3}, "a", num_samples=2).get_dataset_size() == 2


def test_batches_of_a_batch_sampler():
    batches = [[0, 2], [4, 1, 3]]
    data = GeneratorDataset(Squares(), ["a", "b"], batch_sampler=batches)
    assert lists(data) == [([0, 2], [0, 4]), ([4, 1, 3], [16, 1, 9])]
    assert (len(data), data.get_batch_size()) == (2, 2)
    assert lists(data.skip(1)) == [([4, 1, 3], [16, 1, 9])]
    summed = GeneratorDataset(
        Squares(), "sum", batch_sampler=batches, collate_fn=lambda items: np.sum(items, dtype=np.int64)
    )
    assert lists(summed) == [(6,), (34,)]


def test_elements_are_computed_by_new_interpreters(tmp_path):
    # Worker processes that are not forked get what they compute by pickle.
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    sources = [
        GeneratorDataset(Squares(), ["a", "b"], shuffle=True),
        GeneratorDataset(Squares(), ["a", "b"], batch_sampler=[[0, 2], [4, 1]]),
        TextFileDataset(tmp_path / "a.txt"),
        NumpySlicesDataset(np.arange(4)).map(np.negative).padded_batch(2).repeat(3),
    ]
    for data in sources:
        view = data._node.view(Draw(0, 1))
        again = pickle.loads(pickle.dumps(view.row))
        assert [np.asarray(again(n)[0]).tolist() for n in range(view.size)] == [row[0] for row in lists(data, 1)]
    stream = GeneratorDataset(pairs, ["a", "b"]).map(np.negative, num_parallel_workers=2)
    apply = partial(stream._node._apply_numbered, Draw(0, 0))
    assert pickle.loads(pickle.dumps(apply))((0, (1, 2))) == (-1, 2)


class Broken(Squares):
    def __getitem__(self, index):
        if index == 3:
            raise OSError("no such file")
        return index


def broken():
    yield 1
    raise RuntimeError("the connection is lost")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: GeneratorDataset(pairs(), ["a", "b"]),
            TypeRuleError,
            "GeneratorDataset takes what can be iterated over in each epoch, got a generator, which has one pass; pass "
            "the function that makes it",
        ),
        (
            lambda: GeneratorDataset(3, "a"),
            TypeRuleError,
            "GeneratorDataset takes an object with __getitem__ and __len__, an iterable, or a generator function, got "
            "an int; pass one of these",
        ),
        (
            lambda: GeneratorDataset([]),
            DataError,
            "GeneratorDataset: names of columns are taken from the first item, got none; pass column_names",
        ),
        (
            lambda: lists(GeneratorDataset(pairs, ["a", "b", "c"])),
            DataError,
            "GeneratorDataset: items must have a value for each of the columns a, b, c, item 0 has 2; name all in "
            "column_names",
        ),
        (
            lambda: GeneratorDataset(pairs, ["a", "b"], ["int32"]),
            DataError,
            "GeneratorDataset: column_types must have a dtype for each of the columns a, b, got 1; pass as many",
        ),
        (
            lambda: GeneratorDataset(pairs, ["a", "b"], ["float32", "number"]),
            TypeRuleError,
            "GeneratorDataset: column_types must be dtypes of NumPy or None, got 'number'; pass one such as "
            '"float32"',
        ),
        (
            lambda: lists(GeneratorDataset([1, 2.5], "a", "int32")),
            TypeRuleError,
            "GeneratorDataset: column 'a' has the type int32, item 1 is float64, which would be cut off; give another "
            "type or convert it with map",
        ),
        (
            lambda: GeneratorDataset(pairs, ["a", "b"], shuffle=True),
            InvalidValueError,
            "GeneratorDataset: shuffle needs a source with __getitem__ and __len__, got a function; leave it out, or "
            "shuffle with .shuffle(buffer_size)",
        ),
        (
            lambda: GeneratorDataset(Squares(), ["a", "b"], shuffle=True, batch_sampler=[[0]]),
            InvalidValueError,
            "GeneratorDataset: the batch_sampler decides the order, got shuffle as well; pass one of them",
        ),
        (
            lambda: GeneratorDataset(Squares(), ["a", "b"], collate_fn=list),
            InvalidValueError,
            "GeneratorDataset: collate_fn makes the batches of a batch_sampler, got none; pass one, or use batch",
        ),
        (
            lambda: lists(GeneratorDataset(Squares(), "a", batch_sampler=[[0, 1]], collate_fn=lambda items: items[9])),
            DataError,
            "GeneratorDataset: <lambda> raised IndexError (list index out of range) for items [0, 1]; correct the "
            "function",
        ),
        (
            lambda: lists(GeneratorDataset(Broken(), "a")),
            DataError,
            "GeneratorDataset: Broken raised OSError (no such file) for item 3; correct the source",
        ),
        (
            lambda: lists(GeneratorDataset(broken, "a")),
            DataError,
            "GeneratorDataset: broken raised RuntimeError (the connection is lost) for item 1; correct the source",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
