"""tinygrad: TinyJit of the whole step.

It compiles for the CPU with clang; set ``CC`` if clang has another name.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

os.environ.setdefault("CACHELEVEL", "0")  # its cache of compiled kernels is a single file for all processes

import numpy as np
from tinygrad import Context, Tensor, TinyJit, nn

MODES = ("jit",)
INT = "int32"

Tensors = dict[str, Tensor]


class Ops:
    """The operators of workloads; running statistics of batch normalization are assigned in place."""

    relu = staticmethod(Tensor.relu)
    add = staticmethod(Tensor.add)
    reshape = staticmethod(Tensor.reshape)
    transpose = staticmethod(Tensor.permute)

    def __init__(self, params: Tensors, states: Tensors) -> None:
        self.params, self.states = params, states

    def linear(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        return x.linear(w, b)

    def gelu(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + (x * 0.5**0.5).erf())

    def conv(self, x: Tensor, w: Tensor, b: Tensor | None, stride: int, pad: int) -> Tensor:
        return x.conv2d(w, b, stride=stride, padding=pad)

    def maxpool2(self, x: Tensor) -> Tensor:
        return x.max_pool2d((2, 2), 2)

    def avgpool(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))

    def flatten(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def batchnorm(self, x: Tensor, name: str) -> Tensor:
        count = x.numel() // x.shape[1]
        mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
        # Running statistics as in PyTorch: momentum 0.1, and the unbiased variance.
        for key, value in (("mean", mean), ("var", var * (count / (count - 1)))):
            running = self.states[f"{name}.{key}"]
            running.assign(0.9 * running + 0.1 * value.detach())
        return x.batchnorm(self.params[f"{name}.g"], self.params[f"{name}.b"], mean, (var + 1e-5).rsqrt())

    def embed(self, table: Tensor, ids: Tensor) -> Tensor:
        return table[ids]

    def pos(self, table: Tensor, ids: Tensor) -> Tensor:  # noqa: ARG002
        return table

    def layernorm(self, x: Tensor, g: Tensor) -> Tensor:
        return x.layernorm(eps=1e-5) * g

    def attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return q.scaled_dot_product_attention(k, v, is_causal=True)

    def split3(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.chunk(3, -1)

    def head(self, x: Tensor, table: Tensor) -> Tensor:
        return x.linear(table.T)


def _loss(w: Any, params: Tensors, states: Tensors, x: Tensor, y: Tensor) -> Tensor:
    out = w.forward(Ops(params, states), params, x)
    kind, reduction = w.loss.split("_")
    if kind == "ce":
        return out.sparse_categorical_crossentropy(y, reduction=reduction)
    each = (out - y).square()
    return each.sum() if reduction == "sum" else each.mean()


def _optimizer(settings: Mapping[str, Any], params: list[Tensor]) -> Any:
    lr, decay = settings["lr"], settings.get("wd", 0.0)
    if settings["kind"] == "sgd":
        return nn.optim.SGD(params, lr, settings.get("momentum", 0.0), decay)
    if settings["kind"] == "adam":
        return nn.optim.Adam(params, lr, *settings["betas"], settings["eps"])
    return nn.optim.AdamW(params, lr, *settings["betas"], settings["eps"], decay)


def build(w: Any, mode: str, threads: int) -> tuple[Callable[..., Tensor], Callable[[Tensor], float]]:  # noqa: ARG001
    """The step of a workload, and a function that reads its loss. A kernel uses one thread per core of the process."""
    params = {name: Tensor(a).realize() for name, a in w.params.items()}
    states = {name: Tensor(a).realize().is_param_(False) for name, a in w.states.items()}
    optimizer = _optimizer(w.opt, list(params.values()))

    @TinyJit
    def whole(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = _loss(w, params, states, x, y).backward()
        return loss.realize(*optimizer.schedule_step(), *states.values())

    def step(x: np.ndarray, y: np.ndarray) -> Tensor:
        with Context(TRAINING=1):
            return whole(Tensor(x).realize(), Tensor(y).realize())

    return step, Tensor.item
