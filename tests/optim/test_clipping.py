"""Clipping: norms of half floats, and limits out of range; its numbers are in the tests of chains."""

import numpy as np
import pytest

from adjoint.errors import InvalidValueError
from adjoint.ir import TensorType
from adjoint.optim import SGD, centralize, chain, clip_by_global_norm, clip_by_norm, clip_by_value
from tests.optim.stepping import Stepper


def test_the_norm_of_half_floats_does_not_overflow():
    start = {"h": np.zeros(4, np.float16)}
    stepper = Stepper(chain(clip_by_global_norm(2.0), SGD(1.0)), start)
    stepper.step({"h": np.full(4, 1000, np.float16)})  # its square is not a float16
    np.testing.assert_allclose(stepper.params["h"], -1.0, rtol=1e-3)


def test_a_gradient_of_zeros_has_no_nan():
    stepper = Stepper(chain(clip_by_global_norm(0.0), SGD(1.0)), {"w": np.ones(2, np.float32)})
    stepper.step({"w": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(stepper.params["w"], 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: clip_by_global_norm(-1), "clip_by_global_norm: max_norm must be finite and at least 0, got -1"),
        (lambda: clip_by_value("1"), "clip_by_value: limit must be a number, got '1'"),
    ],
)
def test_limits_out_of_range_are_refused(make, message):
    with pytest.raises(InvalidValueError) as caught:
        make()
    assert caught.value.message == message


def test_norms_of_single_parameters_are_clipped():
    start = {"w": np.zeros(2), "b": np.zeros(1)}
    stepper = Stepper(chain(clip_by_norm(1.0), SGD(1.0)), start)
    stepper.step({"w": np.array([3.0, 4.0]), "b": np.array([0.5])})
    np.testing.assert_allclose(stepper.params["w"], [-0.6, -0.8], rtol=1e-6)
    np.testing.assert_allclose(stepper.params["b"], -0.5)


@pytest.mark.parametrize(("axis", "mean_axis"), [(0, 1), (-1, 0)])
def test_centralize_subtracts_the_mean_of_each_output(axis, mean_axis):
    start = {"w": np.zeros((2, 3)), "b": np.zeros(3)}
    grads = {"w": np.arange(6.0).reshape(2, 3) ** 2, "b": np.arange(3.0)}
    stepper = Stepper(chain(centralize(axis), SGD(1.0)), start)
    stepper.step(grads)
    np.testing.assert_allclose(stepper.params["w"], grads["w"].mean(mean_axis, keepdims=True) - grads["w"], rtol=1e-12)
    np.testing.assert_allclose(stepper.params["b"], -grads["b"])


def test_an_axis_that_does_not_exist_is_refused():
    with pytest.raises(InvalidValueError) as error:
        chain(centralize(2), SGD(1.0)).function({"w": TensorType((2, 3))})
    assert error.value.message == ("centralize: axis must be from -2 to 1 for w of f32[2,3], got 2; use 0 or -1")
