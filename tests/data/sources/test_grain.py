"""Datasets of ``grain``, by what is used of them: random access, and iterators with states."""

import json

import pytest

from adjoint.data import GrainDataset
from adjoint.errors import DataError, TypeRuleError


class Loader:
    """Iterable, with iterators that have states, as a ``grain.IterDataset``; counts the elements that are read."""

    def __init__(self, size, encode=lambda state: state, decode=lambda state: state):
        self.size, self.encode, self.decode, self.read = size, encode, decode, 0

    def __iter__(self):
        return Iterator(self)


class Iterator:
    def __init__(self, loader):
        self.loader, self.place = loader, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.place == self.loader.size:
            raise StopIteration
        self.place += 1
        self.loader.read += 1
        return {"x": self.place, "y": -self.place}

    def get_state(self):
        return self.loader.encode({"place": self.place})

    def set_state(self, state):
        self.place = self.loader.decode(state)["place"]


def firsts(epoch):
    return [x.item() for x, _ in epoch]


@pytest.mark.parametrize(
    "coding",
    [(), (lambda state: json.dumps(state).encode(), lambda state: json.loads(state.decode()))],
    ids=["dict", "bytes"],
)
def test_an_epoch_resumes_from_a_state(coding):
    data = GrainDataset(Loader(10, *coding))
    assert data.get_col_names() == ["x", "y"]
    epoch = data.epoch(3)
    assert [next(epoch)[0].item() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    state = json.loads(json.dumps(data.state_dict()))  # plain data
    # The loop has taken six elements and used four of them.
    again = GrainDataset(Loader(10, *coding), ["x", "y"])
    again.load_state_dict(state)
    assert firsts(again.epoch(3, 4)) == [5, 6, 7, 8, 9, 10]
    assert again._source.read == 6
    # Another epoch begins at its beginning, and one without a state reads what is before it.
    assert firsts(again.epoch(4, 8)) == [9, 10]
    assert again._source.read == 16
    assert firsts(GrainDataset(Loader(10), ["x", "y"]).epoch(3, 4)) == [5, 6, 7, 8, 9, 10]


def test_operations_follow():
    data = GrainDataset(Loader(5)).project("x").batch(2)
    assert [x.tolist() for (x,) in data.epoch(0, 1)] == [[3, 4], [5]]


def test_random_access_is_used():
    data = GrainDataset(["a", "b", "c"], "x")
    assert [x.item() for (x,) in data.epoch(0, 1)] == ["b", "c"]
    assert len(data.shuffle()) == 3


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: GrainDataset(3),
            TypeRuleError,
            "GrainDataset takes a MapDataset, an IterDataset or a DataLoader of grain, got an int; pass one",
        ),
        (
            lambda: GrainDataset(Loader(0)),
            DataError,
            "GrainDataset: names of columns are taken from the first element, got none; pass column_names",
        ),
        (
            lambda: GrainDataset([], "x").load_state_dict({"states": [1]}),
            DataError,
            "GrainDataset: load_state_dict takes what state_dict returned, got {'states': [1]}; pass that",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message


def test_data_sets_of_the_library():
    grain = pytest.importorskip("grain")
    rows = grain.MapDataset.range(20).shuffle(seed=1).map(lambda x: {"x": x, "y": -x}).batch(4)
    data = GrainDataset(rows)
    assert len(data) == 5
    whole = [x.tolist() for x, _ in data.epoch(0)]
    assert sorted(x for batch in whole for x in batch) == list(range(20))
    stream = GrainDataset(rows.to_iter_dataset())
    assert [x.tolist() for x, _ in stream.epoch(0, 2)] == whole[2:]
    again = GrainDataset(rows.to_iter_dataset())
    again.load_state_dict(json.loads(json.dumps(stream.state_dict())))
    assert [x.tolist() for x, _ in again.epoch(0, 4)] == whole[4:]
