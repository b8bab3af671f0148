"""Errors of numbers."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import MAE, MSE, R2
from tests.training.metrics.batches import GUESSES, NUMBERS, counted, of_numbers

X, Y = GUESSES.astype(np.float64), NUMBERS.astype(np.float64)
ROW_WEIGHTS = np.arange(23) / 4


def test_errors_over_all_elements():
    found = {name: metric.eval() for name, metric in of_numbers().items()}
    assert found["mae"] == pytest.approx(abs(X - Y).mean(), rel=1e-14)
    assert found["mse"] == pytest.approx(((X - Y) ** 2).mean(), rel=1e-14)
    assert found["rmse"] == pytest.approx(np.sqrt(((X - Y) ** 2).mean()), rel=1e-14)
    # Sums of squares would lose 8 of 16 digits, because the mean is 10,000 times the deviation.
    wanted = 1 - ((X - Y) ** 2).sum(axis=0) / ((Y - Y.mean(axis=0)) ** 2).sum(axis=0)
    np.testing.assert_allclose(found["r2"], wanted, rtol=1e-11)


def test_weights_of_rows():
    found = counted({"mse": MSE(weighted=True), "r2": R2(weighted=True)}, GUESSES, NUMBERS, ROW_WEIGHTS)
    weights = ROW_WEIGHTS[:, None] / ROW_WEIGHTS.sum()
    assert found["mse"].eval() == pytest.approx(((X - Y) ** 2 * weights).sum() / 2, rel=1e-14)
    deviations = (weights * (Y - (weights * Y).sum(axis=0)) ** 2).sum(axis=0)
    wanted = (1 - (weights * (X - Y) ** 2).sum(axis=0) / deviations).mean()
    assert found["r2"].eval() == pytest.approx(wanted, rel=1e-11)


def test_averages_of_r2_and_columns_that_are_constant():
    y = np.array([[1.0, 3.0, 5.0], [2.0, 3.0, 5.0], [3.0, 3.0, 5.0]])
    x = np.add(y, [[1, 0, 0], [0, 0, 0], [0, 0, 1]])
    metric = R2("raw_values")
    assert metric(x, y).tolist() == [0.5, 1.0, 0.0]
    metric.multioutput = "uniform_average"
    assert metric.eval() == 0.5
    metric.multioutput = "variance_weighted"
    assert metric.eval() == 0.5


def test_numbers_of_mindspore():
    # mindspore.train.MAE() and MSE() of MindSpore 2.10, with f32
    x, y = np.array([0.1, 0.2, 0.6, 0.9], np.float32), np.array([0.1, 0.25, 0.7, 0.9], np.float32)
    assert MAE()(x, y) == pytest.approx(0.037499990314245224, rel=1e-6)
    assert MSE()(x, y) == pytest.approx(0.003124997951090336, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: MSE().update(GUESSES[:, :1], GUESSES[:, 0]),
            "MSE: targets must have the shape of the outputs, f32[23,1], got f32[23]; reshape them, because "
            "broadcasting would compare each output with all targets",
        ),
        (
            lambda: MAE()([1.0, np.nan], [1.0, 2.0]),
            "MAE: differences of outputs and targets must not be NaN, got 1 that are; find the operation that makes "
            "the first NaN with adjoint.debug_nan()",
        ),
        (
            lambda: MAE(weighted=True).update([1.0], [1.0]),
            "MAE: a metric takes weights of rows if it is weighted, got none and weighted=True; make it with "
            "weighted=True and pass them as the third argument",
        ),
        (
            lambda: MAE(weighted=True).update(GUESSES, NUMBERS, [1.0]),
            "MAE: there must be one weight per row of the outputs f32[23,2], got f64[1]; pass [23] weights",
        ),
        (
            lambda: MAE(weighted=True)([1.0], [1.0], [0.0]),
            "MAE: a metric needs an example that counts, got none in 1 updates; are all targets ignored, or all "
            "weights 0?",
        ),
        (
            lambda: R2(weighted=True)([1.0], [1.0], [0.0]),
            "R2: a metric needs an example that counts, got none in 1 updates; are all weights 0?",
        ),
        (
            lambda: [m := R2(), m(GUESSES, NUMBERS), m.update([1.0], [1.0])],
            "R2: all outputs must have as many columns as the first ones, 2, got 1; use another metric",
        ),
        (
            lambda: R2("mean"),
            "R2: multioutput must be 'uniform_average', 'variance_weighted', 'raw_values', got 'mean'; choose one of "
            "them",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AdjointError) as refused:
        call()
    assert refused.value.message == message
