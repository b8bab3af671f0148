"""Pools of both kinds: order, how far they are ahead, errors, and how they end."""

import gc
import multiprocessing
import re
import threading
import time

import numpy as np
import pytest

from adjoint.data.workers import WorkerPool
from adjoint.errors import InvalidValueError, TypeRuleError, WorkerError

KINDS = ["process", "thread"]


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert multiprocessing.active_children() == []
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("adjoint-worker")])


def until(condition):
    """Wait for what another thread or process brings about."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


def square(number):
    return number * number


def failing(number):
    if number == 3:
        raise KeyError("damaged")
    return number


def late_if_even(number):
    if number % 2 == 0:
        time.sleep(0.01)
    return number


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("workers", "depth"), [(1, 1), (3, 2)])
def test_results_come_in_the_order_of_the_items(kind, workers, depth):
    with WorkerPool(late_if_even, workers, kind=kind, depth=depth) as pool:
        assert list(pool.imap(range(9))) == list(range(9))
        assert list(pool.imap([])) == []
        assert list(pool.imap(number + 7 for number in range(2))) == [7, 8]


@pytest.mark.parametrize("kind", KINDS)
def test_without_order_results_come_when_they_are_ready(kind):
    with WorkerPool(late_if_even, 2, kind=kind) as pool:
        found = list(pool.imap([0, 1, 3, 5], ordered=False))
    assert sorted(found) == [0, 1, 3, 5]
    assert found != [0, 1, 3, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_items_are_taken_no_further_ahead_than_depth(kind):
    taken = []

    def items():
        for number in range(20):
            taken.append(number)
            yield number

    with WorkerPool(square, 2, kind=kind, depth=3) as pool:
        results = pool.imap(items())
        assert taken == []
        assert [next(results), len(taken), next(results), len(taken)] == [0, 6, 1, 7]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_comes_in_its_place_and_the_pool_goes_on(kind):
    with WorkerPool(failing, 2, kind=kind) as pool:
        results = pool.imap([1, 2, 3, 4])
        assert [next(results), next(results)] == [1, 2]
        with pytest.raises(KeyError, match="damaged") as caught:
            next(results)
        (note,) = caught.value.__notes__
        assert re.match(
            r"raised in worker 0 \((process \d+|a thread)\) while it worked on item 2, 3:\n"
            r"Traceback \(most recent call last\):\n"
            r'  File ".*test_pool.py", line \d+, in failing\n    raise KeyError\("damaged"\)',
            note,
        )
        assert "child.py" not in note
        assert list(results) == []
        assert list(pool.imap([5, 6])) == [5, 6]


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_of_the_start(kind):
    def init(number):
        if number == 1:
            raise OSError("no such disk")

    with WorkerPool(square, 2, kind=kind, init=init) as pool:
        with pytest.raises(OSError, match="no such disk") as caught:
            list(pool.imap(range(9)))
        assert "raised in worker 1 (" in caught.value.__notes__[0]
        assert ") while it started:\n" in caught.value.__notes__[0]
        assert pool.closed


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_of_the_items_or_the_consumer_leaves_nothing_behind(kind):
    def items():
        yield 1
        raise OSError("no more items")

    with WorkerPool(square, 1, kind=kind, depth=1) as pool:
        results = pool.imap(items())
        assert next(results) == 1
        with pytest.raises(OSError, match="no more items"):
            next(results)

    def consumer():
        with WorkerPool(square, 1, kind=kind) as pool:
            for number in pool.imap(range(3)):
                1 / number

    with pytest.raises(ZeroDivisionError):
        consumer()


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_that_nobody_refers_to_ends(kind):
    results = WorkerPool(square, 2, kind=kind).imap(range(9))
    assert next(results) == 0
    del results
    gc.collect()


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_an_earlier_iteration_are_left_out(kind):
    with WorkerPool(square, 2, kind=kind) as pool:
        earlier = pool.imap(range(9))
        assert next(earlier) == 0
        assert list(pool.imap([7, 8])) == [49, 64]
        with pytest.raises(InvalidValueError) as caught:
            next(earlier)
    assert caught.value.message == (
        "WorkerPool: a pool goes through one iterable at a time, got the next item of an earlier one; finish it first, "
        "or make a pool for each"
    )


def test_a_thread_that_hangs():
    released = threading.Event()

    def waiting(item):
        released.wait()
        return item

    with WorkerPool(waiting, 2, kind="thread", timeout=0.01) as pool, pytest.raises(WorkerError) as caught:
        list(pool.imap("ab"))
    released.set()
    assert re.fullmatch(
        r"WorkerPool: worker 0 \(a thread\) has not finished within the timeout of 0.01 seconds, while it worked on "
        r"item 0, 'a' at .*threading.py:\d+; find out why it hangs, or allow more time",
        caught.value.message,
    )
    assert ", in waiting\n    released.wait()" in caught.value.__notes__[0]


def test_threads_share_objects():
    array = np.zeros(3)
    with WorkerPool(lambda _: array, 1, kind="thread") as pool:
        assert next(pool.imap([0])) is array


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: WorkerPool(3, 2), TypeRuleError, "WorkerPool: function must be callable, got an int; pass a function"),
        (
            lambda: WorkerPool(square, 2, init=3),
            TypeRuleError,
            "WorkerPool: init must be callable, got an int; pass a function",
        ),
        (
            lambda: WorkerPool(square, 0),
            InvalidValueError,
            "WorkerPool: num_workers must be an integer of at least 1, got 0; choose another",
        ),
        (
            lambda: WorkerPool(square, 1, depth=0),
            InvalidValueError,
            "WorkerPool: depth must be an integer of at least 1, got 0; choose another",
        ),
        (
            lambda: WorkerPool(square, 1, timeout=0),
            InvalidValueError,
            "WorkerPool: timeout must be a number above 0, got 0; choose another",
        ),
        (
            lambda: WorkerPool(square, 1, kind="green"),
            InvalidValueError,
            "WorkerPool: kind must be 'process' or 'thread', got 'green'; choose one",
        ),
        (
            lambda: WorkerPool(square, 1, context="forked"),
            InvalidValueError,
            "WorkerPool: context must be one of the start methods 'fork', 'spawn', 'forkserver', got 'forked'; choose "
            "one",
        ),
        (
            lambda: WorkerPool(lambda x: x, 1, context="spawn"),
            TypeRuleError,
            "WorkerPool: with the start method 'spawn', the function and what it refers to must be picklable, got a "
            "function (",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_a_closed_pool_is_refused():
    pool = WorkerPool(square, 1, kind="thread")
    results = pool.imap([1, 2])
    assert next(results) == 1
    pool.close()
    pool.close()
    message = "WorkerPool: a closed pool has no workers, got a use of it; make a new pool"
    for use in (lambda: pool.imap([1]), lambda: next(results)):
        with pytest.raises(InvalidValueError, match=re.escape(message)):
            use()
