"""Derivatives of Python functions: published numbers, closed forms and finite differences, alone and nested."""

from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

from adjoint import grad, hessian, jacfwd, jacobian, jit, jvp, ops, stop_gradient, value_and_grad, vjp, vmap
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.record import operation
from adjoint.tensor.tensor import from_array

total, tanh, sine = operation(ops.sum), operation(ops.tanh), operation(ops.sin)
bce = operation(lambda z, y: ops.mean(ops.maximum(z, 0.0) - z * y + ops.log(ops.exp(-ops.abs(z)) + 1.0)))


def f32(values, requires_grad=False):
    return from_array(np.array(values, np.float32), requires_grad=requires_grad)


def f64(values):
    return from_array(np.array(values, np.float64))


def test_the_notebook_of_mindspore():
    # "Functional auto differentiation": the gradient of a function that returns (loss, z) is that of their sum.
    rng = np.random.default_rng(0)
    x, y = np.ones((1, 5), np.float32), np.zeros((1, 3), np.float32)
    w, b = f32(rng.standard_normal((5, 3))), f32(rng.standard_normal(3))

    def forward(x, y, w, b):
        z = x @ w + b
        return bce(z, y), z

    def stopped(x, y, w, b):
        loss, z = forward(x, y, w, b)
        return loss, stop_gradient(z)

    args = (f32(x), f32(y), w, b)
    both = grad(forward, (2, 3))(*args)
    loss_only = grad(stopped, (2, 3))(*args)
    aux, z = grad(forward, (2, 3), has_aux=True)(*args)
    value, _ = value_and_grad(forward, grad_position=(2, 3), has_aux=True)(*args)
    z64 = x.astype(np.float64) @ w.numpy() + b.numpy()
    by_b = 1 / (1 + np.exp(-z64[0])) / 3
    for found, one in ((loss_only, 0), (aux, 0), (both, 1)):
        np.testing.assert_allclose(found[0].numpy(), np.tile(by_b, (5, 1)) + one, atol=1e-6)
        np.testing.assert_allclose(found[1].numpy(), by_b + one, atol=1e-6)
    np.testing.assert_allclose(z.numpy(), z64, atol=1e-6)
    np.testing.assert_allclose(value[1].numpy(), z64, atol=1e-6)


def test_the_value_and_the_gradient_of_one_argument():
    value, found = value_and_grad(lambda x, y, z: x * y * z, 1)(f32([1, 2]), f32([-2, 3]), f32([0, 3]))
    assert value.numpy().tolist() == [-0.0, 18.0]
    assert found.numpy().tolist() == [0.0, 6.0]
    assert not value.requires_grad
    assert not found.requires_grad


def test_derivatives_nest_and_follow_their_own_argument():
    y = f32([1, 2])

    def cube(x):
        return x * x * x

    found = [
        grad(cube)(2.0),
        grad(grad(cube))(2.0),
        grad(grad(grad(cube)))(2.0),
        grad(lambda x: x * grad(lambda y: x * y)(1.0))(2.0),  # x * x
        grad(lambda x: x * stop_gradient(x))(2.0),
        grad(lambda _: y)(2.0),  # no influence
    ]
    assert [float(x) for x in found] == [12.0, 12.0, 6.0, 4.0, 2.0, 0.0]
    assert grad(lambda x: x * y)(y).numpy().tolist() == [1.0, 2.0]  # y is not the argument


def test_a_branch_on_a_value_is_taken_outside_of_jit():
    def function(x):
        h = x * x
        return h * x if h.item() > 1 else h

    assert grad(function)(3.0).item() == 27.0
    assert grad(function)(0.5).item() == 1.0


Point = namedtuple("Point", "a b")


def test_gradients_have_the_structure_of_the_argument():
    def function(tree):
        return tree["p"].a * tree["p"].b[0] + total(tree["q"] * tree["q"])

    found = grad(function)({"p": Point(f32(2), [f32(5)]), "q": f32([1, 3])})
    assert found["p"].a.item() == 5
    assert found["p"].b[0].item() == 2
    assert found["q"].numpy().tolist() == [2, 6]


def test_gradients_of_parameters_that_a_function_uses():
    w, v = f32([1, 2], requires_grad=True), f32(3, requires_grad=True)

    def forward(x):
        return total(x * w * v)

    value, (by_w, by_v) = value_and_grad(forward, None, [w, v])(f32([4, 5]))
    assert (value.numpy().tolist(), by_w.numpy().tolist(), by_v.numpy().tolist()) == (42, [12, 15], 14)
    assert not value.requires_grad  # the outermost one is the end of the differentiation
    assert w.grad is None
    by_x, single = grad(forward, 0, v)(f32([4, 5]))
    assert (by_x.numpy(force=True).tolist(), single.item()) == ([3, 6], 14)
    model = SimpleNamespace(
        parameters=lambda: iter([w, v]), named_parameters=lambda: iter([("w", w), ("v", v)]), w=w, v=v
    )
    assert [g.numpy().tolist() for g in grad(forward, None, model)(f32([4, 5]))] == [[12, 15], 14]
    by_model = grad(lambda model, x: total(x * model.w * model.v))(model, f32([4, 5]))
    assert {name: g.numpy().tolist() for name, g in by_model.items()} == {"w": [12, 15], "v": 14}


def test_the_penalty_of_a_gradient_reaches_parameters():
    w = f32([1, 2], requires_grad=True)

    def critic(x):
        return total(sine(x * w))

    penalty = total(grad(critic)(f32([0.5, 0.25])) ** 2)  # sum (w cos(x w))^2
    penalty.backward()
    wn, xn = np.array([1, 2.0]), np.array([0.5, 0.25])
    expected = 2 * wn * np.cos(xn * wn) ** 2 - 2 * wn**2 * xn * np.cos(xn * wn) * np.sin(xn * wn)
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-6)
    with no_grad():
        assert not grad(critic)(f32([0.5, 0.25])).requires_grad


def test_products_with_the_jacobian_from_both_sides():
    W = f64([[1, 2, 0], [3, 4, 1]])
    x, t, ct = f64([0.1, 0.2, 0.3]), f64([1, -1, 2]), f64([0.5, 2])

    def function(x):
        return tanh(W @ x)

    value, pull = vjp(function, x)
    same, tangent = jvp(function, (x,), (t,))
    (back,) = pull(ct)
    slope = 1 - np.tanh(W.numpy() @ x.numpy()) ** 2
    np.testing.assert_allclose(tangent.numpy(), slope * (W.numpy() @ t.numpy()), rtol=1e-12)
    np.testing.assert_allclose(back.numpy(), (ct.numpy() * slope) @ W.numpy(), rtol=1e-12)
    assert value.numpy().tolist() == same.numpy().tolist()
    _, pull, aux = vjp(lambda x: (x * x, {"n": x}), x, has_aux=True)
    assert aux["n"].numpy().tolist() == x.numpy().tolist()
    assert pull(x)[0].numpy().tolist() == (2 * x.numpy() * x.numpy()).tolist()
    _, along, aux = jvp(lambda x: (x * x, x), (x,), (t,), has_aux=True)
    np.testing.assert_allclose(along.numpy(), 2 * x.numpy() * t.numpy())


def test_nests_agree_with_each_other_and_with_finite_differences():
    W, x = f64([[1, 2], [3, -1]]), f64([0.3, -0.2])

    def loss(x):
        return total(tanh(W @ x) * sine(x))

    def reference(x):
        return (np.tanh(W.numpy() @ x) * np.sin(x)).sum()

    step = 1e-5 * np.eye(2)
    slopes = [(reference(x.numpy() + d) - reference(x.numpy() - d)) / 2e-5 for d in step]
    found = {
        "grad": grad(loss)(x),
        "vjp": vjp(loss, x)[1](f64(1.0))[0],
        "jit(grad)": jit(grad(loss))(x),
        "grad(jit)": grad(jit(loss))(x),
        "vmap(grad)": vmap(grad(loss))(f64([[1, 2], [0.3, -0.2]])),
        "jacobian": jacobian(loss)(x),
        "jacfwd": jacfwd(loss)(x),
        "jit(jacfwd)": jit(jacfwd(loss))(x),
    }
    for name, one in found.items():
        np.testing.assert_allclose(np.reshape(one.numpy(), -1)[-2:], slopes, rtol=1e-8, err_msg=name)
    second = hessian(loss)(x).numpy()
    by_grad = jacobian(grad(loss))(x).numpy()
    along = vmap(lambda t: jvp(grad(loss), (x,), (t,))[1])(f64(np.eye(2))).numpy()
    gradient = jit(grad(loss))
    numeric = [(gradient(f64(x.numpy() + d)).numpy() - gradient(f64(x.numpy() - d)).numpy()) / 2e-5 for d in step]
    for one in (second, by_grad, along):
        np.testing.assert_allclose(one, numeric, rtol=1e-7, atol=1e-9)


def test_jacobians_of_trees():
    def function(x, y):
        return {"s": x * y, "t": (total(x),)}

    x, y = f32([1, 2]), f32([3, 4])
    for made in (jacobian(function, (0, 1))(x, y), jacfwd(function, (0, 1))(x, y)):
        assert made["s"][0].numpy().tolist() == [[3, 0], [0, 4]]
        assert made["s"][1].numpy().tolist() == [[1, 0], [0, 2]]
        assert made["t"][0][0].numpy().tolist() == [1, 1]
        assert made["t"][0][1].numpy().tolist() == [0, 0]


REFUSED = [
    (lambda: grad(3), TypeRuleError, "grad takes a function, got an int; pass the function, not its call"),
    (
        lambda: grad(lambda x: x)(1),
        TypeRuleError,
        "grad: argument 0 must consist of float tensors, got the int 1; pass a tensor, or choose other arguments with "
        "argnums",
    ),
    (
        lambda: grad(lambda x: x)(np.array([1])),
        TypeRuleError,
        "grad: argument 0 must consist of float tensors, got i64[1]; convert it, or choose other arguments with "
        "argnums",
    ),
    (
        lambda: grad(lambda _: 1.0)(2.0),
        TypeRuleError,
        "grad: the function must return a float tensor, got the float 1.0; return the loss",
    ),
    (
        lambda: value_and_grad(lambda x: x, 1)(2.0),
        InvalidValueError,
        "value_and_grad: argnums must be positions of positional arguments, got 1 for 1 argument; correct it, or pass "
        "the argument by position",
    ),
    (
        lambda: grad(lambda x: x, None),
        InvalidValueError,
        "grad needs something to differentiate with respect to, got argnums=None and no weights; choose arguments or "
        "pass weights",
    ),
    (
        lambda: grad(lambda x: x, 0, True),
        TypeRuleError,
        "grad: weights must be parameters, got True; pass has_aux by its name",
    ),
    (
        lambda: grad(lambda x: x, None, 5),
        TypeRuleError,
        "weights must be a module, a parameter or several parameters, got an int; pass model.trainable_params() or "
        "list(model.parameters())",
    ),
    (
        lambda: grad(lambda x: x, has_aux=True)(2.0),
        TypeRuleError,
        "grad: with has_aux, the function must return a tuple of a loss and something else, got an object of type "
        "Tensor; return (loss, aux)",
    ),
    (
        lambda: jvp(lambda x: x, 1.0, (1.0,)),
        TypeRuleError,
        "jvp: primals must be a tuple of arguments, got a float; write (x,)",
    ),
    (
        lambda: jvp(lambda x: x, (1.0,), (f32([1]),)),
        TypeRuleError,
        "jvp: the tangents must have the types f32[], got f32[1]; convert them",
    ),
    (
        lambda: vjp(lambda x: x, 1.0)[1]((1.0,)),
        TypeRuleError,
        "vjp: the cotangents must have the structure *, got tuple(*); pass one for each",
    ),
    (
        lambda: vjp(lambda _: None, 1.0),
        TypeRuleError,
        "vjp: the function must return tensors, got None (is a return missing?); return other things as aux, with "
        "has_aux=True",
    ),
    (
        lambda: vjp(lambda x: x, 1.0, has_aux=True),
        TypeRuleError,
        "vjp: with has_aux, the function must return a pair of a value and something else, got an object of type "
        "Tensor; return (value, aux)",
    ),
    (
        lambda: jacobian(lambda x: x, 1)(1.0),
        InvalidValueError,
        "jacobian: argnums must be positions of arguments, got 1 for 1; correct it",
    ),
    (
        lambda: jacfwd(lambda _: 3)(1.0),
        TypeRuleError,
        "jacfwd: the function must return tensors, got the int 3; return tensors",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_refusals(call, kind, message):
    with pytest.raises(kind) as error:
        call()
    assert error.value.message == message
