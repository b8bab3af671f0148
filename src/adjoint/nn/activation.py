"""Activation functions as modules; each calls the function of its name in `adjoint.nn.functional`."""

from collections.abc import Callable
from typing import Any

from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.parameters import filled, own_dtype

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Plain(Module):
    """A function without settings."""

    _function: Callable[..., Any]

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return type(self)._function(input)


class Sigmoid(_Plain):
    """``1 / (1 + exp(-input))``."""

    _function = staticmethod(F.sigmoid)


class Tanh(_Plain):
    """The hyperbolic tangent."""

    _function = staticmethod(F.tanh)


class LogSigmoid(_Plain):
    """``log(sigmoid(input))``."""

    _function = staticmethod(F.logsigmoid)


class Softsign(_Plain):
    """``input / (1 + abs(input))``."""

    _function = staticmethod(F.softsign)


class Tanhshrink(_Plain):
    """``input - tanh(input)``."""

    _function = staticmethod(F.tanhshrink)


class _Inplace(Module):
    """A function without settings that may be computed in place.

    Parameters
    ----------
    inplace : bool, default False
        Whether the input gets the result too.
    """

    _function: Callable[..., Any]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        function = type(self)._function
        return function(input, inplace=True) if self.inplace else function(input)

    def extra_repr(self) -> str:
        """Whether it is computed in place."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """``max(input, 0)``; with ``inplace=True``, the input gets the result too."""

    _function = staticmethod(F.relu)


class ReLU6(_Inplace):
    """``min(max(input, 0), 6)``; with ``inplace=True``, the input gets the result too."""

    _function = staticmethod(F.relu6)


class SiLU(_Inplace):
    """``input * sigmoid(input)``; with ``inplace=True``, the input gets the result too."""

    _function = staticmethod(F.silu)


class Mish(_Inplace):
    """``input * tanh(softplus(input))``; with ``inplace=True``, the input gets the result too."""

    _function = staticmethod(F.mish)


class SELU(_Inplace):
    """`ELU` with two constants; with ``inplace=True``, the input gets the result too."""

    _function = staticmethod(F.selu)


class Hardswish(_Inplace):
    """``input * hardsigmoid(input)``; with ``inplace=True``, the input gets the result too."""

    _function = staticmethod(F.hardswish)


class Hardsigmoid(_Inplace):
    """``min(max(input / 6 + 1/2, 0), 1)``; with ``inplace=True``, the input gets the result too."""

    _function = staticmethod(F.hardsigmoid)


class LeakyReLU(Module):
    """`input` if it is positive, otherwise ``negative_slope * input``.

    Parameters
    ----------
    negative_slope : float, default 0.01
        The slope.
    inplace : bool, default False
        Whether the input gets the result too.
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.leaky_relu(input, self.negative_slope, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """`input` if it is positive, otherwise ``alpha * (exp(input) - 1)``.

    Parameters
    ----------
    alpha : float, default 1.0
        The factor.
    inplace : bool, default False
        Whether the input gets the result too.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.elu(input, self.alpha, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The factor."""
        return f"alpha={self.alpha}"


class CELU(ELU):
    """`input` if it is positive, otherwise ``alpha * (exp(input / alpha) - 1)``; settings are those of `ELU`."""

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.celu(input, self.alpha, inplace=self.inplace)


class Hardtanh(Module):
    """``min(max(input, min_val), max_val)``.

    Parameters
    ----------
    min_val, max_val : float, default -1.0 and 1.0
        The bounds.
    inplace : bool, default False
        Whether the input gets the result too.
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The bounds."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Threshold(Module):
    """`input` where it exceeds the threshold, otherwise `value`.

    Parameters
    ----------
    threshold, value : float
        The threshold, and what takes the place of other elements.
    inplace : bool, default False
        Whether the input gets the result too.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.threshold(input, self.threshold, self.value, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        return f"threshold={self.threshold}, value={self.value}"


class Softplus(Module):
    """``log(1 + exp(beta * input)) / beta``, and `input` itself where ``beta * input`` exceeds the threshold.

    Parameters
    ----------
    beta, threshold : float, default 1.0 and 20.0
        The settings.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(Module):
    """``input - lambd`` above `lambd`, ``input + lambd`` below ``-lambd``, and 0 between.

    Parameters
    ----------
    lambd : float, default 0.5
        The bound.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The bound."""
        return f"{self.lambd}"


class Hardshrink(Softshrink):
    """`input`, and 0 where its absolute value is at most `lambd`; settings are those of `Softshrink`."""

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.hardshrink(input, self.lambd)


class GELU(Module):
    """The Gaussian error linear unit.

    Parameters
    ----------
    approximate : {"none", "tanh"}, default "none"
        Whether it is approximated by a hyperbolic tangent.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """Whether it is approximated."""
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """The first half along an axis times the sigmoid of the second half.

    Parameters
    ----------
    dim : int, default -1
        The axis.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """The gated half."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class PReLU(Module):
    """`input` if it is positive, otherwise ``weight * input``.

    Parameters
    ----------
    num_parameters : int, default 1
        1, or the number of channels.
    init : float, default 0.25
        The first value of the slopes.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the slopes.

    Attributes
    ----------
    weight : Parameter
        The slopes, shape ``[num_parameters]``.
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: object = None, dtype: object = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = filled((num_parameters,), init, own_dtype(device, dtype))

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.num_parameters}"


class Softmax(Module):
    """``exp(input) / sum(exp(input))`` along an axis.

    Parameters
    ----------
    dim : int
        The axis.
    """

    _function: Callable[..., Any] = staticmethod(F.softmax)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """The function along the axis."""
        return type(self)._function(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """``log(softmax(input))`` along an axis; settings are those of `Softmax`."""

    _function: Callable[..., Any] = staticmethod(F.log_softmax)


class Softmin(Softmax):
    """``softmax(-input)`` along an axis; settings are those of `Softmax`."""

    _function: Callable[..., Any] = staticmethod(F.softmin)
