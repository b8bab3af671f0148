"""A softmax in front of the cross-entropy is found, in the forms in which people write it, and nothing else is."""

import warnings

import pytest

from adjoint import Function, SetupTrainer, models, ops, optim, param
from adjoint.errors import AdjointWarning
from adjoint.losses import CrossEntropyLoss
from adjoint.losses.cross_entropy import cross_entropy
from adjoint.losses.softmax import is_softmax

X, IMAGES = param("x", (4, 3)), param("images", (2, 3, 4, 5))


def shifted(x):
    return (x - x.max(-1, keepdims=True)).exp()


@pytest.mark.parametrize(
    ("value", "axis"),
    [
        (X.softmax(), 1),
        (X.softmax(0), 0),
        (IMAGES.softmax(1), 1),
        (X.softmax().named("shares"), 1),
        (X.cast("f16").softmax(), 1),
        (X.softmax().cast("f64"), 1),
        (X.reshape(2, 2, 3).softmax(-1).reshape(4, 3), 1),
        (X.exp() / X.exp().sum(1, keepdims=True), 1),
        (X.exp() / X.exp().sum(-1)[:, None], 1),
        (shifted(X) / shifted(X).sum(-1, keepdims=True), 1),
        (shifted(X.cast("f16")) / shifted(X.cast("f16")).sum(-1, keepdims=True), 1),
        (param("v", (3,)).softmax(), 0),
        (X.log_softmax().exp(), 1),
    ],
)
def test_a_softmax_is_found(value, axis):
    assert is_softmax(value, axis)


@pytest.mark.parametrize(
    ("value", "axis"),
    [
        (X, 1),
        (X.exp(), 1),
        (X.log_softmax(), 1),
        (X.sigmoid(), 1),
        (X.softmax(0), 1),
        (X.softmax(None), 1),
        (IMAGES.softmax(-1), 1),
        (X.reshape(2, 2, 3).softmax(1).reshape(4, 3), 1),
        (X.softmax().reshape(3, 4), 1),
        (X.softmax() * 10.0, 1),
        (X.softmax().log(), 1),
        (X / X.sum(1, keepdims=True), 1),
        (X.exp() / (2 * X).exp().sum(1, keepdims=True), 1),
        (X.exp() / X.exp().sum(), 1),
        ((X - ops.logsumexp(X, 1, keepdims=True)).relu(), 1),
    ],
)
def test_nothing_else_is_a_softmax(value, axis):
    assert not is_softmax(value, axis)


def setup(function):
    x, w = param("x", (4, 3)), param("w", (3, 5))
    SetupTrainer(CrossEntropyLoss(), optim.SGD(0.1))(Function("backbone", (x, w), (function(x @ w),)))


MESSAGE = "CrossEntropyLoss takes logits, got the result of a softmax; remove the softmax"


def test_a_model_that_ends_in_a_softmax_is_a_warning():
    def shares(y):
        return y.softmax()

    with pytest.warns(AdjointWarning) as caught:
        setup(shares)
    (found,) = caught
    assert found.filename == __file__
    assert str(found.message) == f"{MESSAGE} [at {__file__}:{shares.__code__.co_firstlineno + 1}]"


def test_a_softmax_inside_a_called_function_is_found():
    part = param("part", (4, 5))
    last = Function("last", (part,), (part.softmax(1),))
    with pytest.warns(AdjointWarning, match=MESSAGE):
        setup(lambda y: ops.call(last, y))


def test_a_softmax_inside_an_own_loss_is_found():
    with pytest.warns(AdjointWarning, match=MESSAGE):
        cross_entropy(X.softmax(), param("targets", (4,), "i64"))


def test_other_models_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        setup(lambda y: y)
        setup(lambda y: y.log_softmax())
        for module in (models.mlp((4, 3, 2), 4), models.gpt(1, 2, 8, 4, 2, 8), models.lenet(2)):
            SetupTrainer(CrossEntropyLoss(), optim.SGD(0.1))(module)
