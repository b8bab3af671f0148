"""JAX: each contraction as one function under jit, of XLA. XLA uses one thread per core of the process."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.contraction_cases import Case

MODES = ("jit",)


def prepare(
    case: Case,
    mode: str,  # noqa: ARG001
    threads: int,  # noqa: ARG001
    left: np.ndarray,
    right: np.ndarray,
) -> tuple[Callable[[], object], Callable[[], np.ndarray]] | None:
    """A function that runs the contraction once, and one that returns its result; None for 16 bits."""
    if case.dtype != "f32":
        return None
    compiled = jax.jit(lambda a, b: _value(case, a, b))
    a, b = jax.device_put(left), jax.device_put(right)
    return lambda: compiled(a, b).block_until_ready(), lambda: np.asarray(compiled(a, b))


def _value(case: Case, a: jax.Array, b: jax.Array) -> jax.Array:
    if case.kind.startswith("matmul"):
        return jnp.matmul(*(x.swapaxes(-1, -2) if turned else x for x, turned in zip((a, b), case.transposed)))  # noqa: B905
    if case.kind.startswith("attention"):
        if case.kind == "attention":
            return _attention(case, *a)
        return jnp.stack(jax.vjp(lambda *qkv: _attention(case, *qkv), *a)[1](b))
    if case.kind == "forward":
        return _convolution(case, a, b)
    if case.kind == "data":
        return jax.linear_transpose(lambda x: _convolution(case, x, b), jnp.zeros(case.result))(a)[0]
    return jax.linear_transpose(lambda w: _convolution(case, a, w), jnp.zeros(case.result))(b)[0]


def _attention(case: Case, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    # Its layout is [batch, tokens, heads, width].
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    return jax.nn.dot_product_attention(q, k, v, is_causal=case.causal).swapaxes(1, 2)


def _convolution(case: Case, x: jax.Array, w: jax.Array) -> jax.Array:
    padding = [(case.padding, case.padding)] * 2
    return jax.lax.conv_general_dilated(x, w, [case.stride] * 2, padding, feature_group_count=case.groups)
