"""adjoint: loss, gradients and update compiled into one native function, called through `Trainer.update`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint import Function, IRModule, SetupTrainer, TensorType, Trainer, Value, ops, param
from adjoint.losses import CrossEntropyLoss, Loss, MSELoss
from adjoint.optim import SGD, Adam, AdamW, Optimizer

MODES = ("step",)
INT = "int64"

#: Environment variables with the directories of compile caches.
CACHES = ("ADJOINT_CACHE",)


class Ops:
    """The operators of workloads, as graph values.

    Parameters
    ----------
    params : mapping
        Parameters by the workload's names.
    states : mapping
        Running statistics by the workload's names; `updated` receives their new values.
    """

    def __init__(self, params: Mapping[str, Value], states: Mapping[str, Value]) -> None:
        self.params = params
        self.states = states
        self.updated: dict[str, Value] = {}

    linear = staticmethod(ops.linear)
    relu = staticmethod(ops.relu)
    gelu = staticmethod(ops.gelu)
    add = staticmethod(ops.add)
    reshape = staticmethod(ops.reshape)
    transpose = staticmethod(ops.permute)

    @staticmethod
    def avgpool(x: Value) -> Value:
        return ops.mean(x, (2, 3))

    @staticmethod
    def flatten(x: Value) -> Value:
        return ops.reshape(x, (x.shape[0], x.type.size // x.shape[0]))

    @staticmethod
    def embed(table: Value, ids: Value) -> Value:
        return ops.take(table, ids)

    @staticmethod
    def pos(table: Value, ids: Value) -> Value:  # noqa: ARG004
        return table

    @staticmethod
    def layernorm(x: Value, g: Value) -> Value:
        return ops.layer_norm(x, g, eps=1e-5)

    @staticmethod
    def split3(x: Value) -> list[Value]:
        third = x.shape[-1] // 3
        return [ops.slice_axis(x, -1, i * third, (i + 1) * third) for i in range(3)]

    @staticmethod
    def head(x: Value, table: Value) -> Value:
        return ops.matmul(x, table, transpose_b=True)

    @staticmethod
    def conv(x: Value, w: Value, b: Value | None, stride: int, pad: int) -> Value:
        return ops.conv2d(x, w, b, stride=stride, padding=pad)

    @staticmethod
    def maxpool2(x: Value) -> Value:
        return ops.max_pool2d(x, 2)

    def batchnorm(self, x: Value, name: str) -> Value:
        mean, var = f"{name}.mean", f"{name}.var"
        weight, bias = self.params[f"{name}.g"], self.params[f"{name}.b"]
        made = ops.batch_norm(x, self.states[mean], self.states[var], weight, bias)
        out, self.updated[mean], self.updated[var] = made
        return out

    @staticmethod
    def attention(q: Value, k: Value, v: Value) -> Value:
        return ops.scaled_dot_product_attention(q, k, v, causal=True)


def _optimizer(settings: Mapping[str, Any]) -> Optimizer:
    kind, lr, decay = settings["kind"], settings["lr"], settings.get("wd", 0.0)
    if kind == "sgd":
        return SGD(lr, momentum=settings.get("momentum", 0.0), weight_decay=decay)
    return {"adam": Adam, "adamw": AdamW}[kind](lr, settings["betas"], settings["eps"], decay)


def _backbone(w: Any, names: Mapping[str, str], x: np.ndarray) -> IRModule:
    """The network as a module with a single function."""
    data = param("x", x.shape, "i64" if x.dtype.kind == "i" else "f32")
    params = {name: param(names[name], array.shape) for name, array in w.params.items()}
    states = {name: param(names[name], array.shape) for name, array in w.states.items()}
    operators = Ops(params, states)
    out = w.forward(operators, params, data)
    results = (out, *(operators.updated[name] for name in states))
    backbone = Function("backbone", (data, *params.values(), *states.values()), results)
    return IRModule((backbone,), {"param_num": len(params), "state_num": len(states)})


def _loss(kind: str, out: TensorType, y: np.ndarray) -> tuple[Loss, Sequence[TensorType]]:
    name, reduction = kind.split("_")
    if name == "ce":
        return CrossEntropyLoss(reduction=reduction), (out, TensorType(y.shape, np.dtype(INT)))
    return MSELoss(reduction=reduction), (out, TensorType(y.shape))


def module_of(w: Any) -> IRModule:
    """The module of a workload, with its ``step``. Points in names are replaced by ``_``, as in `named`."""
    x, y = w.batches[0]
    backbone = _backbone(w, {name: _named(name) for name in (*w.params, *w.states)}, x)
    loss, types = _loss(w.loss, backbone["backbone"].results[0].type, y)
    return SetupTrainer(loss, _optimizer(w.opt), types)(backbone)


def named(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of a workload by their names in its module."""
    return {_named(name): array for name, array in arrays.items()}


def _named(name: str) -> str:
    return name.replace(".", "_")


def build(
    w: Any,
    mode: str,  # noqa: ARG001
    threads: int,
) -> tuple[Callable[[np.ndarray, np.ndarray], float], Callable[[float], float]]:
    """The step of a workload, and a function that reads its loss."""
    trainer = Trainer(module_of(w), threads=threads)
    trainer.load_params(named(w.params))
    trainer.load_states(named(w.states))
    return trainer.update, float
