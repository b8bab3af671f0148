"""`accumulate`: updates with mean gradients."""

import numpy as np
import pytest

from adjoint.errors import InvalidValueError
from adjoint.optim import SGD, Adam, accumulate, average, partition
from adjoint.tensor.tensor import from_array
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
    assert stepper.state["accumulated_steps"] == 1
    np.testing.assert_allclose(stepper.state["w_accumulated"], grads[6], rtol=1e-12)


@pytest.mark.parametrize("every", [0, 2.0, True])
def test_a_number_that_is_none_is_refused(every):
    with pytest.raises(InvalidValueError) as error:
        accumulate(Adam(), every)
    assert error.value.message == f"accumulate: every must be an int of at least 1, got {every!r}"


def test_bound_wrappers_update_and_continue_from_their_state():
    """All in one program: an accumulating, an averaging and a partitioned optimizer, and a copy of each."""
    start, grad = np.array([[1.0, -2.0]], np.float32), np.array([[0.5, 0.25]], np.float32)
    makers = [
        lambda named: accumulate(SGD(0.1), 2).bind(named),
        lambda named: average(SGD(0.1), 0.5).bind(named),
        lambda named: partition([("a", SGD(0.1))], SGD(0.2)).bind(named),
    ]

    def trained(optimizers, steps):
        for _ in range(steps):
            for _, tensors in optimizers:
                for tensor in tensors:
                    tensor.grad = from_array(grad)
            for optimizer, _ in optimizers:
                optimizer.step()
        return [[np.array(tensor.numpy(force=True)) for tensor in tensors] for _, tensors in optimizers]

    def made(arrays):
        found = []
        for make, pair in zip(makers, arrays, strict=True):
            tensors = [from_array(array, requires_grad=True) for array in pair]
            found.append((make(list(zip("ab", tensors, strict=True))), tensors))
        return found

    first = made([[start, start]] * 3)
    after = trained(first, 3)
    second = made(after)
    for (old, _), (new, _) in zip(first, second, strict=True):
        new.load_state_dict(old.state_dict())
    accumulated, averaged, parted = trained(second, 1)
    np.testing.assert_allclose(accumulated, [start - 0.2 * grad] * 2, rtol=1e-6)
    np.testing.assert_allclose(averaged, [start - 0.4 * grad] * 2, rtol=1e-6)
    np.testing.assert_allclose(parted, [start - 0.4 * grad, start - 0.8 * grad], rtol=1e-6)
    mean = second[1][0].state[second[1][1][0]]["average"].numpy(force=True)
    # The averages after four updates: 1/8, 1/8, 1/4 and 1/2 of the parameters.
    np.testing.assert_allclose(mean, start - 0.1 * grad * (1 / 8 + 2 / 8 + 3 / 4 + 4 / 2), rtol=1e-6)
