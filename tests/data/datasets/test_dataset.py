"""Datasets as a whole: epochs that begin anywhere, iteration, sizes and arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjoint.data import Dataset, GeneratorDataset, NumpySlicesDataset
from adjoint.errors import DataError, InvalidValueError, TypeRuleError


def lists(rows):
    return [tuple(value.tolist() for value in row) for row in rows]


def count(size):
    return NumpySlicesDataset((np.arange(size), np.arange(size) % 3), ["x", "y"])


def test_repeating_before_and_after_batches():
    # Point 1 of the requirements: three rows.
    rows = NumpySlicesDataset(np.arange(3))
    assert lists(rows.repeat(2).batch(2)) == [([0, 1],), ([2, 0],), ([1, 2],)]
    assert lists(rows.batch(2).repeat(2)) == [([0, 1],), ([2],), ([0, 1],), ([2],)]
    assert len(rows.repeat(2).batch(2)) == 3
    assert len(rows.batch(2).repeat(2)) == 4


def _noisy(x, rng):
    return x + rng.integers(1000) / 1024


#: Operations that keep rows, which are applied in random order.
ON_ROWS = [
    lambda d: d.shuffle(4),
    lambda d: d.map(_noisy),
    lambda d: d.map(_noisy, num_parallel_workers=2),
    lambda d: d.filter(lambda x: int(x) % 4 != 1),
    lambda d: d.take(9),
    lambda d: d.skip(2),
    lambda d: d.repeat(2),
    lambda d: d.prefetch(),
    lambda d: d.with_seed(3),
    lambda d: d + d.map(np.negative),
    lambda d: d.zip(count(7).shuffle().rename(["x", "y"], ["v", "w"])).project(["x", "y"]),
    lambda d: d.rename("y", "z").rename("z", "y"),
]
BATCHES = [
    lambda d: d.batch(3),
    lambda d: d.batch(2, drop_remainder=True).take(4),
    lambda d: d.padded_batch(4).repeat(2),
    lambda d: d.bucket_batch_by_length("x", [2, 5], [2, 3, 1], lambda x: int(x)),
    lambda d: d,
]
SOURCES = [
    lambda: count(6),
    lambda: NumpySlicesDataset((np.arange(7), np.arange(7)), ["x", "y"], shuffle=True),
    lambda: GeneratorDataset([(n, n) for n in range(5)], ["x", "y"], num_shards=2, shard_id=1),
    lambda: GeneratorDataset(lambda epoch: ((n + epoch, n) for n in range(6)), ["x", "y"]),
]


@settings(max_examples=60, deadline=None)
@given(
    source=st.sampled_from(SOURCES),
    operations=st.lists(st.sampled_from(ON_ROWS), max_size=4),
    batches=st.sampled_from(BATCHES),
    epoch=st.integers(0, 3),
    data=st.data(),
)
def test_an_epoch_resumes_at_any_element(source, operations, batches, epoch, data):
    dataset = source()
    for operation in operations:
        dataset = operation(dataset)
    dataset = batches(dataset)
    whole = lists(dataset.epoch(epoch))
    assert dataset.get_dataset_size() == len(whole) or dataset._node.size() is None
    start = data.draw(st.integers(0, len(whole) + 1))
    assert lists(dataset.epoch(epoch, start)) == whole[start:]
    arrays = dataset.arrays()
    if arrays is not None:
        assert lists(arrays.epoch(epoch, start)) == whole[start:]
        assert len(arrays) == len(whole)
        assert arrays.columns == ("x", "y")


def test_skipped_elements_are_not_computed():
    seen = []

    def note(x):
        seen.append(int(x))
        return x

    data = count(100).map(note).shuffle().batch(10).repeat(2)
    list(data.epoch(0, 19))
    assert len(seen) == 10
    seen.clear()
    # After a filter, elements have to be counted, but functions behind it are not called.
    list(count(100).filter(lambda x: x % 2 == 0).map(note).batch(10).epoch(0, 4))
    assert seen == list(range(80, 100, 2))


@pytest.mark.parametrize(
    ("make", "native"),
    [
        (lambda d: d.batch(2), True),
        (lambda d: d.shuffle().batch(2, drop_remainder=True).prefetch(), True),
        (lambda d: d.skip(1).shuffle().take(5).repeat(3).batch(2).take(6).skip(1), True),
        (lambda d: d.split([0.5, 0.5])[1].batch(2), True),
        (lambda d: d.batch(7).repeat(2), True),
        (lambda d: d.rename("y", "z").project(["z", "x"]).batch(2), True),
        (lambda d: d.batch(2).repeat(2), False),  # an incomplete batch in the middle of the epoch
        (lambda d: d, False),
        (lambda d: d.batch(2).shuffle(), False),
        (lambda d: d.map(abs).batch(2), False),
        (lambda d: d.filter(bool).batch(2), False),
        (lambda d: d.padded_batch(2), False),
        (lambda d: d.repeat().batch(2), False),
        (lambda d: (d + d).batch(2), False),
    ],
)
def test_arrays_are_there_if_nothing_is_computed(make, native):
    data = make(count(7))
    arrays = data.arrays()
    assert (arrays is not None) == native
    if native:
        for epoch in range(2):
            assert lists(arrays.epoch(epoch)) == lists(data.epoch(epoch))


def test_arrays_are_numbers():
    assert NumpySlicesDataset(["a", "b"]).batch(2).arrays() is None
    table = NumpySlicesDataset(np.zeros((2, 3), np.float32), shuffle=True).batch(2).arrays().tables[0]
    assert (table.array.dtype, table.scale, table.dtype) == (np.float32, 1.0, None)


def test_each_loop_is_the_next_epoch():
    data = count(5).shuffle().batch(5)
    assert [lists(data), lists(data)] == [lists(data.epoch(0)), lists(data.epoch(1))]
    iterator = data.create_tuple_iterator("x", num_epochs=2)
    assert [lists(iterator), lists(iterator)] == [[row[:1] for row in lists(data.epoch(n))] for n in range(2)]
    with pytest.raises(InvalidValueError) as caught:
        iter(iterator)
    assert caught.value.message == (
        "an iterator over a dataset has num_epochs epochs, 2, got a loop over one more; pass a larger number or -1"
    )
    dicts = data.create_dict_iterator()
    assert next(dicts)["x"].tolist() == lists(data.epoch(0))[0][0]
    assert [list(each) for each in dicts] == [["x", "y"]]


def test_what_a_dataset_says_about_itself():
    data = NumpySlicesDataset((np.zeros((5, 2), np.float32), np.arange(5)), ["x", "y"]).batch(2)
    assert data.output_shapes() == [[2, 2], [2]]
    assert data.output_types() == [np.float32, np.int64]
    assert (data.get_batch_size(), data.get_dataset_size(), len(data)) == (2, 3, 3)
    assert (data.repeat(2).get_batch_size(), data.get_col_names()) == (2, ["x", "y"])
    assert repr(data) == "<Dataset: columns x, y; length 3>"
    assert repr(data.repeat()) == "<Dataset: columns x, y; endless>"
    filtered = data.filter(lambda x: x.sum() >= 0)
    assert repr(filtered) == "<Dataset: columns x, y; unknown length>"
    assert filtered.get_dataset_size() == 3
    assert isinstance(data, Dataset)


def test_values_become_arrays():
    data = GeneratorDataset([(1, 2.5, "a", {"k": 1})], ["i", "f", "s", "o"])
    ((i, f, s, o),) = data
    assert (i.dtype, f.dtype, s.dtype.kind, o) == (np.int64, np.float64, "U", {"k": 1})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: len(count(3).filter(bool)),
            TypeRuleError,
            "the length of a dataset whose elements come one after the other is unknown, as of a generator or after "
            "filter; count them with get_dataset_size()",
        ),
        (
            lambda: len(count(3).repeat()),
            TypeRuleError,
            "a dataset with repeat() for ever has no length; pass a count, or take some elements",
        ),
        (
            lambda: count(3).create_dict_iterator(output_numpy=False),
            InvalidValueError,
            "create_dict_iterator: elements are NumPy arrays, got output_numpy=False; leave it out, and convert arrays "
            "with adjoint.tensor(...)",
        ),
        (
            lambda: count(3).epoch(-1),
            InvalidValueError,
            "epoch: number must be an integer of at least 0, got -1; choose another",
        ),
        (
            lambda: count(3).with_seed(2**64),
            InvalidValueError,
            "with_seed: seed must be an integer from 0 to 2**64 - 1, got 18446744073709551616; choose another",
        ),
        (
            lambda: count(1).skip(1).output_shapes(),
            DataError,
            "output_shapes: the shapes and types are those of the first element, got an empty dataset; add some",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
