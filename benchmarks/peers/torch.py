"""PyTorch: eager with the plain and the fused optimizer, and torch.compile of the parts and of the whole step.

``eager_channels_last`` is ``eager_fused`` with images and the weights of convolutions stored with channels last.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional

MODES = ("eager", "eager_fused", "eager_channels_last", "compile", "compile_whole")
INT = "int64"

#: Modes for networks with convolutions only.
WORKLOADS = {"eager_channels_last": ("lenet", "resnet", "cnn", "vit")}

#: Environment variables with the directories of compile caches, and the modes that use them.
CACHES = ("TORCHINDUCTOR_CACHE_DIR",)
CACHED_MODES = ("compile", "compile_whole")

Tensors = dict[str, torch.Tensor]
Step = Callable[[np.ndarray, np.ndarray], torch.Tensor]


class Ops:
    """The operators of workloads. Linear weights are stored as [out, in], as in `torch.nn.Linear`."""

    linear = staticmethod(functional.linear)
    relu = staticmethod(functional.relu)
    gelu = staticmethod(functional.gelu)
    add = staticmethod(torch.add)
    reshape = staticmethod(torch.reshape)
    transpose = staticmethod(torch.permute)
    conv = staticmethod(functional.conv2d)
    head = staticmethod(functional.linear)

    def __init__(self, params: Tensors, states: Tensors) -> None:
        self.params, self.states = params, states

    def maxpool2(self, x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool2d(x, 2)

    def avgpool(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))

    def flatten(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)

    def batchnorm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        running = self.states[f"{name}.mean"], self.states[f"{name}.var"]
        return functional.batch_norm(x, *running, self.params[f"{name}.g"], self.params[f"{name}.b"], training=True)

    def embed(self, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return functional.embedding(ids, table)

    def pos(self, table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        return table

    def layernorm(self, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, g.shape, g)

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def split3(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.chunk(3, -1)

    def tokens(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).transpose(1, 2)

    def full_attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v)

    def mean1(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)

    def lstm(self, x: torch.Tensor, wi: torch.Tensor, wh: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        zeros, weights = x.new_zeros(1, len(x), wh.shape[1]), [wi, wh, b, torch.zeros_like(b)]
        return torch.lstm(x, (zeros, zeros), weights, True, 1, 0.0, True, False, True)[0]


def _loss(w: Any, params: Tensors, states: Tensors, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = w.forward(Ops(params, states), params, x)
    kind, reduction = w.loss.split("_")
    return (functional.cross_entropy if kind == "ce" else functional.mse_loss)(out, y, reduction=reduction)


def _optimizer(settings: Mapping[str, Any], params: list[torch.Tensor], fused: bool) -> torch.optim.Optimizer:
    how = {"lr": settings["lr"], "weight_decay": settings.get("wd", 0.0), "fused": fused or None}
    if settings["kind"] == "sgd":
        return torch.optim.SGD(params, momentum=settings.get("momentum", 0.0), **how)
    make = torch.optim.Adam if settings["kind"] == "adam" else torch.optim.AdamW
    return make(params, betas=settings["betas"], eps=settings["eps"], **how)


def build(w: Any, mode: str, threads: int) -> tuple[Step, Callable[[torch.Tensor], float]]:
    """The step of a workload, and a function that reads its loss."""
    torch.set_num_threads(threads)
    params = {name: torch.tensor(a.T.copy() if name in w.linear else a) for name, a in w.params.items()}
    states = {name: torch.tensor(a) for name, a in w.states.items()}
    if mode == "compile_whole":
        return _whole(w, params, states), float
    images = torch.channels_last if mode == "eager_channels_last" else torch.contiguous_format
    params = {name: t.to(memory_format=images) if t.ndim == 4 else t for name, t in params.items()}
    for tensor in params.values():
        tensor.requires_grad_()
    optimizer = _optimizer(w.opt, list(params.values()), fused=mode in ("eager_fused", "eager_channels_last"))

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _loss(w, params, states, x, y)

    def update() -> None:
        optimizer.step()

    if mode == "compile":
        loss_of, update = torch.compile(loss_of), torch.compile(update)

    def step(x: np.ndarray, y: np.ndarray) -> torch.Tensor:
        optimizer.zero_grad()
        batch = torch.from_numpy(x)
        loss = loss_of(batch.to(memory_format=images) if batch.ndim == 4 else batch, torch.from_numpy(y))
        loss.backward()
        update()
        return loss.detach()

    return step, float


def _moments(settings: Mapping[str, Any], params: Tensors) -> dict[str, Any]:
    """The state of the optimizer that is part of the whole step."""
    zeros = {name: torch.zeros_like(tensor) for name, tensor in params.items()}
    if settings["kind"] == "sgd":
        return {"first": zeros} if settings.get("momentum") else {}
    return {"count": torch.zeros(()), "first": zeros, "second": {n: torch.zeros_like(t) for n, t in params.items()}}


def _direction(
    settings: Mapping[str, Any], kept: dict[str, Any], name: str, param: torch.Tensor, grad: torch.Tensor
) -> torch.Tensor:
    """The change of a parameter in units of the learning rate; updates `kept` in place."""
    decay = settings.get("wd", 0.0)
    if settings["kind"] != "adamw" and decay:
        grad = grad + decay * param
    if settings["kind"] == "sgd":
        return kept["first"][name].mul_(settings["momentum"]).add_(grad) if kept else grad
    beta1, beta2 = settings["betas"]
    first = kept["first"][name].mul_(beta1).add_(grad, alpha=1 - beta1)
    second = kept["second"][name].mul_(beta2).add_(grad * grad, alpha=1 - beta2)
    scaled = (first / (1 - beta1 ** kept["count"])) / ((second / (1 - beta2 ** kept["count"])).sqrt() + settings["eps"])
    return scaled + decay * param if settings["kind"] == "adamw" else scaled


def _whole(w: Any, params: Tensors, states: Tensors) -> Step:
    """Forward, backward and update as one compiled graph, with inductor's maximum autotuning."""
    kept = _moments(w.opt, params)

    @torch.compile(fullgraph=True, options={"cpp_wrapper": True, "max_autotune": True})
    def whole(params: Tensors, kept: dict[str, Any], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        grads, loss = torch.func.grad_and_value(lambda p: _loss(w, p, states, x, y))(params)
        if "count" in kept:
            kept["count"].add_(1)
        for name, tensor in params.items():
            tensor.sub_(_direction(w.opt, kept, name, tensor, grads[name]), alpha=w.opt["lr"])
        return loss

    def step(x: np.ndarray, y: np.ndarray) -> torch.Tensor:
        with torch.no_grad():
            return whole(params, kept, torch.from_numpy(x), torch.from_numpy(y))

    return step
