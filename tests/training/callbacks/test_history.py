"""`History`: the results of epochs in lists."""

import numpy as np

from adjoint.training.callbacks import History
from tests.training.callbacks.running import FakeRun

LOSSES = [[1.0, 3.0], [1.0, 2.0], [0.5, 0.25]]
RESULTS = [{"accuracy": value, "confusion": np.eye(2)} for value in (0.5, 0.75, 0.875)]
EXPECTED = {"train_loss": [2.0, 1.5, 0.375], "valid_accuracy": [0.5, 0.75, 0.875]}


def test_every_epoch_has_its_results():
    history = History()
    FakeRun(LOSSES, RESULTS).train(history)
    assert (history.epoch, history.history) == ([1, 2, 3], EXPECTED)


def test_a_resumed_run_has_all_epochs():
    first, second = History(), History()
    FakeRun(LOSSES, RESULTS).train(first, until=4)
    second.load_state_dict(first.state_dict())
    FakeRun(LOSSES, RESULTS).resume(4).train(second)
    assert second.history == EXPECTED


def test_epochs_without_a_number_have_none():
    history, run = History(), FakeRun(LOSSES, RESULTS)
    run.step_in_epoch = 2
    history.on_train_epoch_end(run)
    run.evaluate(RESULTS[0])
    history.on_eval_end(run)
    history.on_train_epoch_end(run)
    assert history.history["valid_accuracy"] == [None, 0.5]


def test_losses_before_a_resume_do_not_count():
    history = History()
    FakeRun([[9.0, 1.0, 2.0]]).resume(1).train(history)
    assert history.history["train_loss"] == [1.5]


def test_a_later_run_begins_anew():
    history = History()
    for _ in range(2):
        FakeRun(LOSSES, RESULTS).train(history)
    assert history.epoch == [1, 2, 3]
