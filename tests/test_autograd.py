"""The functions of ``torch.autograd``."""

import pytest

import adjoint as torch
from adjoint.errors import InvalidValueError


def test_backward_of_several_tensors():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.autograd.backward([(x * x).sum(), x * 3], [None, torch.ones(2)])
    assert x.grad.tolist() == [5, 7]
    (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    slope.sum().backward()
    assert x.grad.tolist() == [5 + 6, 7 + 12]


def test_derivatives_in_grad_cannot_be_differentiated():
    x = torch.ones(1, requires_grad=True)
    with pytest.raises(InvalidValueError) as caught:
        torch.autograd.backward(x * 2, create_graph=True)
    assert caught.value.message == (
        "autograd.backward: derivatives in grad cannot be differentiated again, got create_graph=True; use "
        "autograd.grad(..., create_graph=True)"
    )
