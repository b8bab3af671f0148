"""`masked`: a transform of some parameters only."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.ir import TensorType
from adjoint.optim import (
    SGD,
    AdamW,
    chain,
    clip_by_global_norm,
    decoupled_weight_decay,
    masked,
    scale_by_adam,
    scale_by_learning_rate,
    trace,
)
from tests.optim.stepping import Stepper

START = {"a.weight": np.full((2, 2), 2.0), "a.bias": np.full(2, 3.0)}
GRADS = {"a.weight": np.full((2, 2), 3.0), "a.bias": np.full(2, 4.0)}


def step(optimizer):
    stepper = Stepper(optimizer, START)
    stepper.step(GRADS)
    return stepper


@pytest.mark.parametrize("which", ["*.weight", ["a.w*", "b.*"], lambda _name, type_: len(type_.shape) > 1])
def test_decay_of_the_weights_alone(which):
    decay = masked(decoupled_weight_decay(0.5), which)
    found = step(chain(scale_by_adam(), decay, scale_by_learning_rate(0.1))).params
    with_decay, without = step(AdamW(0.1, weight_decay=0.5)).params, step(AdamW(0.1, weight_decay=0.0)).params
    np.testing.assert_array_equal(found["a.weight"], with_decay["a.weight"])
    np.testing.assert_array_equal(found["a.bias"], without["a.bias"])


def test_only_the_chosen_are_measured_and_have_state():
    stepper = step(chain(masked(clip_by_global_norm(3.0), "*.weight"), masked(trace(0.9), "*.bias"), SGD(1.0)))
    np.testing.assert_allclose(stepper.params["a.weight"], 2 - 3.0 * 3.0 / 6.0, rtol=1e-6)
    np.testing.assert_array_equal(stepper.params["a.bias"], -1.0)
    assert list(stepper.state) == ["a.bias_momentum_buffer"]


WRONG = {
    "an optimizer": (
        lambda: masked(SGD(0.1), "*"),
        "masked takes a transform such as add_decayed_weights(0.1), got a SGD; use freeze for an optimizer",
    ),
    "a number": (
        lambda: masked(trace(0.9), 1),
        "masked: which parameters must be a pattern of names, several, or a function of name and type, got an int; "
        "write for example '*.weight' or lambda name, type: len(type.shape) > 1",
    ),
    "nothing": (
        lambda: chain(masked(trace(0.9), "*.wieght"), SGD(0.1)).function({"a.weight": TensorType((2,))}),
        "masked: '*.wieght' selects none of the parameters a.weight; correct the pattern",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_masks_are_refused(case):
    make, expected = WRONG[case]
    with pytest.raises(AdjointError) as caught:
        make()
    assert caught.value.message == expected
