"""Elements that a thread prepares."""

import threading

import pytest

from adjoint.data import GeneratorDataset
from adjoint.errors import DataError


def test_elements_are_prepared_ahead():
    third = threading.Event()

    def numbers():
        for n in range(10):
            if n == 2:
                third.set()
            yield n

    before = set(threading.enumerate())
    epoch = GeneratorDataset(numbers, "x").prefetch(3).map(lambda x: x * 2).epoch(0)
    assert next(epoch)[0] == 0
    assert third.wait(20)
    assert [x.item() for (x,) in epoch] == list(range(2, 20, 2))
    assert set(threading.enumerate()) <= before


def test_an_exception_comes_in_place_of_its_element():
    data = GeneratorDataset([2, 0], "x").map(lambda x: 4 // x).prefetch()
    epoch = data.epoch(0)
    assert next(epoch)[0] == 2
    with pytest.raises(DataError, match="map: <lambda> raised ZeroDivisionError"):
        next(epoch)
