"""`Logger` and the rows that all loggers write."""

import math

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.training.callbacks import Logger
from tests.training.callbacks.running import FakeRun


class Tracker:
    """What wandb and trackio have."""

    def __init__(self):
        self.rows, self.finished = [], 0

    def log(self, data, step=None):
        self.rows.append((step, data))

    def finish(self):
        self.finished += 1


LOSSES = [[4.0, 3.0, 2.0], [1.0, 1.0, 0.5]]
RESULTS = [{"accuracy": 0.5, "confusion": np.eye(2)}, {"accuracy": 0.75, "confusion": np.eye(2)}]


@pytest.mark.parametrize("late", [False, True])
def test_rows_have_the_numbers_of_their_steps(late):
    tracker, optimizer = Tracker(), adjoint.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.5)
    FakeRun(LOSSES, RESULTS, optimizer=optimizer, late=late).train(Logger(tracker, every=2))
    assert tracker.rows == [
        (2, {"epoch": 1, "learning_rate": 0.5, "seconds": 0.25, "loss": 3.0}),
        (3, {"epoch": 1, "learning_rate": 0.5, "seconds": 0.375, "train_loss": 3.0, "valid_accuracy": 0.5}),
        (4, {"epoch": 2, "learning_rate": 0.5, "seconds": 0.5, "loss": 1.0}),
        (6, {"epoch": 2, "learning_rate": 0.5, "seconds": 0.75, "loss": 0.5}),
        (6, {"epoch": 2, "learning_rate": 0.5, "seconds": 0.75, "train_loss": 2.5 / 3, "valid_accuracy": 0.75}),
    ]
    assert tracker.finished == 1


def test_epochs_alone():
    tracker = Tracker()
    FakeRun(LOSSES).train(Logger(tracker, every=None))
    assert [(step, sorted(row)) for step, row in tracker.rows] == [
        (3, ["epoch", "seconds", "train_loss"]),
        (6, ["epoch", "seconds", "train_loss"]),
    ]


def test_an_exception_loses_no_row():
    tracker, run = Tracker(), FakeRun([[4.0, math.nan, 2.0]], late=True)
    logger = Logger(tracker, every=1)
    run.train(logger, until=2)
    assert [row["loss"] for _, row in tracker.rows] == [4.0]
    run.late = False
    logger.on_exception(run, ValueError())
    assert math.isnan(tracker.rows[1][1]["loss"])
    assert tracker.finished == 1


def test_an_object_without_the_methods_is_refused():
    with pytest.raises(TypeRuleError) as error:
        Logger(object())
    assert error.value.message == (
        "Logger takes an object with log(dict, step) and finish(), got an object without log; pass such as wandb.init()"
    )


@pytest.mark.parametrize("every", [0, 2.0])
def test_the_number_of_steps_is_checked(every):
    with pytest.raises(InvalidValueError) as error:
        Logger(Tracker(), every=every)
    assert error.value.message == f"Logger: every must be an int above 0, or None, got {every}"
