"""Dropout of attention weights that are not stored: factors of `ops.dropout`, and memory that grows with T alone."""

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.codegen.targets import host_target
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, apply, param
from adjoint.ops.attention import Attention
from adjoint.ops.threefry import threefry2x32
from adjoint.pipeline import lower_function
from adjoint.testing import interpret
from adjoint.transforms import gradient

KEY = np.array([3, 9], np.uint32)
RATE = 0.3


def step(t, s, d, e, **settings):
    """The gradients of the sum of ``attention * ct``, and the result."""
    q, k, v, ct = (
        param(n, (2, *shape), "f64") for n, shape in zip("qkvc", [(t, d), (s, d), (s, e), (t, e)], strict=True)
    )
    key = param("key", (2,), "u32")
    out = ops.scaled_dot_product_attention(q, k, v, dropout_rate=RATE, key=key, **settings)
    return gradient(Function("f", (q, k, v, ct, key), (ops.sum(ops.multiply(out, ct)), out)), ["q", "k", "v"])


def closed_form(q, k, v, ct, causal):
    """The result and the gradients with a matrix of all weights, and dropout by the words of Threefry."""
    shape = (*q.shape[:-1], k.shape[-2])
    first, second = threefry2x32((KEY[0], KEY[1]), (np.uint32(0), np.arange(np.prod(shape), dtype=np.uint32)))
    uniform = ((first ^ second) >> np.uint32(8)).reshape(shape) * 2.0**-24
    factor = np.where(uniform >= np.float32(RATE), 1 / (1 - RATE), 0.0)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores[..., np.arange(shape[-2])[:, None] < np.arange(shape[-1])] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    out = (p * factor) @ v
    dp = factor * (ct @ np.swapaxes(v, -1, -2))
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return out, ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p * factor, -1, -2) @ ct


@pytest.mark.parametrize("causal", [False, True])
def test_dropped_weights_are_those_of_dropout(causal, monkeypatch):
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((2, *shape)) for shape in [(37, 5), (41, 5), (41, 3), (37, 3)]]
    expected = closed_form(*arrays, causal)
    for streamed in (True, False):
        monkeypatch.setattr(costs, "stores_scores", lambda *_, streamed=streamed, **__: not streamed)
        function = step(37, 41, 5, 3, causal=causal)
        assert any(isinstance(v.op, Attention) for v in function.values()) == streamed
        compiled = streamed and causal
        run = compile(function, options=CompileOptions(threads=1, cache=False)) if compiled else None
        _, *found = run(*arrays, KEY) if run is not None else interpret(function, *arrays, KEY)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def test_memory_grows_with_the_length_and_not_its_square(monkeypatch):
    monkeypatch.setattr(costs, "stores_scores", lambda *_, **__: False)
    long, longer = (lower_function(step(t, t, 8, 8), host_target()) for t in (512, 1024))
    assert longer.arena_bytes <= 2.1 * long.arena_bytes
    assert max(b.size for kernel in long.kernels for b in (*kernel.reads, *kernel.writes)) == 2 * 512 * 8
    monkeypatch.setattr(costs, "stores_scores", lambda *_, **__: True)
    stored = lower_function(step(512, 512, 8, 8), host_target())
    assert stored.arena_bytes > 10 * long.arena_bytes


def test_mapped_examples_share_a_key_or_have_their_own():
    q = param("q", (3, 4, 2))
    keys = param("keys", (3, 2), "u32")
    op = Attention(1.0, dropout=0.5)
    each = Function("f", (q, keys), (apply(op, q, q, q, keys),))
    rng = np.random.default_rng(2)
    x, words = rng.standard_normal((3, 4, 2)).astype(np.float32), np.arange(6, dtype=np.uint32).reshape(3, 2)
    found = interpret(each, x, words)[0]
    one = Function("f", (q := param("q", (4, 2)), key := param("key", (2,), "u32")), (apply(op, q, q, q, key),))
    for n in range(3):
        np.testing.assert_array_equal(found[n], interpret(one, x[n], words[n])[0])


def test_refusals():
    q, key = param("q", (4, 2)), param("key", (2,), "u32")
    name = "scaled_dot_product_attention"
    cases = [
        ({"dropout_rate": 1.5, "key": key}, "dropout_rate must be from 0 to 1, got 1.5; pass a probability"),
        ({"dropout_rate": 0.5}, "dropout needs a key, got none with dropout_rate=0.5; pass key"),
    ]
    for settings, message in cases:
        with pytest.raises(InvalidValueError) as error:
            ops.scaled_dot_product_attention(q, q, q, **settings)
        assert error.value.message == f"{name}: {message}"
