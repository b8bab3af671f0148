"""`freeze` and `skip_nonfinite`, interpreted and in a trainer."""

import numpy as np
import pytest

from adjoint import SetupTrainer, Trainer, models
from adjoint.errors import AdjointError
from adjoint.ir import TensorType
from adjoint.losses import MSELoss
from adjoint.optim import SGD, Adam, chain, clip_by_global_norm, clip_by_value, freeze, skip_nonfinite
from tests.optim.stepping import Stepper

START = {"w": np.array([1.0, 2.0]), "b": np.array([3.0])}
GRADS = {"w": np.array([3.0, 4.0]), "b": np.array([12.0])}


def test_a_frozen_parameter_stays_and_needs_no_gradient():
    stepper = Stepper(freeze(chain(clip_by_global_norm(1.0), Adam(0.1)), "b"), START)
    stepper.step(GRADS)
    np.testing.assert_array_equal(stepper.params["b"], 3.0)
    np.testing.assert_allclose(stepper.params["w"], START["w"] - 0.1, rtol=1e-6)
    assert "b_exp_avg" not in stepper.state
    values = stepper.function.values()
    assert not any(p.label == "b_adjoint" for value in values for p in value.inputs)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_step_with_a_bad_gradient_changes_nothing(bad):
    stepper = Stepper(skip_nonfinite(Adam(0.1)), START)
    stepper.step(GRADS)
    params, state = dict(stepper.params), dict(stepper.state)
    stepper.step({"w": GRADS["w"], "b": np.array([bad])})
    assert all(np.array_equal(stepper.params[n], params[n]) for n in params)
    assert stepper.state.pop("skipped") == 1
    assert state.pop("skipped") == 0
    assert all(np.array_equal(stepper.state[n], state[n]) for n in state)
    stepper.state["skipped"] = np.array(1)
    stepper.step(GRADS)
    assert stepper.state["step"] == 2
    assert stepper.state["skipped"] == 1


def test_a_trainer_skips_a_step_in_native_code():
    setup = SetupTrainer(MSELoss(), skip_nonfinite(chain(clip_by_global_norm(1.0), SGD(0.1, momentum=0.9))))
    trainer = Trainer(setup(models.linreg(2, 4)))
    trainer.init_parameters("zeros")
    x, y = np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)
    trainer.update(x, y)
    after = trainer.export_params()["w"]
    # The gradient of each weight is -2, so the clipped step is 0.1 / sqrt(2).
    np.testing.assert_allclose(after, 0.1 / np.sqrt(2), rtol=1e-5)
    x[0, 0] = np.nan
    trainer.update(x, y)
    np.testing.assert_array_equal(trainer.export_params()["w"], after)
    assert trainer.export_optimizer_state()["skipped"] == 1


def test_a_trainer_keeps_frozen_parameters():
    trainer = Trainer(SetupTrainer(MSELoss(), freeze(SGD(0.1), "b0"))(models.mlp((2, 3, 1), 4)))
    trainer.init_parameters()
    before = trainer.export_params()
    trainer.update(np.ones((4, 2), np.float32), np.ones((4, 1), np.float32))
    after = trainer.export_params()
    assert {name for name in before if np.array_equal(before[name], after[name])} == {"b0"}


WRONG = {
    "a transform": (
        lambda: freeze(clip_by_value(1.0), "w"),
        "freeze takes an optimizer such as SGD(0.1), got a clip_by_value; wrap the whole optimizer, as in chain(..., "
        "SGD(0.1))",
    ),
    "a class": (
        lambda: skip_nonfinite(SGD),
        "skip_nonfinite takes an optimizer such as SGD(0.1), got the class SGD; call it",
    ),
    "a number": (
        lambda: freeze(SGD(0.1), 1),
        "freeze: which parameters must be a pattern of names, several, or a function of name and type, got an int; "
        "write for example '*.weight' or lambda name, type: len(type.shape) > 1",
    ),
    "nothing": (
        lambda: freeze(SGD(0.1), "c").function({"w": TensorType((2,)), "b": TensorType((1,))}),
        "freeze: 'c' selects none of the parameters w, b; correct the pattern",
    ),
    "everything": (
        lambda: freeze(SGD(0.1), "*").function({"w": TensorType((2,))}),
        "freeze: '*' selects all parameters, w; leave one to be updated",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_wrappers_are_refused(case):
    make, expected = WRONG[case]
    with pytest.raises(AdjointError) as caught:
        make()
    assert caught.value.message == expected
