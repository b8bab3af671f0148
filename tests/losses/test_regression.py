"""Squared and absolute error against NumPy and PyTorch's numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import TensorType
from adjoint.losses import L1Loss, MSELoss
from adjoint.testing.interpreter import interpret
from adjoint.transforms.differentiate import gradient

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/torch/losses.json").read_text())["cases"]
LOSSES = {"mse_loss": MSELoss, "l1_loss": L1Loss}
CASES = [c for c in GOLDEN if c["name"] in LOSSES]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['name']}-{c['settings']}")
def test_pytorch_gives_the_same(case):
    x, y = np.array(case["predictions"]), np.array(case["targets"])
    types = TensorType(x.shape, "f64"), TensorType(y.shape, "f64")
    make = LOSSES[case["name"]]
    value = interpret(make(**case["settings"]).function(*types), x, y)[0]
    np.testing.assert_allclose(value, case["loss"], rtol=1e-13)
    reduction = "sum" if case["settings"]["reduction"] == "none" else case["settings"]["reduction"]
    function = gradient(make(reduction).function(*types), ["predictions", "targets"])
    _, by_predictions, by_targets = interpret(function, x, y)
    np.testing.assert_allclose(by_predictions, case["gradient"], rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(by_targets, -np.array(case["gradient"]), rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize(("make", "rule"), [(MSELoss, np.square), (L1Loss, np.abs)])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_reductions_follow_numpy(make, rule, shape):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, *shape))
    types = TensorType(shape, "f64"), TensorType(shape, "f64")
    rows = rule(np.asarray(x) - y)
    np.testing.assert_allclose(interpret(make("none").function(*types), x, y)[0], rows)
    np.testing.assert_allclose(interpret(make("sum").function(*types), x, y)[0], rows.sum())
    with np.errstate(invalid="ignore"):
        expected = rows.sum() / np.float64(rows.size)
        np.testing.assert_allclose(interpret(make("mean").function(*types), x, y)[0], expected)


def test_integer_targets_are_cast():
    function = MSELoss("sum").function(TensorType((2,)), TensorType((2,), "i64"))
    assert interpret(function, np.array([1.5, 2.0], np.float32), np.array([1, 4]))[0] == 4.25


@pytest.mark.parametrize("make", [MSELoss, L1Loss])
def test_what_does_not_fit_is_refused(make):
    with pytest.raises(TypeRuleError, match=r"same shape, got f32\[4,1\] and f32\[4\]"):
        make().function(TensorType((4, 1)), TensorType((4,)))
    with pytest.raises(TypeRuleError, match=r"same dtype, got f32\[4\] and f64\[4\]"):
        make().function(TensorType((4,)), TensorType((4,), "f64"))
    with pytest.raises(TypeRuleError, match=r"float dtype, got i64\[4\]"):
        make().function(TensorType((4,), "i64"), TensorType((4,)))
    with pytest.raises(TypeRuleError, match=r"takes \(predictions, targets\), got 3"):
        make().function(*[TensorType((4,))] * 3)
    with pytest.raises(InvalidValueError, match="one of mean, sum, none, got 'max'"):
        make("max")
