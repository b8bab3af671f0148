"""Batches of rows of arrays."""

import numpy as np
import pytest

from adjoint.data import ArrayBatches, ArrayDataset, Rows
from adjoint.errors import DataError, InvalidValueError, TypeRuleError

X = np.arange(20, dtype=np.uint8).reshape(10, 2)
Y = np.arange(10)


def test_batches_are_rows_in_the_order_of_the_epoch():
    data = ArrayDataset(X, Y, batch_size=4)
    assert len(data) == 3
    assert data.arrays() is data
    for number in (0, 1, 0):
        order = data.order(number)
        assert order.dtype == np.int64
        assert sorted(order) == list(range(10))
        batches = list(data.epoch(number))
        assert [len(y) for _, y in batches] == [4, 4, 2]
        assert np.concatenate([x for x, _ in batches]).tolist() == X[order].tolist()
        assert np.concatenate([y for _, y in batches]).tolist() == order.tolist()
    assert data.order(0).tolist() != data.order(1).tolist()


def test_an_order_is_the_same_on_every_machine():
    # Written down when the order was defined: checkpoints rely on it.
    assert ArrayDataset(Y, batch_size=4).order(0).tolist() == [6, 1, 2, 8, 0, 4, 7, 3, 5, 9]
    assert ArrayDataset(Y, batch_size=4, seed=1).order(2).tolist() == [0, 3, 2, 8, 6, 9, 1, 4, 7, 5]


def test_an_epoch_begins_at_any_batch():
    data = ArrayDataset(X, Y, batch_size=3, drop_last=True)
    whole = [y.tolist() for _, y in data.epoch(5)]
    assert len(whole) == len(data) == 3
    for start in range(5):
        assert [y.tolist() for _, y in data.epoch(5, start)] == whole[start:]


def test_each_iteration_is_another_epoch():
    data = ArrayDataset(Y, batch_size=10)
    assert [next(iter(data))[0].tolist() for _ in range(2)] == [data.order(0).tolist(), data.order(1).tolist()]


def test_rows_are_converted_and_scaled():
    data = ArrayDataset(X, Y, batch_size=10, shuffle=False, scale=1 / 255)
    ((x, y),) = data.epoch(0)
    assert x.dtype == np.float32
    assert np.array_equal(x, X.astype(np.float32) * np.float32(1 / 255))
    assert y.dtype == np.int64
    ((x, y),) = ArrayDataset(X, Y, batch_size=10, shuffle=False, scale=(2, 1), dtype=("f2", "i4")).epoch(0)
    assert (x.dtype, y.dtype) == (np.float16, np.int32)
    assert x[3].tolist() == [12, 14]


def test_a_memory_mapped_array_is_read_batch_by_batch(tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    data = ArrayDataset(mapped, batch_size=5, shuffle=False)
    assert data.tables[0].array is mapped
    (first,), _ = data.epoch(0)
    assert type(first) is np.ndarray
    assert first.tolist() == X[:5].tolist()


def test_an_order_may_repeat_and_leave_out_rows():
    data = ArrayBatches([Rows(Y)], 2, lambda epoch: np.array([epoch, 3, 3]), columns=["y"])
    assert data.columns == ("y",)
    assert [batch[0].tolist() for batch in data.epoch(7)] == [[7, 3], [3]]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: ArrayDataset(batch_size=1),
            DataError,
            "ArrayDataset takes at least one array, got none; pass the inputs and the targets",
        ),
        (
            lambda: ArrayDataset(X, Y[:3], batch_size=1),
            DataError,
            "ArrayDataset takes arrays with equally many rows, got 10, 3; shorten the longer ones",
        ),
        (
            lambda: ArrayDataset([1], batch_size=1),
            TypeRuleError,
            "ArrayDataset takes NumPy arrays [N, ...], got a list; convert it with numpy.asarray",
        ),
        (
            lambda: ArrayDataset(Y, batch_size=0),
            InvalidValueError,
            "ArrayDataset: batch_size must be an integer of at least 1, got 0; choose another",
        ),
        (
            lambda: ArrayDataset(Y, batch_size=11, drop_last=True),
            InvalidValueError,
            "ArrayDataset: batch_size must be at most the number of rows, 10, where incomplete batches are dropped, "
            "got 11; choose another",
        ),
        (
            lambda: ArrayDataset(Y, batch_size=1, seed=-1),
            InvalidValueError,
            "ArrayDataset: seed must be an integer from 0 to 2**64 - 1, got -1; choose another",
        ),
        (
            lambda: ArrayDataset(Y, batch_size=1, shuffle=2),
            InvalidValueError,
            "ArrayDataset: shuffle must be True or False, got 2; choose one",
        ),
        (
            lambda: ArrayDataset(X, Y, batch_size=1, scale=(1, 1, 1)),
            InvalidValueError,
            "ArrayDataset: scale must be one value or one for each of 2 arrays, got 3; pass as many",
        ),
        (
            lambda: ArrayDataset(Rows(X), batch_size=1, scale=2),
            InvalidValueError,
            "ArrayDataset: Rows have a scale and a dtype of their own, got another one for them; leave it out",
        ),
        (
            lambda: next(ArrayDataset(X, batch_size=1, scale=2, dtype="i4").epoch(0)),
            InvalidValueError,
            "Rows of int32 cannot be scaled, got scale 2; use 1, or a float dtype",
        ),
        (
            lambda: ArrayDataset(X, Y, batch_size=1, columns=["x"]),
            DataError,
            "ArrayDataset: columns must have 2 names, got x; name each array",
        ),
        (
            lambda: ArrayBatches([X], 1, np.arange),
            TypeRuleError,
            "ArrayBatches: tables must be Rows, got a ndarray; wrap arrays in Rows(array)",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
