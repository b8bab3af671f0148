"""Hooks on leaves and on results of operations, against gradients by hand."""

import numpy as np
import pytest

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.hooks import register_hook, retain_grad
from tests.tensor.making import compilations, leaf, plain

W = np.array([1.0, 2.0], np.float32)


def test_a_hook_on_a_leaf_replaces_its_gradient():
    w, seen = leaf(W), []
    handle = register_hook(w, lambda g: seen.append(g) or g * 10.0)
    (w @ w).backward()
    assert w.grad.tolist() == (20 * W).tolist()
    assert seen[0].tolist() == (2 * W).tolist()
    handle.remove()
    handle.remove()
    (w @ w).backward()
    assert w.grad.tolist() == (22 * W).tolist()


def test_hooks_on_results_apply_to_what_flows_on():
    w = leaf(W)
    with compilations() as compiled:
        for _ in range(3):
            w.grad = None
            a = w * 3.0
            b = a * a
            register_hook(a, lambda g: g * 100.0)
            register_hook(b, lambda g: g * 10.0)
            loss = b @ a
            loss.backward()
            # d/db = a, by hook 10 a; d/da = b + 10 a * 2a = 21 a^2, by hook 2100 a^2; d/dw = 6300 a^2
            np.testing.assert_allclose(w.grad.tolist(), 6300 * 9 * W**2, rtol=1e-6)
        assert compiled() <= 2


def test_retain_grad_sets_the_gradient_of_a_result():
    w = leaf(W)
    a = w * 3.0
    retain_grad(a)
    (a @ a).backward()
    assert a.grad.tolist() == (6 * W).tolist()
    assert w.grad.tolist() == (18 * W).tolist()


def test_a_hook_after_the_result_has_been_read():
    w = leaf(W)
    a = w * w
    a.tolist()
    register_hook(a, lambda g: -g)
    (a @ w).backward()
    assert w.grad.tolist() == (-2 * W * W + W * W).tolist()


def test_hooks_must_return_gradients_of_the_same_type():
    w = leaf(W)
    handle = register_hook(w, lambda _: 1.0)
    with pytest.raises(TypeRuleError) as error:
        (w @ w).backward()
    assert error.value.message == "a hook must return a tensor or None, got a float; return the new gradient"
    handle.remove()
    register_hook(w, lambda _: plain(1.0))
    with pytest.raises(TypeRuleError) as error:
        (w @ w).backward()
    assert error.value.message == (
        "a hook must return a gradient of the same type, got f32[] for f32[2]; keep shape and dtype"
    )


@pytest.mark.parametrize(("function", "name"), [(lambda t: register_hook(t, abs), "register_hook"), (retain_grad, "")])
def test_a_hook_needs_a_gradient(function, name):
    with pytest.raises(InvalidValueError) as error:
        function(plain(W))
    assert error.value.message == (
        f"{name or 'retain_grad'}: the tensor must require a gradient, got f32[2] that does not; set requires_grad=True"
    )


def test_hooks_may_read_values():
    seen = []
    w, v = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = w * 2.0
    z = y * y * v
    z.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g / float(g.sum()))
    for one in (w, v):
        one.register_hook(lambda g: seen.append(g.tolist()))
    z.sum().backward()
    # dy = 2 y v = (12, 32), divided by 44
    assert seen[0] == [1.0, 1.0]
    np.testing.assert_allclose(seen[1], [24 / 44, 64 / 44], rtol=1e-6)
    assert seen[2] == [4.0, 16.0]
    np.testing.assert_allclose(w.grad.numpy(), [24 / 44, 64 / 44], rtol=1e-6)
    assert v.grad.tolist() == [4.0, 16.0]
