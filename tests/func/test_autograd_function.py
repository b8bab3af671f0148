"""autograd.Function: operations whose derivative is a method. The numbers are those of PyTorch 2.13 for this code."""

import numpy as np
import pytest

import adjoint as torch
from adjoint.autograd import Function
from adjoint.errors import AdjointError


class Exp(Function):
    """``exp(x) * n``, whose derivative is twice the true one."""

    @staticmethod
    def forward(ctx, x, n, flag=None):
        y = x.exp() * n
        ctx.save_for_backward(y)
        ctx.n, ctx.flag = n, flag
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False, False)
        assert (ctx.n, ctx.flag) == (3.0, None)
        return 2 * grad * y, None, None


class Several(Function):
    """Three results, of which one is a bool, and a ``forward`` without a context."""

    @staticmethod
    def forward(x, y):
        return x * y, x > y, x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[0])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, product, _, rounded):
        x, y, z = ctx.saved_tensors
        return product * y + rounded, product * x * z


def leaves():
    return (torch.tensor(values, requires_grad=True) for values in ([0.5, 1.7], [2.0, 1.0]))


def close(given, wanted):
    np.testing.assert_allclose(given.numpy(force=True), wanted, rtol=1e-5)


def test_derivatives_of_several_results():
    x, y = leaves()
    for _ in range(2):  # the second time, the recorded program is found
        x.grad = y.grad = None
        z = Exp.apply(x, 3.0, None)
        product, larger, rounded = Several.apply(z, y)
        assert (larger.requires_grad, rounded.requires_grad) == (False, True)
        (product.sin().sum() + (rounded * rounded).sum()).backward()
        close(x.grad, [81.2620, 1026.1738])
        close(y.grad, [-43.6778, -203.8292])


def test_derivatives_of_derivatives():
    x, y = leaves()
    (slope,) = torch.autograd.grad(Exp.apply(x, 3.0, None).sum(), x, create_graph=True)
    close(slope, 6 * np.exp([0.5, 1.7]))
    (again,) = torch.autograd.grad(slope.sum(), x)
    close(again, 12 * np.exp([0.5, 1.7]))  # the rule, applied to the result that was saved
    (slope,) = torch.autograd.grad(Several.apply(x, y)[0].sum(), y, create_graph=True)
    close(slope, [0.5, 2.89])
    to_x, to_y = torch.autograd.grad(slope.sum(), (x, y))
    close(to_x, [2.0, 3.4])
    close(to_y, [0.25, 4.913])


def test_a_straight_through_estimator_in_a_traced_function():
    class Round(Function):
        @staticmethod
        def forward(ctx, x):  # noqa: ARG004
            return x.round()

        @staticmethod
        def backward(ctx, grad):  # noqa: ARG004
            return grad

    x, _ = leaves()
    slope = torch.grad(torch.jit(lambda x: (Round.apply(x) * 3.0).sum()))
    assert slope(x).tolist() == [3.0, 3.0]
    assert torch.vmap(torch.grad(Round.apply))(x).tolist() == [1.0, 1.0]
    with torch.no_grad():
        assert not Round.apply(x).requires_grad


def test_a_marked_result_has_no_derivative():
    class Marked(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2.0
            ctx.mark_non_differentiable(y)
            return x * 3.0, y

        @staticmethod
        def backward(ctx, grad, none):  # noqa: ARG004
            return grad * 3.0 + none

    x, _ = leaves()
    first, second = Marked.apply(x)
    assert (first.requires_grad, second.requires_grad) == (True, False)
    (first + second).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def rule(forward=lambda _, x: x * 1.0, backward=lambda _, grad: grad):
    return type("Rule", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def test_refusals():
    x, _ = leaves()

    def message(function, *args):
        with pytest.raises(AdjointError) as error:
            function.apply(*args)
        return error.value.message

    assert message(type("Empty", (Function,), {}), x) == (
        "Function: a subclass must define forward(ctx, ...), got none; add a static method"
    )
    assert message(type("Half", (Function,), {"forward": staticmethod(lambda _, x: x * 1.0)}), x) == (
        "Function: a subclass must define backward(ctx, ...), got none; add a static method"
    )
    assert message(rule(backward=lambda _, grad: (grad, grad)), x) == (
        "Rule: backward must return a cotangent or None for each of 1 argument, got 2; return one for each"
    )
    assert message(rule(lambda _, x, n: x * n, lambda _, grad: (grad, grad)), x, 3.0) == (
        "Rule: backward must return None for an argument that is not a tensor, got an object of type Tensor; return "
        "None"
    )
    assert message(rule(backward=lambda _, grad: grad.sum()), x) == (
        "Rule: the derivative must return a cotangent of the argument's type f32[2], got f32[]; sum over the "
        "axes that were broadcast"
    )
    assert message(rule(lambda ctx, x: ctx.mark_dirty(x)), x) == (
        "mark_dirty: a Function must not change its arguments in place, got 1 tensor; return new tensors"
    )
