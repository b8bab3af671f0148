"""`NaNGuard` and `explain_nan`: the operation and the line that made the first NaN or infinity."""

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.errors import InvalidValueError, NotFiniteError
from adjoint.training.callbacks import NaNGuard, explain_nan
from tests.training.callbacks.running import FakeRun

ROWS = np.ones((1, 1), np.float32)
BEGIN = "NaNGuard: the loss must be finite, got"


class Trained:
    """A model of one weight, whose loss is ``-log(1 - sum of steps so far)`` or another function of the weight."""

    def __init__(self, loss, weight, rate):
        self.network = nn.Linear(1, 1, bias=False)
        with adjoint.no_grad():
            self.network.weight.fill_(weight)
        self.optimizer = adjoint.optim.SGD(self.network.parameters(), lr=rate)
        self.loss = loss

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.loss(self.network(x).sum())
        loss.backward()
        self.optimizer.step()
        return loss

    def explain_nan(self, batches):
        return explain_nan(self.step, ((adjoint.from_numpy(x),) for (x,) in batches))

    def weight(self):
        return self.network.weight.item()


class Dataset:
    """Batches of ones, or one that is something else."""

    def __init__(self, wrong=None, value=np.nan):
        self.wrong, self.value = wrong, value

    def epoch(self, number, start=0):
        for i in range(start, 4):
            yield (ROWS * (self.value if (number, i) == self.wrong else 1),)


def logarithm(y):
    return adjoint.log(y)


def square_root(y):
    return adjoint.sqrt(y)


def quotient(y):
    return y / adjoint.relu(y - 2)


def line_of(function):
    return f"{__file__}:{function.__code__.co_firstlineno + 1}"


def train(trained, callback, dataset=None, epochs=2):
    """Train until a loss is not finite, as `Model` would."""
    run = FakeRun([[0.0] * 4 for _ in range(epochs)], network=trained.network, optimizer=trained.optimizer)
    run.model, run.dataset = trained, dataset or Dataset()

    def step():
        (x,) = next(run.dataset.epoch(run.epoch - 1, run.step_in_epoch))
        run.all_losses[run.epoch - 1][run.step_in_epoch] = trained.step(adjoint.from_numpy(x)).item()

    with pytest.raises(NotFiniteError) as error:
        run.train(callback, step=step)
    return error.value


def test_the_operation_and_the_line_are_named():
    # The gradient of log(w) is 1/w, so that w is 1, then 1 - 0.75, then negative.
    trained = Trained(logarithm, 1.0, 0.75)
    error = train(trained, NaNGuard(every=1))
    assert error.message.startswith(f"{BEGIN} nan in step 3 of epoch 1: the first NaN from log")
    assert error.message.endswith("; check what its operands can be")
    assert error.where == line_of(logarithm)
    assert trained.weight() == 1.0  # that of the copy


def test_a_gradient_of_a_finite_loss_is_found():
    # sqrt(0) is 0, and its gradient is infinite: the weight becomes -inf, and the next loss NaN.
    error = train(Trained(square_root, 0.0, 1.0), NaNGuard(every=4))
    assert error.message.startswith(f"{BEGIN} nan in step 2 of epoch 1: the first infinity")
    assert error.where == line_of(square_root)


def test_an_infinite_loss_is_one_too():
    error = train(Trained(quotient, 1.0, 0.0), NaNGuard(every=4))
    assert error.message.startswith(f"{BEGIN} inf in step 1 of epoch 1: the first NaN from")
    assert ", of an infinity from divide, which computes " in error.message
    assert f" at test_nan_guard.py:{line_of(quotient).rpartition(':')[2]}; " in error.message


def test_a_batch_that_is_not_finite_is_named():
    error = train(Trained(lambda y: y, 1.0, 0.5), NaNGuard(every=4), Dataset((1, 2)))
    assert error.message == (
        "NaNGuard: the loss must be finite, got nan in step 3 of epoch 2: nan in element 0 of the batch at "
        "(0, 0); clean the data"
    )


def test_without_explanation_there_is_advice():
    error = train(Trained(logarithm, 1.0, 0.75), NaNGuard(explain=False, seconds=5.0))
    assert error.message == (
        "NaNGuard: the loss must be finite, got nan in step 3 of epoch 1; lower the learning rate or clip gradients"
    )


def test_losses_are_looked_at_before_an_evaluation():
    """Metrics refuse NaN outputs, which would hide where they come from."""
    guard, run = NaNGuard(explain=False), FakeRun([[0.5, np.nan]])
    guard.on_train_begin(run)
    guard.on_train_epoch_begin(run)
    run.step_in_epoch = 2
    with pytest.raises(NotFiniteError, match="got nan in step 2 of epoch 1"):
        guard.on_eval_begin(run)


def test_a_failing_explanation_hides_nothing():
    trained = Trained(logarithm, 1.0, 0.75)
    trained.explain_nan = lambda _: {}["missing"]
    assert train(trained, NaNGuard(every=1)).message == (
        "NaNGuard: the loss must be finite, got nan in step 3 of epoch 1, and repeating the steps before it failed "
        "(KeyError: 'missing'); lower the learning rate or clip gradients"
    )


def test_steps_that_are_finite_when_repeated_are_reported_as_such():
    trained = Trained(logarithm, 1.0, 0.75)
    trained.explain_nan = lambda _: None
    assert train(trained, NaNGuard(every=1)).message == (
        "NaNGuard: the loss must be finite, got nan in step 3 of epoch 1, which was finite when the steps "
        "before it were repeated; lower the learning rate or clip gradients"
    )


def test_compiled_steps_are_explained_too():
    trained = Trained(logarithm, 1.0, 0.75)
    step = adjoint.jit(lambda x: adjoint.log(trained.network(x).sum()))
    assert explain_nan(step, [{"x": adjoint.from_numpy(ROWS)}]) is None
    found = explain_nan(step, [(adjoint.from_numpy(-ROWS),)])
    assert found.message.startswith("debug_nan: values must not be NaN, got the first NaN from log")


def test_losses_before_a_resume_are_not_looked_at():
    guard, run = NaNGuard(explain=False, every=1), FakeRun([[1.0, 1.0, 1.0]])
    run.resume(2).train(guard)
    assert np.isnan(run.losses).sum() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "NaNGuard: every must be an int above 0, got 0"),
        ({"seconds": 0.0}, "NaNGuard: seconds must be above 0, got 0.0"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(InvalidValueError) as error:
        NaNGuard(**options)
    assert error.value.message == message
