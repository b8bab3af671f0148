"""Attention, embeddings, gelu and softmax's gradient against PyTorch, closed forms and what they must not depend on."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Function, param
from adjoint.transforms import cse, gradient, simplify, vjp
from tests.closeness import agrees_with_graph
from tests.ops.golden import agrees, cases
from tests.ops.running import gradient as slope
from tests.ops.running import run

RNG = np.random.default_rng(12)
OPTIONS = CompileOptions(threads=1, cache=False)


@cases("scaled_dot_product_attention")
def test_attention_is_pytorchs(case):
    agrees(case, ops.scaled_dot_product_attention)


@cases("embedding")
def test_embeddings_are_pytorchs(case):
    agrees(case, ops.embedding)


@cases("gelu")
def test_gelu_is_pytorchs(case):
    agrees(case, ops.gelu, rtol=1e-8)


def test_a_query_sees_no_later_key():
    q, k, v = (RNG.standard_normal((2, 5, 3)) for _ in range(3))

    def attended(k, v):
        return run(lambda *a: ops.scaled_dot_product_attention(*a, causal=True), q, k, v)

    before = attended(k, v)
    np.testing.assert_allclose(before[:, 0], v[:, 0], rtol=1e-12)
    k[:, 3:], v[:, 3:] = np.nan, 7.0
    after = attended(k, v)
    np.testing.assert_array_equal(after[:, :3], before[:, :3])
    assert not np.array_equal(after[:, 3:], before[:, 3:])


def test_great_scores_stay_finite_with_their_gradients():
    q = 1e4 * RNG.standard_normal((3, 4)).astype(np.float32)

    def build(x):
        return ops.scaled_dot_product_attention(x, x, x, causal=True)

    np.testing.assert_allclose(run(build, q), q, rtol=1e-5)
    assert np.isfinite(slope(build, q)).all()


def test_values_may_be_wider_and_batches_broadcast():
    q, k, v = RNG.standard_normal((3, 1, 4, 2)), RNG.standard_normal((5, 6, 2)), RNG.standard_normal((5, 6, 7))
    scores = np.einsum("xbtd,bsd->xbts", np.broadcast_to(q, (3, 5, 4, 2)), k) / np.sqrt(2)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    found = run(ops.scaled_dot_product_attention, q, k, v)
    np.testing.assert_allclose(found, p @ v, rtol=1e-10)


@pytest.mark.parametrize(
    ("shape", "causal", "streamed"),
    [
        ((31, 8), True, False),
        ((32, 8), True, True),
        ((63, 32), True, False),
        ((64, 32), True, True),
        ((127, 512), True, False),
        ((128, 512), True, True),
        ((128, 513), True, False),
        ((95, 32), False, False),
        ((96, 32), False, True),
        ((197, 33), False, False),
        ((198, 33), False, True),
        ((255, 128, 128), False, False),
        ((256, 128, 128), False, True),
    ],
)
def test_long_attention_stores_no_scores(shape, causal, streamed):
    """From a multiple of a head's width on, from 128 queries and keys if causal, from 16 MiB of scores if not."""
    q, k, v = (param(n, shape) for n in "qkv")
    out = ops.scaled_dot_product_attention(q, k, v, causal=causal)
    names = {value.op.name for value in Function("f", (q, k, v), (out,)).values()}
    assert ("attention" in names) == streamed
    assert ("matmul" in names) != streamed


def test_long_attention_is_short_attention_and_broadcasts():
    q, k, v = RNG.standard_normal((3, 1, 150, 4)), RNG.standard_normal((2, 130, 4)), RNG.standard_normal((130, 5))

    def build(q, k, v):
        return ops.sin(ops.scaled_dot_product_attention(q, k, v, causal=True))

    scores = np.einsum("xbtd,bsd->xbts", np.broadcast_to(q, (3, 2, 150, 4)), k) / 2
    scores[..., np.arange(150)[:, None] < np.arange(130)] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    np.testing.assert_allclose(run(build, q, k, v), np.sin(p @ v), rtol=1e-10)
    to_v = np.einsum("xbts,xbte->se", p, np.cos(p @ v))
    np.testing.assert_allclose(slope(lambda v, q, k: build(q, k, v), v, q, k), to_v, rtol=1e-9)


def test_the_gradient_of_softmax_needs_the_softmax_and_one_sum():
    x = param("x", (8, 16))
    function = cse(simplify(vjp(Function("f", (x,), (ops.softmax(x),)))))
    names = [v.op.name for v in function.values() if v.op.name in ("exp", "log", "divide", "sum", "sum_exp", "max")]
    assert sorted(names) == ["divide", "exp", "log", "max", "sum", "sum_exp"]
    (divide,) = [v for v in function.values() if v.op.name == "divide"]
    assert divide.shape == (8,), "one quotient a row"


def test_the_gradient_of_softmax_is_the_closed_form():
    x, ct = RNG.standard_normal((5, 7)), RNG.standard_normal((5, 7))
    p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    found = slope(lambda v: ops.multiply(ops.softmax(v), ops.constant(ct)), x)
    np.testing.assert_allclose(found, p * (ct - (ct * p).sum(-1, keepdims=True)), rtol=1e-10, atol=1e-14)


def test_compiled_attention_and_its_gradients_agree_with_the_references():
    params = [param(name, (2, 3, 9, 8)) for name in "qkv"]
    out = ops.scaled_dot_product_attention(*params, causal=True)
    function = gradient(Function("f", tuple(params), (ops.sum(ops.sin(out)),)))
    arrays = [RNG.standard_normal(p.shape).astype(np.float32) for p in params]
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)


def test_an_id_outside_the_table_is_refused_before_anything_runs():
    table, ids = param("table", (5, 3)), param("ids", (2,), "i32")
    embed = compile(Function("f", (table, ids), (ops.embedding(table, ids),)), options=OPTIONS)
    rows = RNG.standard_normal((5, 3)).astype(np.float32)
    np.testing.assert_array_equal(embed(rows, np.array([4, 0], np.int32)), rows[[4, 0]])
    for bad in (5, -1):
        with pytest.raises(InvalidValueError, match=str(bad)):
            embed(rows, np.array([0, bad], np.int32))


def test_a_table_that_is_also_the_last_layer_gets_both_gradients():
    table, ids = RNG.standard_normal((4, 3)), np.array([1, 3, 1])

    def tied(table, ids):
        return ops.matmul(ops.embedding(table, ids), table, transpose_b=True)

    taken = table[ids]
    expected = np.tile(taken.sum(0), (4, 1))
    np.add.at(expected, ids, table.sum(0))
    np.testing.assert_allclose(slope(tied, table, ids), expected, rtol=1e-12)


def test_refusals():
    name, q = "scaled_dot_product_attention", param("q", (2, 4, 3))
    with pytest.raises(
        TypeRuleError, match=rf"{name}: q and k must agree in the last axis, .* got f32\[2,4,3\], f32\[2,4,5\]"
    ):
        ops.scaled_dot_product_attention(q, param("k", (2, 4, 5)), q)
    with pytest.raises(TypeRuleError, match=rf"{name}: .* k and v in the number of rows, .* and f32\[2,5,3\]"):
        ops.scaled_dot_product_attention(q, q, param("v", (2, 5, 3)))
    with pytest.raises(TypeRuleError, match=rf"{name}: v must have the shape .* got f32\[3\]; reshape it"):
        ops.scaled_dot_product_attention(q, q, param("v", (3,)))
    with pytest.raises(TypeRuleError, match=rf"{name}: the dtype must be float, got i32\[4,3\]"):
        ops.scaled_dot_product_attention(q, param("k", (4, 3), "i32"), q)
    with pytest.raises(TypeRuleError, match=rf"{name}: batch axes must be equal or 1, got f32\[2,4,3\], f32\[3,4,3\]"):
        ops.scaled_dot_product_attention(q, param("k", (3, 4, 3)), q)
    with pytest.raises(TypeRuleError) as error:
        ops.scaled_dot_product_attention(q, q, q, mask=param("m", (3, 4, 4)))
    assert error.value.message == (
        f"{name}: the mask must be bool or of the dtype of q and broadcast to f32[2,4,4], got f32[3,4,4]; reshape or "
        "cast it"
    )
    with pytest.raises(InvalidValueError, match=f"{name}: scale must be a number or None, got 'auto'"):
        ops.scaled_dot_product_attention(q, q, q, scale="auto")
    with pytest.raises(TypeRuleError, match=r"embedding: the table must not be empty, got f32\[0,3\]"):
        ops.embedding(param("t", (0, 3)), param("i", (2,), "i64"))
    with pytest.raises(TypeRuleError, match="check_range: the dtype must be integer or unsigned"):
        ops.embedding(param("t", (2, 3)), param("i", (2,)))
