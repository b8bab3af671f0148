"""`EarlyStopping`: rules, the best weights, and what survives a resume."""

import numpy as np
import pytest

from adjoint import nn
from adjoint.errors import AdjointWarning, InvalidValueError, NameLookupError
from adjoint.tensor.making import from_array
from adjoint.training.callbacks import EarlyStopping
from tests.training.callbacks.running import FakeRun

LOSSES = [1.0, 0.5, 0.6, 0.55, 0.45, 0.7, 0.7, 0.7]


def stopped_after(values, name="loss", **options):
    """The epoch after which training ends on these results, 0 if it never does."""
    callback = EarlyStopping(name, **options)
    FakeRun([[1.0]] * len(values), [{name: value} for value in values]).train(callback)
    return callback.stopped_epoch


# The epochs are those of mindspore.train.callback.EarlyStopping 2.10 with the same arguments on the same numbers. Only
# with a patience of 0, it ends training after the first epoch, and Keras after the first one without an improvement.
@pytest.mark.parametrize(
    ("options", "epoch"),
    [
        ({}, 3),
        ({"patience": 1}, 3),
        ({"patience": 2}, 4),
        ({"patience": 3}, 8),
        ({"patience": 4}, 0),
        ({"patience": 2, "min_delta": 0.2}, 4),
        ({"patience": 3, "baseline": 0.4}, 3),
        ({"patience": 2, "mode": "max"}, 3),
    ],
)
def test_training_ends_after_the_epoch_that_others_say(options, epoch):
    assert stopped_after(LOSSES, **options) == epoch


def test_greater_accuracies_are_better():
    assert stopped_after([0.5, 0.6, 0.55, 0.7, 0.7], "top_5_accuracy") == 3


def test_nan_is_no_improvement():
    assert stopped_after([np.nan, np.nan], "loss", patience=1) == 2
    assert stopped_after([1.0, np.nan, 0.5], "loss", patience=2) == 0


def test_the_run_says_why_it_ended():
    run = FakeRun([[1.0]] * 3, [{"loss": 1.0}] * 3).train(EarlyStopping(patience=2))
    assert (run.epoch, run.stop_reason) == (3, "loss has not improved since epoch 1")


def test_the_training_loss_needs_no_evaluation():
    callback = EarlyStopping("train_loss", patience=1)
    FakeRun([[1.0, 3.0], [1.0, 2.0], [2.0, 2.0], [0.0, 0.0]]).train(callback)
    assert (callback.best, callback.best_epoch, callback.stopped_epoch) == (1.5, 2, 3)


def network(value):
    linear = nn.Linear(1, 1, bias=False)
    linear.load_state_dict({"weight": from_array(np.full((1, 1), value, np.float32))})
    return linear


def weight(network):
    return network.weight.detach().numpy().item()


def train(run, callback, until=None):
    """A run whose weight is the number of the step."""

    def step():
        run.network.load_state_dict({"weight": from_array(np.full((1, 1), run.step + 1, np.float32))})

    return run.train(callback, step=step, until=until)


def test_the_best_weights_are_put_back():
    run = FakeRun([[1.0]] * 4, [{"loss": value} for value in (3.0, 1.0, 2.0, 2.0)], network=network(0))
    train(run, EarlyStopping(patience=5, restore_best_weights=True))
    assert weight(run.network) == 2


def test_a_resumed_run_ends_as_if_it_had_not_been_interrupted():
    results = [{"loss": value} for value in (3.0, 1.0, 2.0, 2.0, 2.0)]
    first = EarlyStopping(patience=2, restore_best_weights=True)
    train(FakeRun([[1.0]] * 5, results, network=network(0)), first, until=3)
    second = EarlyStopping(patience=2, restore_best_weights=True)
    second.load_state_dict(first.state_dict())
    second.load_state_arrays(first.state_arrays())
    run = train(FakeRun([[1.0]] * 5, results, network=network(3)).resume(3), second)
    assert (run.epoch, second.best, second.best_epoch, weight(run.network)) == (4, 1.0, 2, 2)


def test_best_weights_that_a_checkpoint_lacks_are_missed_with_a_warning():
    callback = EarlyStopping(restore_best_weights=True)
    callback.load_state_dict({"best": 0.5, "best_epoch": 7, "wait": 1})
    with pytest.warns(AdjointWarning) as caught:
        FakeRun([[1.0]], [{"loss": 1.0}], network=network(4)).train(callback)
    assert str(caught[0].message) == (
        "EarlyStopping: the weights of the best epoch, 7, are not in the checkpoint that the run was resumed from; the "
        "network keeps those of the last epoch"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "least"}, "EarlyStopping: mode must be 'auto', 'min' or 'max', got 'least'"),
        ({"min_delta": -1.0}, "EarlyStopping: min_delta must be at least 0 and finite, got -1.0"),
        ({"patience": -1}, "EarlyStopping: patience must be an int of at least 0, got -1"),
        (
            {"monitor": "kappa"},
            "EarlyStopping: mode='auto' decides by the name of a metric, got monitor='kappa'; pass mode='min' or "
            "mode='max'",
        ),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(InvalidValueError) as error:
        EarlyStopping(**options)
    assert error.value.message == message


def test_a_metric_that_there_is_not_is_refused():
    with pytest.raises(NameLookupError) as error:
        FakeRun([[1.0]], [{"loss": 1.0, "mae": 2.0}]).train(EarlyStopping("accuracy"))
    assert error.value.message == (
        "EarlyStopping: monitor must be a metric of the model or 'train_loss', got 'accuracy'; known are loss, mae"
    )


def test_a_run_without_validation_data_is_refused():
    with pytest.raises(InvalidValueError) as error:
        FakeRun([[1.0]]).train(EarlyStopping("accuracy"))
    assert error.value.message == (
        "EarlyStopping: monitor='accuracy' needs evaluation, got a run without validation data; pass it, or "
        "monitor='train_loss'"
    )


def test_epochs_that_are_not_evaluated_do_not_count():
    callback, run = EarlyStopping(patience=1), FakeRun([[1.0]], [{"loss": 1.0}])
    for evaluated in (True, False, False, True):
        if evaluated:
            run.metrics = {"loss": 1.0}
            callback.on_eval_end(run)
        callback.on_train_epoch_end(run)
        run.epoch += 1
    assert callback.stopped_epoch == 4
