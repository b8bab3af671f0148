"""`LearningRateScheduler`: rates by functions and schedules."""

import pytest

import adjoint
from adjoint import nn
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.optim.lr_scheduler import ReduceLROnPlateau, StepLR
from adjoint.training.callbacks import LambdaCallback, LearningRateScheduler
from tests.training.callbacks.running import FakeRun


def optimizer():
    return adjoint.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)


def rates(optimizer, callback, losses=([1.0] * 4, [1.0] * 2), resumed=None, until=None):
    """The learning rate with which every step is done."""
    noted = []
    run = FakeRun(list(losses), optimizer=optimizer)
    if resumed is not None:
        run.resume(resumed)
    run.train(callback, step=lambda: noted.append(run.learning_rate), until=until)
    return noted


def test_a_function_sets_the_rate_of_the_next_step():
    callback = LearningRateScheduler(lambda lr, step: lr * 0.5 if step % 2 == 0 else lr)
    assert rates(optimizer(), callback) == [1, 1, 0.5, 0.5, 0.25, 0.25]


def test_a_function_sets_the_rate_of_the_next_epoch():
    assert rates(optimizer(), LearningRateScheduler(lambda lr, step: lr / step, per="epoch")) == [1] * 4 + [0.25] * 2


@pytest.mark.parametrize(("per", "expected"), [("step", [1, 1, 0.5, 0.5, 0.25, 0.25]), ("epoch", [1, 1, 1, 1, 1, 1])])
def test_a_schedule_is_stepped(per, expected):
    bound = optimizer()
    assert rates(bound, LearningRateScheduler(StepLR(bound, 2, 0.5), per)) == expected


def test_a_schedule_survives_a_resume():
    bound = optimizer()
    first = LearningRateScheduler(StepLR(bound, 2, 0.5))
    rates(bound, first, until=3)
    second = LearningRateScheduler(StepLR(bound, 2, 0.5))
    bound.param_groups[0]["lr"] = 0.5  # which is part of the optimizer's state
    second.load_state_dict(first.state_dict())
    assert rates(bound, second, resumed=3) == [0.5, 0.25, 0.25]


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (
            lambda: LearningRateScheduler(0.1),
            TypeRuleError,
            "LearningRateScheduler takes a function of the rate and the step, or an LRScheduler, got the float 0.1; "
            "pass such as lambda lr, step: lr * 0.999",
        ),
        (
            lambda: LearningRateScheduler(ReduceLROnPlateau(optimizer())),
            TypeRuleError,
            "LearningRateScheduler takes schedules that depend on steps alone, got a ReduceLROnPlateau; use "
            "adjoint.training.callbacks.ReduceLROnPlateau",
        ),
        (
            lambda: LearningRateScheduler(max, per="batch"),
            InvalidValueError,
            "LearningRateScheduler: per must be 'step' or 'epoch', got 'batch'",
        ),
        (
            lambda: LearningRateScheduler(max, every=0),
            InvalidValueError,
            "LearningRateScheduler: every must be an int above 0, got 0",
        ),
        (
            lambda: rates(optimizer(), LearningRateScheduler(lambda lr, step: None)),  # noqa: ARG005
            TypeRuleError,
            "LearningRateScheduler: the function must return a rate, got None (is a return missing?); return a float",
        ),
    ],
)
def test_refusals(make, kind, message):
    with pytest.raises(kind) as error:
        make()
    assert error.value.message == message


def test_a_lambda_callback_sees_the_rate():
    seen, bound = [], optimizer()
    callback = LambdaCallback(every=2, on_train_step_end=lambda run: seen.append(run.learning_rate))
    FakeRun([[1.0] * 4], optimizer=bound).train(LearningRateScheduler(lambda lr, _: lr + 1), callback)
    assert seen == [3.0, 5.0]
