"""`TimeMonitor`: the time of an epoch, and of each step."""

import re
import time

import pytest

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks import TimeMonitor
from tests.training.callbacks.running import FakeRun


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]

    def tick():
        now[0] += 0.25
        return now[0]

    monkeypatch.setattr(time, "perf_counter", tick)


@pytest.mark.usefixtures("clock")
def test_the_time_is_divided_by_the_steps(capsys):
    FakeRun([[1.0] * 5, [1.0] * 5]).train(TimeMonitor())
    assert capsys.readouterr().out == "epoch time: 250.0 ms, per step time: 50.000 ms\n" * 2


@pytest.mark.usefixtures("clock")
def test_after_a_resume_only_the_steps_since_count(capsys):
    FakeRun([[1.0] * 5]).resume(3).train(TimeMonitor())
    FakeRun([[1.0] * 5]).train(TimeMonitor(data_size=10))
    assert re.findall(r"step time: (.*) ms", capsys.readouterr().out) == ["125.000", "25.000"]


def test_the_size_is_checked():
    with pytest.raises(InvalidValueError) as error:
        TimeMonitor(0)
    assert error.value.message == "TimeMonitor: data_size must be an int above 0, got 0"
