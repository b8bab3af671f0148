"""`accumulate`: updates with mean gradients."""

import numpy as np
import pytest

from adjoint.errors import InvalidValueError
from adjoint.optim import Adam, accumulate
from tests.optim import reference
from tests.optim.stepping import Stepper


def test_every_third_step_updates_with_the_mean():
    start = np.array([1.0, -2.0])
    grads = np.random.default_rng(0).standard_normal((7, 2))
    stepper = Stepper(accumulate(Adam(0.1), 3), {"w": start})
    found = [stepper.step({"w": g})["w"] for g in grads]
    first, second = reference.adam(start, [grads[:3].mean(0), grads[3:6].mean(0)], 0.1)
    expected = [start, start, first, first, first, second, second]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert stepper.state["step"] == 2
    assert stepper.state["accumulated"] == 1
    np.testing.assert_allclose(stepper.state["w_accumulated"], grads[6], rtol=1e-12)


@pytest.mark.parametrize("every", [0, 2.0, True])
def test_a_number_that_is_none_is_refused(every):
    with pytest.raises(InvalidValueError) as error:
        accumulate(Adam(), every)
    assert error.value.message == f"accumulate: every must be an int of at least 1, got {every!r}"
