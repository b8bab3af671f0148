"""A loss behind a model."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Function, numbered, param, value_names, verify
from adjoint.testing.interpreter import interpret
from adjoint.transforms import append_loss

X = param("x", (3,))
W = param("w", (3,))
BACKBONE = Function("backbone", (X, W), (ops.multiply(X, W), ops.exp(W)), {"donate": (("w", 1),)})

PREDICTIONS = param("predictions", (3,))
TARGETS = param("targets", (3,))
WIDER = param("p", (4,))
LOSS = Function("l1", (PREDICTIONS, TARGETS), (ops.sum(ops.abs(ops.subtract(PREDICTIONS, TARGETS))),))

ONES = np.ones(3, np.float32)


def test_results_parameters_name_and_attributes():
    made = append_loss(BACKBONE, LOSS)
    verify(made)
    assert made.name == "backbone_loss"
    assert [p.label for p in made.params] == ["x", "w", "targets"]
    assert made.attrs["donate"] == (("w", 1),)
    loss, state = interpret(made, 2 * ONES, 3 * ONES, ONES)
    assert loss == 15
    np.testing.assert_allclose(state, np.exp(3 * ONES), rtol=1e-6)
    assert append_loss(BACKBONE, LOSS, name="other").name == "other"


def test_several_results_go_to_the_loss():
    both = Function("both", (PREDICTIONS, TARGETS), (ops.sum(ops.multiply(PREDICTIONS, TARGETS)),))
    made = append_loss(BACKBONE, both, num_backbone_results=2)
    assert [p.label for p in made.params] == ["x", "w"]
    assert len(made.results) == 1
    assert made.attrs["donate"] == ()
    verify(made)


def test_the_loss_may_return_the_prediction_or_ignore_it():
    echo = Function("echo", (PREDICTIONS, TARGETS), (PREDICTIONS, ops.sum(TARGETS)))
    made = append_loss(BACKBONE, echo)
    assert made.results[0] is BACKBONE.results[0]
    assert made.attrs["donate"] == (("w", 2),)
    verify(made)


def test_parameters_shared_as_objects_are_told_apart():
    """The loss's first parameter is the same Python object as one of the model's."""
    loss = Function("loss", (X, TARGETS), (ops.sum(ops.subtract(X, TARGETS)),))
    (total, _) = interpret(append_loss(BACKBONE, loss), 2 * ONES, 3 * ONES, ONES)
    assert total == 15


@pytest.mark.parametrize(
    ("loss", "count", "error", "message"),
    [
        (LOSS, 0, InvalidValueError, "at least 1 and at most the 2 results of @backbone and the 2 parameters of @l1"),
        (LOSS, 3, InvalidValueError, "got 3; change it"),
        (
            Function("l", (WIDER,), (ops.sum(WIDER),)),
            1,
            TypeRuleError,
            r"result 0 of @backbone is f32\[3\], but %p of @l takes f32\[4\]; create the loss for",
        ),
        (
            Function("l", (PREDICTIONS, W), (ops.sum(ops.multiply(PREDICTIONS, W)),)),
            1,
            InvalidValueError,
            "@backbone and @l both have a parameter named w; rename one",
        ),
    ],
)
def test_refusals(loss, count, error, message):
    with pytest.raises(error, match=message):
        append_loss(BACKBONE, loss, count)


def test_the_model_keeps_its_numbers_and_the_loss_gets_others():
    backbone, loss = numbered(BACKBONE), numbered(LOSS)
    before = {name: value.op for value, name in value_names(backbone).items()}
    after = {name: value.op for value, name in value_names(append_loss(backbone, loss)).items()}
    assert before.items() <= after.items()
    assert len(after) == len(before) + len(loss.values()) - 1
