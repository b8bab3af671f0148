"""Backward passes through programs that have been run, and what is kept for them."""

import numpy as np

from adjoint import Function, ops, param
from adjoint.tensor.residuals import frontier
from adjoint.tensor.resuming import has_histories
from adjoint.tensor.trace import state
from tests.tensor.making import compilations, leaf, plain

W = np.array([1.0, 2.0], np.float32)


def test_reading_the_loss_before_the_backward_pass_compiles_a_bounded_number_of_programs():
    w, x = leaf(W), plain([3.0, 4.0])
    with compilations() as compiled:
        for _ in range(6):
            h = (w * x) * w
            loss = h @ h
            assert loss.item() == float((W**2 * [3, 4]) @ (W**2 * [3, 4]))
            w.grad = None
            loss.backward()
            np.testing.assert_allclose(w.grad.tolist(), 4 * W**3 * np.array([9, 16]), rtol=1e-6)
        assert compiled() == 4  # forward and backward, each without and with what is kept


def test_the_second_time_the_forward_program_keeps_what_the_backward_pass_reads():
    w, x = leaf(W), plain([3.0, 4.0])
    for _ in range(3):
        loss = ((w * x) * w) @ ((w * x) * w)
        loss.item()
        forward = loss._trace
        kept = dict(forward.kept)
        loss.backward()
        w.grad.elements()
    assert len(kept) > 1  # the loss and residuals
    assert all(storage.array.shape in ((), (2,)) for storage in kept.values())


def test_a_chain_of_programs_is_differentiated_as_one():
    w = leaf(W)
    a = w * 2.0
    a.elements()
    b = a * a
    b.elements()
    c = b @ a
    assert has_histories(state.trace)
    c.backward()
    assert w.grad.tolist() == (24 * W**2).tolist()


def test_losses_of_several_programs_are_added():
    w = leaf(W)
    a = w * 2.0
    a.elements()
    b = (a * a) @ w
    b.elements()
    c = a @ a
    (b + c).backward()
    assert w.grad.tolist() == (12 * W**2 + 8 * W).tolist()


def test_a_metric_between_the_loss_and_its_backward_pass():
    w, x = leaf(W), plain([3.0, 4.0])
    for _ in range(3):
        out = w * x
        loss = out @ out
        metric = (out * 2.0).tolist()
        assert metric == (2 * W * [3, 4]).tolist()
        w.grad = None
        loss.backward()
        assert w.grad.tolist() == (2 * W * [9, 16]).tolist()


def test_elements_of_leaves_are_those_of_the_forward_pass():
    w = leaf(W)
    loss = (w * w) @ w
    loss.item()
    old = loss
    w.requires_grad = False
    w += 1.0
    w.requires_grad = True
    w.elements()
    old.backward()  # of the weights as they were
    assert w.grad.tolist() == (3 * W**2).tolist()


def test_cheap_values_are_computed_again():
    x, b = param("x", (4, 2)), param("b", (2,))
    repeated = ops.broadcast_to(ops.exp(b), (4, 2))
    product = x * repeated
    later = ops.sin(product) + repeated
    function = Function("later", (x, b), (later,))
    forward = {x, b, *repeated.inputs, repeated, product}
    found = frontier(function, forward | set(repeated.inputs[0].inputs))
    assert product in found
    assert repeated not in found
    assert any(value.op.name == "exp" for value in found)


def test_a_parameter_and_its_copy_in_the_same_program_are_different_tensors():
    w, v = leaf(W), leaf([3.0, 2.0])
    saved = v.detach().clone()
    first, second = (w * v).sum(), (w * 2.0).sum()
    assert second.item() == 6.0
    (first + second).backward()
    assert w.grad.tolist() == [5, 4]
    assert v.grad.tolist() == [1, 2]
    assert saved.tolist() == [3, 2]


def test_a_tensor_that_has_changed_since_a_program_ran_has_its_new_elements_when_that_is_continued():
    w, v = leaf(W), leaf([3.0, 2.0])
    v.grad = plain([1.0, 1.0])
    loss, total = (w * v).sum(), v.grad.sum()
    assert total.item() == 2
    v.grad.mul_(2.0)
    assert v.grad.tolist() == [2, 2]
    loss.backward()
    assert v.grad.tolist() == [3, 4]


def test_a_leaf_that_is_frozen_after_a_program_ran_stays_so_when_that_is_continued():
    w, v = leaf(W), leaf([3.0, 2.0])
    loss = (w * v).sum()
    assert loss.item() == 7
    v.requires_grad = False
    loss.backward(retain_graph=True)
    (loss + v.sum()).backward()
    assert v.grad is None
    assert w.grad.tolist() == [6, 4]
