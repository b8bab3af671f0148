"""`grad_fn` names the operation that made a tensor."""

import adjoint as torch


def test_names_of_operations():
    x = torch.ones(2, 2, requires_grad=True)
    product = x * 2
    assert repr(product.grad_fn) == "<MulBackward>"
    assert x[0].grad_fn.name() == "SelectBackward"
    assert product.grad_fn.next_functions == ()
    largest, positions = x.max(1)
    assert largest.grad_fn is not None
    assert positions.grad_fn is None
    product.sum().item()
    assert repr(product.grad_fn) == "<MulBackward>"  # also after it has been computed


def test_leaves_have_none():
    x = torch.ones(2, requires_grad=True)
    assert x.grad_fn is None
    assert (x * 2).detach().grad_fn is None
    assert (torch.ones(2) * 2).grad_fn is None
