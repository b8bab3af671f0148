"""custom_vjp and custom_jvp: derivatives that are given, in every transformation."""

import numpy as np
import pytest

import adjoint
from adjoint import custom_jvp, custom_vjp, grad, hessian, jit, jvp, vmap
from adjoint.errors import AdjointError


def product():
    """``x * sin(y)``, whose derivatives are 10 and 100 times the true ones."""

    @custom_vjp
    def scaled(x, y):
        return x * y.sin()

    def backward(residuals, ct):
        x, y = residuals
        return ct * y.sin() * 10.0, ct * x * y.cos() * 100.0

    scaled.defvjp(lambda x, y: (x * y.sin(), (x, y)), backward)
    return scaled


X, Y = (adjoint.tensor(values) for values in ([1.0, 2.0], [3.0, 4.0]))
TO_X = 10 * np.sin([3.0, 4.0])
TO_Y = 100 * np.array([1.0, 2.0]) * np.cos([3.0, 4.0])


def close(given, wanted):
    np.testing.assert_allclose(given.numpy(force=True), wanted, rtol=1e-5)


def test_the_rule_is_the_derivative_in_every_transformation():
    scaled = product()
    total = lambda x, y: scaled(x, y).sum()  # noqa: E731
    close(scaled(X, Y), np.array([1.0, 2.0]) * np.sin([3.0, 4.0]))
    to_x, to_y = grad(total, (0, 1))(X, Y)
    close(to_x, TO_X)
    close(to_y, TO_Y)
    close(jit(grad(total))(X, Y), TO_X)
    close(grad(jit(total))(X, Y), TO_X)
    close(vmap(grad(scaled))(X, Y), TO_X)
    close(grad(lambda x, y: vmap(scaled, (0, None))(x, y[0]).sum())(X, Y), 10 * np.sin([3.0, 3.0]))
    close(jvp(scaled, (X, Y), (adjoint.ones(2), adjoint.zeros(2)))[1], TO_X)
    # The derivative of the rule, 10 * sin(y), with respect to y.
    mixed = grad(lambda y: grad(total)(X, y).sum())(Y)
    close(mixed, 10 * np.cos([3.0, 4.0]))


def test_the_rule_is_compiled_into_recorded_steps():
    scaled, x = product(), adjoint.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        scaled(x, Y).sum().backward()
    close(x.grad, 2 * TO_X)


def test_trees_fixed_arguments_and_cotangents_that_are_none():
    def power(n, given, unused):
        return {"value": given["x"] ** n, "sum": given["x"].sum() + unused.sum()}

    ruled = custom_vjp(power, nondiff_argnums=(0,))

    def backward(n, residual, ct):
        return {"x": ct["value"] * float(n) * residual + 0.0 * ct["sum"]}, None

    ruled.defvjp(lambda n, given, unused: (power(n, given, unused), given["x"]), backward)

    def total(x, unused):
        found = ruled(3, {"x": x}, unused)
        return found["value"].sum() + found["sum"]

    to_x, to_unused = grad(total, (0, 1))(X, Y)
    close(to_x, [3.0, 6.0])
    close(to_unused, [0.0, 0.0])


def test_a_closed_over_tensor_is_a_constant():
    w = adjoint.tensor([2.0, 3.0], requires_grad=True)
    ruled = custom_vjp(lambda x: x * w)
    ruled.defvjp(lambda x: (x * w, None), lambda _, ct: (ct * w,))
    x = adjoint.tensor([1.0, 1.0], requires_grad=True)
    ruled(x).sum().backward()
    close(x.grad, [2.0, 3.0])
    assert w.grad is None


def test_a_jvp_rule_serves_both_modes():
    @custom_jvp
    def cube(x):
        return x**3

    @cube.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return x**3, 7.0 * x**2 * t

    close(jvp(cube, (X,), (adjoint.ones(2),))[1], [7.0, 28.0])
    close(grad(lambda x: cube(x).sum())(X), [7.0, 28.0])
    close(hessian(lambda x: cube(x).sum())(X), [[14.0, 0.0], [0.0, 28.0]])
    close(vmap(grad(cube))(X), [7.0, 28.0])


def named(function):
    function.__name__ = "f"
    return function


def test_refusals():
    def message(call):
        with pytest.raises(AdjointError) as error:
            call()
        return error.value.message

    assert message(lambda: custom_vjp(None)) == (
        "custom_vjp takes a function, got None; pass the function, not its call"
    )
    without = custom_vjp(named(lambda x: x))
    assert message(lambda: without(X)) == (
        "custom_vjp: f must have a rule before it is called, got none; call f.defvjp(forward, backward)"
    )
    assert message(lambda: custom_jvp(named(lambda x: x))(X)) == (
        "custom_jvp: f must have a rule before it is called, got none; call f.defjvp(rule)"
    )

    def ruled(forward, backward, **settings):
        made = custom_vjp(named(lambda x: x), **settings)
        made.defvjp(forward, backward)
        return lambda: made(X)

    assert message(ruled(lambda x: x, None)) == (
        "custom_vjp: the forward rule of f must return a pair of the result and the residuals, got an object of type "
        "Tensor; "
        "return (result, residuals)"
    )
    assert message(ruled(lambda x: (x * 1.0, None), lambda _, ct: ct)) == (
        "custom_vjp: the backward rule of f must return a tuple with a cotangent for each of 1 argument, got an "
        "object of "
        "type Tensor; return None for zeros"
    )
    assert message(ruled(lambda x: (x * 1.0, None), lambda _, ct: ([ct],))) == (
        "custom_vjp: the backward rule of f must return cotangents of the structure of the arguments, *, got list(*); "
        "return None for zeros"
    )
    assert message(ruled(lambda x: (x * 1.0, None), lambda _, ct: (ct.sum(),))) == (
        "custom_vjp: the derivative must return a cotangent of the argument's type f32[2], got f32[]; sum "
        "over the axes that were broadcast"
    )
    assert message(ruled(lambda x: (x * 1.0, None), lambda _, ct: (ct,), nondiff_argnums=(3,))) == (
        "custom_vjp: nondiff_argnums must be positions of arguments, got 3 for 1 argument; correct it"
    )
    assert message(ruled(lambda _: (3, None), lambda _, ct: (ct,))) == (
        "custom_vjp: the function must return tensors, got the int 3; return tensors"
    )
    assert message(ruled(lambda x: (x.mul_(2.0), None), lambda _, ct: (ct,))) == (
        "custom_vjp: the function must not change its arguments in place, got a change of one of type f32[2]; return "
        "the new value"
    )
    forward = custom_jvp(named(lambda x: x))
    forward.defjvp(lambda primals, tangents: tangents[0])  # noqa: ARG005
    assert message(lambda: forward(X)) == (
        "custom_jvp: the rule of f must return a pair of the result and its tangent, got an object of type Tensor; "
        "return "
        "(result, tangent)"
    )
    forward.defjvp(lambda primals, tangents: (primals[0], [tangents[0]]))
    assert message(lambda: forward(X)) == (
        "custom_jvp: the tangent that the rule of f returns must have the structure of the result, *, got list(*); "
        "return "
        "one for each"
    )
