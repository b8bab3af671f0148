"""JAX: loss, gradients and update in one jit, with all updated arrays donated.

Images are NHWC inside the step, the preferred layout of XLA's convolutions on CPUs.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

MODES = ("jit",)
INT = "int32"

Arrays = dict[str, jax.Array]

#: The arrays that a step updates: parameters, states, and the optimizer's state.
Held = tuple[Arrays, Arrays, Any]


class Ops:
    """The operators of workloads; `new` collects the new running statistics of batch normalization."""

    relu = staticmethod(jax.nn.relu)
    add = staticmethod(jnp.add)
    reshape = staticmethod(jnp.reshape)
    transpose = staticmethod(jnp.transpose)

    def __init__(self, params: Arrays, states: Arrays) -> None:
        self.params, self.states, self.new = params, states, dict[str, jax.Array]()

    def linear(self, x: jax.Array, w: jax.Array, b: jax.Array | None) -> jax.Array:
        return x @ w if b is None else x @ w + b

    def gelu(self, x: jax.Array) -> jax.Array:
        return jax.nn.gelu(x, approximate=False)

    def conv(self, x: jax.Array, w: jax.Array, b: jax.Array | None, stride: int, pad: int) -> jax.Array:
        layouts = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=layouts)
        return y if b is None else y + b

    def maxpool2(self, x: jax.Array) -> jax.Array:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def avgpool(self, x: jax.Array) -> jax.Array:
        return x.mean((1, 2))

    def flatten(self, x: jax.Array) -> jax.Array:
        return x.transpose(0, 3, 1, 2).reshape(len(x), -1)

    def batchnorm(self, x: jax.Array, name: str) -> jax.Array:
        count = x.size // x.shape[-1]
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        # Running statistics as in PyTorch: momentum 0.1, and the unbiased variance.
        for key, value in (("mean", mean), ("var", var * (count / (count - 1)))):
            self.new[f"{name}.{key}"] = 0.9 * self.states[f"{name}.{key}"] + 0.1 * value
        return (x - mean) * (self.params[f"{name}.g"] * jax.lax.rsqrt(var + 1e-5)) + self.params[f"{name}.b"]

    def embed(self, table: jax.Array, ids: jax.Array) -> jax.Array:
        return table[ids]

    def pos(self, table: jax.Array, ids: jax.Array) -> jax.Array:  # noqa: ARG002
        return table

    def layernorm(self, x: jax.Array, g: jax.Array) -> jax.Array:
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g

    def attention(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf)) @ v

    def split3(self, x: jax.Array) -> list[jax.Array]:
        return jnp.split(x, 3, -1)

    def tokens(self, x: jax.Array) -> jax.Array:
        return x.reshape(len(x), -1, x.shape[-1])

    def full_attention(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5) @ v

    def mean1(self, x: jax.Array) -> jax.Array:
        return x.mean(1)

    def lstm(self, x: jax.Array, wi: jax.Array, wh: jax.Array, b: jax.Array) -> jax.Array:
        def step(carry: tuple[jax.Array, jax.Array], row: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            i, f, g, o = jnp.split(row + carry[0] @ wh, 4, -1)
            cell = jax.nn.sigmoid(f) * carry[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        zeros = jnp.zeros((len(x), len(wh)))
        return jax.lax.scan(step, (zeros, zeros), (x @ wi + b).swapaxes(0, 1))[1].swapaxes(0, 1)

    def head(self, x: jax.Array, table: jax.Array) -> jax.Array:
        return x @ table.T


def _loss(w: Any, out: jax.Array, y: jax.Array) -> jax.Array:
    kind, reduction = w.loss.split("_")
    each = (out - y) ** 2 if kind == "mse" else -jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], axis=1)
    return each.sum() if reduction == "sum" else each.mean()


def _moments(settings: Mapping[str, Any], params: Arrays) -> dict[str, Any]:
    """The optimizer's state."""
    zeros = {name: jnp.zeros_like(array) for name, array in params.items()}
    if settings["kind"] == "sgd":
        return {"first": zeros} if settings.get("momentum") else {}
    return {"count": jnp.zeros(()), "first": zeros, "second": {n: jnp.zeros_like(a) for n, a in params.items()}}


def _update(settings: Mapping[str, Any], kept: dict[str, Any], params: Arrays, grads: Arrays) -> tuple[Arrays, Any]:
    """New parameters and optimizer state, by PyTorch's formulas."""
    tree, decay, lr = jax.tree.map, settings.get("wd", 0.0), settings["lr"]
    if decay and settings["kind"] != "adamw":
        grads = tree(lambda g, p: g + decay * p, grads, params)
    if settings["kind"] == "sgd":
        if kept:
            grads = tree(lambda m, g: settings["momentum"] * m + g, kept["first"], grads)
            kept = {"first": grads}
        return tree(lambda p, g: p - lr * g, params, grads), kept
    (beta1, beta2), eps, count = settings["betas"], settings["eps"], kept["count"] + 1
    first = tree(lambda m, g: beta1 * m + (1 - beta1) * g, kept["first"], grads)
    second = tree(lambda v, g: beta2 * v + (1 - beta2) * g * g, kept["second"], grads)
    shrunk = tree(lambda p: p - lr * decay * p, params) if settings["kind"] == "adamw" else params
    unbiased = tree(lambda v: jnp.sqrt(v / (1 - beta2**count)) + eps, second)
    new = tree(lambda p, m, d: p - lr * m / (1 - beta1**count) / d, shrunk, first, unbiased)
    return new, {"count": count, "first": first, "second": second}


def build(w: Any, mode: str, threads: int) -> tuple[Callable[..., jax.Array], Callable[[jax.Array], float]]:  # noqa: ARG001
    """The step of a workload, and a function that reads its loss. XLA uses one thread per core of the process."""

    def loss_of(params: Arrays, states: Arrays, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Arrays]:
        o = Ops(params, states)
        out = w.forward(o, params, x.transpose(0, 2, 3, 1) if x.ndim == 4 else x)
        return _loss(w, out, y), o.new

    def whole(held: Held, x: jax.Array, y: jax.Array) -> tuple[Held, jax.Array]:
        params, states, kept = held
        (loss, states), grads = jax.value_and_grad(loss_of, has_aux=True)(params, states, x, y)
        params, kept = _update(w.opt, kept, params, grads)
        return (params, states, kept), loss

    compiled = jax.jit(whole, donate_argnums=0)
    params = {name: jnp.array(a.transpose(2, 3, 1, 0) if a.ndim == 4 else a) for name, a in w.params.items()}
    held = (params, {name: jnp.array(a) for name, a in w.states.items()}, _moments(w.opt, params))

    def step(x: np.ndarray, y: np.ndarray) -> jax.Array:
        nonlocal held
        held, loss = compiled(held, x, y)
        return loss

    return step, float
