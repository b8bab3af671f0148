"""adjoint through its doors: graphs with `Trainer.update`, objects as in PyTorch, and a function under `jit`.

``step`` is the graph door, ``objects`` the loop of the peer torch in its mode ``eager`` with only the import changed,
and ``jit`` the same step as a traced function.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import adjoint as torch
from adjoint import Function, IRModule, SetupTrainer, TensorType, Trainer, Value, ops, param
from adjoint.losses import CrossEntropyLoss, Loss, MSELoss
from adjoint.optim import SGD, Adam, AdamW, Optimizer

MODES = ("step", "objects", "jit")
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

    @staticmethod
    def full_attention(q: Value, k: Value, v: Value) -> Value:
        return ops.scaled_dot_product_attention(q, k, v)

    @staticmethod
    def tokens(x: Value) -> Value:
        batch, channels, height, width = x.shape
        return ops.permute(ops.reshape(x, (batch, channels, height * width)), (0, 2, 1))

    @staticmethod
    def mean1(x: Value) -> Value:
        return ops.mean(x, 1)

    @staticmethod
    def lstm(x: Value, wi: Value, wh: Value, b: Value) -> Value:
        size = wh.shape[0]

        def step(carry: tuple[Value, Value], row: Value) -> tuple[tuple[Value, Value], Value]:
            gates = row + ops.matmul(carry[0], wh)
            i, f, g, o = (ops.slice_axis(gates, -1, n * size, (n + 1) * size) for n in range(4))
            cell = ops.sigmoid(f) * carry[1] + ops.sigmoid(i) * ops.tanh(g)
            hidden = ops.sigmoid(o) * ops.tanh(cell)
            return (hidden, cell), hidden

        zeros = ops.full(0.0, (x.shape[0], size))
        rows = ops.permute(ops.matmul(x, wi) + b, (1, 0, 2))
        return ops.permute(ops.scan(step, (zeros, zeros), rows)[1], (1, 0, 2))


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


class TensorOps:
    """The operators of workloads, on tensors, which are imported with it: the first step of a graph needs none."""

    def __init__(self, params: Mapping[str, Any], states: Mapping[str, Any]) -> None:
        self.params, self.states = params, states
        functional = torch.nn.functional
        self.relu, self.gelu, self.conv = functional.relu, functional.gelu, functional.conv2d
        self.add, self.reshape, self.transpose = torch.add, torch.reshape, torch.permute

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        return torch.matmul(x, w) if b is None else torch.addmm(b, x, w)

    def head(self, x: Any, table: Any) -> Any:
        return torch.nn.functional.linear(x, table)

    def maxpool2(self, x: Any) -> Any:
        return torch.nn.functional.max_pool2d(x, 2)

    def avgpool(self, x: Any) -> Any:
        return x.mean((2, 3))

    def flatten(self, x: Any) -> Any:
        return x.flatten(1)

    def batchnorm(self, x: Any, name: str) -> Any:
        running = self.states[f"{name}.mean"], self.states[f"{name}.var"]
        return torch.nn.functional.batch_norm(
            x, *running, self.params[f"{name}.g"], self.params[f"{name}.b"], training=True
        )

    def embed(self, table: Any, ids: Any) -> Any:
        return torch.nn.functional.embedding(ids, table)

    def pos(self, table: Any, ids: Any) -> Any:  # noqa: ARG002
        return table

    def layernorm(self, x: Any, g: Any) -> Any:
        return torch.nn.functional.layer_norm(x, g.shape, g)

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def full_attention(self, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    def split3(self, x: Any) -> Any:
        return x.chunk(3, -1)

    def tokens(self, x: Any) -> Any:
        return x.flatten(2).transpose(1, 2)

    def mean1(self, x: Any) -> Any:
        return x.mean(1)

    def lstm(self, x: Any, wi: Any, wh: Any, b: Any) -> Any:
        zeros = torch.zeros(len(x), len(wh))
        return torch.nn.functional.recurrent.recurrent_layer(
            "lstm", x.transpose(0, 1), (zeros, zeros), wi.T, wh.T, b, torch.zeros_like(b)
        )[0].transpose(0, 1)


def _bound_optimizer(settings: Mapping[str, Any], params: list[Any]) -> Any:
    how = {"lr": settings["lr"], "weight_decay": settings.get("wd", 0.0)}
    if settings["kind"] == "sgd":
        return SGD(params, momentum=settings.get("momentum", 0.0), **how)
    return {"adam": Adam, "adamw": AdamW}[settings["kind"]](params, betas=settings["betas"], eps=settings["eps"], **how)


def _of_tensors(w: Any, mode: str, threads: int) -> tuple[Callable[..., Any], Callable[[Any], float]]:
    torch.set_num_threads(threads)
    params = {name: torch.tensor(array, requires_grad=True) for name, array in w.params.items()}
    states = {name: torch.tensor(array) for name, array in w.states.items()}
    optimizer = _bound_optimizer(w.opt, list(params.values()))
    kind, reduction = w.loss.split("_")
    criterion = torch.nn.functional.cross_entropy if kind == "ce" else torch.nn.functional.mse_loss

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = criterion(w.forward(TensorOps(params, states), params, x), y, reduction=reduction)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if mode == "jit":
        return torch.jit(train), float

    def step(x: np.ndarray, y: np.ndarray) -> Any:
        return train(torch.from_numpy(x), torch.from_numpy(y))

    return step, float


def build(
    w: Any,
    mode: str,
    threads: int,
) -> tuple[Callable[[np.ndarray, np.ndarray], Any], Callable[[Any], float]]:
    """The step of a workload, and a function that reads its loss."""
    if mode != "step":
        return _of_tensors(w, mode, threads)
    trainer = Trainer(module_of(w), threads=threads)
    trainer.load_params(named(w.params))
    trainer.load_states(named(w.states))
    return trainer.update, float
