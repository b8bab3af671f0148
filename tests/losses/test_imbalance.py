"""Focal loss and Dice loss, against their formulas in NumPy and finite differences."""

import numpy as np
import pytest

from adjoint import TensorType, param
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.losses import DiceLoss, FocalLoss, dice, focal
from adjoint.testing import check_gradients, interpret

RNG = np.random.default_rng(3)
X = 2 * RNG.standard_normal((2, 3, 4))
T = (RNG.random((2, 3, 4)) > 0.6).astype(np.float64)


@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (-1.0, 1.5), (0.7, 0.0)])
def test_focal_follows_the_paper(alpha, gamma):
    p = 1 / (1 + np.exp(-X))
    q = np.where(T == 1, p, 1 - p)
    factor = 1.0 if alpha < 0 else np.where(T == 1, alpha, 1 - alpha)
    expected = -factor * (1 - q) ** gamma * np.log(q)
    function = FocalLoss(alpha, gamma, "none").function(TensorType(X.shape, "f64"), TensorType(X.shape, "f64"))
    np.testing.assert_allclose(interpret(function, X, T)[0], expected, rtol=1e-10)


def test_dice_follows_the_formula():
    p = 1 / (1 + np.exp(-X))
    expected = 1 - (2 * (p * T).sum(2) + 0.5) / (p.sum(2) + T.sum(2) + 0.5)
    loss = DiceLoss(0.5, "none")
    function = loss.function(TensorType(X.shape, "f64"), TensorType(X.shape, "f64"))
    np.testing.assert_allclose(interpret(function, p, T)[0], expected, rtol=1e-12)
    single = loss.function(TensorType((4,), "f64"), TensorType((4,), "f64"))
    np.testing.assert_allclose(interpret(single, p[0, 1], T[0, 1])[0], expected[0, 1], rtol=1e-12)
    assert interpret(DiceLoss().function(TensorType((4,)), TensorType((4,))), *np.zeros((2, 4), np.float32)) == (0.0,)


def test_gradients_and_far_logits():
    labels = T.astype(np.int64)
    check_gradients(focal, (X, labels), order=1)
    check_gradients(lambda x, t: dice(x.sigmoid(), t), (X, labels), order=1)
    far = np.array([200.0, -200.0, 200.0, -200.0], np.float32)
    value = interpret(
        FocalLoss(-1.0, reduction="none").function(TensorType((4,)), TensorType((4,))),
        far,
        np.array([1, 1, 0, 0], np.float32),
    )[0]
    np.testing.assert_allclose(value, [0, 200, 200, 0], atol=1e-30)


def test_types_of_targets_and_refusals():
    assert FocalLoss().target_types(TensorType((2, 3))) == DiceLoss().target_types(TensorType((2, 3)))
    with pytest.raises(InvalidValueError) as error:
        focal(param("x", (2,)), param("t", (2,)), alpha=1.5)
    assert error.value.message == (
        "focal_loss: alpha must be at most 1 and gamma at least 0, got 1.5 and 2.0; use 0.25 and 2.0"
    )
    with pytest.raises(InvalidValueError) as error:
        dice(param("x", (2,)), param("t", (2,)), smooth=-1.0)
    assert error.value.message == "dice_loss: smooth must not be negative, got -1.0; use 1.0"
    with pytest.raises(TypeRuleError) as error:
        dice(param("x", ()), param("t", ()))
    assert error.value.message == "dice_loss: predictions must have an axis, got f32[]; reshape them"
