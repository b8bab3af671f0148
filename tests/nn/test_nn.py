"""All layers, functions and losses: results and gradients are those of PyTorch, in one compiled program."""

import numpy as np
import pytest

import adjoint.nn.functional as F  # noqa: N812
from adjoint import nn, ops
from adjoint.tensor.assign import assign
from adjoint.tensor.making import from_array
from adjoint.tensor.record import operation
from tests.nn.torch_cases import CASES, Torch, leaves, numbers, weights
from tests.nn.torch_numbers import NUMBERS

#: PyTorch multiplies the gradient of hardsigmoid by 1/6 in f32, also in f64.
RTOL = 1e-7


@operation
def weighted(tensors):
    total = ops.full(0.0, (), "f64")
    for n, one in enumerate(tensors):
        if one is not None:
            total = ops.add(total, ops.sum(ops.multiply(one, ops.constant(weights(one.shape, n)))))
    return total


@operation
def added(parts):
    total, *others = parts
    for one in others:
        total = ops.add(total, one)
    return total


class Adjoint:
    """The library under test, for `tests.nn.torch_cases`."""

    nn, F = nn, F

    def __init__(self):
        self.entered = []

    def x(self, *shape):
        self.entered.append(from_array(numbers(shape, len(self.entered)), requires_grad=True))
        return self.entered[-1]

    def constant(self, array):
        return from_array(np.asarray(array))

    def filled(self, module):
        module.double()
        for n, p in enumerate(leaves(module)):
            assign(p, numbers(p.shape, 0.1 * n) / 2)
        self.entered += leaves(module)
        return module


@pytest.fixture(scope="module")
def computed():
    """The numbers of all cases, which are recorded in one program, with one backward pass."""
    scores, entered = {}, {}
    for name, case in CASES.items():
        library = Adjoint()
        found = case(library)
        scores[name] = weighted(found if isinstance(found, tuple) else (found,))
        entered[name] = library.entered
    added(tuple(scores.values())).backward()
    gradients = {name: weighted(tuple(t.grad for t in tensors)) for name, tensors in entered.items()}
    return {name: (scores[name].item(), gradients[name].item()) for name in CASES}


def test_every_case_has_its_numbers():
    assert CASES.keys() == NUMBERS.keys()


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_pytorch(name, computed):
    np.testing.assert_allclose(computed[name], NUMBERS[name], rtol=RTOL, atol=1e-9)


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of its padding
def test_the_numbers_are_pytorchs():
    library = Torch(pytest.importorskip("torch"))
    for name, case in CASES.items():
        np.testing.assert_allclose(library.numbers(case), NUMBERS[name], rtol=1e-9, atol=1e-9)
