"""Pooling over windows of sequences, images and volumes."""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

#: A number for all axes, or one for each.
Numbers = int | Sequence[int]


class MaxPool2d(Module):
    """The maximum of each window of images: `functional.max_pool2d`, whose settings it takes.

    Parameters
    ----------
    kernel_size : int or pair of int
        Rows and columns of a window.
    stride : int or pair of int, optional
        The distance between windows; default: the window.
    padding : int or pair of int, default 0
        What is added at both ends.
    dilation : int or pair of int, default 1
        The distance between the elements of a window.
    return_indices : bool, default False
        Whether to return the positions of the maxima too.
    ceil_mode : bool, default False
        Whether windows that extend beyond the end count too.
    """

    _function: Callable[..., Any] = staticmethod(F.max_pool2d)

    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Numbers = 0,
        dilation: Numbers = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding, self.dilation = kernel_size, padding, dilation
        self.stride = kernel_size if stride is None else stride
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Any) -> Any:
        """The maxima."""
        function = type(self)._function
        return function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(MaxPool2d):
    """The maximum of each window of sequences: `functional.max_pool1d`; settings are those of `MaxPool2d`."""

    _function: Callable[..., Any] = staticmethod(F.max_pool1d)


class MaxPool3d(MaxPool2d):
    """The maximum of each window of volumes: `functional.max_pool3d`; settings are those of `MaxPool2d`."""

    _function: Callable[..., Any] = staticmethod(F.max_pool3d)


class AvgPool2d(Module):
    """The mean of each window of images: `functional.avg_pool2d`, whose settings it takes.

    Parameters
    ----------
    kernel_size : int or pair of int
        Rows and columns of a window.
    stride : int or pair of int, optional
        The distance between windows; default: the window.
    padding : int or pair of int, default 0
        Zeros that are added at both ends.
    ceil_mode : bool, default False
        Whether windows that extend beyond the end count too.
    count_include_pad : bool, default True
        Whether added zeros count.
    divisor_override : int, optional
        What the sum of a window is divided by.
    """

    _function: Callable[..., Any] = staticmethod(F.avg_pool2d)

    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Numbers = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding, self.ceil_mode = kernel_size, padding, ceil_mode
        self.stride = kernel_size if stride is None else stride
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Any) -> Any:
        """The means."""
        function = type(self)._function
        rest = self.ceil_mode, self.count_include_pad, self.divisor_override
        return function(input, self.kernel_size, self.stride, self.padding, *rest)

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool3d(AvgPool2d):
    """The mean of each window of volumes: `functional.avg_pool3d`; settings are those of `AvgPool2d`."""

    _function: Callable[..., Any] = staticmethod(F.avg_pool3d)


class AvgPool1d(Module):
    """The mean of each window of sequences: `functional.avg_pool1d`, whose settings it takes.

    Parameters
    ----------
    kernel_size : int
        Size of a window.
    stride : int, optional
        The distance between windows; default: the window.
    padding : int, default 0
        Zeros that are added at both ends.
    ceil_mode : bool, default False
        Whether windows that extend beyond the end count too.
    count_include_pad : bool, default True
        Whether added zeros count.
    """

    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Numbers = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Any) -> Any:
        """The means."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class LPPool2d(Module):
    """The power mean of each window of images: `functional.lp_pool2d`, whose settings it takes.

    Parameters
    ----------
    norm_type : float
        The exponent.
    kernel_size : int or pair of int
        Rows and columns of a window.
    stride : int or pair of int, optional
        The distance between windows; default: the window.
    ceil_mode : bool, default False
        Whether windows that extend beyond the end count too.
    """

    _function: Callable[..., Any] = staticmethod(F.lp_pool2d)

    def __init__(
        self, norm_type: float, kernel_size: Numbers, stride: Numbers | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Any) -> Any:
        """The power means."""
        function = type(self)._function
        return function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(LPPool2d):
    """The power mean of each window of sequences: `functional.lp_pool1d`; settings are those of `LPPool2d`."""

    _function: Callable[..., Any] = staticmethod(F.lp_pool1d)


class LPPool3d(LPPool2d):
    """The power mean of each window of volumes: `functional.lp_pool3d`; settings are those of `LPPool2d`."""

    _function: Callable[..., Any] = staticmethod(F.lp_pool3d)


class MaxUnpool2d(Module):
    """The maxima of `MaxPool2d` at their places in images of zeros: `functional.max_unpool2d`.

    Parameters
    ----------
    kernel_size, stride, padding
        Those of the `MaxPool2d`.
    """

    _function: Callable[..., Any] = staticmethod(F.max_unpool2d)

    def __init__(self, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride

    def forward(self, input: Any, indices: Any, output_size: Sequence[int] | None = None) -> Any:
        """The images."""
        function = type(self)._function
        return function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(MaxUnpool2d):
    """The maxima of `MaxPool1d` in sequences: `functional.max_unpool1d`; settings are those of `MaxUnpool2d`."""

    _function: Callable[..., Any] = staticmethod(F.max_unpool1d)


class MaxUnpool3d(MaxUnpool2d):
    """The maxima of `MaxPool3d` in volumes: `functional.max_unpool3d`; settings are those of `MaxUnpool2d`."""

    _function: Callable[..., Any] = staticmethod(F.max_unpool3d)


class AdaptiveAvgPool2d(Module):
    """The mean of each of a number of windows that cover the images: `functional.adaptive_avg_pool2d`.

    Parameters
    ----------
    output_size : int, or pair of int or None, or None
        Rows and columns of the result; None keeps the size of the input.
    """

    _function: Callable[..., Any] = staticmethod(F.adaptive_avg_pool2d)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        """The means."""
        function = type(self)._function
        return function(input, self.output_size)

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(AdaptiveAvgPool2d):
    """The mean of each of a number of windows that cover the sequences: `functional.adaptive_avg_pool1d`.

    The size is that of `AdaptiveAvgPool2d`, with one number.
    """

    _function: Callable[..., Any] = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool3d(AdaptiveAvgPool2d):
    """The mean of each of a number of windows that cover the volumes: `functional.adaptive_avg_pool3d`.

    The size is that of `AdaptiveAvgPool2d`, with three numbers.
    """

    _function: Callable[..., Any] = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool2d(Module):
    """The maximum of each of a number of windows that cover the images: `functional.adaptive_max_pool2d`.

    Parameters
    ----------
    output_size : int, or pair of int or None, or None
        Rows and columns of the result; None keeps the size of the input.
    return_indices : bool, default False
        Whether to return the positions of the maxima too.
    """

    _function: Callable[..., Any] = staticmethod(F.adaptive_max_pool2d)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Any) -> Any:
        """The maxima."""
        function = type(self)._function
        return function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(AdaptiveMaxPool2d):
    """The maximum of each of a number of windows that cover the sequences: `functional.adaptive_max_pool1d`.

    Settings are those of `AdaptiveMaxPool2d`, with one number for the size.
    """

    _function: Callable[..., Any] = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool3d(AdaptiveMaxPool2d):
    """The maximum of each of a number of windows that cover the volumes: `functional.adaptive_max_pool3d`.

    Settings are those of `AdaptiveMaxPool2d`, with three numbers for the size.
    """

    _function: Callable[..., Any] = staticmethod(F.adaptive_max_pool3d)
