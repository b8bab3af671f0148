"""A table of a model's layers: shapes of their results, parameters and floating-point operations."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import Value, is_float
from adjoint.lazy_dataclass import dataclass
from adjoint.modules import Module
from adjoint.ops.attention import Attention
from adjoint.ops.contract import MatMul
from adjoint.ops.convolution import Conv2d
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.structure import Node
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import Trace, growing, state

__all__ = ["Layer", "Summary", "summary"]


@dataclass(frozen=True)
class Layer:
    """One call of a module.

    Attributes
    ----------
    name : str
        Its dotted name; "" for the model.
    kind : str
        Name of its class.
    depth : int
        How many modules it is in.
    result : str
        Types of its results.
    parameters : int
        Number of elements of its parameters, those of its submodules included; 0 if it has been called before.
    flops : int
        Floating-point operations of the call: two per multiplication with an addition in matrix products and
        convolutions, and one per element of the results of other operations.
    """

    name: str
    kind: str
    depth: int
    result: str
    parameters: int
    flops: int


@dataclass(frozen=True)
class Summary:
    """The calls of a model's modules, and its totals. Its text is a table.

    Attributes
    ----------
    layers : tuple of Layer
        The calls in order; the first one is that of the model.
    parameters, trainable : int
        Number of elements of all parameters, and of those that require a gradient.
    buffers : int
        Number of elements of all buffers.
    """

    layers: tuple[Layer, ...]
    parameters: int
    trainable: int
    buffers: int

    @property
    def flops(self) -> int:
        """Floating-point operations of one call of the model."""
        return self.layers[0].flops

    def __str__(self) -> str:
        rows = [("layer", "result", "parameters", "FLOPs")]
        for layer in self.layers:
            name = layer.name.rpartition(".")[2]
            title = f"{'  ' * layer.depth}{f'({name}) ' if name else ''}{layer.kind}"
            rows.append((title, layer.result, f"{layer.parameters:,}", f"{layer.flops:,}"))
        widths = [max(len(row[n]) for row in rows) for n in range(4)]
        lines = [
            f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}"
            for row in rows
        ]
        lines.insert(1, "-" * len(lines[0]))
        fixed = self.parameters - self.trainable
        total = (
            f"{self.parameters:,} parameters ({self.trainable:,} trained, {fixed:,} fixed), {self.buffers:,} in buffers"
        )
        return "\n".join([*lines, lines[1], total])

    def __repr__(self) -> str:
        return str(self)


def summary(model: Module, *inputs: Any, **keywords: Any) -> Summary:
    """The layers of a model, with the shapes of their results, parameters and floating-point operations.

    The model's `forward` runs once, in the mode of `eval` and without anything being computed.

    Parameters
    ----------
    model : Module
        The model.
    *inputs : Tensor, tuple of int or object
        The arguments of `forward`; a tuple of integers stands for f32 zeros of that shape.
    **keywords
        The keyword arguments of `forward`.

    Raises
    ------
    TypeRuleError
        If it is not a module.
    InvalidValueError
        If `forward` reads the elements of a tensor.
    """
    if not isinstance(model, Module):
        raise TypeRuleError(f"summary: the model must be a module, got {kind_of(model)}; pass an nn.Module")
    args = [from_array(np.zeros(x, np.float32)) if _is_shape(x) else x for x in inputs]
    calls: list[_Call] = []
    with _aside(model) as trace, no_grad(), _watched(model, calls):
        model(*args, **keywords)
        ended = state.trace is not trace or trace.done
        flops = _flops_before(trace.node)
    if ended:
        raise InvalidValueError(
            f"summary: forward must not read the elements of a tensor, which {type(model).__name__} does; call the "
            "layers instead"
        )
    seen: set[int] = set()
    layers = []
    for call in calls:
        layers.append(
            Layer(
                call.name,
                type(call.module).__name__,
                call.depth,
                call.result,
                0 if id(call.module) in seen else sum(prod(p.shape) for p in call.module.parameters()),
                flops[call.stop] - flops[call.start],
            )
        )
        seen.add(id(call.module))
    sizes = [(prod(p.shape), p.requires_grad) for p in model.parameters()]
    trainable = sum(size for size, trained in sizes if trained)
    return Summary(tuple(layers), sum(s for s, _ in sizes), trainable, sum(prod(b.shape) for b in model.buffers()))


def _is_shape(given: Any) -> bool:
    return isinstance(given, tuple | list) and all(type(n) is int for n in given)


class _Call:
    """A call of a module: its place among the recorded operations."""

    def __init__(self, name: str, module: Module, depth: int) -> None:
        self.name, self.module, self.depth = name, module, depth
        self.start: int = state.trace.node.depth
        self.stop: int = self.start
        self.result = ""


@contextmanager
def _aside(model: Module) -> Iterator[Trace]:
    """Record what follows in a trace of its own, which is forgotten; the model predicts in it."""
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.elements()
    modes = [(module, module.training) for module in model.modules()]
    kept = state.trace
    trace = state.trace = Trace(growing.root, state.grad)
    model.eval()
    try:
        yield trace
    finally:
        state.trace = kept
        for tensor, storage in zip(trace.entered, trace.storages, strict=True):
            if tensor is not None:  # undo changes in place
                tensor._storage, tensor._trace = storage, None
        for module, mode in modes:
            object.__setattr__(module, "training", mode)


@contextmanager
def _watched(model: Module, calls: list[_Call]) -> Iterator[None]:
    """Note every call of a module in the model."""
    open_calls: list[_Call] = []
    names = {id(module): name for name, module in model.named_modules()}

    def before(module: Module, _args: Any) -> None:
        call = _Call(names[id(module)], module, len(open_calls))
        calls.append(call)
        open_calls.append(call)

    def after(_module: Module, _args: Any, result: Any) -> None:
        call = open_calls.pop()
        call.stop = state.trace.node.depth
        call.result = ", ".join(str(one._spec.type) for one in _tensors(result))

    handles = []
    for module in model.modules():
        handles += [
            module.register_forward_pre_hook(before, prepend=True),
            module.register_forward_hook(after),
        ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        yield from _tensors(list(result.values()))
    elif isinstance(result, Sequence) and not isinstance(result, str):
        for one in result:
            yield from _tensors(one)


def _flops_before(last: Node) -> list[int]:
    """For each number of entries of a program: the floating-point operations up to there."""
    totals = [0]
    seen: set[Value] = set()
    for node in last.path():
        found = 0
        stack = [n.value for n in (node, *node.items) if n.value is not None]
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            found += _flops(value)
            stack.extend(value.inputs)
        totals.append(totals[-1] + found)
    return totals[1:]


def _flops(value: Value) -> int:
    op = value.op
    if not value.inputs or not is_float(value.dtype):
        return 0
    size: int = value.type.size
    if isinstance(op, MatMul):
        return 2 * size * value.inputs[0].shape[-2 if op.transpose_a else -1]
    if isinstance(op, Conv2d):
        return 2 * size * prod(value.inputs[1].shape[1:])
    if isinstance(op, Attention):
        q, k, v = value.inputs
        return 2 * prod(q.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])
    return 0 if op.name in _MOVES else size


#: Operations that only move elements.
_MOVES = frozenset(
    ("after", "broadcast_to", "cast", "concat", "flip", "pad", "permute", "reshape", "slice", "stop_gradient", "take")
)
