"""`WeightAveraging`: averages by their formula, in evaluation, at the end and after a resume."""

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.data import ArrayDataset
from adjoint.errors import InvalidValueError
from adjoint.training.callbacks import LambdaCallback, WeightAveraging
from adjoint.training.model import Model

X = np.array([[1.0, 2.0], [2.0, 3.0], [4.0, 6.0], [3.0, 1.0]])
Y = np.array([[8.0], [13.0], [26.0], [9.0]])
DATA = ArrayDataset(X, Y, batch_size=2, shuffle=False)


@pytest.fixture(scope="module")
def model():
    network = nn.Linear(2, 1, bias=False)
    return Model(network, nn.MSELoss(), adjoint.optim.SGD(network.parameters(), lr=0.01), metrics={"mse"})


def expected(steps, decay, every):
    """Parameters and averages after each step, by NumPy."""
    w = a = np.array([2.0, 1.0])
    for step in range(steps):
        rows = slice(2 * (step % 2), 2 * (step % 2) + 2)
        error = X[rows] @ w - Y[rows, 0]
        w = w - 0.01 * error @ X[rows]
        if (step + 1) % every == 0:
            a = a + (1 - decay**every) * (w - a)
    return w, a


def train(model, epochs, callback, **options):
    with adjoint.no_grad():
        model.network.weight.copy_(adjoint.tensor([[2.0, 1.0]]))
    seen = []
    note = LambdaCallback(on_train_epoch_end=lambda run: seen.append(run.network.weight.tolist()[0]))
    run = model.fit(epochs, DATA, DATA, callbacks=[callback, note], **options)
    return run, seen


@pytest.mark.parametrize("every", [1, 2])
def test_averages_are_those_of_the_formula(model, every):
    run, seen = train(model, 3, WeightAveraging(0.5, every))
    w, a = expected(6, 0.5, every)
    assert seen[-1] == pytest.approx(w.tolist(), rel=1e-5)  # which training goes on with
    assert model.network.weight.tolist()[0] == pytest.approx(a.tolist(), rel=1e-5)
    assert run.metrics["mse"] == pytest.approx(((X @ a - Y[:, 0]) ** 2).mean(), rel=1e-4)


def test_a_resumed_run_goes_on_with_its_averages(model):
    first, second = WeightAveraging(0.5, 1), WeightAveraging(0.5, 1)
    _, seen = train(model, 1, first)
    second.load_state_arrays(first.state_arrays())
    with adjoint.no_grad():
        model.network.weight.copy_(adjoint.tensor([seen[-1]]))
    resume = LambdaCallback()
    resume.restore = lambda _: {"epoch": 2, "step": 2, "step_in_epoch": 0}
    model.fit(3, DATA, callbacks=[resume, second])
    assert model.network.weight.tolist()[0] == pytest.approx(expected(6, 0.5, 1)[1].tolist(), rel=1e-5)


def test_an_exception_in_evaluation_leaves_the_parameters(model):
    def fail(_run):
        raise KeyError

    callback = WeightAveraging(0.5, 1)
    with adjoint.no_grad():
        model.network.weight.copy_(adjoint.tensor([[2.0, 1.0]]))
    with pytest.raises(KeyError):
        model.fit(1, DATA, DATA, callbacks=[callback, LambdaCallback(on_eval_begin=fail)])
    assert model.network.weight.tolist()[0] == pytest.approx(expected(2, 0.5, 1)[0].tolist(), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decay": 1.0}, "WeightAveraging: decay must be at least 0 and below 1, got 1.0"),
        ({"every": 0}, "WeightAveraging: every must be an int above 0, got 0"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(InvalidValueError) as error:
        WeightAveraging(**options)
    assert error.value.message == message
