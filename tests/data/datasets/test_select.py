"""Which elements there are, and in which order: take, skip, split, filter, shuffle and repeat."""

import numpy as np
import pytest

from adjoint.data import GeneratorDataset, NumpySlicesDataset
from adjoint.errors import DataError, InvalidValueError, TypeRuleError


def count(size):
    return NumpySlicesDataset(np.arange(size), "x")


def stream(size):
    return GeneratorDataset(lambda: iter(range(size)), "x")


def values(dataset, epoch=0):
    return [int(x) for (x,) in dataset.epoch(epoch)]


@pytest.mark.parametrize("make", [count, stream])
def test_elements_are_taken_and_skipped(make):
    assert values(make(5).take(2)) == [0, 1]
    assert values(make(5).skip(3)) == [3, 4]
    assert values(make(5).skip(1).take(3).skip(1)) == [2, 3]
    assert values(make(2).take(5).skip(3)) == []
    assert values(make(3).take(-1).skip(0)) == [0, 1, 2]
    assert values(make(3).repeat().skip(2).take(5)) == [2, 0, 1, 2, 0]
    assert values(make(0).repeat()) == []


def test_sizes_are_known_without_computing():
    assert len(count(5).skip(3).take(7)) == 2
    assert len(count(5).repeat().take(7)) == 7
    assert len(count(5).repeat(3).skip(20)) == 0
    assert len(GeneratorDataset({4, 5}, "x").skip(1)) == 1  # a set has a length, but no random access


def test_elements_are_filtered():
    data = count(10).filter(lambda x: x % 3 == 0)
    assert values(data) == [0, 3, 6, 9]
    assert values(data.map(lambda x: x + 1).skip(1).take(2)) == [4, 7]
    pairs = NumpySlicesDataset(([1, 2, 3], [3, 2, 1]), ["a", "b"])
    assert [int(a) for a, _ in pairs.filter(lambda b, a: b > a, ["b", "a"])] == [1]
    assert [int(a) for a, _ in pairs.filter(lambda a, b: a > b)] == [3]
    drawn = [values(count(200).filter(lambda x, rng: x >= 0 and rng.random() < 0.5), epoch) for epoch in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert 60 < len(drawn[0]) < 140  # over 5 standard deviations


def test_a_shuffle_is_a_permutation_of_everything():
    data = count(100).shuffle(2)
    assert sorted(values(data)) == list(range(100))
    assert values(data) != values(data, 1)
    assert max(np.abs(np.array(values(data)) - np.arange(100))) > 10  # the buffer does not limit it
    assert values(count(100).shuffle().shuffle()) != values(data)


def test_a_stream_is_shuffled_in_a_buffer():
    data = stream(50).shuffle(8)
    first = values(data)
    assert sorted(first) == list(range(50))
    assert first != values(data, 1)
    assert first == values(data)
    # When the element with the number n leaves, at most n + 8 have been read.
    assert all(x < place + 8 for place, x in enumerate(first))
    assert sum(x != place for place, x in enumerate(first)) > 25
    assert values(stream(5).shuffle(1)) == [0, 1, 2, 3, 4]
    # Each of 4 places of the buffer is drawn equally often.
    firsts = [next(stream(5).shuffle(4).epoch(epoch))[0].item() for epoch in range(400)]
    assert np.allclose(np.bincount(firsts) / 400, 1 / 4, atol=0.1)


@pytest.mark.parametrize("make", [lambda n: count(n).shuffle(), lambda n: stream(n).shuffle(10)])
def test_each_repetition_has_another_order(make):
    data = make(10).repeat(3)
    for epoch in range(2):
        parts = np.array(values(data, epoch)).reshape(3, 10)
        assert all(sorted(part) == list(range(10)) for part in parts)
        assert len({tuple(part) for part in parts}) == 3
    assert values(data)[:10] == values(make(10))
    assert values(data, 1)[:10] == values(make(10), 3)


def test_a_generator_function_gets_the_number_of_the_epoch():
    data = GeneratorDataset(lambda epoch: [epoch], "x")
    assert values(data, 4) == [4]
    assert values(data.repeat(3), 2) == [6, 7, 8]


def test_parts_of_a_split_are_disjoint_in_all_epochs():
    data = count(10).shuffle().map(lambda x: x)
    for randomize in (True, False):
        first, second = data.split([7, 3], randomize)
        assert sorted(values(first) + values(second)) == list(range(10))
        assert values(first, 5) == values(first)
        assert sorted(values(first.shuffle(), 1)) == sorted(values(first))
        assert values(first.shuffle(), 1) != values(first.shuffle())
        assert values(first.with_seed(9)) == values(first)
    plain = count(10)
    assert [values(part) for part in plain.split([0.7, 0.3], randomize=False)] == [list(range(7)), [7, 8, 9]]
    assert values(plain.split([7, 3])[0]) != values(plain.with_seed(1).split([7, 3])[0])
    assert sorted(values(plain.split([7, 3])[0].repeat(2))) == sorted(2 * values(plain.split([7, 3])[0]))


def test_random_numbers_of_a_part_differ_between_epochs():
    part = count(4).map(lambda x, rng: 0 * x + rng.integers(2**40)).split([2, 2])[0]
    assert values(part) != values(part, 1)


def test_fractions_are_rounded_as_in_pytorch():
    # torch.utils.data.random_split(range(10), [0.25, 0.25, 0.5]) gives parts of 3, 2 and 5 items (PyTorch 2).
    assert [len(part) for part in count(10).split([0.25, 0.25, 0.5])] == [3, 2, 5]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: stream(3).shuffle(),
            InvalidValueError,
            "shuffle: rows that come one after the other are shuffled in a buffer, got no buffer_size; pass one such "
            "as shuffle(1000)",
        ),
        (
            lambda: count(3).split([1, 1]),
            InvalidValueError,
            "split: sizes must sum to the number of rows, 3, got 2; change one, or take some rows",
        ),
        (
            lambda: count(3).split([0.5, 0.6]),
            InvalidValueError,
            "split: sizes must be positive integers, or fractions that sum to 1, got [0.5, 0.6]; change them",
        ),
        (
            lambda: count(3).split(3),
            TypeRuleError,
            "split: sizes must be a list of integers or of fractions, got 3; pass one",
        ),
        (
            lambda: count(3).filter(bool).split([1, 2]),
            TypeRuleError,
            "split takes a dataset with random access and an end, got one whose elements come one after the other; use "
            "take and skip",
        ),
        (
            lambda: count(3).take(0),
            InvalidValueError,
            "take: count must be an integer of at least 1, got 0; choose another",
        ),
        (
            lambda: count(3).repeat(0),
            InvalidValueError,
            "repeat: count must be an integer of at least 1, got 0; choose another",
        ),
        (
            lambda: values(count(3).filter(lambda x: {}[int(x)])),
            DataError,
            "filter: <lambda> raised KeyError (0) for item 0 of epoch 0; correct the function",
        ),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
