"""Batches: stacked, padded, and functions of their rows."""

import numpy as np
import pytest

from adjoint.data import GeneratorDataset, NumpySlicesDataset
from adjoint.errors import DataError, InvalidValueError, NameLookupError, TypeRuleError


def sequences():
    """Rows 0 to n - 1 for several n."""
    return GeneratorDataset(lambda: (np.arange(n) for n in (1, 2, 5, 3, 2, 7, 4, 1)), "x")


def lists(dataset):
    return [tuple(value.tolist() for value in row) for row in dataset.epoch(0)]


def test_rows_are_stacked():
    data = GeneratorDataset([(n, [n, n + 0.5], str(n), n > 1) for n in range(3)], list("abcd"))
    (first, second) = data.batch(2).epoch(0)
    assert [value.tolist() for value in first] == [[0, 1], [[0, 0.5], [1, 1.5]], ["0", "1"], [False, False]]
    assert [value.dtype.name for value in second] == ["int64", "float64", "str32", "bool"]
    assert lists(data.project("a").batch(2, drop_remainder=True)) == [([0, 1],)]
    assert lists(data.project("a").filter(lambda a: a < 3).batch(2, drop_remainder=True)) == [([0, 1],)]


def test_batches_of_arrays_are_copies():
    table = np.zeros((4, 2))
    (batch,) = next(NumpySlicesDataset(table).batch(2).epoch(0))
    batch += 1
    assert not table.any()


def test_a_function_sees_the_rows_of_a_batch():
    seen = []

    def centred(a, info, rng):
        seen.append((info.get_epoch_num(), info.get_batch_num(), rng.random()))
        return [x - sum(a) / len(a) for x in a]

    data = NumpySlicesDataset((np.arange(5.0), np.arange(5)), ["a", "b"])
    mapped = data.batch(2, per_batch_map=centred, input_columns="a", output_columns="c")
    assert mapped.get_col_names() == ["c", "b"]
    assert lists(mapped) == [([-0.5, 0.5], [0, 1]), ([-0.5, 0.5], [2, 3]), ([0.0], [4])]
    next(mapped.epoch(0, 1))
    assert [each[:2] for each in seen] == [(0, 0), (0, 1), (0, 2), (0, 1)]
    assert seen[3] == seen[1] != seen[0]

    def twice(a, b, _info):
        return a + a, b + b

    assert lists(data.take(1).batch(2, per_batch_map=twice)) == [([0, 0], [0, 0])]


def test_rows_are_padded_as_in_mindspore():
    # padded_batch(3, pad_info={"x": ([None], -1)}) of MindSpore 2.
    assert lists(sequences().padded_batch(3, pad_info={"x": ([None], -1)})) == [
        ([[0, -1, -1, -1, -1], [0, 1, -1, -1, -1], [0, 1, 2, 3, 4]],),
        ([[0, 1, 2, -1, -1, -1, -1], [0, 1, -1, -1, -1, -1, -1], [0, 1, 2, 3, 4, 5, 6]],),
        ([[0, 1, 2, 3], [0, -1, -1, -1]],),
    ]


def test_rows_are_padded_to_a_shape_or_the_longest():
    assert lists(sequences().take(2).padded_batch(2)) == [([[0, 0], [0, 1]],)]
    assert lists(sequences().take(1).padded_batch(2, pad_info={"x": ([3], 9)})) == [([[0, 9, 9]],)]
    squares = GeneratorDataset([(np.ones((n, 3 - n)), n, "ab"[:n]) for n in (1, 2)], ["x", "n", "s"])
    x, n, s = next(squares.padded_batch(2).epoch(0))
    assert x.tolist() == [[[1, 1], [0, 0]], [[1, 0], [1, 0]]]
    assert (n.tolist(), s.tolist()) == ([1, 2], ["a", "ab"])
    x, n, _ = next(squares.padded_batch(2, pad_info={"x": ([None, 4], 7.5)}).epoch(0))
    assert (x.shape, x[0, 1].tolist(), n.tolist()) == ((2, 2, 4), [7.5] * 4, [1, 2])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: lists(sequences().batch(2)),
            DataError,
            "batch: the rows of a batch must have one shape, column 'x' has (1,) in item 0 and (2,) in item 1; use "
            "padded_batch, or map them to one shape",
        ),
        (
            lambda: lists(GeneratorDataset([1, {"a": 2}], "x").batch(2)),
            DataError,
            "GeneratorDataset: items must have a value for each column, item 1 has no 'x' but a; name its columns in "
            "column_names",
        ),
        (
            lambda: lists(GeneratorDataset([(1,), ({"a": 2},)], "x").batch(2)),
            DataError,
            "batch: a batch has arrays, numbers and strings, column 'x' has a dict in item 1; convert it with map",
        ),
        (
            lambda: sequences().batch(0),
            InvalidValueError,
            "batch: batch_size must be an integer of at least 1, got 0; choose another",
        ),
        (
            lambda: sequences().batch(2, input_columns="x"),
            InvalidValueError,
            "batch: input_columns and output_columns are those of per_batch_map, got none; leave them out",
        ),
        (
            lambda: lists(sequences().batch(2, per_batch_map=lambda x, info: (x, info))),
            DataError,
            "batch: per_batch_map must return a list of rows for each of 1 column, got 2 for batch 0; return as many",
        ),
        (
            lambda: lists(
                NumpySlicesDataset(([1, 2], [3, 4]), ["a", "b"]).batch(
                    2, per_batch_map=lambda a, _info: a[:1], input_columns="a"
                )
            ),
            DataError,
            "batch: per_batch_map must return equally many rows for all columns, got 1, 2 for batch 0; name all "
            "columns in input_columns",
        ),
        (
            lambda: sequences().padded_batch(2, pad_info={"y": ([None], 0)}),
            NameLookupError,
            "padded_batch: there is no column 'y', the columns are x; name one",
        ),
        (
            lambda: sequences().padded_batch(2, pad_info={"x": 3}),
            TypeRuleError,
            "padded_batch: pad_info of 'x' must be (shape, element), got 3; pass one such as ([None], 0)",
        ),
        (
            lambda: sequences().padded_batch(2, pad_info={"x": ([0], 0)}),
            InvalidValueError,
            "padded_batch: sizes in pad_info must be positive integers or None, got 0 for 'x'; change it",
        ),
        (
            lambda: lists(sequences().padded_batch(3, pad_info={"x": ([4], 0)})),
            DataError,
            "padded_batch: rows are padded to (4,), column 'x' has one of (5,) among items 0 to 2; give a larger shape "
            "in pad_info, or shorten rows with map",
        ),
        (
            lambda: lists(sequences().padded_batch(3, pad_info={"x": ([4, 4], 0)})),
            DataError,
            "padded_batch: rows are padded along 2 axes, column 'x' has the shape (1,) in item 0; give another shape "
            "in pad_info",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
