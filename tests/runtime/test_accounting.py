"""The account of a step: what made-up clocks say, and that short calls are timed together."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from adjoint.runtime import accounting
from adjoint.runtime.accounting import StepAccount, step_nanoseconds
from adjoint.runtime.report import Clocks


def test_the_difference_of_step_and_kernels_is_attributed():
    # Two threads, three kernels; reading takes 5, and the second thread waits 40 before the last kernel.
    run = [[[0, 105], [110, 165], [170, 375]], [[0, 85], [90, 125], [165, 370]]]
    account = StepAccount.of(Clocks(np.array([run] * 4)), 400.0)
    assert account.kernels == 100 + 50 + 200
    assert account.clocks == 5 * 5  # two readings in two gaps, and one in each kernel
    assert account.between == 375 - 25 - 350
    assert account.entry == 400 - 350
    assert account.lines() == (
        ("kernels, each on its slowest thread", 350.0),
        ("interruptions: kernels slower than usual", 0.0),
        ("waiting for threads, less overlap of kernels", 0.0),
        ("call, checks, waking threads; other differences", 50.0),
        ("step, without clocks", 400.0),
    )
    assert account.as_dict()["entry_microseconds"] == pytest.approx(0.05)


def test_a_barrier_at_which_threads_wait_counts_between_kernels():
    # Each thread has one long kernel while the other waits 100 for it.
    run = [[[0, 105], [110, 115], [220, 225]], [[0, 5], [10, 115], [120, 225]]]
    account = StepAccount.of(Clocks(np.array([run] * 4)), 300.0)
    assert account.kernels == 100 + 100 + 100
    assert account.kernels + account.slower + account.between + account.entry == 300
    assert account.between < 0  # the kernels overlap


def test_interruptions_of_other_kernels_in_every_run_are_not_waiting():
    """Of four kernels of 100, another one takes 1100 in each of four runs."""
    lasting = np.full((4, 4), 100) + 1000 * np.eye(4, dtype=int)
    ends = lasting.cumsum(axis=1)
    clocks = Clocks(np.stack([ends - lasting, ends], axis=-1)[:, None])
    account = StepAccount.of(clocks, 1500.0)
    assert account.kernels == 4 * 100
    assert account.slower == 1000
    assert (account.between, account.entry) == (0.0, 100.0)


def test_one_thread_does_not_wait_for_others():
    account = StepAccount.of(Clocks(np.array([[[[0, 105], [110, 165]]]] * 4)), 200.0)
    assert [name for name, _ in account.lines()] == [
        "kernels",
        "interruptions: kernels slower than usual",
        "between kernels",
        "call, checks; other differences",
        "step, without clocks",
    ]
    assert (account.kernels, account.between, account.entry) == (150.0, 0.0, 50.0)


def test_a_step_without_kernels_has_an_account():
    account = StepAccount.of(Clocks(np.zeros((3, 1, 0, 2), np.int64)), 10.0)
    assert (account.kernels, account.between, account.entry, account.clocks) == (0.0, 0.0, 10.0, 0.0)


def test_every_measurement_starts_from_the_same_state():
    state, resident = {"w": np.ones(3)}, {"w": np.zeros(3)}
    seen, given = [], object()

    def call(argument):
        assert argument is given
        seen.append(resident["w"][0])
        resident["w"] += 1
        time.sleep(2e-4)

    found = step_nanoseconds(call, (given,), resident, state, runs=3)
    assert found >= 2e5
    assert seen == [1.0, 2.0] * 4  # a first call that is not timed, and one that is; and a measurement to begin with


def test_short_calls_are_timed_together(monkeypatch):
    """A hundred calls of a microsecond each, by a clock that only they advance."""
    nanoseconds = 0

    def call():
        nonlocal nanoseconds
        nanoseconds += 1000

    monkeypatch.setattr(accounting, "time", SimpleNamespace(perf_counter_ns=lambda: nanoseconds))
    assert step_nanoseconds(call, (), {}, {}, runs=2) == 1000
    # A first call that is not timed, and one that is; twice, a first call and a hundred.
    assert nanoseconds == 1000 * (2 + 2 * 101)
