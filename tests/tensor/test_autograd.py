"""Gradients of recorded programs against closed forms, and every way to ask for one that does not exist."""

import numpy as np
import pytest

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.autograd import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from tests.tensor.making import compilations, leaf, plain

W = np.array([1.0, 2.0], np.float32)


def test_gradients_accumulate_until_they_are_removed():
    w = leaf(W)
    for n in (1, 2, 3):
        (w @ w).backward()
        assert w.grad.tolist() == (2 * n * W).tolist()
    w.grad = None
    (w @ w).backward()
    assert w.grad.tolist() == (2 * W).tolist()


def test_accumulation_compiles_a_bounded_number_of_programs():
    w = leaf(W)
    (w @ w).backward()
    with compilations() as compiled:
        for _ in range(10):
            (w @ w).backward()
        assert w.grad.tolist() == (22 * W).tolist()
        assert compiled() <= 2


def test_only_leaves_that_require_gradients_get_them():
    w, x = leaf(W), plain([3.0, 4.0])
    h = w * x
    (h @ h).backward()
    assert x.grad is None
    assert h.grad is None
    assert w.grad.tolist() == [2 * 9.0, 4 * 16.0]


def test_a_cotangent_of_the_same_shape_is_accepted():
    w = leaf(W)
    (w * w).backward(plain([1.0, 10.0]))
    assert w.grad.tolist() == [2.0, 40.0]


def test_a_tensor_with_one_element_and_axes_needs_no_cotangent():
    w = leaf([[3.0]])
    (w * w).backward()
    assert w.grad.tolist() == [[6.0]]


def test_a_leaf_can_be_differentiated_itself():
    w = leaf([3.0])
    w.backward()
    assert w.grad.tolist() == [1.0]


@pytest.mark.parametrize("read", [False, True])
def test_a_second_backward_pass_needs_retain_graph(read):
    w = leaf(W)
    loss = (w * w) @ w
    if read:
        loss.item()
    loss.backward(retain_graph=True)
    loss.backward()
    assert w.grad.tolist() == (6 * W * W).tolist()
    with pytest.raises(InvalidValueError) as error:
        loss.backward()
    assert error.value.message == (
        "backward: the graph of this tensor has been used up by an earlier backward pass; pass retain_graph=True to "
        "the first one, or compute the tensor again"
    )


def test_two_losses_may_share_leaves_but_not_used_up_results():
    w = leaf(W)
    h = w * w
    first, second = h @ h, h @ w
    first.backward()
    with pytest.raises(InvalidValueError, match="has been used up"):
        second.backward()


def test_backward_of_what_needs_no_gradient_is_refused():
    with pytest.raises(InvalidValueError) as error:
        (plain(W) @ plain(W)).backward()
    assert error.value.message == (
        "backward: the tensor must depend on one that requires a gradient, got f32[] that does not; set "
        "requires_grad=True on a leaf, and compute outside of no_grad()"
    )


def test_backward_of_several_elements_needs_a_cotangent():
    w = leaf(W)
    with pytest.raises(InvalidValueError) as error:
        (w * w).backward()
    assert error.value.message == (
        "backward: without a gradient the tensor must be a scalar, got f32[2]; reduce it, as in "
        "loss.mean().backward(), or pass a gradient of its shape"
    )
    with pytest.raises(InvalidValueError) as error:
        (w * w).backward(plain([[1.0, 2.0]]))
    assert error.value.message == (
        "backward: the gradient must have the shape of the tensor, (2,), got (1, 2); reshape it"
    )


def test_grad_returns_derivatives_and_accumulates_nothing():
    w, v = leaf(W), leaf([3.0, 4.0])
    h = w * v
    first, second = grad((h * h) @ w, [w, h])
    assert second.tolist() == (2 * W * np.array([3, 4]) * W).tolist()
    np.testing.assert_allclose(first.tolist(), 3 * W**2 * np.array([9, 16]), rtol=1e-6)
    assert w.grad is None


def test_grad_can_be_differentiated_again():
    w = leaf(W)
    (first,) = grad((w * w) @ w, w, create_graph=True)
    (second,) = grad(first @ first, w, create_graph=True)
    (third,) = grad(second @ plain([1.0, 1.0]), w)
    assert first.tolist() == (3 * W**2).tolist()
    assert second.tolist() == (36 * W**3).tolist()
    np.testing.assert_allclose(third.tolist(), 108 * W**2, rtol=1e-6)


def test_backward_through_a_gradient():
    w = leaf(W)
    (first,) = grad((w * w) @ w, w, create_graph=True)
    (first @ first).backward()
    assert w.grad.tolist() == (36 * W**3).tolist()


def test_grad_of_an_unused_input():
    w, v = leaf(W), leaf(W)
    loss = w @ w
    with pytest.raises(InvalidValueError) as error:
        grad(loss, [w, v])
    assert error.value.message == (
        "grad: an input of type f32[2] has no influence on the outputs; leave it out, or pass allow_unused=True to "
        "get None for it"
    )
    first, second = grad(loss, [w, v], allow_unused=True)  # the refusal has used nothing up
    assert first.tolist() == (2 * W).tolist()
    assert second is None


def test_grad_with_respect_to_what_needs_none_is_refused():
    w = leaf(W)
    with pytest.raises(InvalidValueError) as error:
        grad(w @ w, plain(W))
    assert error.value.message == (
        "grad: every input must require a gradient, got f32[2] that does not; set requires_grad=True"
    )
    with pytest.raises(InvalidValueError) as error:
        grad(w @ w, w, only_inputs=False)
    assert error.value.message == (
        "grad: gradients are returned for the inputs only, got only_inputs=False; call backward() to accumulate them "
        "in all leaves"
    )


def test_gradients_are_off_and_on_in_blocks_and_functions():
    assert is_grad_enabled()
    with no_grad():
        assert not is_grad_enabled()
        with enable_grad():
            assert is_grad_enabled()
        assert not is_grad_enabled()

    @no_grad()
    def inside():
        return is_grad_enabled()

    @no_grad
    def bare(flag):
        return is_grad_enabled(), flag

    assert not inside()
    assert bare(1) == (False, 1)
    with set_grad_enabled(False):
        assert not is_grad_enabled()
    assert is_grad_enabled()
    set_grad_enabled(False)
    assert not is_grad_enabled()
    set_grad_enabled(True)


def test_no_gradient_flows_through_what_was_computed_without():
    w = leaf(W)
    with no_grad():
        factor = w * 2.0
    (factor @ w).backward()
    assert w.grad.tolist() == (2 * W).tolist()


def test_an_update_by_hand_within_no_grad():
    w = leaf(W)
    for _ in range(3):
        (w @ w).backward()
        with no_grad():
            w -= w.grad * 0.25
        w.grad = None
    np.testing.assert_allclose(w.numpy(force=True), W / 8)


@pytest.mark.parametrize("read", [False, True])
def test_a_leaf_that_is_frozen_before_the_backward_pass_gets_no_gradient(read):
    w, v = leaf(W), leaf([3.0, 2.0])
    loss = (w * v).sum()
    if read:
        assert loss.item() == 7.0
    v.requires_grad = False
    (loss + (w * v * v).sum()).backward()
    assert v.grad is None
    assert w.grad.tolist() == [12, 6]


def test_a_graph_that_is_retained_adds_to_gradients_of_a_program_that_waits():
    w, v, u = leaf(W), leaf([3.0, 2.0]), leaf([0.5, 1.0])
    (w * v).sum().backward()
    h = w * v
    other, loss = (h * u).sum(), (h * h).sum()
    loss.backward(retain_graph=True)
    assert w.grad.tolist() == (2 * W * [9, 4] + [3, 2]).tolist()
    assert v.grad.tolist() == (2 * W * W * [3, 2] + W).tolist()
    assert other.item() == 5.5


def test_gradients_that_are_set_have_the_type_of_their_tensor():
    w = leaf([1.0, 2.0])
    w.grad = plain([3.0, 4.0])
    assert w.grad.tolist() == [3.0, 4.0]
    w.grad = None
    for wrong, message in [
        (
            plain([1.0]),
            "a gradient must have the shape and the dtype of its tensor, f32[2], got f32[1]; reshape or convert it",
        ),
        (
            plain([1, 2]).double(),
            "a gradient must have the shape and the dtype of its tensor, f32[2], got f64[2]; reshape or convert it",
        ),
        (np.ones(2, np.float32), "a gradient must be a tensor or None, got a ndarray; convert it"),
    ]:
        with pytest.raises(TypeRuleError) as error:
            w.grad = wrong
        assert error.value.message == message
    assert w.grad is None
