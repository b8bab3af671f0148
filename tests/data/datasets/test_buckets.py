"""Batches of rows of similar lengths."""

import numpy as np
import pytest

from adjoint.data import GeneratorDataset
from adjoint.errors import DataError, InvalidValueError, TypeRuleError


def sequences():
    return GeneratorDataset(lambda: (np.arange(n) for n in (1, 2, 5, 3, 2, 7, 4, 1)), "x")


def lists(dataset):
    return [tuple(value.tolist() for value in row) for row in dataset.epoch(0)]


PAD = {"x": ([None], -1)}


def test_batches_are_those_of_mindspore():
    # bucket_batch_by_length(["x"], [3, 5], [2, 2, 1], pad_info=...) of MindSpore 2.
    batches = [
        ([[0, -1], [0, 1]],),
        ([[0, 1, 2, 3, 4]],),
        ([[0, 1, 2, 3, 4, 5, 6]],),
        ([[0, 1, 2, -1], [0, 1, 2, 3]],),
        ([[0, 1], [0, -1]],),
    ]
    data = sequences()
    assert lists(data.bucket_batch_by_length(["x"], [3, 5], [2, 2, 1], pad_info=PAD)) == batches
    measured = data.bucket_batch_by_length(["x"], [3, 5], [2, 2, 1], lambda x: np.int32(x.size), PAD)
    assert lists(measured) == batches


def test_padding_to_the_boundary_is_that_of_mindspore():
    # The same with [3, 5, 9], [2, 2, 2, 1] and pad_to_bucket_boundary=True.
    data = sequences().bucket_batch_by_length(["x"], [3, 5, 9], [2, 2, 2, 1], pad_info=PAD, pad_to_bucket_boundary=True)
    assert lists(data) == [
        ([[0, -1], [0, 1]],),
        ([[0, 1, 2, 3, 4, -1, -1, -1], [0, 1, 2, 3, 4, 5, 6, -1]],),
        ([[0, 1, 2, -1], [0, 1, 2, 3]],),
        ([[0, 1], [0, -1]],),
    ]


def test_incomplete_batches_are_dropped():
    data = sequences().take(4).bucket_batch_by_length("x", [3], [2, 5], drop_remainder=True)
    assert lists(data) == [([[0, 0], [0, 1]],)]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"bucket_boundaries": [5, 3]},
            InvalidValueError,
            "bucket_batch_by_length: bucket_boundaries must be ascending, got [5, 3]; sort them",
        ),
        (
            {"bucket_batch_sizes": [2]},
            InvalidValueError,
            "bucket_batch_by_length: bucket_batch_sizes must have one size more than there are boundaries, 2, got 1; "
            "add one for rows beyond the last boundary",
        ),
        (
            {"element_length_function": lambda x: str(x)},
            TypeRuleError,
            "bucket_batch_by_length: element_length_function must return an integer, got a str for item 0; return a "
            "length",
        ),
        (
            {"pad_to_bucket_boundary": True, "bucket_boundaries": [2]},
            DataError,
            "bucket_batch_by_length: rows that are padded to a boundary must be shorter than the last one, 2, item 1 "
            "is not; add a boundary or filter longer rows",
        ),
    ],
)
def test_what_is_refused(arguments, error, message):
    given = {"column_names": "x", "bucket_boundaries": [4], "bucket_batch_sizes": [1, 1], **arguments}
    with pytest.raises(error) as caught:
        lists(sequences().bucket_batch_by_length(**given))
    assert caught.value.message == message


def test_several_columns_need_a_function():
    data = GeneratorDataset([(1, 2)], ["a", "b"])
    with pytest.raises(TypeRuleError) as caught:
        data.bucket_batch_by_length(["a", "b"], [1], [1, 1])
    assert caught.value.message == (
        "bucket_batch_by_length: the length of a row is that of one column, got 2 columns; pass an "
        "element_length_function of them"
    )
