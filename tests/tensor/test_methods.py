"""Operators and methods in place, and random expressions, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as torch
from tests.tensor.comparing import check, message

X = np.random.default_rng(5).standard_normal((2, 3)).astype(np.float32)


def changed(method, *args, **keywords):
    """A tensor after a method that changes it in place and returns it."""
    x = torch.tensor(X)
    assert getattr(x, method)(*args, **keywords) is x
    return x


def test_methods_in_place_as_in_numpy():
    t = torch.tensor(X)
    check(
        (changed("add_", t, alpha=2), 3 * X),
        (changed("sub_", 1), X - 1),
        (changed("mul_", t), X * X),
        (changed("div_", 2), X / 2),
        (changed("div_", t, rounding_mode="floor"), np.ones_like(X)),
        (changed("pow_", 2), X**2),
        (changed("clamp_", -0.5, 0.5), X.clip(-0.5, 0.5)),
        (changed("clamp_min_", 0), X.clip(0)),
        (changed("neg_"), -X),
        (changed("exp_"), np.exp(X)),
        (changed("relu_"), np.maximum(X, 0)),
        (changed("round_", decimals=1), np.round(X, 1)),
        (changed("zero_"), 0 * X),
        (changed("fill_", 2.5), np.full_like(X, 2.5)),
        (changed("copy_", torch.arange(3)), np.tile(np.arange(3), (2, 1))),
        (changed("masked_fill_", t > 0, -1), np.where(X > 0, -1, X)),
        (changed("lerp_", t * 0, 0.5), X / 2),
        (changed("addcmul_", t, t, value=2), X + 2 * X * X),
        (changed("addcdiv_", t, t), X + 1),
        (changed("scatter_", 1, torch.tensor([[0], [2]]), 9.0), np.where([[1, 0, 0], [0, 0, 1]], 9, X)),
        (changed("scatter_add_", 1, torch.tensor([[0], [2]]), t), X + np.array([[X[0, 0], 0, 0], [0, 0, X[1, 0]]])),
        (changed("index_add_", 0, torch.tensor([1]), t[:1]), X + np.array([[0] * 3, X[0]])),
    )


def test_operators_in_place():
    x, i = torch.tensor(X), torch.arange(3)
    kept = x
    x += 1
    x *= 2
    x -= torch.ones(3)
    x /= 4
    x **= 2
    i //= 2
    assert kept is x
    check((x, (((X + 1) * 2 - 1) / 4) ** 2), (i, [0, 0, 1]))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda x: x.add_(torch.ones(2, 2, 3)),
            "add: a tensor changed in place keeps its type, got f32[2,2,3] for f32[2,3]; compute a new tensor",
        ),
        (
            lambda _: torch.arange(3).mul_(0.5),
            "mul: a tensor changed in place keeps its type, got f32[3] for i64[3]; compute a new tensor",
        ),
        (
            lambda x: x.requires_grad_().add_(1),
            "add: a leaf that requires a gradient cannot be changed in place, got f32[2,3]; do it within no_grad(), or "
            "compute a new tensor",
        ),
    ],
)
def test_refusals(call, sentence):
    assert message(lambda: call(torch.tensor(X))) == sentence


def test_a_leaf_shows_what_is_done_within_no_grad():
    w = torch.tensor(X, requires_grad=True)
    with torch.no_grad():
        w -= 1
    assert w.requires_grad
    check((w, X - 1))


#: Functions of tensors and arrays alike.
STEPS = [
    lambda _, x: x + x.T.T,
    lambda _, x: x * 0.5 - 1,
    lambda _, x: -x / (x * x + 1),
    lambda m, x: m.tanh(x),
    lambda m, x: m.maximum(x, -x),
    lambda _, x: x[::2].sum(0) + x,
    lambda _, x: x.reshape(-1)[:3] * x,
    lambda _, x: x @ x.T @ x,
    lambda m, x: m.where(x > 0, x, x * 0.1),
    lambda _, x: x - x.mean(1)[:, None],
]


@settings(max_examples=4, deadline=None)
@given(st.lists(st.lists(st.sampled_from(range(len(STEPS))), min_size=2, max_size=6), min_size=3, max_size=3))
def test_random_expressions(programs):
    pairs = []
    for program in programs:
        x, wanted = torch.tensor(X), X.astype(np.float64)
        for n in program:
            x, wanted = STEPS[n](torch, x), STEPS[n](np, wanted)
        pairs.append((x, wanted))
    check(*pairs, rtol=1e-3, atol=1e-3 * max(abs(wanted).max() for _, wanted in pairs))
