"""Dropout (Srivastava et al., 2014)."""

from collections.abc import Callable
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812

__all__ = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d"]


class Dropout(Module):
    """While it is trained, elements replaced by 0 with probability `p`, and the others divided by ``1 - p``.

    Parameters
    ----------
    p : float, default 0.5
        The probability.
    inplace : bool, default False
        Whether the input gets the result too.

    Raises
    ------
    InvalidValueError
        If the probability is not from 0 to 1.
    """

    _function: Callable[..., Any] = staticmethod(F.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise InvalidValueError(f"{type(self).__name__}: p must be from 0 to 1, got {p!r}; pass a probability")
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Any:
        """The input, with elements dropped while it is trained."""
        return type(self)._function(input, self.p, self.training, self.inplace) if self.training else input

    def extra_repr(self) -> str:
        """The settings."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """`Dropout` of whole channels of ``[N, C, L]`` or ``[C, L]``; settings are those of `Dropout`."""

    _function: Callable[..., Any] = staticmethod(F.dropout1d)


class Dropout2d(Dropout):
    """`Dropout` of whole channels of ``[N, C, H, W]`` or ``[C, H, W]``; settings are those of `Dropout`."""

    _function: Callable[..., Any] = staticmethod(F.dropout2d)


class Dropout3d(Dropout):
    """`Dropout` of whole channels of ``[N, C, D, H, W]`` or ``[C, D, H, W]``; settings are those of `Dropout`."""

    _function: Callable[..., Any] = staticmethod(F.dropout3d)
