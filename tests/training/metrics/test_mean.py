"""Means of losses and of anything."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import Loss, MeanMetric
from tests.training.metrics.batches import GUESSES, NUMBERS, batches, of_numbers

DIFFERENCES = GUESSES.astype(np.float64) - NUMBERS


def test_the_loss_is_the_mean_over_rows_however_many_a_batch_has():
    # The losses of the batches are f32.
    assert of_numbers()["loss"].eval() == pytest.approx((DIFFERENCES**2).mean(), rel=1e-6)


def test_losses_of_batches_count_by_their_rows():
    metric = Loss()
    losses = [((x - y) ** 2).mean(dtype=np.float64) for x, y in batches(GUESSES, NUMBERS)]
    for loss, rows in zip(losses, (10, 10, 3), strict=True):
        metric.update(loss, rows)
    assert metric.eval() == pytest.approx((10 * losses[0] + 10 * losses[1] + 3 * losses[2]) / 23, rel=1e-15)
    metric.clear()
    metric.update([1.0, 2.0, 6.0])  # losses of rows
    metric.update(5.0)
    assert metric.eval() == 14 / 4
    assert metric.takes_loss
    assert not Loss(max).takes_loss


def test_a_loss_that_is_nan_is_one():
    assert np.isnan(Loss()(np.nan, 3))


def test_the_mean_of_a_function():
    wanted = abs(GUESSES - NUMBERS).max(axis=1).astype(np.float64).mean()
    assert of_numbers()["largest"].eval() == pytest.approx(wanted, rel=1e-15)
    assert of_numbers()["largest"].name == "largest"
    assert MeanMetric("numbers")([[1, 2], [4, 5]]) == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Loss(3), "Loss: the function must be callable, got an int; pass a function or a loss"),
        (
            lambda: MeanMetric().update(1, 2),
            "MeanMetric: without a function, update takes the numbers alone, got 2 arguments; pass function=..., which "
            "computes them",
        ),
        (
            lambda: MeanMetric("x", lambda *_: 3)(1, 2),
            "MeanMetric: the function must return a tensor, got an int; use tensor operations in it",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AdjointError) as refused:
        call()
    assert refused.value.message == message
