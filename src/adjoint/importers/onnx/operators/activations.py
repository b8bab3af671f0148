"""Activations, softmax and dropout."""

from typing import Any

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, axis_of, plain
from adjoint.nn import functional
from adjoint.tensor import arithmetic, comparison
from adjoint.tensor.comparison import where
from adjoint.tensor.creation import ones_like

__all__ = ["ACTIVATIONS"]


def _hard_sigmoid(node: Node, x: Array) -> Array:
    return arithmetic.clamp(x * node.attrs["alpha"] + node.attrs["beta"], 0.0, 1.0)


def _selu(node: Node, x: Array) -> Array:
    alpha, gamma = node.attrs["alpha"], node.attrs["gamma"]
    return functional.elu(x, alpha) * gamma


def _thresholded(node: Node, x: Array) -> Array:
    return where(x > node.attrs["alpha"], x, 0.0)


def _shrink(node: Node, x: Array) -> Array:
    bias, limit = node.attrs["bias"], node.attrs["lambd"]
    return where(x < -limit, x + bias, where(x > limit, x - bias, 0.0))


def _prelu(_node: Node, x: Array, slope: Array) -> Array:
    return where(x < 0.0, x * slope, x)


def _gelu(node: Node, x: Array) -> Array:
    return functional.gelu(x, approximate=node.attrs["approximate"])


def _swish(node: Node, x: Array) -> Array:
    alpha = node.attrs["alpha"]
    return functional.silu(x) if alpha == 1.0 else x * functional.sigmoid(x * alpha)


def _softmax(function: Any) -> Rule:
    def computed(node: Node, x: Array) -> Array:
        return function(x, axis_of(node, node.attrs["axis"], len(x.shape)))

    return Rule(computed)


def _hardmax(node: Node, x: Array) -> Array:
    axis = axis_of(node, node.attrs["axis"], len(x.shape))
    return functional.one_hot(x.argmax(axis), x.shape[axis]).movedim(-1, axis).to(x.dtype)


def _dropout(node: Node, x: Array, ratio: Any = None, mode: Any = None, *, training: bool) -> Any:  # noqa: ARG001
    """Training drops elements, whatever the file says: models are mostly exported for inference."""
    y = functional.dropout(x, 0.5 if ratio is None else float(ratio), training)
    return (y, comparison.ne(y, 0.0) if training else ones_like(x).to("bool")) if len(node.outputs) > 1 else y


ACTIVATIONS: Table = {
    "Celu": Rule(lambda node, x: functional.celu(x, node.attrs["alpha"])),
    "Dropout": Rule(_dropout, known=frozenset({1, 2}), mode=True),
    "Elu": Rule(lambda node, x: functional.elu(x, node.attrs["alpha"])),
    "Gelu": Rule(_gelu),
    "HardSigmoid": Rule(_hard_sigmoid),
    "HardSwish": plain(functional.hardswish),
    "Hardmax": Rule(_hardmax),
    "LeakyRelu": Rule(lambda node, x: functional.leaky_relu(x, node.attrs["alpha"])),
    "LogSoftmax": _softmax(functional.log_softmax),
    "Mish": plain(functional.mish),
    "PRelu": Rule(_prelu),
    "Relu": plain(functional.relu),
    "Selu": Rule(_selu),
    "Shrink": Rule(_shrink),
    "Sigmoid": plain(functional.sigmoid),
    "Softmax": _softmax(functional.softmax),
    "Softplus": plain(functional.softplus),
    "Softsign": plain(functional.softsign),
    "Swish": Rule(_swish),
    "Tanh": plain(functional.tanh),
    "ThresholdedRelu": Rule(_thresholded),
}
