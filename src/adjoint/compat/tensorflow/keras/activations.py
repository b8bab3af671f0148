"""Activations, by name and as functions."""

from collections.abc import Callable
from typing import Any

from adjoint.compat.tensorflow import nn
from adjoint.compat.tensorflow.mathematics import exp, sigmoid, softplus, tanh
from adjoint.compat.uncovered import uncovered
from adjoint.errors import NameLookupError
from adjoint.nn import functional
from adjoint.tensor.tensor import Tensor

__all__ = [
    "elu", "exponential", "gelu", "get", "hard_sigmoid", "leaky_relu", "linear", "log_softmax", "relu", "selu",
    "sigmoid", "silu", "softmax", "softplus", "softsign", "swish", "tanh",
]  # fmt: skip
__getattr__ = uncovered(__name__, {}, "adjoint.nn.functional")

relu, elu, selu, silu, swish = nn.relu, nn.elu, nn.selu, nn.silu, nn.swish
gelu, softmax, log_softmax, leaky_relu, exponential = nn.gelu, nn.softmax, nn.log_softmax, nn.leaky_relu, exp


def linear(x: Tensor) -> Tensor:
    """``x``."""
    return x


def softsign(x: Tensor) -> Any:
    """``x / (1 + abs(x))``."""
    return functional.softsign(x)


def hard_sigmoid(x: Tensor) -> Any:
    """``x / 6 + 0.5``, limited to 0 and 1."""
    return functional.hardsigmoid(x)


_BY_NAME: dict[str | None, Callable[..., Tensor]] = {
    None: linear, "linear": linear, "relu": relu, "elu": elu, "selu": selu, "silu": silu, "swish": swish, "gelu": gelu,
    "softmax": softmax, "log_softmax": log_softmax, "leaky_relu": leaky_relu, "exponential": exponential,
    "sigmoid": sigmoid, "tanh": tanh, "softplus": softplus, "softsign": softsign, "hard_sigmoid": hard_sigmoid,
}  # fmt: skip


def get(identifier: Any) -> Callable[..., Tensor]:
    """The activation of a name; functions are returned as they are."""
    if callable(identifier):
        found: Callable[..., Tensor] = identifier
        return found
    if identifier not in _BY_NAME:
        names = ", ".join(str(name) for name in _BY_NAME)
        raise NameLookupError(f"there is no activation {identifier!r}; known ones: {names}")
    return _BY_NAME[identifier]
