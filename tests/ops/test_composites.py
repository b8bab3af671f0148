"""Composites against closed forms in float64, values that are printed elsewhere, and extremes."""

from math import erf, exp, inf, log, nan, pi, sqrt

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import param, toposort
from tests.closeness import close_to_product
from tests.ops.running import differences, gradient, run

RNG = np.random.default_rng(11)
X = RNG.uniform(-4, 4, (5, 7))
ERF = np.vectorize(erf)

#: Closed form in float64 of every activation.
FORMS = {
    "gelu": (ops.gelu, lambda x: x * (1 + ERF(x / sqrt(2))) / 2),
    "gelu tanh": (
        lambda x: ops.gelu(x, approximate="tanh"),
        lambda x: x / 2 * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))),
    ),
    "silu": (ops.silu, lambda x: x / (1 + np.exp(-x))),
    "softplus": (ops.softplus, lambda x: np.logaddexp(0, x)),
    "leaky_relu": (lambda x: ops.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "softmax": (ops.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "log_softmax": (ops.log_softmax, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "logsumexp": (lambda x: ops.logsumexp(x, -1), lambda x: np.log(np.exp(x).sum(-1))),
    "variance": (lambda x: ops.variance(x, 0), lambda x: x.var(0)),
    "layer_norm": (
        ops.layer_norm,
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
    ),
}
each_form = pytest.mark.parametrize(("ours", "closed"), FORMS.values(), ids=FORMS)


@each_form
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 2e-6)])
def test_values_are_the_closed_forms(ours, closed, dtype, rtol):
    found = run(ours, X.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, closed(X.astype(dtype).astype(np.float64)), rtol=rtol, atol=rtol)


@each_form
def test_gradients_of_first_and_second_order_agree_with_differences(ours, closed):
    x = X[:2, :3].copy()
    weights = RNG.standard_normal(closed(x).shape)

    def weighted(x):
        return ops.multiply(ours(x), ops.constant(weights))

    first = gradient(weighted, x)
    np.testing.assert_allclose(first, differences(lambda x: (closed(x) * weights).sum(), x), atol=1e-7)
    expected = differences(lambda x: (gradient(weighted, x) ** 2).sum(), x)
    np.testing.assert_allclose(gradient(weighted, x, order=2), expected, atol=1e-6)


#: Published or hand-known numbers; those of PyTorch as its documentation and `torch.nn.functional` print them.
KNOWN = [
    (ops.gelu, [-1.0, 0.0, 1.0, 2.0], [-0.15865525, 0.0, 0.84134475, 1.95449974]),  # x * Phi(x), a normal table
    (lambda x: ops.gelu(x, "tanh"), [-1.0, 0.0, 1.0, 2.0], [-0.15880801, 0.0, 0.84119199, 1.95459769]),
    (ops.silu, [-1.0, 0.0, 1.0], [-0.26894142, 0.0, 0.73105858]),
    (ops.softplus, [-1.0, 0.0, 1.0], [0.31326169, log(2), 1.31326169]),
    (ops.leaky_relu, [-2.0, 0.0, 3.0], [-0.02, 0.0, 3.0]),
    (ops.softmax, [1.0, 2.0, 3.0], [0.09003057, 0.24472847, 0.66524096]),
    (ops.log_softmax, [1.0, 2.0, 3.0], [-2.40760596, -1.40760596, -0.40760596]),
    (ops.logsumexp, [1.0, 2.0, 3.0], 3.40760596),
    (ops.variance, [1.0, 2.0, 3.0, 4.0], 1.25),
    (lambda x: ops.variance(x, correction=1), [1.0, 2.0, 3.0, 4.0], 5 / 3),
    (lambda x: ops.layer_norm(x, eps=0.0), [1.0, 3.0], [-1.0, 1.0]),
]


@pytest.mark.parametrize(("ours", "x", "expected"), KNOWN)
def test_known_numbers(ours, x, expected):
    np.testing.assert_allclose(run(ours, np.array(x)), expected, atol=5e-9)


BIG = np.array([[1e4, -1e4, 0.0], [1e4, 1e4, 1e4 - 3], [-1e4, -1e4, -1e4]], np.float32)
TOP = log(2 + exp(-3))  # what the second row has above 1e4


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (ops.gelu, np.maximum(BIG, 0)),
        (lambda x: ops.gelu(x, "tanh"), np.maximum(BIG, 0)),
        (ops.silu, np.maximum(BIG, 0)),
        (ops.softplus, [[1e4, 0, log(2)], [1e4, 1e4, 1e4 - 3], [0, 0, 0]]),
        (ops.softmax, [[1, 0, 0], [exp(-TOP), exp(-TOP), exp(-3 - TOP)], [1 / 3] * 3]),
        (ops.log_softmax, [[0, -2e4, -1e4], [-TOP, -TOP, -3 - TOP], [-log(3)] * 3]),
        (lambda x: ops.logsumexp(x, -1), [1e4, 1e4 + TOP, -1e4 + log(3)]),
        (lambda x: ops.layer_norm(x), [[sqrt(1.5), -sqrt(1.5), 0], [sqrt(0.5), sqrt(0.5), -sqrt(2)], [0, 0, 0]]),
    ],
    ids=["gelu", "gelu tanh", "silu", "softplus", "softmax", "log_softmax", "logsumexp", "layer_norm"],
)
def test_extremes_neither_overflow_nor_lose_what_matters(ours, expected):
    np.testing.assert_allclose(run(ours, BIG), expected, rtol=1e-4, atol=1e-6)
    assert np.isfinite(gradient(ours, BIG)).all()


def test_softplus_keeps_small_results_and_is_smooth_at_zero():
    x = np.array([-80.0, -30.0, -1e-3, 0.0, 1e-3])
    np.testing.assert_allclose(run(ops.softplus, x), np.log1p(np.exp(x)), rtol=1e-14)
    np.testing.assert_allclose(gradient(ops.softplus, x), 1 / (1 + np.exp(-x)), rtol=1e-13)
    # d/dx of sigmoid(x)**2 at 0 is 2 * 1/2 * 1/4.
    np.testing.assert_allclose(gradient(ops.softplus, np.zeros(1), order=2), 0.25)


def test_leaky_relu_has_its_slope_at_zero():
    np.testing.assert_array_equal(gradient(lambda x: ops.leaky_relu(x, 0.1), np.zeros(1)), [0.1])


def test_logsumexp_of_infinities_and_of_nothing():
    x = np.array([[-inf, -inf], [-inf, 1.0], [inf, 0.0], [nan, 0.0]])
    np.testing.assert_array_equal(run(lambda x: ops.logsumexp(x, 1), x), [-inf, 1.0, inf, nan])
    np.testing.assert_array_equal(run(lambda x: ops.logsumexp(x, 1), np.zeros((2, 0))), [-inf, -inf])
    np.testing.assert_array_equal(gradient(lambda x: ops.logsumexp(x, 1), x[1:2]), [[0.0, 1.0]])


@pytest.mark.parametrize("axis", [0, 1, -2, (0, 1), None], ids=str)
def test_softmax_adds_up_to_one_along_its_axes(axis):
    x = RNG.standard_normal((3, 4, 2))
    found = run(lambda x: ops.softmax(x, axis), x)
    np.testing.assert_allclose(found.sum(axis), np.ones_like(found.sum(axis)))
    np.testing.assert_allclose(run(lambda x: ops.log_softmax(x, axis), x), np.log(found), rtol=1e-12)
    top = run(lambda x: ops.logsumexp(x, axis, keepdims=True), x)
    np.testing.assert_allclose(np.exp(x - top), found, rtol=1e-12)
    assert run(lambda x: ops.logsumexp(x, axis), x).shape == found.sum(axis).shape
    assert run(lambda x: ops.softmax(x, 1), np.zeros((3, 0))).shape == (3, 0)


def test_the_greatest_element_is_not_differentiated():
    x = param("x", (4, 3))
    for ours in (ops.softmax, ops.log_softmax, ops.logsumexp, ops.softplus):
        stopped = [v for v in toposort([ours(x)]) if v.op.name == "stop_gradient"]
        assert len(stopped) == 1


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("correction", [0, 1, 2.5])
@pytest.mark.parametrize("axis", [None, 0, (1, -1)], ids=str)
def test_variance_is_numpys(axis, correction, keepdims):
    x = RNG.standard_normal((4, 3, 5)) + 1000
    expected = x.var(axis, ddof=correction, keepdims=keepdims)
    np.testing.assert_allclose(run(lambda x: ops.variance(x, axis, correction, keepdims), x), expected, rtol=1e-9)


def test_layer_norm_scales_and_shifts():
    x, weight, bias = X, RNG.standard_normal(7), RNG.standard_normal(7)
    plain = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.1)
    np.testing.assert_allclose(run(lambda *a: ops.layer_norm(*a, eps=0.1), x, weight, bias), plain * weight + bias)
    np.testing.assert_allclose(run(lambda x, b: ops.layer_norm(x, bias=b, eps=0.1), x, bias), plain + bias)


def test_halves_are_normalised_in_f32():
    x = np.array([[300.0, 500.0, 700.0]], np.float16)  # squares of the distances overflow f16
    found = run(lambda x: ops.layer_norm(x), x)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, [[-1.2247, 0, 1.2247]], atol=1e-3)
    assert run(lambda x: ops.variance(x), x / 4).item() == pytest.approx(1666.67, rel=1e-3)


def test_linear_is_a_product_and_a_row():
    x, w, b = RNG.standard_normal((2, 3, 4)), RNG.standard_normal((4, 5)), RNG.standard_normal(5)
    close_to_product(run(ops.linear, x, w, b), x, w, b)
    close_to_product(run(ops.linear, x, w), x, w)
    np.testing.assert_allclose(gradient(lambda b, x, w: ops.linear(x, w, b), b, x, w), np.full(5, 6.0))


FLOAT_ONLY = [ops.gelu, ops.silu, ops.softplus, ops.leaky_relu, ops.softmax, ops.log_softmax, ops.logsumexp]


@pytest.mark.parametrize("ours", [*FLOAT_ONLY, ops.variance, ops.layer_norm], ids=lambda f: f.__name__)
def test_integers_are_refused_by_name(ours):
    with pytest.raises(TypeRuleError, match=rf"^{ours.__name__}: the dtype must be float, got i32\[3\]; cast"):
        ours(param("x", (3,), "i32"))


def test_refusals():
    x = param("x", (2, 3))
    with pytest.raises(InvalidValueError, match="gelu: approximate must be 'none' or 'tanh', got 'erf'"):
        ops.gelu(x, approximate="erf")
    with pytest.raises(InvalidValueError, match="softmax: axis 2 is out of range for rank 2"):
        ops.softmax(x, 2)
    with pytest.raises(
        InvalidValueError,
        match=r"variance: the number of elements must exceed the correction, got 1 .* correction 1",
    ):
        ops.variance(param("y", (1, 3)), 0, correction=1)
    with pytest.raises(
        TypeRuleError, match=r"layer_norm: weight must be one row of f32\[2,3\], got f32\[2\]; pass f32\[3\]"
    ):
        ops.layer_norm(x, param("w", (2,)))
    with pytest.raises(InvalidValueError, match="layer_norm: eps must be at least 0, got -1"):
        ops.layer_norm(x, eps=-1)
    with pytest.raises(TypeRuleError, match=r"layer_norm: the last axis must not be empty, got f32\[\]"):
        ops.layer_norm(param("s", ()))
    with pytest.raises(TypeRuleError, match=r"linear: w must have the shape \[in, out\], got f32\[2,3,4\]"):
        ops.linear(x, param("w", (2, 3, 4)))
    with pytest.raises(TypeRuleError, match=r"linear: b must be one row of f32\[2,4\], got f32\[1\]; pass f32\[4\]"):
        ops.linear(x, param("w", (3, 4)), param("b", (1,)))


KEY = ops.random.key_array(5)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_dropout_drops_and_scales_what_the_uniform_numbers_say(rate, dtype):
    x = RNG.uniform(-2, 2, (60, 70)).astype(np.dtype("f2" if dtype == "f16" else "f4"))
    kept = run(lambda key: ops.random.uniform(key, (60, 70)), KEY) >= np.float32(rate)
    scale = x.dtype.type(1 / (1 - rate) if rate < 1 else 0)
    by_number = run(lambda x, key: ops.dropout(x, key, rate), x, KEY)
    by_value = run(ops.dropout, x, KEY, np.float32(rate))
    for found in (by_number, by_value):
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found, np.where(kept, x * scale, 0), rtol=1e-6 if dtype == "f32" else 2e-3)
    assert abs((~kept).mean() - rate) <= 4 * sqrt(rate * (1 - rate) / x.size)


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_dropout_drops_and_scales_the_gradient_alike(rate):
    x = np.linspace(1.0, 2.0, 40)
    slope = gradient(lambda x: ops.dropout(x, ops.constant(KEY), rate), x)
    np.testing.assert_allclose(slope, run(lambda x: ops.dropout(x, ops.constant(KEY), rate), x) / x, rtol=1e-6)
    by_value = gradient(lambda x, r: ops.dropout(x, ops.constant(KEY), r), x, np.float64(rate))
    np.testing.assert_allclose(by_value, slope, rtol=1e-6)
    assert (slope == 0).any()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, key: ops.dropout(x, key, 1.5), "dropout: the rate must be from 0 to 1, got 1.5; pass a probability"),
        (
            lambda x, key: ops.dropout(ops.cast(x, "i32"), key),
            "dropout: the dtype must be float, got i32[3]; cast to a float such as f32 first",
        ),
        (
            lambda x, key: ops.dropout(x, key, x),
            "dropout: the rate must be a scalar, got f32[3]; use random.bernoulli and where",
        ),
        (
            lambda x, _: ops.dropout(x, np.zeros((2, 2), np.uint32)),
            "dropout: the key must be u32[2], got u32[2,2]; use random.bernoulli and where",
        ),
        (
            lambda x, _: ops.dropout(x, 0.5),
            "dropout: a key must be a graph value, got 0.5; make one with ops.random.key(seed)",
        ),
    ],
)
def test_dropout_refuses(build, message):
    with pytest.raises((InvalidValueError, TypeRuleError)) as refusal:
        build(param("x", (3,)), param("key", (2,), "u32"))
    assert refusal.value.message == message
