"""`TerminateOnBudget`: the end of training after some steps or seconds, counted over resumes."""

import time

import pytest

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks import TerminateOnBudget
from tests.training.callbacks.running import FakeRun

LOSSES = [[1.0] * 5] * 4


@pytest.mark.parametrize("steps", [1, 3, 5, 7])
def test_it_ends_after_so_many_steps(steps):
    run = FakeRun(LOSSES).train(TerminateOnBudget(steps=steps))
    assert (run.step, run.stop_reason) == (steps, f"the budget of {steps} steps is spent")


def test_a_resumed_run_counts_its_earlier_steps():
    assert FakeRun(LOSSES).resume(6).train(TerminateOnBudget(steps=8)).step == 8
    assert FakeRun(LOSSES).resume(9).train(TerminateOnBudget(steps=8)).step == 9


def test_it_ends_after_so_many_seconds(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def step():
        now[0] += 1.0

    first, second = TerminateOnBudget(seconds=8), TerminateOnBudget(seconds=8)
    assert first.seconds == 1.0
    FakeRun(LOSSES).train(first, step=step, until=6)
    second.load_state_dict(first.state_dict())
    now[0] += 100.0  # between the processes
    run = FakeRun(LOSSES).resume(6).train(second, step=step)
    assert (run.step, run.stop_reason) == (8, "the budget of 8 seconds is spent")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "TerminateOnBudget takes a budget, got none; pass seconds= or steps="),
        ({"seconds": 0}, "TerminateOnBudget: seconds must be above 0, got 0"),
        ({"steps": 0}, "TerminateOnBudget: steps must be an int above 0, got 0"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(InvalidValueError) as error:
        TerminateOnBudget(**options)
    assert error.value.message == message
