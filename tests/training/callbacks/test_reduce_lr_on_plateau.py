"""`ReduceLROnPlateau`: MindSpore's rules, on every group of an optimizer."""

import pytest

import adjoint
from adjoint import nn
from adjoint.errors import InvalidValueError
from adjoint.training.callbacks import LambdaCallback, ReduceLROnPlateau
from tests.training.callbacks.running import FakeRun

LOSSES = [1.0, 0.9, 0.95, 0.95, 0.95, 0.95, 0.95, 0.5, 0.6, 0.6]


def optimizer():
    linear = nn.Linear(1, 1)
    return adjoint.optim.SGD([{"params": [linear.weight]}, {"params": [linear.bias], "lr": 4.0}], lr=8.0)


def rates(values, optimizer, *callbacks, run=None):
    """The learning rate of the first group after every epoch."""
    noted = []
    run = run or FakeRun([[1.0]] * len(values), [{"loss": value} for value in values], optimizer=optimizer)
    run.train(*callbacks, LambdaCallback(on_train_epoch_end=lambda run: noted.append(run.learning_rate)))
    return noted


# The rates are those of mindspore.train.callback.ReduceLROnPlateau 2.10 with the same arguments on the same numbers.
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"patience": 2}, [8, 8, 8, 4, 4, 2, 2, 2, 2, 1]),
        ({"patience": 2, "cooldown": 2}, [8, 8, 8, 4, 4, 4, 2, 2, 2, 1]),
        ({"patience": 1, "min_lr": 3.0}, [8, 8, 4, 3, 3, 3, 3, 3, 3, 3]),
        ({"patience": 2, "min_delta": 0.2}, [8, 8, 4, 4, 2, 2, 1, 1, 1, 0.5]),
        ({"patience": 9}, [8] * 10),
    ],
)
def test_rates_are_lowered_after_the_epochs_that_mindspore_says(options, expected):
    assert rates(LOSSES, optimizer(), ReduceLROnPlateau(factor=0.5, **options)) == expected


def test_every_group_is_lowered():
    both = optimizer()
    rates([1.0, 1.0], both, ReduceLROnPlateau(patience=1, factor=0.5))
    assert [group["lr"] for group in both.param_groups] == [4.0, 2.0]


def test_a_resumed_run_goes_on():
    whole, first, second = (ReduceLROnPlateau(factor=0.5, patience=2, cooldown=1) for _ in range(3))
    expected = rates(LOSSES, optimizer(), whole)
    results = [{"loss": value} for value in LOSSES]
    both = optimizer()
    FakeRun([[1.0]] * 10, results, optimizer=both).train(first, until=5)
    second.load_state_dict(first.state_dict())
    run = FakeRun([[1.0]] * 10, results, optimizer=both).resume(5)
    assert rates(LOSSES, both, second, run=run) == expected[5:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": 1.0}, "ReduceLROnPlateau: factor must be above 0 and below 1, got 1.0"),
        ({"patience": -1}, "ReduceLROnPlateau: patience must be an int of at least 0, got -1"),
        ({"cooldown": 0.5}, "ReduceLROnPlateau: cooldown must be an int of at least 0, got 0.5"),
        ({"min_lr": -1.0}, "ReduceLROnPlateau: min_lr must be at least 0, got -1.0"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(InvalidValueError) as error:
        ReduceLROnPlateau(**options)
    assert error.value.message == message
