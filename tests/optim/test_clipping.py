"""Clipping: norms of half floats, and limits out of range; its numbers are in the tests of chains."""

import numpy as np
import pytest

from adjoint.errors import InvalidValueError
from adjoint.optim import SGD, chain, clip_by_global_norm, clip_by_value
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
