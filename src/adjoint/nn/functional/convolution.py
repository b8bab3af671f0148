"""Convolutions and transposed convolutions, with PyTorch's arguments; and windows as columns."""

from collections.abc import Callable, Sequence
from math import prod

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.nn.functional.recording import Array, recorded
from adjoint.tensor.autocasting import low_precision

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unbatched",
    "unfold",
]

#: A number for all axes, or one for each.
Numbers = int | Sequence[int]

#: The shapes of operands, by number of axes.
_SHAPES = {1: ("L", "K"), 2: ("H, W", "KH, KW"), 3: ("D, H, W", "KD, KH, KW")}


def unbatched(name: str, axes: int, x: Array, function: Callable[[Array], Array]) -> Array:
    """A function of a batch, for a batch or a single image; of one result or of several."""
    if len(x.shape) == axes + 2:
        return function(x)
    if len(x.shape) != axes + 1:
        each = _SHAPES[axes][0]
        raise TypeRuleError(f"{name}: the input must be [N, C, {each}] or [C, {each}], got {x.type}; reshape it")
    found = function(ops.expand_dims(x, 0))
    return tuple(ops.squeeze(each, 0) for each in found) if isinstance(found, tuple) else ops.squeeze(found, 0)


def _check(name: str, axes: int, x: Array, weight: Array, of_weight: str) -> None:
    if len(x.shape) not in (axes + 1, axes + 2) or len(weight.shape) != axes + 2:
        each, window = _SHAPES[axes]
        raise TypeRuleError(
            f"{name}: the input must be [N, C, {each}] or [C, {each}] and the weight [{of_weight}, {window}], got "
            f"{x.type} and {weight.type}; reshape them"
        )


@low_precision
@recorded
def conv1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: str | Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Array:
    """Convolution of sequences ``[N, C, L]`` or ``[C, L]`` with a weight ``[O, C/groups, K]``.

    The arguments are those of `conv2d`, with one number each.
    """
    _check("conv1d", 1, input, weight, "O, C/groups")
    return unbatched("conv1d", 1, input, lambda x: ops.conv1d(x, weight, bias, stride, padding, dilation, groups))


@low_precision
@recorded
def conv2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: str | Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Array:
    """Convolution of images.

    Parameters
    ----------
    input : Tensor
        Images, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    weight : Tensor
        Shape ``[O, C/groups, KH, KW]``.
    bias : Tensor, optional
        Shape ``[O]``.
    stride, dilation : int or pair of int, default 1
        The distances between windows and between the elements of a window.
    padding : int, pair of int, "valid" or "same", default 0
        The zeros at both ends; "same" keeps the size, for a stride of 1.
    groups : int, default 1
        Number of groups of channels.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match.
    InvalidValueError
        If a setting is out of range.
    """
    _check("conv2d", 2, input, weight, "O, C/groups")
    return unbatched("conv2d", 2, input, lambda x: ops.conv2d(x, weight, bias, stride, padding, dilation, groups))


@low_precision
@recorded
def conv3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: str | Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Array:
    """Convolution of volumes ``[N, C, D, H, W]`` or ``[C, D, H, W]`` with a weight ``[O, C/groups, KD, KH, KW]``.

    The arguments are those of `conv2d`, with three numbers instead of pairs.
    """
    _check("conv3d", 3, input, weight, "O, C/groups")
    return unbatched("conv3d", 3, input, lambda x: ops.conv3d(x, weight, bias, stride, padding, dilation, groups))


@low_precision
@recorded
def conv_transpose1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Array:
    """Transposed convolution of sequences ``[N, C, L]`` or ``[C, L]`` with a weight ``[C, O/groups, K]``.

    The arguments are those of `conv_transpose2d`, with one number each.
    """
    _check("conv_transpose1d", 1, input, weight, "C, O/groups")
    rest = bias, stride, padding, output_padding, groups, dilation
    return unbatched("conv_transpose1d", 1, input, lambda x: ops.conv_transpose1d(x, weight, *rest))


@low_precision
@recorded
def conv_transpose2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Array:
    """The gradient of `conv2d` with respect to its images, as a layer that enlarges images.

    Parameters
    ----------
    input : Tensor
        Images, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    weight : Tensor
        Shape ``[C, O/groups, KH, KW]``.
    bias : Tensor, optional
        Shape ``[O]``.
    stride, padding, dilation : int or pair of int
        Those of the convolution.
    output_padding : int or pair of int, default 0
        Rows and columns that are added at the end of the result, fewer than the stride or the dilation.
    groups : int, default 1
        Number of groups of channels.

    Returns
    -------
    Tensor
        Shape ``[N, O, I, J]`` with ``I = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1``.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match.
    InvalidValueError
        If a setting is out of range.
    """
    _check("conv_transpose2d", 2, input, weight, "C, O/groups")
    rest = bias, stride, padding, output_padding, groups, dilation
    return unbatched("conv_transpose2d", 2, input, lambda x: ops.conv_transpose2d(x, weight, *rest))


@low_precision
@recorded
def conv_transpose3d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Array:
    """Transposed convolution of volumes ``[N, C, D, H, W]`` with a weight ``[C, O/groups, KD, KH, KW]``.

    The arguments are those of `conv_transpose2d`, with three numbers instead of pairs.
    """
    _check("conv_transpose3d", 3, input, weight, "C, O/groups")
    rest = bias, stride, padding, output_padding, groups, dilation
    return unbatched("conv_transpose3d", 3, input, lambda x: ops.conv_transpose3d(x, weight, *rest))


def _pair(name: str, what: str, given: Numbers, least: int) -> tuple[int, int]:
    both = (given, given) if isinstance(given, int) else tuple(given)
    if len(both) != 2 or min(both) < least:
        raise InvalidValueError(
            f"{name}: {what} must be one or two integers of at least {least}, got {given!r}; change it"
        )
    return both[0], both[1]


@recorded
def unfold(
    input: Array, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0, stride: Numbers = 1
) -> Array:
    """The windows of images as columns ``[N, C * KH * KW, L]``, in the order of a convolution's sums ("im2col").

    Parameters
    ----------
    input : Tensor
        Images, float, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    kernel_size, dilation, padding, stride : int or pair of int
        Rows and columns of a window, the distance between its elements, zeros at both ends, and the distance between
        windows.

    Raises
    ------
    InvalidValueError
        If a setting is out of range, or no window fits.
    """

    def columns(x: Array) -> Array:
        taps, counts, reads = _reads("unfold", x.shape[2:], kernel_size, dilation, padding, stride)
        (down, right) = _pair("unfold", "padding", padding, 0)
        padded = ops.pad(x, (0, 0, down, right), (0, 0, down, right))
        found = [padded[:, :, rows, across] for rows, across in reads]
        return ops.reshape(ops.stack(found, axis=2), (x.shape[0], x.shape[1] * prod(taps), prod(counts)))

    return unbatched("unfold", 2, input, columns)


@recorded
def fold(
    input: Array,
    output_size: Numbers,
    kernel_size: Numbers,
    dilation: Numbers = 1,
    padding: Numbers = 0,
    stride: Numbers = 1,
) -> Array:
    """The sum of windows, given as columns ``[N, C * KH * KW, L]`` or without N, in an image: the gradient of `unfold`.

    Parameters
    ----------
    input : Tensor
        The columns.
    output_size : int or pair of int
        Rows and columns of the image.
    kernel_size, dilation, padding, stride
        As in `unfold`.

    Raises
    ------
    TypeRuleError
        If the number of columns is not that of windows.
    InvalidValueError
        If a setting is out of range, or no window fits.
    """
    size = _pair("fold", "output_size", output_size, 1)
    taps, counts, reads = _reads("fold", size, kernel_size, dilation, padding, stride)
    if len(input.shape) not in (2, 3) or input.shape[-2] % prod(taps) or input.shape[-1] != prod(counts):
        raise TypeRuleError(
            f"fold: the input must be [N, C * {prod(taps)}, {prod(counts)}] or without N, got {input.type}; change "
            "output_size or the windows"
        )
    x = input if len(input.shape) == 3 else ops.expand_dims(input, 0)
    around = _pair("fold", "padding", padding, 0)
    whole = [n + 2 * p for n, p in zip(size, around, strict=True)]
    parts = ops.reshape(x, (x.shape[0], x.shape[1] // prod(taps), prod(taps), *counts))
    total = None
    for number, read in enumerate(reads):
        low = [one.start for one in read]
        high = [n - one.stop for n, one in zip(whole, read, strict=True)]
        gaps = [one.step - 1 for one in read]
        part = ops.pad(parts[:, :, number], (0, 0, *low), (0, 0, *high), interior=(0, 0, *gaps))
        total = part if total is None else ops.add(total, part)
    (down, right), (height, width) = around, size
    result = total[:, :, down : down + height, right : right + width]  # type: ignore[index]
    return result if len(input.shape) == 3 else ops.squeeze(result, 0)


def _reads(
    name: str, size: Sequence[int], kernel_size: Numbers, dilation: Numbers, padding: Numbers, stride: Numbers
) -> tuple[tuple[int, int], tuple[int, ...], list[tuple[slice, slice]]]:
    """Rows and columns of a window, numbers of windows, and for each element of a window where all windows read it."""
    taps, steps = _pair(name, "kernel_size", kernel_size, 1), _pair(name, "stride", stride, 1)
    apart, around = _pair(name, "dilation", dilation, 1), _pair(name, "padding", padding, 0)
    settings = zip(size, around, apart, taps, steps, strict=True)
    counts = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in settings)
    if min(counts) < 1:
        raise InvalidValueError(
            f"{name}: windows must fit into the padded image, got {kernel_size!r} with dilation {dilation!r} for an "
            f"image of {list(size)} padded by {padding!r}; pad more or use a smaller window"
        )
    spans = [(n - 1) * s + 1 for n, s in zip(counts, steps, strict=True)]
    reads = [
        (
            slice(a * apart[0], a * apart[0] + spans[0], steps[0]),
            slice(b * apart[1], b * apart[1] + spans[1], steps[1]),
        )
        for a in range(taps[0])
        for b in range(taps[1])
    ]
    return taps, counts, reads
