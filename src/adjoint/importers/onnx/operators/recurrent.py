"""Recurrent layers."""

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, refuse
from adjoint.nn.functional.recording import recorded
from adjoint.nn.functional.recurrent import recurrent_layer
from adjoint.tensor import joining
from adjoint.tensor.creation import zeros

__all__ = ["RECURRENT"]

#: For each operator, where adjoint's gates (i, f, g, o of an LSTM; r, z, n of a GRU) are among those of ONNX.
_GATES = {"RNN": (0,), "LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}

#: The activations that each operator computes with.
_ACTIVATIONS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh")}


def _kind(node: Node, count: int) -> str:
    """The kind of adjoint's layer; raises for what it does not compute."""
    given = tuple(name.lower() for name in node.attrs.get("activations", ()))
    if node.attrs.get("clip"):
        raise refuse(node, "must not clip", node.attrs["clip"])
    if node.op == "RNN":
        given = given or ("tanh",) * count
        if set(given) not in ({"tanh"}, {"relu"}):
            raise refuse(node, "must have the activation Tanh or Relu", list(given))
        return f"rnn_{given[0]}"
    if given and given != _ACTIVATIONS[node.op] * count:
        raise refuse(node, "must have its usual activations", list(given))
    if node.op == "GRU" and not node.attrs["linear_before_reset"]:
        raise refuse(node, "must apply the reset gate after the product, as PyTorch does", "linear_before_reset=0")
    if node.attrs.get("input_forget"):
        raise refuse(node, "must have a forget gate of its own", "input_forget=1")
    return node.op.lower()


@recorded
def _reordered(weight: Array, gates: Sequence[int], number: int, start: int, size: int) -> Array:
    """The gates of a direction's weight, or of one of its biases, in adjoint's order."""
    own = ops.slice_axis(weight, 0, number, number + 1)
    parts = [ops.slice_axis(own, 1, start + n * size, start + (n + 1) * size) for n in gates]
    return ops.reshape(ops.concat(*parts, axis=1), (len(gates) * size, *weight.shape[2:]))


def _layer(
    node: Node,
    x: Array,
    weight: Array,
    recurrence: Array,
    bias: Array = None,
    lengths: Array = None,
    hidden: Array = None,
    cell: Array = None,
    peephole: Array = None,
) -> tuple[Array, ...]:
    if peephole is not None:
        raise refuse(node, "must have no peepholes", "some")
    count, size = weight.shape[0], recurrence.shape[-1]
    kind, gates = _kind(node, count), _GATES[node.op]
    first = bool(node.attrs.get("layout"))
    x = x.transpose(0, 1) if first else x
    states = [hidden, cell] if node.op == "LSTM" else [hidden]
    made = []
    for n in range(count):
        own, state_weight = (_reordered(one, gates, n, 0, size) for one in (weight, recurrence))
        first_bias, second_bias = (
            None if bias is None else _reordered(bias, gates, n, at, size) for at in (0, len(gates) * size)
        )
        state = [_initial(x, one, n, size, first) for one in states]
        reverse = n == 1 or node.attrs["direction"] == "reverse"
        steps = None if lengths is None else lengths.to("i64")
        made.append(
            recurrent_layer(kind, x, state, own, state_weight, first_bias, second_bias, lengths=steps, reverse=reverse)
        )
    return _results(made, first)[: len(node.outputs)]


def _initial(x: Array, given: Array, direction: int, size: int, first: bool) -> Array:
    if given is None:
        return zeros((x.shape[1], size), dtype=x.dtype)
    return given[:, direction] if first else given[direction]


def _results(made: list[tuple[Any, ...]], first: bool) -> tuple[Any, ...]:
    """The hidden states of all steps, and the last states, of all directions."""
    outputs = joining.stack([one[0] for one in made], 1)
    last = [joining.stack([one[n] for one in made], 0) for n in range(1, len(made[0]))]
    if first:
        return (outputs.permute((2, 0, 1, 3)), *(one.transpose(0, 1) for one in last))
    return (outputs, *last)


RECURRENT: Table = {"GRU": Rule(_layer), "LSTM": Rule(_layer), "RNN": Rule(_layer)}
