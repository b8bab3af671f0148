"""A parameter that no gradient reaches is a warning, which names what stops the gradient."""

import warnings

import numpy as np
import pytest

from adjoint import Function, SetupTrainer, Trainer, losses, ops, optim, param
from adjoint.errors import AdjointWarning, short_line

SETUP = SetupTrainer(losses.MSELoss(), optim.SGD(0.1))
RULE = "SetupTrainer: a parameter is trained by its gradient, which does not reach "


def model(function, params=("w",)):
    """A linear model, multiplied by what a function makes of its product with other parameters."""
    x, v = param("x", (4, 3)), param("v", (3, 2))
    others = [param(name, (3, 2)) for name in params]
    return Function("backbone", (x, v, *others), ((x @ v) * function(*(x @ w for w in others)),))


def message(*args):
    """The only warning of setting up a model."""
    with pytest.warns(AdjointWarning) as caught:
        SETUP(model(*args))
    (found,) = caught
    assert found.filename == __file__
    return str(found.message)


@pytest.mark.parametrize(
    ("function", "stopper", "fix"),
    [
        (
            lambda y: (y > 0).cast("f32"),
            "greater(f32[4,2], f32[4,2]) -> bool[4,2]",
            "use an operator with a gradient",
        ),
        (lambda y: y.cast("i32").cast("f32"), "cast(f32[4,2]) -> i32[4,2]", "use an operator with a gradient"),
        (ops.floor, "floor(f32[4,2]) -> f32[4,2]", "use an operator with a gradient"),
        (ops.stop_gradient, "stop_gradient(f32[4,2]) -> f32[4,2]", "remove it"),
        (
            lambda y: y.softmax().argmax(1, keepdims=True).cast("f32"),  # softmax has a stop_gradient of its own
            "argmax(f32[4,2]) -> i64[4]",
            "use an operator with a gradient",
        ),
    ],
    ids=["greater", "cast", "floor", "stop_gradient", "argmax"],
)
def test_the_operator_that_stops_the_gradient_is_named(function, stopper, fix):
    found, _, line = message(function).rpartition(" [at ")
    assert found == f"{RULE}w, because {stopper} stops it; {fix}, or make w an input or a state"
    assert line.startswith(__file__)


def test_a_parameter_that_is_not_used_is_named_with_its_line():
    line = f"{__file__}:{model.__code__.co_firstlineno + 3}"
    assert message(lambda _: 1.0) == f"{RULE}w, because the loss does not depend on it; use or remove it [at {line}]"


def test_parameters_that_are_lost_in_one_place_are_one_warning():
    found = message(lambda y, z: ops.sign(y + z), ("w0", "w1"))
    assert found.startswith(f"{RULE}w0, w1, because sign(f32[4,2]) -> f32[4,2] stops it; use an operator")
    found = message(lambda *_: 2.0, ("w0", "w1"))
    assert found.startswith(f"{RULE}w0, w1, because the loss does not depend on them; use or remove them [at ")


def test_a_gradient_that_arrives_by_another_way_is_no_warning():
    SETUP(model(lambda y: ops.where(y > 0, y, 0.0)))
    SETUP(model(lambda y: y * ops.stop_gradient(y)))
    SETUP(model(lambda y: y.softmax().max(1, keepdims=True)))


def test_the_warning_is_right():
    with pytest.warns(AdjointWarning, match="floor"):
        trainer = Trainer(SETUP(model(ops.floor)), threads=1)
    trainer.init_parameters({"w": ("normal", 3.0)})
    before = trainer.export_params()
    trainer.update(np.ones((4, 3), np.float32), np.ones((4, 2), np.float32))
    after = trainer.export_params()
    np.testing.assert_array_equal(before["w"], after["w"])
    assert not np.array_equal(before["v"], after["v"])


def test_a_repeated_setup_warns_once_by_default():
    lost = model(ops.floor)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            SETUP(lost)
    assert len(caught) == 1
    assert short_line(f"{caught[0].filename}:{caught[0].lineno}").startswith("test_untrained.py:")
