"""Calls of compiled entries from several Python threads at once."""

import signal
import sys
import threading

import numpy as np
import pytest

from adjoint import Function, ops, param
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import ReentryError
from adjoint.runtime.turn import Turn
from tests.runtime.test_executable import data, mlp_step

ROUNDS = 250


@pytest.fixture(autouse=True)
def _restless():
    """Let threads of Python change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works):
    """Run functions in threads of their own, all at once; the first exception of any is raised here."""
    failures, start = [], threading.Barrier(len(works))

    def run(work):
        start.wait()
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.fixture(scope="module")
def step():
    return compile(mlp_step(), options=CompileOptions(cache=False))["step"]


def affine(shape, threads):
    x, w = param("x", shape), param("w", (shape[1], shape[1]))
    function = Function("f", (x, w), (ops.matmul(x, w), ops.sum(x)))
    return compile(function, options=CompileOptions(threads=threads, cache=False))


@pytest.mark.parametrize("shape", [(2, 4), (64, 96)], ids=["brief", "large"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_thread_gets_the_results_of_its_own_arguments(shape, threads):
    run = affine(shape, threads)
    rng = np.random.default_rng(0)

    def work(number):
        x, w = rng.standard_normal(shape).astype("f4"), rng.standard_normal((shape[1], shape[1])).astype("f4")
        # A list takes the slow way in.
        given = x.tolist() if number % 3 == 2 else x
        first = run(x, w)
        np.testing.assert_allclose(first[0], x.astype("f8") @ w, rtol=1e-4, atol=1e-4)
        for _ in range(ROUNDS):
            again = run(given, w)
            assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))

    together(*(lambda number=number: work(number) for number in range(4)))


@pytest.mark.parametrize("threads", [1, 2])
def test_updates_in_place_are_all_done_and_none_at_once(step, threads):
    x, y, kept = data()
    alone = step.bind({k: v.copy() for k, v in kept.items()}, threads=threads)
    expected = sorted(alone(x, y) for _ in range(4 * ROUNDS))
    shared = step.bind({k: v.copy() for k, v in kept.items()}, threads=threads)
    losses = []
    together(*[lambda: losses.extend([shared(x, y) for _ in range(ROUNDS)])] * 4)
    assert sorted(losses) == expected
    assert shared.runs == 4 * ROUNDS
    for name, array in alone.resident.items():
        np.testing.assert_array_equal(shared.resident[name], array)


def test_an_entry_with_donated_arguments_is_a_pure_function_from_any_thread(step):
    x, y, kept = data()
    names = [a.name for a in step.arguments]
    arguments = [{"x": x, "y": y, **kept}[name] for name in names]
    expected = step(*arguments)

    def work():
        for _ in range(50):
            assert all(np.array_equal(a, b) for a, b in zip(step(*arguments), expected, strict=True))

    together(work, work, work)


def test_entries_that_share_a_turn_never_run_at_once(step):
    x, y, kept = data()
    turn, inside = Turn(), []
    one, other = (step.bind({k: v.copy() for k, v in kept.items()}, turn=turn) for _ in range(2))

    def work(bound):
        def alone():
            inside.append(bound)
            assert len(inside) == 1
            np.add(x, x)
            inside.pop()

        for _ in range(ROUNDS):
            bound.exclusively(alone)
            bound(x, y)

    together(lambda: work(one), lambda: work(other))


def test_a_call_from_inside_a_call_is_refused(step):
    x, y, kept = data()
    bound = step.bind(kept)
    with pytest.raises(ReentryError, match="called during its own call, got a nested call in the"):
        bound.exclusively(bound, x, y)
    assert np.isfinite(bound(x, y))


def test_what_an_exclusive_function_raises_is_raised_and_ends_the_turn(step):
    x, y, kept = data()
    bound = step.bind(kept)
    with pytest.raises(ZeroDivisionError):
        bound.exclusively(lambda: 1 // 0)
    assert np.isfinite(bound(x, y))


def test_who_waits_can_be_interrupted(step):
    """Ctrl-C ends the wait for a turn that another thread keeps."""
    x, y, kept = data()
    bound = step.bind(kept)
    taken, done = threading.Event(), threading.Event()

    def keep():
        taken.set()
        done.wait()

    def ring(*_):
        raise TimeoutError

    other = threading.Thread(target=lambda: bound.exclusively(keep))
    other.start()
    taken.wait()
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(TimeoutError):
            bound(x, y)
    finally:
        signal.signal(signal.SIGALRM, before)
        done.set()
        other.join()
    assert np.isfinite(bound(x, y))
