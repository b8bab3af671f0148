"""Padding of sequences, images and volumes: `functional.pad` as modules."""

from collections.abc import Sequence
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """What the modules share: numbers of elements before and after, the last axis first.

    Parameters
    ----------
    padding : int or sequence of int
        One number for both ends of all axes, or two for each axis, the last axis first. Negative numbers remove
        elements where zeros or a constant are added.
    """

    #: Number of axes that are padded, and how.
    axes: int
    mode: str

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        given = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)
        if len(given) != 2 * self.axes:
            raise InvalidValueError(
                f"{type(self).__name__}: padding must be one number, or two for each of {self.axes} axes, got "
                f"{padding!r}; change it"
            )
        self.padding = given

    def forward(self, input: Any) -> Any:
        """The input with more elements."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """The numbers."""
        return f"{self.padding}"


class ConstantPad1d(_Pad):
    """A value at both ends of sequences.

    Parameters
    ----------
    padding : int or sequence of int
        One number for both ends of all axes, or two for each axis, the last axis first. Negative numbers remove
        elements.
    value : float
        The value.
    """

    axes, mode = 1, "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        """The input with more elements."""
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """The settings."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad2d(ConstantPad1d):
    """A value around images; settings are those of `ConstantPad1d`."""

    axes = 2


class ConstantPad3d(ConstantPad1d):
    """A value around volumes; settings are those of `ConstantPad1d`."""

    axes = 3


class ZeroPad1d(_Pad):
    """Zeros at both ends of sequences: one number, or two per axis, the last first."""

    axes, mode = 1, "constant"


class ZeroPad2d(_Pad):
    """Zeros around images: one number, or two per axis, the last first."""

    axes, mode = 2, "constant"


class ZeroPad3d(_Pad):
    """Zeros around volumes: one number, or two per axis, the last first."""

    axes, mode = 3, "constant"


class ReflectionPad1d(_Pad):
    """A mirror image of the input at both ends of sequences: one number, or two per axis, the last first."""

    axes, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """A mirror image of the input around images: one number, or two per axis, the last first."""

    axes, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """A mirror image of the input around volumes: one number, or two per axis, the last first."""

    axes, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Copies of the outermost elements at both ends of sequences: one number, or two per axis, the last first."""

    axes, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Copies of the outermost elements around images: one number, or two per axis, the last first."""

    axes, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Copies of the outermost elements around volumes: one number, or two per axis, the last first."""

    axes, mode = 3, "replicate"


class CircularPad1d(_Pad):
    """Elements from the other end at both ends of sequences: one number, or two per axis, the last first."""

    axes, mode = 1, "circular"


class CircularPad2d(_Pad):
    """Elements from the other end around images: one number, or two per axis, the last first."""

    axes, mode = 2, "circular"


class CircularPad3d(_Pad):
    """Elements from the other end around volumes: one number, or two per axis, the last first."""

    axes, mode = 3, "circular"
