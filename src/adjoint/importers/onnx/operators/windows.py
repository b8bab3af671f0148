"""Convolution and pooling: windows, and how they are padded."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, plain, refuse
from adjoint.nn import functional
from adjoint.tensor import elementwise, reductions
from adjoint.tensor.creation import ones

__all__ = ["WINDOWS"]

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}
_MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_AVERAGE = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
_POWER = {1: functional.lp_pool1d, 2: functional.lp_pool2d, 3: functional.lp_pool3d}


def _axes(node: Node, x: Array, functions: dict[int, Any]) -> tuple[int, Any]:
    """The number of axes of the windows, and the function for it."""
    count = len(x.shape) - 2
    if count not in functions:
        raise refuse(node, "must have an input of 1 to 3 axes beside batch and channels", list(x.shape))
    return count, functions[count]


def _each(node: Node, name: str, count: int) -> tuple[int, ...]:
    """An attribute with a number for each axis; ones if it is left out."""
    found: tuple[int, ...] = node.attrs.get(name, (1,) * count)
    if len(found) != count:
        raise refuse(node, f"must have {count} numbers as its {name}", list(found), "export the model again")
    return found


def _padding(
    node: Node, sizes: Sequence[int], window: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """What is added before and after each axis, by `pads` or `auto_pad`."""
    count, how = len(sizes), node.attrs["auto_pad"]
    if how == "NOTSET":
        pads = node.attrs.get("pads", (0,) * (2 * count))
        if len(pads) != 2 * count or min(pads, default=0) < 0:
            raise refuse(node, f"must have {2 * count} numbers of at least 0 as its pads", list(pads))
        return tuple(zip(pads[:count], pads[count:], strict=True))
    if how == "VALID":
        return ((0, 0),) * count
    if how not in ("SAME_UPPER", "SAME_LOWER"):
        raise refuse(node, "must have an auto_pad that ONNX defines", how, "export the model again")
    both = []
    for size, width, step, apart in zip(sizes, window, stride, dilation, strict=True):
        total = max(0, (ceil(size / step) - 1) * step + (width - 1) * apart + 1 - size)
        less = total // 2
        both.append((less, total - less) if how == "SAME_UPPER" else (total - less, less))
    return tuple(both)


def _padded(
    x: Array, pads: Sequence[tuple[int, int]], value: float, window: Sequence[int] | None = None
) -> tuple[Array, tuple[int, ...]]:
    """The input, padded as far as the function that follows cannot do it, and the padding that is left to that.

    Functions of windows pad both ends alike, and pooling by at most half of its `window`.
    """
    fits = window is None or all(2 * before <= width for (before, _), width in zip(pads, window, strict=True))
    if fits and all(before == after for before, after in pads):
        return x, tuple(before for before, _ in pads)
    return functional.pad(x, [n for pair in reversed(pads) for n in pair], "constant", value), (0,) * len(pads)


def _conv(node: Node, x: Array, weight: Array, bias: Array = None) -> Array:
    count, function = _axes(node, x, _CONV)
    stride, dilation = _each(node, "strides", count), _each(node, "dilations", count)
    if node.attrs.get("kernel_shape", weight.shape[2:]) != tuple(weight.shape[2:]):
        raise refuse(node, "must have the kernel_shape of its weight", list(node.attrs["kernel_shape"]))
    x, padding = _padded(x, _padding(node, x.shape[2:], weight.shape[2:], stride, dilation), 0.0)
    return function(x, weight, bias, stride, padding, dilation, node.attrs["group"])


def _conv_transpose(node: Node, x: Array, weight: Array, bias: Array = None) -> Array:
    count, function = _axes(node, x, _TRANSPOSED)
    stride, dilation = _each(node, "strides", count), _each(node, "dilations", count)
    extra = node.attrs.get("output_padding", (0,) * count)
    window, group = weight.shape[2:], node.attrs["group"]
    whole = [
        step * (size - 1) + (width - 1) * apart + 1 + more
        for size, width, step, apart, more in zip(x.shape[2:], window, stride, dilation, extra, strict=True)
    ]
    wanted = node.attrs.get("output_shape")
    if wanted is None and node.attrs["auto_pad"].startswith("SAME"):
        wanted = tuple(size * step for size, step in zip(x.shape[2:], stride, strict=True))
    if wanted is None:
        pads = _padding(node, x.shape[2:], window, stride, dilation)
    else:
        totals = [size - want for size, want in zip(whole, wanted[-count:], strict=True)]
        less = [total // 2 for total in totals]
        upper = node.attrs["auto_pad"] == "SAME_UPPER"
        pads = tuple((n, t - n) if upper else (t - n, n) for t, n in zip(totals, less, strict=True))
    if all(before == after >= 0 for before, after in pads):
        return function(x, weight, bias, stride, tuple(p for p, _ in pads), extra, group, dilation)
    full = function(x, weight, bias, stride, 0, extra, group, dilation)
    return functional.pad(full, [-n for pair in reversed(pads) for n in pair])


def _window(node: Node, count: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    window = _each(node, "kernel_shape", count)
    return window, _each(node, "strides", count), _each(node, "dilations", count)


def _max_pool(node: Node, x: Array) -> Array:
    if len(node.outputs) > 1:
        raise refuse(node, "must return the maxima only", "their indices too")
    count, function = _axes(node, x, _MAX)
    window, stride, dilation = _window(node, count)
    least = float("-inf") if x.dtype.kind not in "iu" else int(np.iinfo(x.dtype).min)
    x, padding = _padded(x, _padding(node, x.shape[2:], window, stride, dilation), least, window)
    return function(x, window, stride, padding, dilation, bool(node.attrs["ceil_mode"]))


def _average_pool(node: Node, x: Array) -> Array:
    count, function = _axes(node, x, _AVERAGE)
    window, stride, dilation = _window(node, count)
    if set(dilation) != {1}:
        raise refuse(node, "must have dilations of 1", list(dilation))
    pads = _padding(node, x.shape[2:], window, stride, dilation)
    rounded, counted = bool(node.attrs["ceil_mode"]), bool(node.attrs["count_include_pad"])
    whole, padding = _padded(x, pads, 0.0, window)
    y = function(whole, window, stride, padding, rounded, counted)
    if whole is x or counted:
        return y
    present, _ = _padded(ones((1, 1, *x.shape[2:]), dtype=x.dtype), pads, 0.0, window)
    return y / function(present, window, stride, padding, rounded)


def _lp_pool(node: Node, x: Array) -> Array:
    count, function = _axes(node, x, _POWER)
    window, stride, dilation = _window(node, count)
    if set(dilation) != {1} or any(map(any, _padding(node, x.shape[2:], window, stride, dilation))):
        raise refuse(node, "must have dilations of 1 and no padding", list(dilation))
    return function(elementwise.abs(x), float(node.attrs["p"]), window, stride, bool(node.attrs.get("ceil_mode", 0)))


def _rest(x: Array) -> tuple[int, ...]:
    return tuple(range(2, len(x.shape)))


WINDOWS: Table = {
    "AveragePool": Rule(_average_pool),
    "Conv": Rule(_conv),
    "ConvTranspose": Rule(_conv_transpose),
    "GlobalAveragePool": plain(lambda x: reductions.mean(x, _rest(x), True)),
    "GlobalMaxPool": plain(lambda x: reductions.amax(x, _rest(x), True)),
    "LpPool": Rule(_lp_pool),
    "MaxPool": Rule(_max_pool),
}
