"""Clipping of gradients and vectors of parameters, against NumPy."""

import numpy as np
import pytest

from adjoint.errors import InvalidValueError
from adjoint.nn import utils
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Parameter

A, B = np.array([[3.0, -4.0]]), np.array([12.0])


def parameters(a=A, b=B):
    found = [Parameter(from_array(np.zeros_like(x))) for x in (a, b, b)]
    for parameter, grad in zip(found, (a, b), strict=False):
        parameter.grad = from_array(grad)
    return found


def test_clipping_by_norm():
    cases = [(1.0, 2.0), (26.0, 2.0), (1.0, float("inf")), (1.0, 1.0), (5.0, 3.0)]
    sets = [parameters() for _ in cases]
    held = [p[0].grad for p in sets]
    norms = [utils.clip_grad_norm_(iter(p), *case) for p, case in zip(sets, cases, strict=True)]
    for (most, kind), found, norm, grad in zip(cases, sets, norms, held, strict=True):
        expected = np.linalg.norm(np.concatenate([A.ravel(), B]), kind)
        np.testing.assert_allclose(norm.item(), expected, rtol=1e-13)
        factor = min(1.0, most / (expected + 1e-6))
        np.testing.assert_allclose(found[0].grad.numpy(), A * factor, rtol=1e-13)
        np.testing.assert_allclose(found[1].grad.numpy(), B * factor, rtol=1e-13)
        assert found[0].grad is grad  # changed in place
        assert found[2].grad is None


def test_clipping_by_value_and_norms_that_are_not_finite():
    first, second, third = parameters()
    utils.clip_grad_value_([first, second, third], 3.5)
    assert utils.clip_grad_norm_([third], 1.0).item() == 0.0
    assert utils.get_total_norm([]).item() == 0.0
    assert (first.grad.tolist(), second.grad.tolist()) == ([[3.0, -3.5]], [3.5])
    wrong = parameters(b=np.array([np.nan]))
    with pytest.raises(InvalidValueError) as caught:
        utils.clip_grad_norm_(wrong, 1.0, error_if_nonfinite=True)
    assert caught.value.message == (
        "clip_grad_norm_: the norm of the gradients must be finite, got NaN or infinity; pass error_if_nonfinite=False "
        "to go on"
    )
    assert wrong[0].grad.tolist() == A.tolist()


def test_vectors_of_parameters():
    found = [Parameter(from_array(x)) for x in (A, B)]
    vector = utils.parameters_to_vector(found)
    assert vector.tolist() == [3.0, -4.0, 12.0]
    assert vector.requires_grad
    utils.vector_to_parameters(from_array(np.array([1.0, 2.0, 3.0])), found)
    assert [p.tolist() for p in found] == [[[1.0, 2.0]], [3.0]]
    with pytest.raises(InvalidValueError) as caught:
        utils.vector_to_parameters(from_array(np.zeros(2)), found)
    assert caught.value.message == (
        "vector_to_parameters: the vector must have 3 elements, got f64[2]; pass all of them"
    )
