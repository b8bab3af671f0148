"""Softmax and related functions as modules; each calls the function of its name in `adjoint.nn.functional`."""

from collections.abc import Callable
from typing import Any

from adjoint.errors import TypeRuleError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.activation import Activation

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class Softmax(Activation):
    """``exp(input) / sum(exp(input))`` along an axis.

    Parameters
    ----------
    dim : int
        The axis.
    """

    _function: Callable[..., Any] = staticmethod(F.softmax)
    _settings = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class LogSoftmax(Softmax):
    """``log(softmax(input))`` along an axis; settings are those of `Softmax`."""

    _function = staticmethod(F.log_softmax)


class Softmin(Softmax):
    """``softmax(-input)`` along an axis; settings are those of `Softmax`."""

    _function = staticmethod(F.softmin)


class Softmax2d(Module):
    """`Softmax` over the channels at each place of images ``[N, C, H, W]`` or ``[C, H, W]``."""

    def forward(self, input: Any) -> Any:
        """The function along the axis of the channels."""
        if len(input.shape) not in (3, 4):
            raise TypeRuleError(
                f"Softmax2d: the input must be [N, C, H, W] or [C, H, W], got the shape {tuple(input.shape)}; use "
                "Softmax for others"
            )
        return F.softmax(input, -3)
