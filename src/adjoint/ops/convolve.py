"""Convolutions and transposed convolutions of sequences, images and volumes, with PyTorch's arguments."""

from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import TensorType, dtype_name
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import add
from adjoint.ops.convolution import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from adjoint.ops.shape import expand_dims, pad, permute, reshape, squeeze
from adjoint.ops.windows import Pair, numbers

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]

#: The layouts of operands, by number of axes: channels first, and channels last.
_LAYOUTS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}

#: A number for all axes or one for each; for padding also a pair for each axis, or a word.
Numbers = int | Sequence[int]
Padding = int | str | Sequence[int | Sequence[int]]


def conv1d(
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    layout: str = "NCL",
) -> Value:
    """Convolution of sequences, like `torch.nn.functional.conv1d`: a convolution of images of one row.

    Parameters
    ----------
    x : Value
        Sequences, shape ``[N, C, L]``, or ``[N, L, C]`` with the layout "NLC".
    w : Value
        Weights, shape ``[O, C/groups, K]``.
    bias, stride, padding, dilation, groups
        As in `conv2d`, for one axis.
    layout : {"NCL", "NLC"}, default "NCL"
        The order of the axes of `x` and of the result.
    """
    return _convolved("conv1d", 1, x, w, bias, stride, padding, dilation, groups, layout)


def conv2d(
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    layout: str = "NCHW",
) -> Value:
    """Convolution of images, like `torch.nn.functional.conv2d`.

    Parameters
    ----------
    x : Value
        Images, shape ``[N, C, H, W]``, or ``[N, H, W, C]`` with the layout "NHWC".
    w : Value
        Weights, shape ``[O, C/groups, KH, KW]`` with either layout.
    bias : Value, optional
        Shape ``[O]``, same dtype as `x`; added to each channel of the result.
    stride, dilation : int or pair of int, default 1
        For rows and columns: the distance between windows, and between the elements of a window.
    padding : int, pair of int, pair of pairs, "valid" or "same", default 0
        The zeros added at both ends of rows and columns; a pair for an axis is their number before and after. "valid"
        is 0. "same", for a stride of 1, keeps the size; an odd number of zeros has one more after than before.
    groups : int, default 1
        Number of independent groups of channels; C and O are multiples of it. ``groups=C`` is a depthwise convolution.
    layout : {"NCHW", "NHWC"}, default "NCHW"
        The order of the axes of `x` and of the result.

    Returns
    -------
    Value
        Shape ``[N, O, I, J]`` with ``I = (H + 2 * padding - (KH - 1) * dilation - 1) // stride + 1``, and J likewise.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    InvalidValueError
        If a setting is out of range.
    """
    return _convolved("conv2d", 2, x, w, bias, stride, padding, dilation, groups, layout)


def conv3d(
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    layout: str = "NCDHW",
) -> Value:
    """Convolution of volumes, like `torch.nn.functional.conv3d`.

    Parameters
    ----------
    x : Value
        Volumes, shape ``[N, C, D, H, W]``, or ``[N, D, H, W, C]`` with the layout "NDHWC".
    w : Value
        Weights, shape ``[O, C/groups, KD, KH, KW]``.
    bias, stride, padding, dilation, groups
        As in `conv2d`, for three axes.
    layout : {"NCDHW", "NDHWC"}, default "NCDHW"
        The order of the axes of `x` and of the result.
    """
    return _convolved("conv3d", 3, x, w, bias, stride, padding, dilation, groups, layout)


def conv_transpose1d(
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    layout: str = "NCL",
) -> Value:
    """Transposed convolution of sequences, like `torch.nn.functional.conv_transpose1d`; see `conv_transpose2d`."""
    return _transposed("conv_transpose1d", 1, x, w, bias, stride, padding, output_padding, groups, dilation, layout)


def conv_transpose2d(
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    layout: str = "NCHW",
) -> Value:
    """Transposed convolution of images, like `torch.nn.functional.conv_transpose2d`: the gradient of `conv2d`.

    Parameters
    ----------
    x : Value
        Images, shape ``[N, C, H, W]``, or ``[N, H, W, C]`` with the layout "NHWC".
    w : Value
        Weights, shape ``[C, O/groups, KH, KW]``.
    bias : Value, optional
        Shape ``[O]``, same dtype as `x`; added to each channel of the result.
    stride, padding, dilation : int or pair of int, default 1, 0, 1
        Those of the convolution whose gradient with respect to its images this is: a stride enlarges the result, and
        padding makes it smaller.
    output_padding : int or pair of int, default 0
        Rows and columns that are added at the end of the result, fewer than the stride or the dilation.
    groups : int, default 1
        Number of independent groups of channels.
    layout : {"NCHW", "NHWC"}, default "NCHW"
        The order of the axes of `x` and of the result.

    Returns
    -------
    Value
        Shape ``[N, O, I, J]`` with ``I = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1``.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match, or the result would be empty.
    InvalidValueError
        If a setting is out of range.
    """
    return _transposed("conv_transpose2d", 2, x, w, bias, stride, padding, output_padding, groups, dilation, layout)


def conv_transpose3d(
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    layout: str = "NCDHW",
) -> Value:
    """Transposed convolution of volumes, like `torch.nn.functional.conv_transpose3d`; see `conv_transpose2d`."""
    return _transposed("conv_transpose3d", 3, x, w, bias, stride, padding, output_padding, groups, dilation, layout)


def _convolved(
    name: str,
    axes: int,
    x: Value,
    w: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    layout: str,
) -> Value:
    check_groups(name, groups)
    steps, apart = numbers(name, "stride", stride, 1, axes), numbers(name, "dilation", dilation, 1, axes)
    last = _channels_last(name, axes, layout)
    _check_rank(name, axes, x, w)
    around = _paddings(name, padding, w.shape[2:], steps, apart)
    first = _moved_in(x) if last else x
    even = all(low == high for low, high in around)
    if not even:
        first = pad(first, (0, 0, *(low for low, _ in around)), (0, 0, *(high for _, high in around)))
    zeros = tuple(low if even else 0 for low, _ in around)
    if axes == 1:
        one = Conv2d((1, *steps), (0, *zeros), (1, *apart), groups)
        result = squeeze(apply(one, expand_dims(first, 2), expand_dims(w, 2)), 2)
    else:
        result = apply((Conv2d if axes == 2 else Conv3d)(steps, zeros, apart, groups), first, w)
    return _finished(name, result, bias, w.shape[0], x.type, last)


def _transposed(
    name: str,
    axes: int,
    x: Value,
    w: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers,
    output_padding: Numbers,
    groups: int,
    dilation: Numbers,
    layout: str,
) -> Value:
    check_groups(name, groups)
    steps, apart = numbers(name, "stride", stride, 1, axes), numbers(name, "dilation", dilation, 1, axes)
    around = numbers(name, "padding", padding, 0, axes)
    more = numbers(name, "output_padding", output_padding, 0, axes)
    if any(m >= max(s, d) for m, s, d in zip(more, steps, apart, strict=True)):
        raise InvalidValueError(
            f"{name}: output_padding must be less than the stride or the dilation, got {output_padding!r} for the "
            f"stride {stride!r} and the dilation {dilation!r}; use a smaller one"
        )
    last = _channels_last(name, axes, layout)
    _check_rank(name, axes, x, w)
    first = _moved_in(x) if last else x
    settings = list(zip(first.shape[2:], steps, around, apart, more, w.shape[2:], strict=True))
    size = tuple((n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, s, p, d, m, k in settings)
    if min(size) < 1:
        raise TypeRuleError(
            f"{name}: the result must not be empty, got {list(size)} for {x.type} and {w.type} with padding "
            f"{padding!r}; pad less"
        )
    # With an output padding of at least the stride, more windows fit into the result, which multiply nothing.
    beyond = [((n - 1) * s + m) // s + 1 - n for n, s, _, _, m, _ in settings]
    first = pad(first, 0, (0, 0, *beyond))
    if axes == 1:
        one = ConvTranspose2d((1, *steps), (0, *around), (1, *apart), groups, (1, *size))
        result = squeeze(apply(one, expand_dims(first, 2), expand_dims(w, 2)), 2)
    else:
        result = apply(
            (ConvTranspose2d if axes == 2 else ConvTranspose3d)(steps, around, apart, groups, size), first, w
        )
    return _finished(name, result, bias, w.shape[1] * groups, x.type, last)


def check_groups(name: str, groups: int) -> None:
    """Raise if it is not a number of groups."""
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise InvalidValueError(
            f"{name}: groups must be an integer of at least 1, got {groups!r}; use 1 for a single group"
        )


def _channels_last(name: str, axes: int, layout: str) -> bool:
    first, last = _LAYOUTS[axes]
    if layout not in (first, last):
        raise InvalidValueError(f"{name}: layout must be {first!r} or {last!r}, got {layout!r}; use {first!r}")
    return layout == last


def _check_rank(name: str, axes: int, x: Value, w: Value) -> None:
    """Raise for operands of another rank, of which the numbers of axes would be those of other functions."""
    for what, value in (("image", x), ("weight", w)):
        if len(value.shape) != axes + 2:
            raise TypeRuleError(
                f"{name}: the {what} must have {axes + 2} axes, got {value.type}; reshape it, with size 1 for missing "
                "axes"
            )


def _paddings(name: str, padding: Padding, window: Pair, stride: Pair, dilation: Pair) -> list[tuple[int, int]]:
    """The numbers of zeros before and after, for each axis."""
    if isinstance(padding, str):
        if padding == "valid":
            return [(0, 0)] * len(window)
        if padding != "same":
            raise InvalidValueError(f"{name}: padding must be numbers, 'valid' or 'same', got {padding!r}; use 'same'")
        if any(step != 1 for step in stride):
            raise InvalidValueError(
                f"{name}: padding='same' requires a stride of 1, got {stride}; pass the padding as numbers"
            )
        total = [d * (k - 1) for d, k in zip(dilation, window, strict=True)]
        return [(n // 2, n - n // 2) for n in total]
    if isinstance(padding, Iterable) and all(isinstance(each, Iterable) for each in padding):
        pairs: list[Any] = list(padding)
        if len(pairs) != len(window):
            raise InvalidValueError(
                f"{name}: padding must have a pair for each of {len(window)} axes, got {padding!r}; pass as many"
            )
        found = [numbers(name, "a padding before and after", each, 0, 2) for each in pairs]
        return [(low, high) for low, high in found]
    return [(n, n) for n in numbers(name, "padding", padding, 0, len(window))]  # type: ignore[arg-type]


def _moved_in(x: Value) -> Value:
    """Channels last to channels first."""
    rank = len(x.shape)
    return permute(x, (0, rank - 1, *range(1, rank - 1)))


def _finished(name: str, result: Value, bias: Value | None, channels: int, given: TensorType, last: bool) -> Value:
    """The result with its bias, and its channels where they are wanted."""
    if bias is not None:
        if bias.shape != (channels,) or bias.dtype != given.dtype:
            raise TypeRuleError(
                f"{name}: the bias must have one element per output channel, got {bias.type} for {result.type}; "
                f"pass {dtype_name(given.dtype)}[{channels}]"
            )
        result = add(result, reshape(bias, (channels, *(1 for _ in result.shape[2:]))))
    return permute(result, (0, *range(2, len(result.shape)), 1)) if last else result
