"""Batch and layer normalisation against PyTorch, their accuracy, and how many sums their gradients cost."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Function, param
from adjoint.testing import interpret, pullback
from adjoint.transforms import cse, simplify, vjp
from tests.ops.golden import agrees, cases
from tests.ops.running import differences, gradient, run

RNG = np.random.default_rng(10)


@cases("batch_norm")
def test_batch_norm_and_its_states_are_pytorchs(case):
    def build(training, **given):
        return ops.batch_norm(**given) if training else ops.batch_norm_inference(**given)

    agrees(case, build)


@cases("layer_norm")
def test_layer_norm_is_pytorchs(case):
    agrees(case, ops.layer_norm)


def norm_of_batch(x, weight, bias):
    states = ops.full(0.0, x.shape[1:2], x.dtype), ops.full(1.0, x.shape[1:2], x.dtype)
    return ops.batch_norm(x, *states, weight, bias)[0]


NORMS = [(norm_of_batch, (4, 3, 5, 5), (3,)), (ops.layer_norm, (6, 5), (5,))]


@pytest.mark.parametrize(("norm", "shape", "row", "sums"), [(*n, s) for n, s in zip(NORMS, (2, 4), strict=True)])
def test_gradients_cost_few_sums_over_the_data(norm, shape, row, sums):
    """Forwards the mean and the variance. Backwards two for a batch, of which the shift's is one; for a layer two a
    row and two for scale and shift, which lie across."""
    x, weight, bias = param("x", shape), param("w", row), param("b", row)
    forward = Function("f", (x, weight, bias), (norm(x, weight, bias),))

    def over_data(function):
        names = ("sum", "centred_squares", "max")
        return [v.op.name for v in function.values() if v.op.name in names and v.inputs[0].type.size == x.type.size]

    assert over_data(forward) == ["sum", "centred_squares"]
    assert over_data(cse(simplify(vjp(forward)))) == ["sum", "centred_squares"] + ["sum"] * sums


@pytest.mark.parametrize(("norm", "shape", "row"), NORMS)
def test_what_is_small_beside_its_mean_keeps_its_digits(norm, shape, row):
    """Elements near 1000 that differ by 1: f32 has 5e-5 for them, which a difference of squares would not leave."""
    x = RNG.standard_normal(shape)
    shifted = (x + 1000).astype(np.float32)
    weight, bias, ct = RNG.standard_normal(row), RNG.standard_normal(row), RNG.standard_normal(shape)
    found = []
    for dtype in (np.float32, np.float64):
        arrays = [a.astype(dtype) for a in (shifted, weight, bias, ct)]
        params = [param(f"p{i}", a.shape, dtype) for i, a in enumerate(arrays)]
        out = norm(*params[:3])
        function = Function("f", tuple(params), (out, *pullback([out], [params[3]], params[:3])))
        found.append(interpret(function, *arrays))
    for got, expected in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=3e-4)


@pytest.mark.parametrize(("norm", "shape", "row"), NORMS)
def test_gradients_of_second_order_agree_with_differences(norm, shape, row):
    x, weight, bias = (RNG.standard_normal(s) for s in ((2, 2, 2) if len(shape) == 4 else (2, 3), row, row))
    channels = 2 if len(shape) == 4 else 3
    weight, bias = weight[:channels], bias[:channels]

    def curved(x, weight, bias):
        return ops.sin(norm(x, weight, bias))

    def first(x):
        return float((gradient(curved, x, weight, bias) ** 2).sum())

    found = gradient(curved, x, weight, bias, order=2)
    np.testing.assert_allclose(found, differences(first, x), rtol=1e-5, atol=1e-5)


def test_batches_are_normalised_and_layers_too():
    x = 5 + 3 * RNG.standard_normal((64, 3, 4, 4))
    one, none = np.ones(3), np.zeros(3)
    found = run(norm_of_batch, x, one, none)
    np.testing.assert_allclose(found.mean((0, 2, 3)), 0, atol=1e-12)
    np.testing.assert_allclose(found.var((0, 2, 3)), 1, rtol=1e-5)
    np.testing.assert_allclose(run(ops.layer_norm, x).std(-1), 1, rtol=1e-3)


@pytest.mark.parametrize("momentum", [0.0, 0.1, 1.0])
def test_states_move_by_the_momentum(momentum):
    x, mean, var = RNG.standard_normal((5, 2)), np.array([1.0, -2.0]), np.array([0.5, 3.0])

    def states(index):
        return run(lambda *a: ops.batch_norm(*a, momentum=momentum)[index], x, mean, var)

    np.testing.assert_allclose(states(1), (1 - momentum) * mean + momentum * x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(states(2), (1 - momentum) * var + momentum * x.var(0, ddof=1), rtol=1e-12)


def test_halves_are_normalised_in_f32_with_states_of_either_dtype():
    x = (200 * RNG.standard_normal((64, 2, 4))).astype(np.float16)
    rows = {"h": np.ones(2, np.float16), "f": np.ones(2, np.float32)}
    for kind, row in rows.items():
        out = run(lambda *a: ops.batch_norm(*a)[0], x, row, row, row, row)
        assert out.dtype == np.float16
        assert float(out.astype(np.float32).std()) == pytest.approx(1.0, abs=0.01), kind
        assert run(lambda *a: ops.batch_norm(*a)[2], x, row, row).dtype == row.dtype


def test_refusals():
    x, row = param("x", (4, 3, 2)), param("r", (3,))
    with pytest.raises(
        TypeRuleError, match=r"batch_norm: weight must have one element per channel of f32\[4,3,2\], got f32\[2"
    ):
        ops.batch_norm(x, row, row, param("w", (2,)))
    with pytest.raises(
        TypeRuleError,
        match=r"batch_norm: running_var must have one element per channel of f32\[4,3,2\], got f64\[3\]; pass f32\[3\]",
    ):
        ops.batch_norm(x, row, param("v", (3,), "f64"))
    with pytest.raises(
        TypeRuleError, match=r"batch_norm: the operand must have the shape \[N, C, \.\.\.\], got f32\[3\]"
    ):
        ops.batch_norm(row, row, row)
    with pytest.raises(TypeRuleError, match=r"batch_norm: a channel must have more than one element, got f32\[1,3\]"):
        ops.batch_norm(param("y", (1, 3)), row, row)
    with pytest.raises(TypeRuleError, match=r"batch_norm: the dtype must be float, got i32\[4,3\]"):
        ops.batch_norm(param("y", (4, 3), "i32"), row, row)
    with pytest.raises(InvalidValueError, match=r"batch_norm: momentum must be between 0 and 1, got 1.5"):
        ops.batch_norm(x, row, row, momentum=1.5)
    with pytest.raises(InvalidValueError, match="batch_norm_inference: eps must be at least 0, got nan"):
        ops.batch_norm_inference(x, row, row, eps=float("nan"))
