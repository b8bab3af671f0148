"""`scale_loss`: the scale of the loss within a trainer's step."""

import numpy as np
import pytest

from adjoint import SetupTrainer, Trainer, models
from adjoint.errors import AdjointError
from adjoint.losses import MSELoss
from adjoint.optim import SGD, scale_loss
from adjoint.tensor.tensor import from_array

X, Y = np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)


def trained(optimizer, overflows):
    trainer = Trainer(SetupTrainer(MSELoss(), optimizer)(models.linreg(2, 4)))
    trainer.init_parameters("zeros")
    scales, weights = [], []
    for overflow in overflows:
        x = X.copy()
        x[0, 0] = np.inf if overflow else 1.0
        trainer.update(x, Y)
        scales.append(float(trainer.export_optimizer_state()["loss_scale"]))
        weights.append(trainer.export_params()["w"][:, 0])
    return scales, weights


def test_overflow_skips_and_halves_and_clean_steps_double():
    overflows = [0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0]
    scales, weights = trained(scale_loss(SGD(0.1), 4096.0, growth_interval=3), overflows)
    assert scales == [4096, 4096, 8192, 8192, 4096, 4096, 4096, 8192, 4096, 2048, 2048]
    expected = 0.0
    for found, overflow in zip(weights, overflows, strict=True):
        # The gradient of each weight is 2 * (w + w - 1), whatever the scale.
        expected -= 0.0 if overflow else 0.1 * 2 * (2 * expected - 1)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_static_scale_stays():
    scales, _ = trained(scale_loss(SGD(0.1), 1024.0, growth_interval=None), [0, 1, 0])
    assert scales == [1024, 1024, 1024]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scale_loss(SGD(), 0.0), "scale_loss: init_scale must be above 0, got 0.0"),
        (
            lambda: scale_loss(SGD(), growth_factor=1.0),
            "scale_loss: growth_factor must be finite and above 1, got 1.0",
        ),
        (
            lambda: scale_loss(SGD(), backoff_factor=1.0),
            "scale_loss: backoff_factor must be above 0 and below 1, got 1.0",
        ),
        (
            lambda: scale_loss(SGD(), growth_interval=0),
            "scale_loss: growth_interval must be an int of at least 1, got 0",
        ),
        (
            lambda: scale_loss(SGD()).bind([from_array(np.ones(1), requires_grad=True)]),
            "scale_loss is for the step of SetupTrainer, got parameters to bind it to; use amp.GradScaler",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(AdjointError) as error:
        make()
    assert error.value.message == message
