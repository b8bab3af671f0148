"""Sizes that change: one program, the results and updates of the exact number of rows."""

import numpy as np
import pytest

import adjoint
from adjoint import jit, nn, optim, scan
from adjoint.errors import AdjointError, InvalidValueError, NameLookupError, TypeRuleError
from adjoint.tensor.explain import log

BOTH = {"x": {0: "n"}, "y": {0: "n"}}


def test_a_step_trains_on_the_rows_that_there_are():
    rng = np.random.default_rng(0)
    w = adjoint.tensor(rng.standard_normal((3, 1)).astype(np.float32), requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)

    @jit(dynamic=BOTH)
    def step(x, y):
        optimizer.zero_grad()
        prediction = x @ w
        loss = ((prediction - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return {"loss": loss, "prediction": prediction}

    expected, before = w.detach().numpy().astype(np.float64), log.count
    for rows in (7, 8, 3, 1, 5):
        x, y = rng.standard_normal((rows, 3)), rng.standard_normal((rows, 1))
        found = step(x.astype(np.float32), y.astype(np.float32))
        error = x @ expected - y
        np.testing.assert_allclose(found["prediction"].numpy(), x @ expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found["loss"].item(), (error**2).mean(), rtol=1e-4)
        expected -= 0.1 * 2 / rows * x.T @ error
        np.testing.assert_allclose(w.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    assert log.count == before + 1
    step(np.ones((9, 3), np.float32), np.ones((9, 1), np.float32))
    assert log.count == before + 2  # for up to 16


def test_rows_pass_through_a_scan():
    adjoint.manual_seed(0)
    cell = nn.GRUCell(3, 4)

    def states(x):
        def step(h, row):
            h = cell(row, h)
            return h, h

        last, outputs = scan(step, adjoint.zeros(x.shape[0], 4), x.transpose(0, 1))
        return last.detach(), outputs.detach()

    dynamic = jit(dynamic={"x": {0: "n"}}, bound=5)(states)
    for rows in (5, 2, 1):
        x = adjoint.randn(rows, 3, 3)
        for got, want in zip(dynamic(x), states(x), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


X, W = adjoint.ones(3, 2), adjoint.ones(2, 2, requires_grad=True)
KEPT = adjoint.zeros(4, 2)

REFUSED = [
    (
        lambda: jit(lambda x: x, dynamic={"x": {1: "n"}}),
        InvalidValueError,
        "jit: dynamic must name axis 0 of arguments, as in {'x': {0: 'n'}}, got {1: 'n'} for x; call the function for "
        "each other size, or fill up to one",
    ),
    (
        lambda: jit(lambda x, y: x + y, dynamic={"x": {0: "n"}, "y": {0: "m"}}),
        InvalidValueError,
        "jit: dynamic must have one size, got m, n; name them equally",
    ),
    (
        lambda: jit(lambda x: x, dynamic={"x": {0: "n"}}, bound=1),
        InvalidValueError,
        "jit: bound must be an integer of at least 2, got 1; omit it for a default",
    ),
    (
        lambda: jit(lambda x: x, dynamic={"z": {0: "n"}}),
        NameLookupError,
        "jit: dynamic names parameters of the function, got 'z'; known parameters: x",
    ),
    (
        lambda: jit(lambda x: x * 2, dynamic={"x": {0: "n"}}, bound=2)(X),
        InvalidValueError,
        "jit: the size of axis 0 must be at most bound=2, got 3; choose a larger bound",
    ),
    (
        lambda: jit(lambda x, y: x + y, dynamic=BOTH)(X, X[:2]),
        TypeRuleError,
        "jit: the arguments x, y must have the same size of axis 0, at least 1, got 2, 3; pass the same number of rows",
    ),
    (
        lambda: jit(lambda x: x * 2, dynamic={"x": {0: "n"}})(x=X),
        TypeRuleError,
        "jit: the arguments of a function with a dynamic size must be tensors or arrays by position, got others for "
        "lambda; let it use them as globals",
    ),
    (
        lambda: jit(lambda x: x @ W, dynamic={"x": {0: "n"}})(X),
        TypeRuleError,
        "jit: a function with a dynamic size must not return tensors that require gradients, got one from lambda; call "
        "it within no_grad(), or compute the gradients inside",
    ),
    (
        lambda: jit(lambda x: KEPT.add_(x), dynamic={"x": {0: "n"}})(X),
        TypeRuleError,
        "jit: a function with a dynamic size must not store tensors that have it, got one in lambda; return it",
    ),
    (
        lambda: jit(lambda x, y: (x.sum(), y.sum()), dynamic=BOTH)(X, X),
        TypeRuleError,
        "jit: arguments of the same dynamic size must be combined row by row, got %y: f32[4,2], which is not; name its "
        "size differently, or leave it out of dynamic",
    ),
    (
        lambda: jit(lambda x: x.reshape(2, -1).sum(0), dynamic={"x": {0: "n"}})(X),
        TypeRuleError,
        "jit: a function with a dynamic size must treat rows alike, but %0 = reshape(...): f32[2,4] depends on all "
        "rows of a batch; leave dynamic out, or compute it outside of the function",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_refusals(call, kind, message):
    with pytest.raises(AdjointError) as error:
        call()
    assert error.value.message == message
    assert isinstance(error.value, kind)
