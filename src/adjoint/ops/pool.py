"""Pooling of sequences, images and volumes, with PyTorch's arguments: maximum, mean and power mean of windows.

Sequences are images of one row. Volumes are pooled twice, each plane as an image and then along the planes, which needs
fewer comparisons or additions; the first of equal elements is the same as in one window of three axes.
"""

from adjoint.ir.value import Value
from adjoint.ops.pool_windows import (
    Numbers,
    Sizes,
    adaptive_average,
    average,
    covered,
    framed,
    pooled,
    power_mean,
    with_indices,
)
from adjoint.ops.pooling import MaxPool2d

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
]


def max_pool1d(
    x: Value,
    window: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Value:
    """The maximum of each window of sequences ``[N, C, L]``; arguments as in `max_pool2d`, for one axis."""
    return pooled(MaxPool2d, *framed("max_pool1d", 1, x, window, stride, padding, dilation, ceil_mode))


def max_pool2d(
    x: Value,
    window: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Value:
    """The maximum of each window, like `torch.nn.functional.max_pool2d`; NaN if any element is NaN.

    The gradient goes to the first of equal elements; gradients of overlapping windows add up.

    Parameters
    ----------
    x : Value
        Images, float, shape ``[N, C, H, W]``.
    window : int or pair of int
        Rows and columns of a window.
    stride : int or pair of int, optional
        Distance between windows, in rows and columns; default: `window`.
    padding : int or pair of int, default 0
        Rows above and below and columns left and right, at most half the window, which never are the maximum.
    dilation : int or pair of int, default 1
        Distance between the elements of a window.
    ceil_mode : bool, default False
        Whether windows that begin in the image or in the padding before it, and extend beyond the padding after it,
        count too.

    Returns
    -------
    Value
        Shape ``[N, C, I, J]`` with ``I = (H + 2 * padding - dilation * (window - 1) - 1) // stride + 1``, and J
        likewise.
    """
    return pooled(MaxPool2d, *framed("max_pool2d", 2, x, window, stride, padding, dilation, ceil_mode))


def max_pool3d(
    x: Value,
    window: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Value:
    """The maximum of each window of volumes ``[N, C, D, H, W]``; arguments as in `max_pool2d`, for three axes."""
    return pooled(MaxPool2d, *framed("max_pool3d", 3, x, window, stride, padding, dilation, ceil_mode))


def avg_pool1d(
    x: Value,
    window: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
) -> Value:
    """The mean of each window of sequences ``[N, C, L]``; arguments as in `avg_pool2d`, for one axis."""
    return average("avg_pool1d", 1, x, window, stride, padding, count_include_pad, ceil_mode, None)


def avg_pool2d(
    x: Value,
    window: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    divisor_override: int | None = None,
) -> Value:
    """The mean of each window, like `torch.nn.functional.avg_pool2d`; ``mean(x, (2, 3))`` averages over all pixels.

    Parameters
    ----------
    x : Value
        Images, float, shape ``[N, C, H, W]``. 16-bit floats are computed in f32 and rounded once.
    window, stride, padding, ceil_mode
        As in `max_pool2d`; padded elements are 0.
    count_include_pad : bool, default True
        Whether to divide by the size of the window everywhere rather than by the number of its elements in the image.
        What `ceil_mode` adds never counts.
    divisor_override : int, optional
        What sums are divided by, instead of numbers of elements; not 0.
    """
    return average("avg_pool2d", 2, x, window, stride, padding, count_include_pad, ceil_mode, divisor_override)


def avg_pool3d(
    x: Value,
    window: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    divisor_override: int | None = None,
) -> Value:
    """The mean of each window of volumes ``[N, C, D, H, W]``; arguments as in `avg_pool2d`, for three axes."""
    return average("avg_pool3d", 3, x, window, stride, padding, count_include_pad, ceil_mode, divisor_override)


def lp_pool1d(x: Value, p: float, window: Numbers, stride: Numbers | None = None, ceil_mode: bool = False) -> Value:
    """The power mean of each window of sequences ``[N, C, L]``; arguments as in `lp_pool2d`, for one axis."""
    return power_mean("lp_pool1d", 1, x, p, window, stride, ceil_mode)


def lp_pool2d(x: Value, p: float, window: Numbers, stride: Numbers | None = None, ceil_mode: bool = False) -> Value:
    """``sum(x**p)**(1/p)`` of each window, like `torch.nn.functional.lp_pool2d`.

    Parameters
    ----------
    x : Value
        Images, float, shape ``[N, C, H, W]``; negative numbers need an integer `p`.
    p : float
        The exponent, not 0.
    window, stride, ceil_mode
        As in `max_pool2d`; windows beyond the end are scaled up to the sum of a whole window.
    """
    return power_mean("lp_pool2d", 2, x, p, window, stride, ceil_mode)


def lp_pool3d(x: Value, p: float, window: Numbers, stride: Numbers | None = None, ceil_mode: bool = False) -> Value:
    """The power mean of each window of volumes ``[N, C, D, H, W]``; arguments as in `lp_pool2d`, for three axes."""
    return power_mean("lp_pool3d", 3, x, p, window, stride, ceil_mode)


def adaptive_avg_pool1d(x: Value, output_size: Sizes) -> Value:
    """The mean of each of a number of windows that cover sequences ``[N, C, L]``; see `adaptive_avg_pool2d`."""
    return adaptive_average("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: Value, output_size: Sizes) -> Value:
    """The mean of each of a number of windows that cover the image, like `torch.nn.functional.adaptive_avg_pool2d`.

    Window i of n covers the rows from ``floor(i * H / n)`` up to, not including, ``ceil((i + 1) * H / n)``.

    Parameters
    ----------
    x : Value
        Images, float, shape ``[N, C, H, W]``.
    output_size : int, or pair of int or None, or None
        Rows and columns of the result; None keeps the size of the input.
    """
    return adaptive_average("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(x: Value, output_size: Sizes) -> Value:
    """The mean of each of a number of windows that cover volumes ``[N, C, D, H, W]``; see `adaptive_avg_pool2d`."""
    return adaptive_average("adaptive_avg_pool3d", 3, x, output_size)


def adaptive_max_pool1d(x: Value, output_size: Sizes) -> Value:
    """The maximum of each of a number of windows that cover sequences ``[N, C, L]``; see `adaptive_max_pool2d`."""
    return pooled(MaxPool2d, *covered("adaptive_max_pool1d", 1, x, output_size))


def adaptive_max_pool2d(x: Value, output_size: Sizes) -> Value:
    """The maximum of each of a number of windows that cover the image, which are those of `adaptive_avg_pool2d`.

    Parameters
    ----------
    x, output_size
        As in `adaptive_avg_pool2d`.
    """
    return pooled(MaxPool2d, *covered("adaptive_max_pool2d", 2, x, output_size))


def adaptive_max_pool3d(x: Value, output_size: Sizes) -> Value:
    """The maximum of each of a number of windows that cover volumes ``[N, C, D, H, W]``; see `adaptive_max_pool2d`."""
    return pooled(MaxPool2d, *covered("adaptive_max_pool3d", 3, x, output_size))


def max_pool1d_with_indices(
    x: Value,
    window: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    """`max_pool1d` of sequences, and where each maximum is, as i64: the index in the sequence."""
    return with_indices(*framed("max_pool1d", 1, x, window, stride, padding, dilation, ceil_mode))


def max_pool2d_with_indices(
    x: Value,
    window: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    """`max_pool2d` of images, and where each maximum is, as i64: ``row * W + column`` in the image."""
    return with_indices(*framed("max_pool2d", 2, x, window, stride, padding, dilation, ceil_mode))


def max_pool3d_with_indices(
    x: Value,
    window: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    """`max_pool3d` of volumes, and where each maximum is, as i64: ``(plane * H + row) * W + column`` in the volume."""
    return with_indices(*framed("max_pool3d", 3, x, window, stride, padding, dilation, ceil_mode))


def adaptive_max_pool1d_with_indices(x: Value, output_size: Sizes) -> tuple[Value, Value]:
    """`adaptive_max_pool1d` of sequences, and where each maximum is, as by `max_pool1d_with_indices`."""
    return with_indices(*covered("adaptive_max_pool1d", 1, x, output_size))


def adaptive_max_pool2d_with_indices(x: Value, output_size: Sizes) -> tuple[Value, Value]:
    """`adaptive_max_pool2d` of images, and where each maximum is, as by `max_pool2d_with_indices`."""
    return with_indices(*covered("adaptive_max_pool2d", 2, x, output_size))


def adaptive_max_pool3d_with_indices(x: Value, output_size: Sizes) -> tuple[Value, Value]:
    """`adaptive_max_pool3d` of volumes, and where each maximum is, as by `max_pool3d_with_indices`."""
    return with_indices(*covered("adaptive_max_pool3d", 3, x, output_size))
