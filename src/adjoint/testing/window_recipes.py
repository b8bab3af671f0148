"""Recipes for convolutions, pooling, resizing and sampling of sequences, images and volumes, with all their options."""

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from adjoint import ops
from adjoint.ir import Value
from adjoint.testing.growing import Growing, Node
from adjoint.testing.operands import Recipe, image, positive

__all__ = ["WINDOWS"]

_CONVOLUTIONS = (ops.conv1d, ops.conv2d, ops.conv3d)
_TRANSPOSED = (ops.conv_transpose1d, ops.conv_transpose2d, ops.conv_transpose3d)
_CHANNELS_FIRST, _CHANNELS_LAST = ("NCL", "NCHW", "NCDHW"), ("NLC", "NHWC", "NDHWC")
_MAXIMA = (ops.max_pool1d, ops.max_pool2d, ops.max_pool3d)
_MEANS = (ops.avg_pool1d, ops.avg_pool2d, ops.avg_pool3d)
_NORMS = (ops.lp_pool1d, ops.lp_pool2d, ops.lp_pool3d)
_ADAPTIVE_MEANS = (ops.adaptive_avg_pool1d, ops.adaptive_avg_pool2d, ops.adaptive_avg_pool3d)
_ADAPTIVE_MAXIMA = (ops.adaptive_max_pool1d, ops.adaptive_max_pool2d, ops.adaptive_max_pool3d)


def _some(g: Growing, options: tuple[int, ...], count: int) -> list[int]:
    return [g.choose(options) for _ in range(count)]


def _window(g: Growing, room: list[int]) -> tuple[int, ...]:
    """A window that fits into each axis."""
    return tuple(g.choose([k for k in (1, 2, 3) if k <= n]) for n in room)


def _bias(g: Growing, size: int, dtype: object) -> Value | None:
    return g.parameter((size,), "float", dtype).value if g.flag() else None


def _conv(g: Growing) -> Node:
    axes = g.choose((1, 2, 3))
    x = image(g, axes=axes)
    channels, size = x.value.shape[1], x.value.shape[2:]
    dilation = _some(g, (1, 2), axes)
    padding = [(low, high) for low, high in zip(_some(g, (0, 1, 2), axes), _some(g, (0, 1, 2), axes), strict=True)]
    same = g.choose((False, False, True))
    padded = [n + low + high for n, (low, high) in zip(size, padding, strict=True)]
    room = [(n - 1) // d + 1 for n, d in zip(size if same else padded, dilation, strict=True)]
    window = _window(g, room)
    groups = g.choose([n for n in (1, 2, channels) if channels % n == 0])
    each, outputs = channels // groups, groups * g.choose((1, 2))
    w = g.parameter((outputs, each, *window), "float", x.value.dtype)
    value, layout = x.value, _CHANNELS_FIRST[axes - 1]
    if g.flag():
        layout = _CHANNELS_LAST[axes - 1]
        value = ops.permute(value, (0, *range(2, axes + 2), 1))
    bias = _bias(g, outputs, x.value.dtype)
    stride = 1 if same else _some(g, (1, 2, 3), axes)
    found = _CONVOLUTIONS[axes - 1](value, w.value, bias, stride, "same" if same else padding, dilation, groups, layout)
    return Node(found, x.bound * w.bound * each * prod(window) + 2, False)


def _conv_transpose(g: Growing) -> Node:
    axes = g.choose((1, 2, 3))
    x = image(g, axes=axes)
    while prod(x.value.shape) > 300:
        axis = x.value.shape.index(max(x.value.shape))
        x = Node(ops.slice_axis(x.value, axis, 0, 3), x.bound, x.exact)
    channels, size = x.value.shape[1], x.value.shape[2:]
    window, stride, dilation = _window(g, [3] * axes), _some(g, (1, 2, 3), axes), _some(g, (1, 2), axes)
    plain = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(size, stride, dilation, window, strict=True)]
    padding = [g.choose([p for p in (0, 1) if 2 * p < n]) for n in plain]
    extra = [g.choose([n for n in (0, 1, 2) if n < max(s, d)]) for s, d in zip(stride, dilation, strict=True)]
    groups = g.choose([n for n in (1, channels) if channels % n == 0])
    each = g.choose((1, 2))
    w = g.parameter((channels, each, *window), "float", x.value.dtype)
    bias = _bias(g, each * groups, x.value.dtype)
    function = _TRANSPOSED[axes - 1]
    found = function(x.value, w.value, bias, stride, padding, extra, groups, dilation)
    return Node(found, x.bound * w.bound * (channels // groups) * prod(window) + 2, False)


def _pool(g: Growing) -> Node:
    axes = g.choose((1, 2, 3))
    largest = g.flag()
    x = image(g, exact=largest and g.smooth, axes=axes)
    if not largest and g.choose((False, False, True)):
        held = positive(x)
        window = _window(g, list(x.value.shape[2:]))
        found = _NORMS[axes - 1](held.value, g.choose((1.0, 2.0, 3.0)), window, None, g.flag())
        return Node(found, held.bound * prod(window), False)
    window = _window(g, list(x.value.shape[2:]))
    stride, padding = _some(g, (1, 2, 3), axes), [g.choose(range(k // 2 + 1)) for k in window]
    if largest:
        found = _MAXIMA[axes - 1](x.value, window, stride, padding, 1, g.flag())
        return Node(found, x.bound, x.exact)
    return Node(_MEANS[axes - 1](x.value, window, stride, padding, g.flag(), g.flag()), x.bound, False)


def _adaptive(g: Growing) -> Node:
    axes = g.choose((1, 2, 3))
    largest = g.flag()
    x = image(g, exact=largest and g.smooth, axes=axes)
    function = (_ADAPTIVE_MAXIMA if largest else _ADAPTIVE_MEANS)[axes - 1]
    return Node(function(x.value, _some(g, (1, 2, 3), axes)), x.bound, False)


def _resize(g: Growing) -> Node:
    axes = g.choose((1, 2))
    x = image(g, axes=axes)
    mode = g.choose(
        ("nearest", "nearest-exact", "area", ("linear", "bilinear")[axes - 1], *(("bicubic",) * (axes - 1)))
    )
    corners = g.choose((None, True, False)) if "linear" in mode or mode == "bicubic" else None
    found = ops.interpolate(x.value, _some(g, (1, 2, 5, 8), axes), mode=mode, align_corners=corners)
    return Node(found, 2 * x.bound, False)


def _sampled(g: Growing) -> Node:
    """An image read along new positions, which are exact, so that none lies on a pixel by rounding only."""
    x = image(g, axes=2)
    n = x.value.shape[0]
    grid = g.parameter((n, g.choose((1, 3)), g.choose((1, 4)), 2), "float", x.value.dtype)
    # Mirrored at a single pixel, a position lies on it up to rounding.
    outside = ("zeros", "border", "reflection") if min(x.value.shape[2:]) > 1 else ("zeros", "border")
    modes = g.choose(("bilinear", "nearest")), g.choose(outside), g.flag()
    return Node(ops.grid_sample(x.value, grid.value, *modes), x.bound, False)


def _shuffled(g: Growing) -> Node:
    """Pixels made of channels, and channels in another order."""
    x = image(g, axes=2)
    repeated = ops.concat(x.value, x.value, x.value, ops.negative(x.value), axis=1)
    if g.flag():
        return Node(ops.channel_shuffle(repeated, 2), x.bound, x.exact)
    return Node(ops.pixel_shuffle(repeated, 2), x.bound, x.exact)


#: Recipes by name.
WINDOWS: Mapping[str, Recipe] = MappingProxyType(
    {
        "conv": _conv,
        "conv_transpose": _conv_transpose,
        "pool": _pool,
        "adaptive_pool": _adaptive,
        "resize": _resize,
        "grid_sample": _sampled,
        "shuffled": _shuffled,
    }
)
