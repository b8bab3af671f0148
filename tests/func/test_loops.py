"""Loops and branches of tensors, against Python's."""

import numpy as np
import pytest

import adjoint
from adjoint import checkpoint, cond, fori_loop, grad, jit, jvp, nn, scan, tensor, vmap, while_loop
from adjoint.errors import AdjointError, DifferentiationError, TypeRuleError

ROWS = np.random.default_rng(0).normal(size=(6, 2)).astype("f")


def weight():
    return tensor([[0.5, 0.2], [-0.3, 0.7]], requires_grad=True)


def looped(w, x, step=lambda h, w, row: (h @ w + row).tanh()):
    """The loss of a recurrent layer as a loop in the program, with a carry in a dict."""

    def body(carry, row):
        h = step(carry["h"], w, row)
        return {"h": h, "steps": carry["steps"] + 1}, h * 2.0

    carry, outputs = scan(body, {"h": adjoint.zeros(2), "steps": 0}, x)
    return (outputs * outputs).sum() + carry["h"].sum()


def unrolled(w, x):
    h, total = adjoint.zeros(2), 0.0
    for row in x:
        h = (h @ w + row).tanh()
        total = total + (4.0 * h * h).sum()
    return total + h.sum()


def numbers(x):
    return x.detach().numpy()


def test_values_and_derivatives_of_a_scan():
    w, x = weight(), tensor(ROWS)
    loop, want = looped(w, x), unrolled(w, x)
    loop.backward()
    found, w.grad = w.grad, None
    want.backward()
    direction = adjoint.ones(6, 2)
    pairs = [
        (loop, want),
        (found, w.grad),
        (grad(lambda x: looped(w, x))(x), grad(lambda x: unrolled(w, x))(x)),
        (jit(looped)(w, x), want),
        (jit(grad(looped))(w, x), w.grad),
        (jvp(lambda x: looped(w, x), (x,), (direction,))[1], jvp(lambda x: unrolled(w, x), (x,), (direction,))[1]),
    ]
    for got, other in pairs:
        np.testing.assert_allclose(numbers(got), numbers(other), rtol=1e-5, atol=1e-6)


def test_reading_the_loss_before_the_backward_pass_runs_the_loop_once_from_then_on():
    w, x = weight(), tensor(ROWS)
    found = []
    for _ in range(3):
        loss = looped(w, x)
        loss.item()
        loss.backward()
        found.append(numbers(w.grad).copy())
        w.grad = None
    unrolled(w, x).backward()
    for gradient in found:
        np.testing.assert_allclose(gradient, numbers(w.grad), rtol=1e-5)


def test_a_scan_along_a_mapped_axis_and_with_checkpoints():
    w = weight()
    many = tensor(np.stack([ROWS, ROWS[::-1], -ROWS]))
    wanted = [unrolled(w, x) for x in many]
    np.testing.assert_allclose(numbers(vmap(lambda x: looped(w, x))(many)), [numbers(x) for x in wanted], rtol=1e-5)
    wanted[0].backward()
    want, w.grad = numbers(w.grad), None
    checkpoint(looped)(w, many[0]).backward()
    outside, w.grad = numbers(w.grad), None
    looped(w, many[0], checkpoint(lambda h, w, row: (h @ w + row).tanh())).backward()
    np.testing.assert_allclose(outside, want, rtol=1e-5)
    np.testing.assert_allclose(numbers(w.grad), want, rtol=1e-5)


def test_the_other_loops_and_branches():
    w = weight()

    @jit
    def chosen(x):
        return cond(x.sum() > 0, lambda v: v * 2.0, lambda v: v - w.sum(), x)

    powers = while_loop(lambda state: state[0] < 100.0, lambda state: (state[0] * 2.0, state[1] + 1), (tensor(3.0), 0))
    found = [
        chosen(tensor([1.0, 2.0])),
        chosen(tensor([-1.0, -2.0])),
        *powers,
        fori_loop(0, 5, lambda i, c: c + i * w.sum(), tensor(1.0)),
        fori_loop(0, tensor(5), lambda _, c: c * 1.5, tensor(1.0)),
        fori_loop(3, 3, lambda _, c: c * 1.5, tensor(1.0)),
        *scan(lambda c, _: (c + 1, c), 0, None, length=4),
        *scan(lambda c, x: (c + x, c), tensor(0.0), adjoint.zeros(0)),
        scan(lambda c, x: (c, x), tensor(0.0), tensor([1.0, 2.0]), reverse=True)[1],
    ]
    want = [
        [2, 4], [-2.1, -3.1], 192, 6, 12, 1.5**5, 1, 4, [0, 1, 2, 3], 0, [], [1, 2]
    ]  # fmt: skip
    for got, other in zip(found, want, strict=True):
        np.testing.assert_allclose(numbers(got), other, rtol=1e-6)
    slope = grad(lambda x: fori_loop(0, 3, lambda _, c: c * x, x))(tensor(2.0))
    assert slope.item() == 32.0, "the fourth power"
    side = grad(lambda x: cond(x > 0, lambda v: v * v, lambda v: -v, x))
    assert [side(tensor(v)).item() for v in (3.0, -3.0)] == [6.0, -1.0]


def test_hessian_vector_products_through_loops():
    """Forward mode over reverse mode, and twice reverse mode, against the same for the unrolled loop."""

    def step(c, w):
        return (c * w).tanh() + w

    again = checkpoint(step)
    functions = {
        "scan": lambda w: scan(lambda c, _: (step(c, w), c), w, length=2),
        "checkpoint in a scan": lambda w: scan(lambda c, _: (again(c, w), c), w, length=2),
        "fori_loop": lambda w: fori_loop(0, 2, lambda _, c: step(c, w), w),
        "cond": lambda w: cond(w.sum() > 0.0, lambda c: step(step(c, w), w), lambda c: c, w),
        "unrolled": lambda w: step(step(w, w), w),
    }

    def products(w, v):
        found = {}
        for name, function in functions.items():
            last = adjoint.tree_leaves(function(w))[0]
            assert last.shape == w.shape

            def loss(w, function=function):
                return (adjoint.tree_leaves(function(w))[0] ** 3).sum()

            forward = jvp(grad(loss), (w,), (v,))[1]
            found[name] = forward, grad(lambda w, loss=loss: (grad(loss)(w) * v).sum())(w)
        return found

    found = jit(products)(tensor([0.3, -0.2]), tensor([1.0, 0.5]))
    want = numbers(found["unrolled"][0])
    for pair in found.values():
        for got in pair:
            np.testing.assert_allclose(numbers(got), want, rtol=1e-4, atol=1e-6)


def test_forward_mode_through_while():
    def power(w):
        return while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * w), (0, w))[1]

    for forward in (jvp, jit(lambda f, x, t: jvp(f, x, t))):
        value, slope = forward(power, (tensor(2.0),), (tensor(1.0),))
        assert (value.item(), slope.item()) == (16.0, 32.0)
    second = jvp(lambda w: jvp(power, (w,), (tensor(1.0),))[1], (tensor(2.0),), (tensor(1.0),))[1]
    assert second.item() == 48.0, "12 w^2"
    w = tensor(3.0)
    assert jvp(lambda x: power(x) * w, (tensor(2.0),), (tensor(0.5),))[1].item() == 48.0


def test_reverse_mode_through_while_is_refused():
    w = weight()
    with pytest.raises(DifferentiationError, match="; use scan or fori_loop, or insert stop_gradient"):
        while_loop(lambda s: s < 100.0, lambda s: s * (1.0 + w.sum()), tensor(3.0)).backward()


X = adjoint.ones(2, 3)
REFUSED = {
    "scan: the body must return a pair of the new carry and an output, got a Tensor; return (carry, None) for no "
    "output": (lambda: scan(lambda c, _: c, X, X)),
    "scan: the body must return a carry of the structure of init, *, got tuple(*, *); return the same containers": (
        lambda: scan(lambda c, _: ((c, c), None), X, X)
    ),
    "scan: the body must return each part of the carry with the type that it takes, got f32[2,3] and then f32[3] for "
    "part 0; cast or reshape it": lambda: scan(lambda c, x: (c.sum(0), x), X, X),
    "scan: length and the first axes of xs must be one number, got 2, 4; make them equal": (
        lambda: scan(lambda c, x: (c, x), X, X, length=4)
    ),
    "scan: length and the first axes of xs must be one number, got none; make them equal": (
        lambda: scan(lambda c, x: (c, x), X)
    ),
    "scan: init must be tensors, got a str; pass tensors": lambda: scan(lambda c, x: (c, x), "a", X),
    "cond: the condition must be a tensor, got the bool True; use Python's if": lambda: cond(
        True, lambda: X, lambda: X
    ),
    "cond: both functions must return the same structure, got * and tuple(*); return the same containers": (
        lambda: cond(X.sum() > 0, lambda: X, lambda: (X,))
    ),
    "cond: both functions must return the same types, got f32[2,3] from": lambda: cond(
        X.sum() > 0, lambda: X * 1.0, lambda: X.sum()
    ),
    "cond: the condition must be a bool scalar, got f32[]; compare scalars": lambda: cond(
        X.sum(), lambda: X * 1.0, lambda: X * 2.0
    ),
    "while_loop: the condition must return a tensor, got the bool True; compare tensors of the carry": lambda: (
        while_loop(lambda _: True, lambda c: c, X)
    ),
    "while_loop: the body must return a carry of the structure of init, *, got list(*); return the same containers": (
        lambda: while_loop(lambda c: c.sum() < 3, lambda c: [c], X)
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refusals(sentence):
    with pytest.raises(AdjointError) as error:
        REFUSED[sentence]()
    assert error.value.message.startswith(sentence)


def test_what_a_scan_changes_in_place_is_carried_along():
    """Dropout and batch norm in a body give what they give in a Python loop, and leave the same state behind."""
    x = tensor(np.random.default_rng(0).standard_normal((4, 3)).astype("f"))

    def run(looping):
        adjoint.manual_seed(3)
        norm, w = nn.BatchNorm1d(3), adjoint.ones(3, 3, requires_grad=True)
        dropped = checkpoint(lambda c: nn.functional.dropout(c, 0.5))

        def body(carry, _):
            return dropped(norm(carry @ w)), carry.sum()

        last, sums = looping(body, x)
        (last**2).sum().backward()
        return [last, adjoint.stack(tuple(sums)), w.grad, norm.running_var, norm.num_batches_tracked, adjoint.rand(1)]

    def unrolled(body, carry):
        sums = []
        for _ in range(2):
            carry, total = body(carry, None)
            sums.append(total)
        return carry, sums

    assert not nn.BatchNorm1d(3).running_var.requires_grad
    for got, want in zip(run(lambda body, x: scan(body, x, length=2)), run(unrolled), strict=True):
        np.testing.assert_allclose(numbers(got), numbers(want), rtol=1e-5, atol=1e-6)
        assert got.requires_grad == want.requires_grad


def test_a_total_that_a_compiled_function_resets_and_a_scan_adds_to():
    total = tensor([5.0])

    @jit
    def totals(x):
        total.zero_()
        return scan(lambda c, row: (c + total.add_(row), None), adjoint.zeros(1), x)[0]

    for _ in range(2):
        assert totals(adjoint.ones(4, 1)).item() == 10.0
        assert total.item() == 4.0


def test_what_bodies_must_not_change():
    total = adjoint.zeros(3)
    refused = {
        "scan: the function must not change its arguments in place, got a change of one of type f32[2,3]": (
            lambda: scan(lambda c, _: (c.add_(1.0), None), X, length=2)
        ),
        "cond: the function must not change tensors in place, got a change of one of type f32[3]": (
            lambda: cond(X.sum() > 0, lambda: total.add_(1.0) * 1.0, lambda: total * 2.0)
        ),
        "while_loop: the function must not change tensors in place, got a change of one of type f32[3]": (
            lambda: while_loop(lambda c: c.sum() < 3, lambda c: c + total.add_(1.0), adjoint.zeros(3))
        ),
        "cond: the function must not change its arguments in place, got a change of one of type f32[2,3]": (
            lambda: cond(X.sum() > 0, lambda x: x.add_(1.0), lambda x: x * 2.0, X)
        ),
    }
    for sentence, call in refused.items():
        with pytest.raises(TypeRuleError) as error:
            call()
        assert error.value.message == f"{sentence}; return the new value"


def test_a_compiled_function_names_cond_where_it_cannot_branch():
    @jit
    def branching(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(AdjointError, match=r"use adjoint\.cond, or choose between two values with where"):
        branching(X)
