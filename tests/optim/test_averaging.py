"""`average`: averages of the parameters as state."""

import numpy as np
import pytest

from adjoint.errors import InvalidValueError
from adjoint.optim import SGD, average, averages
from tests.optim.stepping import Stepper

GRADS = np.random.default_rng(0).standard_normal((5, 2))


@pytest.mark.parametrize("decay", [0.75, None])
def test_the_averages_are_those_of_the_formula(decay):
    stepper = Stepper(average(SGD(0.1), decay), {"w": np.array([1.0, -2.0])})
    path = [stepper.step({"w": g})["w"] for g in GRADS]
    expected = path[0]
    for p in path[1:]:
        expected = 0.75 * expected + 0.25 * p
    found = averages(stepper.state)
    np.testing.assert_allclose(found["w"], np.mean(path, 0) if decay is None else expected, rtol=1e-12)
    np.testing.assert_allclose(path[-1], [1.0, -2.0] - 0.1 * GRADS.sum(0), rtol=1e-12)
    assert list(stepper.hyper) == (["lr"] if decay is None else ["lr", "average_decay"])


def test_refusals():
    with pytest.raises(InvalidValueError) as error:
        average(SGD(0.1), 1.0)
    assert error.value.message == "average: decay must be at least 0 and below 1, got 1.0"
    with pytest.raises(InvalidValueError) as error:
        averages({"w_momentum_buffer": 0.0})
    assert error.value.message == (
        "averages: the state must be that of an optimizer with average, got w_momentum_buffer; write average(optimizer)"
    )
