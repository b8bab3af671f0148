"""Pooling over windows of images and sequences."""

from collections.abc import Sequence
from typing import Any

from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.functional.layers import single

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "MaxPool1d",
    "MaxPool2d",
]


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
    dilation, return_indices, ceil_mode
        1, False and False, the only choices that are supported.
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding, self.dilation = kernel_size, padding, dilation
        self.stride = kernel_size if stride is None else stride
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Any) -> Any:
        """The maxima."""
        return F.max_pool2d(
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

    def forward(self, input: Any) -> Any:
        """The maxima."""
        window, stride, padding, dilation = map(single, (self.kernel_size, self.stride, self.padding, self.dilation))
        return F.max_pool1d(input, window, stride, padding, dilation, self.ceil_mode, self.return_indices)


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
        False, the only choice that is supported.
    count_include_pad : bool, default True
        Whether added zeros count.
    divisor_override : int, optional
        What the sum of a window is divided by.
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
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
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


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
        False, the only choice that is supported.
    count_include_pad : bool, default True
        Whether added zeros count.
    """

    def __init__(
        self,
        kernel_size: int,
        stride: int | None = None,
        padding: int = 0,
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


class _Adaptive(Module):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool2d(_Adaptive):
    """The mean of each of a number of windows that cover the images: `functional.adaptive_avg_pool2d`.

    Parameters
    ----------
    output_size : int or pair of int or None
        Rows and columns of the result; None keeps the size of the input.
    """

    def forward(self, input: Any) -> Any:
        """The means."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool1d(_Adaptive):
    """The mean of each of a number of windows that cover the sequences: `functional.adaptive_avg_pool1d`.

    Parameters
    ----------
    output_size : int
        Size of the result.
    """

    def forward(self, input: Any) -> Any:
        """The means."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveMaxPool2d(_Adaptive):
    """The maximum of each of a number of windows that cover the images: `functional.adaptive_max_pool2d`.

    Parameters
    ----------
    output_size : int or pair of int or None
        Rows and columns of the result, which divide those of the input.
    """

    def forward(self, input: Any) -> Any:
        """The maxima."""
        return F.adaptive_max_pool2d(input, self.output_size)
