"""Activation functions as modules; each calls the function of its name in `adjoint.nn.functional`."""

from collections.abc import Callable
from typing import Any, ClassVar

from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.parameters import check_sizes, filled, own_dtype

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Activation",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softshrink",
    "Softsign",
    "SwiGLU",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class Activation(Module):
    """A function whose settings are attributes."""

    _function: Callable[..., Any]
    #: The attributes that are its arguments after the input, in this order.
    _settings: ClassVar[tuple[str, ...]] = ()
    inplace: bool

    def forward(self, input: Any) -> Any:
        """The function of the input."""
        settings = [getattr(self, name) for name in self._settings]
        inplace = {"inplace": True} if getattr(self, "inplace", False) else {}
        return type(self)._function(input, *settings, **inplace)

    def extra_repr(self) -> str:
        """The settings."""
        shown = [f"{name}={getattr(self, name)!r}" for name in self._settings]
        return ", ".join([*shown, "inplace=True"] if getattr(self, "inplace", False) else shown)


class Sigmoid(Activation):
    """``1 / (1 + exp(-input))``."""

    _function = staticmethod(F.sigmoid)


class Tanh(Activation):
    """The hyperbolic tangent."""

    _function = staticmethod(F.tanh)


class LogSigmoid(Activation):
    """``log(sigmoid(input))``."""

    _function = staticmethod(F.logsigmoid)


class Softsign(Activation):
    """``input / (1 + abs(input))``."""

    _function = staticmethod(F.softsign)


class Tanhshrink(Activation):
    """``input - tanh(input)``."""

    _function = staticmethod(F.tanhshrink)


class _Inplace(Activation):
    """A function without settings that may be computed in place.

    Parameters
    ----------
    inplace : bool, default False
        Whether the input gets the result too.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


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


class LeakyReLU(Activation):
    """`input` if it is positive, otherwise ``negative_slope * input``.

    Parameters
    ----------
    negative_slope : float, default 0.01
        The slope.
    inplace : bool, default False
        Whether the input gets the result too.
    """

    _function = staticmethod(F.leaky_relu)
    _settings = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace


class RReLU(Activation):
    """`input` if it is positive, otherwise times a slope: drawn for each element while it is trained, else the mean.

    Parameters
    ----------
    lower, upper : float, default 1/8 and 1/3
        The limits of the slopes, which are distributed uniformly.
    inplace : bool, default False
        Whether the input gets the result too.
    """

    _function = staticmethod(F.rrelu)
    _settings = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class ELU(Activation):
    """`input` if it is positive, otherwise ``alpha * (exp(input) - 1)``.

    Parameters
    ----------
    alpha : float, default 1.0
        The factor.
    inplace : bool, default False
        Whether the input gets the result too.
    """

    _function: Callable[..., Any] = staticmethod(F.elu)
    _settings = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace


class CELU(ELU):
    """`input` if it is positive, otherwise ``alpha * (exp(input / alpha) - 1)``; settings are those of `ELU`."""

    _function = staticmethod(F.celu)


class Hardtanh(Activation):
    """``min(max(input, min_val), max_val)``.

    Parameters
    ----------
    min_val, max_val : float, default -1.0 and 1.0
        The bounds.
    inplace : bool, default False
        Whether the input gets the result too.
    """

    _function = staticmethod(F.hardtanh)
    _settings = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace


class Threshold(Activation):
    """`input` where it exceeds the threshold, otherwise `value`.

    Parameters
    ----------
    threshold, value : float
        The threshold, and what takes the place of other elements.
    inplace : bool, default False
        Whether the input gets the result too.
    """

    _function = staticmethod(F.threshold)
    _settings = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace


class Softplus(Activation):
    """``log(1 + exp(beta * input)) / beta``, and `input` itself where ``beta * input`` exceeds the threshold.

    Parameters
    ----------
    beta, threshold : float, default 1.0 and 20.0
        The settings.
    """

    _function = staticmethod(F.softplus)
    _settings = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold


class Softshrink(Activation):
    """``input - lambd`` above `lambd`, ``input + lambd`` below ``-lambd``, and 0 between.

    Parameters
    ----------
    lambd : float, default 0.5
        The bound.
    """

    _function: Callable[..., Any] = staticmethod(F.softshrink)
    _settings = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """The bound."""
        return f"{self.lambd}"


class Hardshrink(Softshrink):
    """`input`, and 0 where its absolute value is at most `lambd`; settings are those of `Softshrink`."""

    _function = staticmethod(F.hardshrink)


class GELU(Activation):
    """The Gaussian error linear unit.

    Parameters
    ----------
    approximate : {"none", "tanh"}, default "none"
        Whether it is approximated by a hyperbolic tangent.
    """

    _function = staticmethod(F.gelu)
    _settings = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate


class GLU(Activation):
    """The first half along an axis times the sigmoid of the second half.

    Parameters
    ----------
    dim : int, default -1
        The axis.
    """

    _function: Callable[..., Any] = staticmethod(F.glu)
    _settings = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim


class SwiGLU(GLU):
    """`SiLU` of the first half along an axis times the second half; settings are those of `GLU`."""

    _function = staticmethod(F.swiglu)


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
        check_sizes("PReLU", num_parameters=num_parameters)
        self.num_parameters = num_parameters
        self.weight = filled((num_parameters,), init, own_dtype(device, dtype))

    def forward(self, input: Any) -> Any:
        """The function, element by element."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.num_parameters}"
