"""Rows of NumPy arrays."""

import numpy as np
import pytest

from adjoint.data import NumpySlicesDataset, Rows
from adjoint.errors import DataError, TypeRuleError


@pytest.mark.parametrize(
    ("data", "names", "columns"),
    [
        ([5, 6], None, ["column_0"]),
        ([[1, 2], [3, 4]], None, ["column_0"]),
        (([1, 2], [3, 4]), None, ["column_0", "column_1"]),
        ({"x": [1, 2], "y": [3, 4]}, None, ["x", "y"]),
        ({"x": [1, 2], "y": [3, 4]}, ["a", "b"], ["a", "b"]),
        (np.zeros((2, 3)), "image", ["image"]),
    ],
)
def test_columns_are_arrays(data, names, columns):
    dataset = NumpySlicesDataset(data, names)
    assert dataset.get_col_names() == columns
    parts = list(data.values()) if isinstance(data, dict) else data if isinstance(data, tuple) else [data]
    rows = [tuple(value.tolist() for value in row) for row in dataset]
    assert rows == [tuple(np.asarray(part)[n].tolist() for part in parts) for n in range(2)]


def test_rows_are_converted():
    pixels = np.array([[0, 255], [51, 102]], np.uint8)
    data = NumpySlicesDataset((Rows(pixels, scale=1 / 255), Rows(np.arange(2), dtype="int32")), ["x", "y"])
    (_, (x, y)) = data
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    assert x.tolist() == (np.float32([51, 102]) * np.float32(1 / 255)).tolist()
    (batch,) = data.batch(2)
    assert batch[0][1].tolist() == x.tolist()
    assert data.batch(2).arrays().tables[0].scale == 1 / 255


def test_rows_are_sampled():
    data = NumpySlicesDataset(np.arange(100), shuffle=True, num_samples=10)
    rows = [int(x) for (x,) in data.epoch(0)]
    assert len(set(rows)) == 10
    assert rows != list(range(10))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: NumpySlicesDataset(()),
            DataError,
            "NumpySlicesDataset takes at least one array, got none; pass the inputs and the targets",
        ),
        (
            lambda: NumpySlicesDataset(([1, 2], [1])),
            DataError,
            "NumpySlicesDataset takes arrays with equally many rows, got 2, 1; shorten the longer ones",
        ),
        (
            lambda: NumpySlicesDataset([1, 2], ["x", "y"]),
            DataError,
            "NumpySlicesDataset: column_names must name each of 1 array, got x, y; a tuple has an array per column",
        ),
        (
            lambda: NumpySlicesDataset([[1], [1, 2]], "x"),
            TypeRuleError,
            "NumpySlicesDataset takes arrays [N, ...] of numbers or strings, got objects for 'x'; stack rows along "
            "axis 0, or use GeneratorDataset for rows of different shapes",
        ),
        (
            lambda: NumpySlicesDataset(3, "x"),
            TypeRuleError,
            "NumpySlicesDataset takes arrays [N, ...] of numbers or strings, got a scalar for 'x'; stack rows along "
            "axis 0, or use GeneratorDataset for rows of different shapes",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
