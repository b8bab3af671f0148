"""Datasets with columns, as those of Hugging Face's ``datasets``."""

import numpy as np
import pytest

from adjoint.data import HuggingFaceDataset
from adjoint.errors import DataError, NameLookupError, TypeRuleError


class Columns:
    """What the source uses of a ``datasets.Dataset``."""

    def __init__(self, **columns):
        self.column_names = list(columns)
        self._columns = columns
        self.reads = []

    def __getitem__(self, name):
        self.reads.append(name)
        return self._columns[name]


def test_columns_are_read_once():
    images = [np.full((2, 2), n, np.uint8) for n in range(3)]
    given = Columns(image=images, label=[5, 6, 7], text=["a", "b", "c"])
    data = HuggingFaceDataset(given, ["image", "label"]).batch(2)
    for _ in range(2):
        assert [label.tolist() for _, label in data.epoch(0)] == [[5, 6], [7]]
    assert given.reads == ["image", "label"]
    assert [table.array.shape for table in data.arrays().tables] == [(3, 2, 2), (3,)]


def test_rows_of_different_shapes():
    data = HuggingFaceDataset(Columns(ids=[[1, 2], [3]], n=[0, 1]), shuffle=False)
    assert [(ids.tolist(), n.item()) for ids, n in data] == [([1, 2], 0), ([3], 1)]
    assert data.batch(1).arrays() is None


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: HuggingFaceDataset({"train": 1}),
            TypeRuleError,
            "HuggingFaceDataset takes an object with a list column_names and __getitem__(column), got a dict; choose a "
            "split, as in load_dataset(name, split='train')",
        ),
        (
            lambda: HuggingFaceDataset(Columns(a=[1]), "b"),
            NameLookupError,
            "HuggingFaceDataset: there is no column 'b', the columns are a; name one",
        ),
        (
            lambda: HuggingFaceDataset(Columns(a=[1], b=[1, 2])),
            DataError,
            "HuggingFaceDataset takes columns with equally many rows, got 1, 2; correct the data",
        ),
        (
            lambda: HuggingFaceDataset(Columns()),
            DataError,
            "HuggingFaceDataset takes data with at least one column, got none; name another file",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message


def test_a_data_set_of_the_library():
    datasets = pytest.importorskip("datasets")
    given = datasets.Dataset.from_dict({"text": ["a", "b"], "v": [[1.0, 2.0], [3.0, 4.0]]})
    assert [(t.item(), v.tolist()) for t, v in HuggingFaceDataset(given)] == [("a", [1.0, 2.0]), ("b", [3.0, 4.0])]
