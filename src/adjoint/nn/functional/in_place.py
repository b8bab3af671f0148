"""Activation functions that give their operand the result, with PyTorch's names: ``relu_(x)``."""

from collections.abc import Callable
from typing import Any

from adjoint.nn.functional import activations

__all__ = ["celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_"]


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with ``inplace=True``."""

    def apply(input: Any, *settings: Any, **keywords: Any) -> Any:
        return function(input, *settings, **keywords, inplace=True)

    apply.__name__ = apply.__qualname__ = f"{function.__name__}_"
    apply.__doc__ = f"`{function.__name__}` in place: the operand gets the result, which is returned."
    return apply


celu_ = _in_place(activations.celu)
elu_ = _in_place(activations.elu)
hardtanh_ = _in_place(activations.hardtanh)
leaky_relu_ = _in_place(activations.leaky_relu)
relu_ = _in_place(activations.relu)
rrelu_ = _in_place(activations.rrelu)
selu_ = _in_place(activations.selu)
threshold_ = _in_place(activations.threshold)
