"""MindSpore: jit of the whole step as one graph.

Its compiler reads the source code of functions and rejects most of Python. So the network is first written as source
code without loops and objects, which is then imported.
"""

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.experimental import optim as experimental

MODES = ("jit",)
INT = "int32"

#: Its Adam, a single kernel, adds eps before the bias correction.
TOLERANCES = {"bigmlp": 5e-4}


class Ops:
    """The operators of workloads; values are names of variables in the generated source."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def _write(self, expression: str) -> str:
        self.lines.append(f"v{len(self.lines)} = {expression}")
        return f"v{len(self.lines) - 1}"

    def linear(self, x: str, w: str, b: str | None) -> str:
        return self._write(f"ops.matmul({x}, {w})" + (f" + {b}" if b else ""))

    def relu(self, x: str) -> str:
        return self._write(f"ops.relu({x})")

    def gelu(self, x: str) -> str:
        return self._write(f"ops.gelu({x}, approximate='none')")

    def add(self, a: str, b: str) -> str:
        return self._write(f"{a} + {b}")

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self._write(f"ops.reshape({x}, {tuple(shape)})")

    def transpose(self, x: str, axes: Sequence[int]) -> str:
        return self._write(f"ops.transpose({x}, {tuple(axes)})")

    def conv(self, x: str, w: str, b: str | None, stride: int, pad: int) -> str:
        return self._write(f"ops.conv2d({x}, {w}, {b}, stride={stride}, pad_mode='pad', padding={pad})")

    def maxpool2(self, x: str) -> str:
        return self._write(f"ops.max_pool2d({x}, 2, 2)")

    def avgpool(self, x: str) -> str:
        return self._write(f"ops.mean({x}, (2, 3))")

    def flatten(self, x: str) -> str:
        return self._write(f"ops.flatten({x})")

    def batchnorm(self, x: str, name: str) -> str:
        parts = ", ".join(_variable(f"{name}.{part}") for part in ("mean", "var", "g", "b"))
        return self._write(f"ops.batch_norm({x}, {parts}, training=True, momentum=0.1, eps=1e-5)")

    def embed(self, table: str, ids: str) -> str:
        return self._write(f"ops.gather({table}, {ids}, 0)")

    def pos(self, table: str, ids: str) -> str:  # noqa: ARG002
        return table

    def layernorm(self, x: str, g: str) -> str:
        return self._write(f"layer_norm({x}, {g}, ops.zeros_like({g}))[0]")

    def attention(self, q: str, k: str, v: str) -> str:
        scores = self._write(f"ops.matmul({q}, ops.transpose({k}, (0, 1, 3, 2))) * (1 / {q}.shape[-1] ** 0.5)")
        return self._write(f"ops.matmul(ops.softmax({scores} + unseen, -1), {v})")

    def split3(self, x: str) -> list[str]:
        parts = self._write(f"ops.chunk({x}, 3, -1)")
        return [f"{parts}[{i}]" for i in range(3)]

    def head(self, x: str, table: str) -> str:
        return self._write(f"ops.matmul({x}, ops.transpose({table}, (1, 0)))")


def _variable(name: str) -> str:
    return "p_" + name.replace(".", "_")


def _written(w: Any, folder: Path) -> ModuleType:
    """The network as the function ``network(x)`` of a module that holds the parameters."""
    o = Ops()
    out = w.forward(o, {name: _variable(name) for name in w.params}, "x")
    path = folder / "network.py"
    path.write_text("\n    ".join(["from mindspore import ops\n\n\ndef network(x):", *o.lines, f"return {out}\n"]))
    spec = importlib.util.spec_from_file_location("benchmark_network", path)
    assert spec is not None  # because the path ends with .py
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where the compiler looks it up
    spec.loader.exec_module(module)
    for name, array in {**w.params, **w.states}.items():
        parameter = ms.Parameter(ms.Tensor(array), name=_variable(name), requires_grad=name in w.params)
        setattr(module, _variable(name), parameter)
    # The CPU backend lacks the kernel `ops.layer_norm`.
    vars(module)["layer_norm"] = ops.LayerNorm(-1, -1, 1e-5)
    if "wpe" in w.params:
        tokens = len(w.params["wpe"])
        vars(module)["unseen"] = ms.Tensor(np.triu(np.full((tokens, tokens), -1e9, np.float32), 1))
    return module


def _optimizer(settings: Mapping[str, Any], params: list[ms.Parameter]) -> Any:
    lr, decay = settings["lr"], settings.get("wd", 0.0)
    if settings["kind"] == "sgd":
        return nn.SGD(params, lr, settings.get("momentum", 0.0), weight_decay=decay)
    if settings["kind"] == "adam":
        return experimental.Adam(params, lr, settings["betas"], settings["eps"])
    return experimental.AdamW(params, lr, settings["betas"], settings["eps"], decay)


def build(w: Any, mode: str, threads: int) -> tuple[Callable[..., ms.Tensor], Callable[[ms.Tensor], float]]:  # noqa: ARG001
    """The step of a workload, and a function that reads its loss."""
    ms.set_device("CPU")
    ms.device_context.cpu.op_tuning.threads_num(threads)
    ms.set_context(mode=ms.GRAPH_MODE)
    folder = tempfile.TemporaryDirectory(prefix="adjoint-benchmark-")
    module = _written(w, Path(folder.name))
    network, params = module.network, [getattr(module, _variable(name)) for name in w.params]
    optimizer = _optimizer(w.opt, params)
    kind, reduction = w.loss.split("_")
    loss = ops.cross_entropy if kind == "ce" else ops.mse_loss

    def loss_of(x: ms.Tensor, y: ms.Tensor) -> ms.Tensor:
        return loss(network(x), y, reduction=reduction)

    gradient = ms.value_and_grad(loss_of, None, ms.ParameterTuple(params))

    @ms.jit
    def whole(x: ms.Tensor, y: ms.Tensor) -> ms.Tensor:
        value, grads = gradient(x, y)
        optimizer(grads)
        return value

    def step(x: np.ndarray, y: np.ndarray) -> ms.Tensor:
        assert folder  # kept as long as the step, because the compiler reads the source at the first call
        return whole(ms.Tensor(x), ms.Tensor(y))

    return step, lambda value: float(value.asnumpy())
