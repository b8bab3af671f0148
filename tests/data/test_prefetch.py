"""A thread that is a few items ahead: order, bounds, errors, and how it ends."""

import gc
import threading
import time
import traceback

import pytest

from adjoint.data import Prefetcher, prefetch
from adjoint.errors import InvalidValueError


def workers():
    return [t for t in threading.enumerate() if t.name == "adjoint-prefetch"]


def until(condition):
    """Wait for what another thread brings about."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


@pytest.mark.parametrize("depth", [1, 3, 100])
def test_items_come_in_order_and_then_the_end(depth):
    items = Prefetcher(range(50), depth)
    assert list(items) == list(range(50))
    assert list(items) == []
    until(lambda: not workers())


def test_items_are_prepared_ahead_and_no_further_than_depth():
    made = []

    def source():
        for number in range(20):
            made.append(number)
            yield number

    with Prefetcher(source(), depth=3) as items:
        until(lambda: len(made) == 4)  # three wait, and a fourth waits for room
        time.sleep(0.05)
        assert len(made) == 4
        assert next(items) == 0
        time.sleep(0.05)
        assert len(made) == 4  # the thread goes on when half of the items are gone
        assert next(items) == 1
        until(lambda: len(made) == 6)
        time.sleep(0.05)
        assert len(made) == 6
    assert not workers()


def test_an_error_comes_in_its_place_with_the_traceback_of_the_thread():
    def reading_a_file_that_is_damaged():
        yield 1
        yield 2
        raise OSError("damaged")

    got = []
    with Prefetcher(reading_a_file_that_is_damaged()) as items, pytest.raises(OSError, match="damaged") as caught:
        got.extend(items)
    assert got == [1, 2]
    assert "reading_a_file_that_is_damaged" in "".join(traceback.format_exception(caught.value))
    assert not workers()


def test_an_error_at_the_first_item_is_no_empty_source():
    with pytest.raises(ZeroDivisionError):
        list(Prefetcher(1 // n for n in (0, 1)))


def test_closing_ends_the_thread_that_waits_for_room_and_closes_what_it_opened():
    class Opened:
        closed_by = None

        def __iter__(self):
            try:
                while True:
                    yield 0
            finally:
                Opened.closed_by = threading.current_thread().name

    with Prefetcher(Opened()) as items:
        next(items)
    assert not workers()
    assert Opened.closed_by == "adjoint-prefetch"
    assert list(items) == []


def test_an_iterator_stays_the_callers():
    numbers = (n for n in range(1000))
    with Prefetcher(numbers, depth=2) as items:
        assert [next(items), next(items)] == [0, 1]
    assert 2 <= next(numbers) <= 5


def test_an_exception_in_the_block_ends_the_thread():
    with pytest.raises(KeyboardInterrupt), Prefetcher(iter(int, 1)):
        raise KeyboardInterrupt
    assert not workers()


def test_dropping_it_ends_the_thread():
    items = Prefetcher(iter(int, 1))
    next(items)
    del items
    gc.collect()
    until(lambda: not workers())


def test_an_item_that_never_comes_does_not_hold_up_closing_forever(monkeypatch):
    monkeypatch.setattr(prefetch, "_PATIENCE", 0.05)
    never = threading.Event()
    with pytest.warns(RuntimeWarning, match="still being prepared"), Prefetcher(never.wait() for _ in range(2)):
        pass
    never.set()
    until(lambda: not workers())


@pytest.mark.parametrize("depth", [0, -1, 1.5, True])
def test_depths_that_are_none_are_refused(depth):
    with pytest.raises(InvalidValueError, match="depth is an integer of at least 1"):
        Prefetcher([1], depth)


def test_several_prepared_items_are_taken_at_once():
    with Prefetcher(iter(range(10)), depth=4) as items:
        until(lambda: len(items._queue._items) == 4)
        assert items.ready(3) == [0, 1, 2]
        items.depth = 6
        taken = []
        while some := items.ready(100):
            taken += some
        assert taken == list(range(3, 10))
        assert items.ready(1) == []
        with pytest.raises(InvalidValueError, match="depth is an integer of at least 1, got 0"):
            items.depth = 0
