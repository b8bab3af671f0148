"""Several datasets as one, and names and choice of columns."""

import numpy as np
import pytest

from adjoint.data import GeneratorDataset, NumpySlicesDataset
from adjoint.errors import DataError, NameLookupError, TypeRuleError


def column(name, size):
    return NumpySlicesDataset(np.arange(size), name)


def stream(name, size):
    return GeneratorDataset(lambda: iter(range(size)), name)


def lists(dataset, epoch=0):
    return [tuple(value.tolist() for value in row) for row in dataset.epoch(epoch)]


@pytest.mark.parametrize("make", [column, stream])
def test_columns_side_by_side(make):
    data = make("a", 3).zip(column("b", 2).map(lambda b: b * 10))
    assert (data.get_col_names(), lists(data)) == (["a", "b"], [(0, 0), (1, 10)])
    assert lists(make("a", 2).zip((column("b", 2), make("c", 2)))) == [(0, 0, 0), (1, 1, 1)]


@pytest.mark.parametrize("make", [column, stream])
def test_elements_one_after_the_other(make):
    data = make("a", 2) + column("a", 3)
    assert lists(data) == [(0,), (1,), (0,), (1,), (2,)]
    assert [x.item() for (x,) in data.epoch(0, 3)] == [1, 2]
    assert lists(make("a", 1).concat([make("a", 1), column("a", 1)])) == [(0,)] * 3
    assert len(column("a", 2) + column("a", 3)) == 5
    assert lists((make("a", 2) + column("a", 1).repeat()).take(5))[2:] == [(0,)] * 3


def test_each_part_has_random_numbers_of_its_own():
    def shuffled(name):
        return column(name, 20).shuffle()

    first, second = zip(*lists(shuffled("a").zip(shuffled("b"))), strict=True)
    assert sorted(first) == sorted(second)
    assert first != second
    assert [(x,) for x in first] == lists(shuffled("a"))
    # A part keeps the seed that it was given; the seed of the whole is that of the others.
    seeded = shuffled("a").with_seed(5)
    whole = seeded.zip(shuffled("b"))
    for other in (whole, whole.with_seed(7)):
        assert [(a,) for a, _ in lists(other, 2)] == lists(seeded, 2)
    assert [b for _, b in lists(whole)] != [b for _, b in lists(whole.with_seed(7))]


def test_columns_are_renamed_and_chosen():
    data = column("a", 2).zip([column("b", 2), column("c", 2)]).map(lambda c: c + 5, "c")
    assert data.rename(["a", "c"], ["c", "d"]).get_col_names() == ["c", "b", "d"]
    assert data.rename("a", "z").get_col_names() == ["z", "b", "c"]
    chosen = data.project(["c", "a"])
    assert (chosen.get_col_names(), lists(chosen)) == (["c", "a"], [(5, 0), (6, 1)])
    assert lists(stream("a", 2).zip(stream("b", 2)).project("b")) == [(0,), (1,)]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: column("a", 1).zip(column("a", 1)),
            DataError,
            "zip: columns must have different names, got 'a' twice; rename one with rename('a', ...)",
        ),
        (
            lambda: column("a", 1).zip([3]),
            TypeRuleError,
            "zip takes datasets, got an int; make one, as NumpySlicesDataset(...)",
        ),
        (
            lambda: column("a", 1) + column("b", 1),
            DataError,
            "concat: all datasets must have the columns a, got b; rename or project them",
        ),
        (
            lambda: column("a", 1).project("b"),
            NameLookupError,
            "project: there is no column 'b', the columns are a; name one",
        ),
        (
            lambda: column("a", 1).rename("a", ["b", "c"]),
            DataError,
            "rename: output_columns must have a name for each of 1 column, got 2; name as many",
        ),
        (
            lambda: column("a", 1).zip(column("b", 1)).rename("a", "b"),
            DataError,
            "rename: columns must have different names, got b, b; choose another name",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
