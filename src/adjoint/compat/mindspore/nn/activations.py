"""`mindspore.nn.layer.activation`: activations as cells, and by name."""

from typing import Any

from adjoint import nn as native
from adjoint.compat.mindspore.common.parameter import Parameter
from adjoint.compat.mindspore.common.tensor import Tensor
from adjoint.compat.mindspore.nn.cell import Cell
from adjoint.compat.uncovered import uncovered
from adjoint.errors import NameLookupError
from adjoint.nn import functional

__all__ = [
    "ELU",
    "GELU",
    "HSigmoid",
    "HSwish",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU6",
    "SeLU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
    "get_activation",
]


def _activation(name: str, module: Any) -> Any:
    """A cell that computes what a module of adjoint without settings does."""

    def construct(self: Any, x: Any) -> Any:
        """The function of each element."""
        return module.forward(self, x)

    def initialize(self: Any) -> None:
        module.__init__(self)

    body = {
        "__init__": initialize,
        "construct": construct,
        "__doc__": f"`adjoint.nn.{module.__name__}`.",
        "__module__": __name__,
    }
    return type(name, (Cell, module), body)


ReLU, ReLU6, SiLU, Mish = (_activation(m.__name__, m) for m in (native.ReLU, native.ReLU6, native.SiLU, native.Mish))
Sigmoid, Tanh, Softsign = (_activation(m.__name__, m) for m in (native.Sigmoid, native.Tanh, native.Softsign))
LogSigmoid, Softplus = _activation("LogSigmoid", native.LogSigmoid), _activation("Softplus", native.Softplus)
HSigmoid, HSwish = _activation("HSigmoid", native.Hardsigmoid), _activation("HSwish", native.Hardswish)
SeLU = _activation("SeLU", native.SELU)


class Softmax(Cell):
    """``Softmax(axis=-1)``."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Any) -> Any:
        """Probabilities along the axis."""
        return functional.softmax(x, self.axis)


class LogSoftmax(Cell):
    """``LogSoftmax(axis=-1)``."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Any) -> Any:
        """Logarithms of probabilities along the axis."""
        return functional.log_softmax(x, self.axis)


class GELU(Cell):
    """``GELU(approximate=True)``: with the hyperbolic tangent, or exact."""

    def __init__(self, approximate: bool = True) -> None:
        super().__init__()
        self.approximate = approximate

    def construct(self, x: Any) -> Any:
        """The function of each element."""
        return functional.gelu(x, "tanh" if self.approximate else "none")


class LeakyReLU(Cell):
    """``LeakyReLU(alpha=0.2)``."""

    def __init__(self, alpha: float = 0.2) -> None:
        super().__init__()
        self.alpha = alpha

    def construct(self, x: Any) -> Any:
        """The function of each element."""
        return functional.leaky_relu(x, self.alpha)


class ELU(Cell):
    """``ELU(alpha=1.0)``."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def construct(self, x: Any) -> Any:
        """The function of each element."""
        return functional.elu(x, self.alpha)


class PReLU(Cell):
    """``PReLU(channel=1, w=0.25)``."""

    def __init__(self, channel: int = 1, w: float = 0.25) -> None:
        super().__init__()
        self.w = Parameter(Tensor([w] * channel), "a")

    def construct(self, x: Any) -> Any:
        """The function of each element."""
        return functional.prelu(x, self.w)


_BY_NAME = {
    "softmax": Softmax,
    "logsoftmax": LogSoftmax,
    "relu": ReLU,
    "relu6": ReLU6,
    "tanh": Tanh,
    "gelu": GELU,
    "elu": ELU,
    "sigmoid": Sigmoid,
    "prelu": PReLU,
    "leakyrelu": LeakyReLU,
    "hswish": HSwish,
    "hsigmoid": HSigmoid,
    "logsigmoid": LogSigmoid,
    "softsign": Softsign,
    "silu": SiLU,
}


def get_activation(name: str) -> Any:
    """The activation of a name.

    Raises
    ------
    NameLookupError
        If there is none.
    """
    found = _BY_NAME.get(name)
    if found is None:
        raise NameLookupError(f"get_activation: none is called {name!r}; choose one of {', '.join(_BY_NAME)}")
    return found()


__getattr__ = uncovered(__name__, {}, "adjoint.nn")
