"""TVM: SetupTrainer and Trainer of relax.training, with tvm.compile's default pipeline.

Replacements for what is missing or fails: the gradient of erf, AdamW, and an Adam that NumPy accepts.
"""

from collections.abc import Callable, Mapping, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op
from tvm.relax.op._op_gradient import register_gradient
from tvm.relax.training import SetupTrainer, Trainer
from tvm.relax.training.loss import CrossEntropyLoss, MSELoss
from tvm.relax.training.optimizer import SGD, Adam, MomentumSGD

MODES = ("trainer",)
INT = "int32"

Variables = dict[str, relax.Var]


def _constant(value: float) -> relax.Expr:
    return relax.const(value, "float32")


class Ops:
    """The operators of workloads, emitted by a builder; `new` collects new running statistics of batch
    normalization."""

    def __init__(self, builder: relax.BlockBuilder, params: Variables, states: Variables) -> None:
        self.emit, self.params, self.states, self.new = builder.emit, params, states, dict[str, Any]()

    def linear(self, x: Any, w: Any, b: Any) -> Any:
        y = self.emit(op.matmul(x, w))
        return y if b is None else self.add(y, b)

    def relu(self, x: Any) -> Any:
        return self.emit(op.nn.relu(x))

    def gelu(self, x: Any) -> Any:
        erf = self.emit(op.erf(self._scaled(x, sqrt(0.5))))
        return self.emit(op.multiply(self._scaled(x, 0.5), self.emit(op.add(erf, _constant(1.0)))))

    def add(self, a: Any, b: Any) -> Any:
        return self.emit(op.add(a, b))

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return self.emit(op.reshape(x, shape))

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        return self.emit(op.permute_dims(x, list(axes)))

    def conv(self, x: Any, w: Any, b: Any, stride: int, pad: int) -> Any:
        y = self.emit(op.nn.conv2d(x, w, strides=stride, padding=pad))
        return y if b is None else self.add(y, self.reshape(b, (1, b.ty.shape[0], 1, 1)))

    def maxpool2(self, x: Any) -> Any:
        return self.emit(op.nn.max_pool2d(x, (2, 2), (2, 2)))

    def avgpool(self, x: Any) -> Any:
        return self.emit(op.mean(x, [2, 3]))

    def flatten(self, x: Any) -> Any:
        return self.reshape(x, (x.ty.shape[0], -1))

    def batchnorm(self, x: Any, name: str) -> Any:
        scale, shift = self.params[f"{name}.g"], self.params[f"{name}.b"]
        running = self.states[f"{name}.mean"], self.states[f"{name}.var"]
        parts = self.emit(op.nn.batch_norm(x, scale, shift, *running, axis=1, epsilon=1e-5, momentum=0.1))
        y, self.new[f"{name}.mean"], self.new[f"{name}.var"] = self._parts(parts)
        return y

    def embed(self, table: Any, ids: Any) -> Any:
        rows, columns = ids.ty.shape  # the gradient of take requires one-dimensional indices
        taken = self.emit(op.take(table, self.reshape(ids, (rows * columns,)), axis=0))
        return self.reshape(taken, (rows, columns, -1))

    def pos(self, table: Any, ids: Any) -> Any:  # noqa: ARG002
        return table

    def layernorm(self, x: Any, g: Any) -> Any:
        centred = self.emit(op.subtract(x, op.mean(x, -1, keepdims=True)))
        var = self.emit(op.mean(op.multiply(centred, centred), -1, keepdims=True))
        normed = self.emit(op.divide(centred, op.sqrt(op.add(var, _constant(1e-5)))))
        return self.emit(op.multiply(normed, g))

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        tokens, width = int(q.ty.shape[2]), int(q.ty.shape[3])
        unseen = relax.const(np.triu(np.full((tokens, tokens), -1e9, np.float32), 1))
        scores = self._scaled(self.emit(op.matmul(q, self.transpose(k, (0, 1, 3, 2)))), width**-0.5)
        return self.emit(op.matmul(self.emit(op.nn.softmax(self.add(scores, unseen))), v))

    def split3(self, x: Any) -> list[Any]:
        return self._parts(self.emit(op.split(x, 3, -1)))

    def head(self, x: Any, table: Any) -> Any:
        return self.linear(x, self.transpose(table, (1, 0)), None)

    def _scaled(self, x: Any, by: float) -> Any:
        return self.emit(op.multiply(x, _constant(by)))

    def _parts(self, x: Any) -> list[Any]:
        return [self.emit(relax.TupleGetItem(x, i)) for i in range(3)]


class _Adam(Adam):
    """Adam with the dtype given by name, because NumPy rejects the type that `Adam.init` passes to it."""

    def _set_params_and_dtype(self, params: Any) -> None:
        super()._set_params_and_dtype(params)
        self.dtype = "float32"


class _AdamW(_Adam):
    """Adam with decoupled weight decay: parameters are first scaled by 1 - lr * weight_decay."""

    def __init__(self, lr: float, betas: tuple[float, float], eps: float, decay: float) -> None:
        super().__init__(lr, betas, eps)
        self.shrink = 1 - lr * decay

    def get_function(self) -> relax.Function:
        adam = super().get_function()
        builder = relax.BlockBuilder()
        arguments = [relax.Var(v.name, v.ty) for v in adam.params]
        inner = builder.add_func(adam.with_attr("global_symbol", "adam"), "adam")
        with builder.function(self.name, arguments):
            with builder.dataflow():
                params = [builder.emit(relax.TupleGetItem(arguments[0], i)) for i in range(len(self.param_list))]
                shrunk = [builder.emit(op.multiply(p, _constant(self.shrink))) for p in params]
                out = builder.emit_output(relax.Call(inner, [relax.Tuple(shrunk), *arguments[1:]]))
            builder.emit_func_output(out)
        module = builder.get()
        return module[self.name].inline_functions({"adam": module["adam"]})


def _optimizer(settings: Mapping[str, Any]) -> Any:
    lr, decay = settings["lr"], settings.get("wd", 0.0)
    if settings["kind"] == "adam":
        return _Adam(lr, settings["betas"], settings["eps"])
    if settings["kind"] == "adamw":
        return _AdamW(lr, settings["betas"], settings["eps"], decay)
    if "momentum" in settings:
        return MomentumSGD(lr, settings["momentum"], weight_decay=decay)
    return SGD(lr, decay)


def _erf_gradient(_: Any, call: relax.Call, cotangent: Any, __: Any) -> list[Any]:
    x = call.args[0]
    slope = op.multiply(_constant(2 / sqrt(pi)), op.exp(op.negative(op.multiply(x, x))))
    return [op.multiply(cotangent, slope)]


def _backbone(w: Any) -> tuple[tvm.IRModule, Any]:
    """The network as a module, and the type of its result."""

    def variables(arrays: Mapping[str, np.ndarray]) -> Variables:
        types = {name: relax.TensorType(a.shape, str(a.dtype)) for name, a in arrays.items()}
        return {name: relax.Var(name.replace(".", "_"), kind) for name, kind in types.items()}

    params, states, x = variables(w.params), variables(w.states), variables({"x": w.batches[0][0]})["x"]
    builder = relax.BlockBuilder()
    o = Ops(builder, params, states)
    with builder.function("backbone", [x, *params.values(), *states.values()]):
        with builder.dataflow():
            out = w.forward(o, params, x)
            results = [builder.emit_output(value) for value in (out, *(o.new[name] for name in states))]
        builder.emit_func_output(relax.Tuple(results) if states else results[0])
    return builder.get().with_attrs({"param_num": len(params), "state_num": len(states)}), out.ty


def build(w: Any, mode: str, threads: int) -> tuple[Callable[..., Any], Callable[[Any], float]]:  # noqa: ARG001
    """The step of a workload, and a function that reads its loss."""
    register_gradient("relax.erf", _erf_gradient)
    module, out = _backbone(w)
    kind, reduction = w.loss.split("_")
    labels = w.batches[0][1]
    loss = (CrossEntropyLoss if kind == "ce" else MSELoss)(reduction)
    setup = SetupTrainer(loss, _optimizer(w.opt), [out, relax.TensorType(labels.shape, str(labels.dtype))])
    module = setup(module)
    cpu = tvm.get_global_func("target.llvm_get_system_cpu")()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": threads})
    device = tvm.cpu()
    trainer = Trainer(module, relax.VirtualMachine(tvm.compile(module, target), device), device, False)
    trainer.load_params(list(w.params.values()))
    trainer.load_states(list(w.states.values()))
    return trainer.update, lambda value: float(value.numpy())
