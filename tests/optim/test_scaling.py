"""The scaling transforms alone: settings out of range, schedules, AMSGrad; their numbers are in the tests of chains."""
# ruff: noqa: ARG005

import numpy as np
import pytest

import adjoint
from adjoint import ops
from adjoint.errors import AdjointError
from adjoint.ir import TensorType
from adjoint.optim import (
    SGD,
    Adam,
    add_decayed_weights,
    chain,
    clip_by_value,
    decoupled_weight_decay,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_schedule,
    skip_nonfinite,
    trace,
)
from tests.optim.stepping import Stepper

TYPES = {"w": TensorType((2,))}


def test_amsgrad_divides_by_the_largest_moment():
    grads = np.array([[3.0, -1.0], [0.1, 2.0], [0.2, 0.1]])
    stepper = Stepper(Adam(0.1, amsgrad=True), {"w": np.ones(2)})
    p, m, v, largest = np.ones(2), 0.0, 0.0, 0.0
    for t, g in enumerate(grads, 1):
        stepper.step({"w": g})
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        largest = np.maximum(largest, v)
        p = p - 0.1 / (1 - 0.9**t) * m / (np.sqrt(largest / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(stepper.params["w"], p, rtol=1e-12)
    np.testing.assert_allclose(stepper.state["w_max_exp_avg_sq"], largest, rtol=1e-12)


def test_ascent_is_descent_of_the_negative_gradient():
    up, down = (Stepper(Adam(0.1, maximize=flag), {"w": np.ones(2)}) for flag in (True, False))
    up.step({"w": np.array([1.0, -2.0])})
    down.step({"w": np.array([-1.0, 2.0])})
    np.testing.assert_array_equal(up.params["w"], down.params["w"])


def test_a_schedule_counts_from_zero_and_is_computed_once():
    optimizer = chain(scale_by_schedule(lambda t: ops.minimum(t, 1.0)), scale_by_learning_rate(0.5))
    stepper = Stepper(optimizer, {"w": np.zeros(2), "b": np.zeros(1)})
    path = [stepper.step({"w": np.ones(2), "b": np.ones(1)})["w"][0] for _ in range(3)]
    assert path == [0.0, -0.5, -1.0]
    assert sum(value.label == "schedule" for value in stepper.function.values()) == 1


def test_the_rate_at_present_has_the_factors_of_all_schedules():
    def half(t):
        return ops.where(t < 1.0, ops.full_like(t, 1.0), 0.5)

    def triangle(t):
        return ops.abs(t - 2.0) / 2.0

    w = adjoint.nn.Parameter(adjoint.ones(2))
    parts = chain(scale_by_schedule(half), Adam(0.4), scale_by_schedule(triangle))
    optimizers = [parts.bind([w]), skip_nonfinite(parts).bind([w]), SGD([w], lr=0.4), scale_only().bind([w])]
    assert [optimizer.current_lr for optimizer in optimizers] == [0.4, 0.4, 0.4, None]
    found = []
    for _ in range(3):
        w.grad = adjoint.ones(2)
        for optimizer in optimizers[:2]:
            optimizer.step()
        found.append([optimizer.current_lr for optimizer in optimizers[:2]])
    np.testing.assert_allclose(found, np.array([[0.1] * 2, [0.0] * 2, [0.1] * 2]), rtol=1e-12)
    optimizers[0].param_groups[0]["lr"] = 4.0
    assert optimizers[0].current_lr == 1.0


def scale_only():
    return chain(clip_by_value(1.0))


WRONG = {
    "decay": (
        lambda: add_decayed_weights(-1.0),
        "add_decayed_weights: weight_decay must be finite and at least 0, got -1.0",
    ),
    "decoupled": (
        lambda: decoupled_weight_decay(-1.0),
        "decoupled_weight_decay: weight_decay must be finite and at least 0, got -1.0",
    ),
    "momentum": (lambda: trace(-1.0), "trace: momentum must be finite and at least 0, got -1.0"),
    "beta": (lambda: scale_by_adam((0.9, 1.0)), "scale_by_adam: beta2 must be at least 0 and below 1, got 1.0"),
    "rate": (
        lambda: scale_by_learning_rate(-1.0),
        "scale_by_learning_rate: lr must be finite and at least 0, got -1.0",
    ),
    "no function": (
        lambda: scale_by_schedule(0.1),
        "scale_by_schedule takes a function of the number of updates, got the float 0.1; use scale_by_learning_rate "
        "for a number",
    ),
    "a number as value": (
        lambda: chain(scale_by_schedule(lambda t: 0.1)).function(TYPES),
        "scale_by_schedule: the schedule must return a float scalar of the graph, got the float 0.1; compute it from "
        "its argument with operators such as ops.cos",
    ),
    "a tensor as value": (
        lambda: chain(scale_by_schedule(lambda t: ops.stack([t, t]))).function(TYPES),
        "scale_by_schedule: the schedule must return a float scalar of the graph, got f64[2]; compute it from its "
        "argument with operators such as ops.cos",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_refused(case):
    make, expected = WRONG[case]
    with pytest.raises(AdjointError) as caught:
        make()
    assert caught.value.message == expected
