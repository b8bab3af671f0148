"""Pooling over windows of sequences, images and volumes, with PyTorch's arguments."""

from collections.abc import Sequence

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.nn.functional.convolution import unbatched
from adjoint.nn.functional.recording import Array, recorded
from adjoint.tensor.autocasting import full_precision

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

#: A number for all axes, or one for each; for adaptive pooling also None for the size of the input.
Numbers = int | Sequence[int]
Sizes = int | Sequence[int | None] | None


@recorded
def max_pool2d(
    input: Array,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Array:
    """The maximum of each window; the gradient goes to the first of equal elements.

    Parameters
    ----------
    input : Tensor
        Images, float, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    kernel_size, stride, padding, dilation
        Rows and columns of a window, the distances between windows (default: the window), what is added at both ends,
        at most half the window, and the distances between the elements of a window.
    ceil_mode : bool, default False
        Whether windows that begin in the image and extend beyond its padding count too.
    return_indices : bool, default False
        Whether to return the positions of the maxima too, ``row * W + column`` in each image, as i64.

    Raises
    ------
    TypeRuleError, InvalidValueError
        If it is not an image, no window fits, or a setting is out of range.
    """
    rest = kernel_size, _own(stride), padding, dilation, ceil_mode
    function = ops.max_pool2d_with_indices if return_indices else ops.max_pool2d
    return unbatched("max_pool2d", 2, input, lambda x: function(x, *rest))


@recorded
def max_pool1d(
    input: Array,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Array:
    """The maximum of each window of sequences ``[N, C, L]`` or ``[C, L]``; arguments as in `max_pool2d`."""
    rest = kernel_size, _own(stride), padding, dilation, ceil_mode
    function = ops.max_pool1d_with_indices if return_indices else ops.max_pool1d
    return unbatched("max_pool1d", 1, input, lambda x: function(x, *rest))


@full_precision
@recorded
def max_pool3d(
    input: Array,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Array:
    """The maximum of each window of volumes ``[N, C, D, H, W]`` or ``[C, D, H, W]``; arguments as in `max_pool2d`."""
    rest = kernel_size, _own(stride), padding, dilation, ceil_mode
    function = ops.max_pool3d_with_indices if return_indices else ops.max_pool3d
    return unbatched("max_pool3d", 3, input, lambda x: function(x, *rest))


@recorded
def avg_pool2d(
    input: Array,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of each window.

    Parameters
    ----------
    input : Tensor
        Images, float, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    kernel_size, stride, padding, ceil_mode
        As in `max_pool2d`; padded elements are 0.
    count_include_pad : bool, default True
        Whether padded elements count; those that `ceil_mode` adds never do.
    divisor_override : int, optional
        What the sum of a window is divided by, instead of the number of elements.

    Raises
    ------
    TypeRuleError, InvalidValueError
        If it is not an image, no window fits, or a setting is out of range.
    """
    rest = kernel_size, _own(stride), padding, count_include_pad, ceil_mode, divisor_override
    return unbatched("avg_pool2d", 2, input, lambda x: ops.avg_pool2d(x, *rest))


@recorded
def avg_pool1d(
    input: Array,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """The mean of each window of sequences ``[N, C, L]`` or ``[C, L]``; arguments as in `avg_pool2d`."""
    rest = kernel_size, _own(stride), padding, count_include_pad, ceil_mode
    return unbatched("avg_pool1d", 1, input, lambda x: ops.avg_pool1d(x, *rest))


@full_precision
@recorded
def avg_pool3d(
    input: Array,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of each window of volumes ``[N, C, D, H, W]`` or ``[C, D, H, W]``; arguments as in `avg_pool2d`."""
    rest = kernel_size, _own(stride), padding, count_include_pad, ceil_mode, divisor_override
    return unbatched("avg_pool3d", 3, input, lambda x: ops.avg_pool3d(x, *rest))


@recorded
def lp_pool2d(
    input: Array,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    ceil_mode: bool = False,
) -> Array:
    """``sum(input**p)**(1/p)`` of each window, with the exponent `norm_type`.

    Parameters
    ----------
    input : Tensor
        Images, float, shape ``[N, C, H, W]`` or ``[C, H, W]``; negative numbers need an integer exponent.
    norm_type : float
        The exponent, not 0.
    kernel_size, stride, ceil_mode
        As in `max_pool2d`; windows beyond the end are scaled up to the sum of a whole window.
    """
    rest = norm_type, kernel_size, _own(stride), ceil_mode
    return unbatched("lp_pool2d", 2, input, lambda x: ops.lp_pool2d(x, *rest))


@recorded
def lp_pool1d(
    input: Array,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    ceil_mode: bool = False,
) -> Array:
    """The power mean of each window of sequences ``[N, C, L]`` or ``[C, L]``; arguments as in `lp_pool2d`."""
    rest = norm_type, kernel_size, _own(stride), ceil_mode
    return unbatched("lp_pool1d", 1, input, lambda x: ops.lp_pool1d(x, *rest))


@full_precision
@recorded
def lp_pool3d(
    input: Array,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    ceil_mode: bool = False,
) -> Array:
    """The power mean of each window of volumes ``[N, C, D, H, W]`` or ``[C, D, H, W]``; arguments as in `lp_pool2d`."""
    rest = norm_type, kernel_size, _own(stride), ceil_mode
    return unbatched("lp_pool3d", 3, input, lambda x: ops.lp_pool3d(x, *rest))


@recorded
def adaptive_avg_pool2d(input: Array, output_size: Sizes) -> Array:
    """The mean of each of a number of windows that cover the image.

    Window i of n covers the rows from ``floor(i * H / n)`` up to, not including, ``ceil((i + 1) * H / n)``.

    Parameters
    ----------
    input : Tensor
        Images, float, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    output_size : int, or pair of int or None, or None
        Rows and columns of the result; None keeps the size of the input.
    """
    return unbatched("adaptive_avg_pool2d", 2, input, lambda x: ops.adaptive_avg_pool2d(x, output_size))


@recorded
def adaptive_avg_pool1d(input: Array, output_size: Sizes) -> Array:
    """The mean of each of a number of windows that cover sequences ``[N, C, L]`` or ``[C, L]``."""
    return unbatched("adaptive_avg_pool1d", 1, input, lambda x: ops.adaptive_avg_pool1d(x, output_size))


@full_precision
@recorded
def adaptive_avg_pool3d(input: Array, output_size: Sizes) -> Array:
    """The mean of each of a number of windows that cover volumes ``[N, C, D, H, W]`` or ``[C, D, H, W]``."""
    return unbatched("adaptive_avg_pool3d", 3, input, lambda x: ops.adaptive_avg_pool3d(x, output_size))


@recorded
def adaptive_max_pool2d(input: Array, output_size: Sizes, return_indices: bool = False) -> Array:
    """The maximum of each of a number of windows that cover the image.

    The gradient goes to the first of equal elements.

    Parameters
    ----------
    input, output_size
        As in `adaptive_avg_pool2d`.
    return_indices : bool, default False
        As in `max_pool2d`.
    """
    function = ops.adaptive_max_pool2d_with_indices if return_indices else ops.adaptive_max_pool2d
    return unbatched("adaptive_max_pool2d", 2, input, lambda x: function(x, output_size))


@recorded
def adaptive_max_pool1d(input: Array, output_size: Sizes, return_indices: bool = False) -> Array:
    """The maximum of each of a number of windows that cover sequences ``[N, C, L]`` or ``[C, L]``."""
    function = ops.adaptive_max_pool1d_with_indices if return_indices else ops.adaptive_max_pool1d
    return unbatched("adaptive_max_pool1d", 1, input, lambda x: function(x, output_size))


@full_precision
@recorded
def adaptive_max_pool3d(input: Array, output_size: Sizes, return_indices: bool = False) -> Array:
    """The maximum of each of a number of windows that cover volumes ``[N, C, D, H, W]`` or ``[C, D, H, W]``."""
    function = ops.adaptive_max_pool3d_with_indices if return_indices else ops.adaptive_max_pool3d
    return unbatched("adaptive_max_pool3d", 3, input, lambda x: function(x, output_size))


@full_precision
@recorded
def max_unpool2d(
    input: Array,
    indices: Array,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Sequence[int] | None = None,
) -> Array:
    """The maxima of `max_pool2d` at their places in images of zeros.

    The places of windows that overlap may be equal: then the result is the mean of what is put there, which is the
    maximum itself; PyTorch leaves open which one it is.

    Parameters
    ----------
    input, indices : Tensor
        What ``max_pool2d(..., return_indices=True)`` returned.
    kernel_size, stride, padding
        Those of the pooling, from which the size of the images is computed.
    output_size : sequence of int, optional
        The size of the images instead, of which only the last two numbers count.

    Raises
    ------
    TypeRuleError
        If the indices do not have the shape of the input.
    """
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, _own(stride), padding, output_size)


@recorded
def max_unpool1d(
    input: Array,
    indices: Array,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Sequence[int] | None = None,
) -> Array:
    """The maxima of `max_pool1d` at their places in sequences of zeros; arguments as in `max_unpool2d`."""
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, _own(stride), padding, output_size)


@full_precision
@recorded
def max_unpool3d(
    input: Array,
    indices: Array,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    output_size: Sequence[int] | None = None,
) -> Array:
    """The maxima of `max_pool3d` at their places in volumes of zeros; arguments as in `max_unpool2d`."""
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, _own(stride), padding, output_size)


def _own(stride: Numbers | None) -> Numbers | None:
    """The stride, of which an empty sequence is none, as in PyTorch."""
    return None if isinstance(stride, Sequence) and not stride else stride


def _max_unpool(
    name: str,
    axes: int,
    input: Array,
    indices: Array,
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    output_size: Sequence[int] | None,
) -> Array:
    if input.shape != indices.shape or len(input.shape) not in (axes + 1, axes + 2):
        raise TypeRuleError(
            f"{name}: the indices must have the shape of the input, with {axes + 2} or {axes + 1} axes, got "
            f"{input.type} and {indices.type}; pass what the pooling returned"
        )
    lead = input.shape[: len(input.shape) - axes]
    size = _unpooled(name, axes, input.shape[len(lead) :], kernel_size, stride, padding, output_size)
    rows = count = 1
    for n in lead:
        rows *= n
    for n in size:
        count *= n
    flat = ops.reshape(ops.cast(indices, "i64"), (rows, -1))
    places = ops.reshape(ops.add(flat, ops.multiply(ops.iota(flat.shape, 0), count)), (-1,))
    values = ops.reshape(input, (-1,))
    total = ops.scatter_add(places, values, rows * count)
    hits = ops.scatter_add(places, ops.full_like(values, 1.0), rows * count)
    return ops.reshape(ops.divide(total, ops.maximum(hits, 1.0)), (*lead, *size))


def _unpooled(
    name: str,
    axes: int,
    pooled: Sequence[int],
    kernel_size: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    output_size: Sequence[int] | None,
) -> tuple[int, ...]:
    """The size of the images that were pooled."""
    if output_size is not None:
        size = tuple(output_size)[-axes:]
        if len(size) != axes or min(size) < 1:
            raise InvalidValueError(
                f"{name}: output_size must end with {axes} sizes of at least 1, got {output_size!r}; correct it"
            )
        return size
    window, steps, around = (
        (given,) * axes if isinstance(given, int) else tuple(given)
        for given in (kernel_size, kernel_size if stride is None else stride, padding)
    )
    return tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(pooled, steps, around, window, strict=True))
