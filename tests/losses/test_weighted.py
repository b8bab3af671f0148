"""Losses with one weight per example."""

import numpy as np
import pytest

import adjoint
from adjoint import TensorType
from adjoint.errors import TypeRuleError
from adjoint.losses import CrossEntropyLoss, MSELoss, SampleWeighted
from adjoint.testing import interpret

X = np.array([[1.0, -2.0], [0.5, 3.0], [2.0, 2.5]])
Y = np.array([0, 1, 0])
W = np.array([1.0, 0.0, 3.0])
ROWS = np.log(np.exp(X).sum(1)) - X[np.arange(3), Y]


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("mean", (W * ROWS).sum() / W.sum()), ("sum", (W * ROWS).sum()), ("none", W * ROWS)],
)
def test_weights_follow_the_formula(reduction, expected):
    loss = SampleWeighted(CrossEntropyLoss(reduction="none"), reduction)
    assert loss.arg_names == ("predictions", "targets", "sample_weights")
    types = TensorType((3, 2), "f64")
    assert loss.target_types(types) == (TensorType((3,), "i64"), TensorType((3,), "f64"))
    function = loss.function(types, *loss.target_types(types))
    np.testing.assert_allclose(interpret(function, X, Y, W)[0], expected, rtol=1e-12)


def test_weights_of_tensors_and_a_weight_of_zero():
    loss = SampleWeighted(CrossEntropyLoss(reduction="none"))
    x = adjoint.tensor(X.astype(np.float32), requires_grad=True)
    loss(x, adjoint.tensor(Y), adjoint.tensor(W.astype(np.float32))).backward()
    assert x.grad[1].tolist() == [0.0, 0.0]
    p = np.exp(X[2]) / np.exp(X[2]).sum()
    np.testing.assert_allclose(x.grad[2].numpy(), 0.75 * (p - [1, 0]), rtol=1e-5)


def test_a_loss_with_a_reduction_is_refused():
    with pytest.raises(TypeRuleError) as error:
        SampleWeighted(MSELoss())
    assert error.value.message == (
        "sample_weighted: the loss must be one with reduction='none', got an object of type MSELoss; make it so, as "
        "MSELoss(reduction='none')"
    )
