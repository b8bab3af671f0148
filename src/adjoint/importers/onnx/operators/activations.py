"""Activations, softmax and dropout."""

from typing import Any

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, axis_of, plain
from adjoint.nn import functional as F
from adjoint.tensor import arithmetic, comparison
from adjoint.tensor.comparison import where
from adjoint.tensor.creation import ones_like

__all__ = ["ACTIVATIONS"]


def _hard_sigmoid(node: Node, x: Array) -> Array:
    return arithmetic.clamp(x * node.attrs["alpha"] + node.attrs["beta"], 0.0, 1.0)


def _selu(node: Node, x: Array) -> Array:
    alpha, gamma = node.attrs["alpha"], node.attrs["gamma"]
    return F.elu(x, alpha) * gamma


def _thresholded(node: Node, x: Array) -> Array:
    return where(x > node.attrs["alpha"], x, 0.0)


def _shrink(node: Node, x: Array) -> Array:
    bias, limit = node.attrs["bias"], node.attrs["lambd"]
    return where(x < -limit, x + bias, where(x > limit, x - bias, 0.0))


def _prelu(_node: Node, x: Array, slope: Array) -> Array:
    return where(x < 0.0, x * slope, x)


def _gelu(node: Node, x: Array) -> Array:
    return F.gelu(x, approximate=node.attrs["approximate"])


def _swish(node: Node, x: Array) -> Array:
    alpha = node.attrs["alpha"]
    return F.silu(x) if alpha == 1.0 else x * F.sigmoid(x * alpha)


def _softmax(function: Any) -> Rule:
    def computed(node: Node, x: Array) -> Array:
        return function(x, axis_of(node, node.attrs["axis"], len(x.shape)))

    return Rule(computed)


def _hardmax(node: Node, x: Array) -> Array:
    axis = axis_of(node, node.attrs["axis"], len(x.shape))
    return F.one_hot(x.argmax(axis), x.shape[axis]).movedim(-1, axis).to(x.dtype)


def _dropout(node: Node, x: Array, ratio: Any = None, mode: Any = None, *, training: bool) -> Any:  # noqa: ARG001
    """Training drops elements, whatever the file says: models are mostly exported for inference."""
    y = F.dropout(x, 0.5 if ratio is None else float(ratio), training)
    return (y, comparison.ne(y, 0.0) if training else ones_like(x).to("bool")) if len(node.outputs) > 1 else y


ACTIVATIONS: Table = {
    "Celu": Rule(lambda node, x: F.celu(x, node.attrs["alpha"])),
    "Dropout": Rule(_dropout, known=frozenset({1, 2}), mode=True),
    "Elu": Rule(lambda node, x: F.elu(x, node.attrs["alpha"])),
    "Gelu": Rule(_gelu),
    "HardSigmoid": Rule(_hard_sigmoid),
    "HardSwish": plain(F.hardswish),
    "Hardmax": Rule(_hardmax),
    "LeakyRelu": Rule(lambda node, x: F.leaky_relu(x, node.attrs["alpha"])),
    "LogSoftmax": _softmax(F.log_softmax),
    "Mish": plain(F.mish),
    "PRelu": Rule(_prelu),
    "Relu": plain(F.relu),
    "Selu": Rule(_selu),
    "Shrink": Rule(_shrink),
    "Sigmoid": plain(F.sigmoid),
    "Softmax": _softmax(F.softmax),
    "Softplus": plain(F.softplus),
    "Softsign": plain(F.softsign),
    "Swish": Rule(_swish),
    "Tanh": plain(F.tanh),
    "ThresholdedRelu": Rule(_thresholded),
}
