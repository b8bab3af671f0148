"""Prediction for any number of rows."""

import numpy as np
import pytest

from adjoint.errors import TypeRuleError
from tests.training.models import BATCH, batches, widened


def forward(params, x):
    hidden = x.astype(np.float64)
    for i in range(3):
        hidden = hidden @ params[f"w{i}"] + params[f"b{i}"]
        hidden = np.maximum(hidden, 0) if i < 2 else hidden
    return hidden


@pytest.mark.parametrize("rows", [0, 1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH, 3 * BATCH + 5])
def test_any_number_of_rows_is_predicted(trainer, rows):
    x = np.random.default_rng(rows).standard_normal((rows, 12)).astype(np.float32)
    got = trainer.predict(x)
    assert got.shape == (rows, 3)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, forward(widened(trainer.export_params()), x), rtol=1e-4, atol=1e-5)


def test_predict_reads_the_newest_parameters_and_changes_none(trainer):
    (x, y), *_ = batches(1)
    before = trainer.predict(x)
    trainer.update(x, y)
    params = trainer.export_params()
    after = trainer.predict(x)
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(after, forward(widened(params), x), rtol=1e-4, atol=1e-5)
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, params[name])


def test_rows_in_another_order_of_memory_are_predicted(trainer):
    x = np.random.default_rng(0).standard_normal((12, 20)).astype(np.float32).T
    np.testing.assert_array_equal(trainer.predict(x), trainer.predict(np.ascontiguousarray(x)))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros((3, 11), np.float32)], r"x is f32\[8,12\] with any number of rows, got float32\[3, 11\]"),
        ([np.zeros(12, np.float32)], r"got float32\[12\]"),
        ([np.zeros((3, 12))], r"got float64\[3, 12\]"),
        ([np.zeros((3, 12), np.float32)] * 2, "the model takes x, got 2 arrays"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(trainer, arrays, message):
    with pytest.raises(TypeRuleError, match=message):
        trainer.predict(*arrays)
