"""`mindspore.common.initializer`: what fills parameters, through `adjoint.nn.init`."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

from adjoint.compat.uncovered import uncovered
from adjoint.errors import NameLookupError
from adjoint.nn import init
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.creation import full
from adjoint.tensor.tensor import Tensor

__all__ = [
    "Constant",
    "HeNormal",
    "HeUniform",
    "Initializer",
    "Normal",
    "One",
    "Orthogonal",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "Zero",
    "initializer",
]


class Initializer:
    """Base class: a subclass passes the function that fills a tensor in place."""

    def __init__(self, fill: Callable[[Tensor], Any]) -> None:
        self._fill = fill

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Tensor:
        """A filled tensor."""
        made: Tensor = full(tuple(shape), 0.0, dtype="f32" if dtype is None else dtype)
        with no_grad():
            self._fill(made)
        return made


class Zero(Initializer):
    """Zeros."""

    def __init__(self) -> None:
        super().__init__(init.zeros_)


class One(Initializer):
    """Ones."""

    def __init__(self) -> None:
        super().__init__(init.ones_)


class Constant(Initializer):
    """A number everywhere."""

    def __init__(self, value: float) -> None:
        super().__init__(lambda x: init.constant_(x, value))


class Normal(Initializer):
    """``Normal(sigma=0.01, mean=0.0)``."""

    def __init__(self, sigma: float = 0.01, mean: float = 0.0) -> None:
        super().__init__(lambda x: init.normal_(x, mean, sigma))


class TruncatedNormal(Initializer):
    """``TruncatedNormal(sigma=0.01, mean=0.0, a=-2.0, b=2.0)``, cut at `a` and `b` standard deviations."""

    def __init__(self, sigma: float = 0.01, mean: float = 0.0, a: float = -2.0, b: float = 2.0) -> None:
        super().__init__(lambda x: init.trunc_normal_(x, mean, sigma, mean + a * sigma, mean + b * sigma))


class Uniform(Initializer):
    """``Uniform(scale=0.07)``, from ``-scale`` to ``scale``."""

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(lambda x: init.uniform_(x, -scale, scale))


class XavierUniform(Initializer):
    """``XavierUniform(gain=1)``."""

    def __init__(self, gain: float = 1) -> None:
        super().__init__(lambda x: init.xavier_uniform_(x, gain))


class XavierNormal(Initializer):
    """``XavierNormal(gain=1)``."""

    def __init__(self, gain: float = 1) -> None:
        super().__init__(lambda x: init.xavier_normal_(x, gain))


class HeUniform(Initializer):
    """``HeUniform(negative_slope=0, mode="fan_in", nonlinearity="leaky_relu")``."""

    def __init__(self, negative_slope: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> None:
        super().__init__(lambda x: init.kaiming_uniform_(x, negative_slope, mode, nonlinearity))


class HeNormal(Initializer):
    """``HeNormal(negative_slope=0, mode="fan_in", nonlinearity="leaky_relu")``."""

    def __init__(self, negative_slope: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> None:
        super().__init__(lambda x: init.kaiming_normal_(x, negative_slope, mode, nonlinearity))


class Orthogonal(Initializer):
    """``Orthogonal(gain=1.0)``."""

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__(lambda x: init.orthogonal_(x, gain))


#: The initializers that strings mean.
_BY_NAME: dict[str, Callable[[], Initializer]] = {
    "zeros": Zero,
    "zero": Zero,
    "ones": One,
    "one": One,
    "normal": Normal,
    "uniform": Uniform,
    "truncatednormal": TruncatedNormal,
    "xavier_uniform": XavierUniform,
    "xavieruniform": XavierUniform,
    "xavier_normal": XavierNormal,
    "he_uniform": HeUniform,
    "heuniform": HeUniform,
    "he_normal": HeNormal,
    "henormal": HeNormal,
    "orthogonal": Orthogonal,
}


def initializer(init: Any, shape: int | Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """A tensor filled by an initializer, given as an object, a name or a number; a tensor as it is.

    Raises
    ------
    NameLookupError
        If no initializer has the name.
    """
    if isinstance(init, Tensor):
        return init
    sizes = (shape,) if isinstance(shape, int) else tuple(shape or ())
    if isinstance(init, str):
        made = _BY_NAME.get(init.lower())
        if made is None:
            raise NameLookupError(f"initializer: none is called {init!r}; choose one of {', '.join(_BY_NAME)}")
        return made()(sizes, dtype)
    if isinstance(init, int | float):
        return Constant(init)(sizes, dtype)
    filled: Tensor = init(sizes, dtype)
    return filled


def defaults(fan_in: int) -> tuple[Initializer, Initializer]:
    """The initial values of weight and bias of dense layers and convolutions without others."""
    return HeUniform(sqrt(5)), Uniform(1 / sqrt(fan_in) if fan_in else 0.0)


__getattr__ = uncovered(__name__, {}, "adjoint.nn.init")
