"""Resizing of sequences, images and volumes, and moving pixels into channels and back.

A linear mode is a matrix for each axis (`adjoint.ops.resample`). So its gradient is the product with the transpose, and
both are products of the one contraction engine. Enlarging by a small whole number takes sums of neighbours.
"""

from collections.abc import Callable, Sequence
from math import floor, prod

import numpy as np

from adjoint import costs
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.value import Value
from adjoint.ops.arithmetic import add, multiply
from adjoint.ops.create import constant
from adjoint.ops.index import take
from adjoint.ops.pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from adjoint.ops.resample import resampled
from adjoint.ops.rules import require_float
from adjoint.ops.shape import broadcast_to, concat, permute, reshape, slice_axis, stack
from adjoint.ops.views import swapaxes

__all__ = ["CUBIC", "channel_shuffle", "interpolate", "pixel_shuffle", "pixel_unshuffle"]

#: The modes, and the numbers of axes of an image that they are for.
_MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "area": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
}

_AREA: dict[int, Callable[..., Value]] = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}

#: The parameter of the cubic convolution, R. Keys, "Cubic convolution interpolation for digital image processing",
#: 1981, that PyTorch uses, and the one that it uses with antialiasing.
CUBIC, _CUBIC_ANTIALIAS = -0.75, -0.5


def interpolate(
    x: Value,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Value:
    """Sequences, images or volumes in another size, like `torch.nn.functional.interpolate`.

    Parameters
    ----------
    x : Value
        Float, shape ``[N, C, L]``, ``[N, C, H, W]`` or ``[N, C, D, H, W]``.
    size : int or sequence of int, optional
        The size of the result along each axis.
    scale_factor : float or sequence of float, optional
        Instead: what the size is multiplied by; the result is rounded down.
    mode : str, default "nearest"
        "nearest" takes element ``floor(i * scale)`` for element i, where scale is the ratio of the sizes, or the
        inverse of the factor; "nearest-exact" takes ``floor((i + 0.5) * scale)``; "area" is the mean of
        `adaptive_avg_pool2d`; "linear", "bilinear" and "trilinear", for one, two and three axes, interpolate linearly
        between the centres of pixels; "bicubic", for two axes, by cubic convolution (Keys, 1981) with the parameter
        -0.75.
    align_corners : bool, optional
        For linear and cubic modes: whether the outermost pixels of both images coincide; default: False.
    recompute_scale_factor : bool, optional
        Whether positions are computed from the size of the result instead of the factor; default: False.
    antialias : bool, default False
        For "bilinear" and "bicubic": widen the kernel where the image becomes smaller. The cubic parameter is then
        -0.5.

    Raises
    ------
    TypeRuleError
        If the shape does not fit the mode, or the dtype is not float.
    InvalidValueError
        If a setting is out of range.
    """
    require_float("interpolate", x)
    axes = len(x.shape) - 2
    if mode not in _MODES:
        raise InvalidValueError(f"interpolate: the mode must be {', '.join(_MODES)}, got {mode!r}; use nearest")
    if axes not in _MODES[mode]:
        ranks = " or ".join(str(n + 2) for n in _MODES[mode])
        raise TypeRuleError(
            f"interpolate: for the mode {mode!r}, the input must have {ranks} axes, got {x.type}; reshape it"
        )
    cornered = mode not in ("nearest", "nearest-exact", "area")
    if align_corners is not None and not cornered:
        raise InvalidValueError(
            f"interpolate: align_corners is for the linear and cubic modes, got {align_corners!r} for {mode!r}; omit it"
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise InvalidValueError(f"interpolate: antialias is for 'bilinear' and 'bicubic', got {mode!r}; omit it")
    sizes, scales = _sizes(x, size, scale_factor, bool(recompute_scale_factor))
    if mode == "area":
        return _AREA[axes](x, sizes)
    for axis, (wanted, scale) in enumerate(zip(sizes, scales, strict=True), 2):
        times = sizes[axis - 2] // x.shape[axis]
        if (
            cornered
            and not align_corners
            and mode != "bicubic"
            and scale * times == 1.0
            and 2 <= times <= costs.MOST_TIMES_ENLARGED
        ):
            x = _enlarged(x, axis, times)
        elif cornered:
            matrix = _matrix(x.shape[axis], wanted, scale, mode, bool(align_corners), antialias)
            if not np.array_equal(matrix, np.eye(x.shape[axis])):
                x = resampled(x, axis, matrix)
        else:
            x = _nearest(x, axis, _nearest_places(x.shape[axis], wanted, scale, mode))
    return x


def _sizes(
    x: Value, size: int | Sequence[int] | None, scale_factor: float | Sequence[float] | None, recompute: bool
) -> tuple[list[int], list[float]]:
    """The size of the result, and by how much of the input a step of one moves on, along each axis."""
    if (size is None) == (scale_factor is None):
        raise InvalidValueError("interpolate: either size or scale_factor must be given, got both or none; pass one")
    own = x.shape[2:]
    factors: list[float] | None = None
    if size is not None:
        sizes = [size] * len(own) if isinstance(size, int) else list(size)
    else:
        assert scale_factor is not None
        factors = [scale_factor] * len(own) if isinstance(scale_factor, int | float) else list(scale_factor)
        sizes = [floor(n * factor) for n, factor in zip(own, factors, strict=len(factors) == len(own))]
    if len(sizes) != len(own) or min(sizes) < 1 or min(own) < 1:
        raise InvalidValueError(
            f"interpolate: the size must be at least 1 along each of {len(own)} axes, got {sizes} for {x.type}; "
            "correct size or scale_factor"
        )
    if factors is None or recompute:
        return sizes, [n / wanted for n, wanted in zip(own, sizes, strict=True)]
    return sizes, [1 / factor for factor in factors]


def _nearest_places(size: int, wanted: int, scale: float, mode: str) -> np.ndarray:
    """The elements of which the result consists, computed in f32 as by PyTorch."""
    numbers = np.arange(wanted, dtype=np.float32)
    if mode == "nearest-exact":
        numbers = numbers + np.float32(0.5)
    return np.asarray(np.minimum(np.floor(numbers * np.float32(scale)).astype(np.int64), size - 1))


def _nearest(x: Value, axis: int, places: np.ndarray) -> Value:
    """Some elements along an axis; a repetition where each is repeated equally often."""
    size, wanted = x.shape[axis], len(places)
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    if wanted % size == 0 and np.array_equal(places, np.arange(wanted) // (wanted // size)):
        repeated = broadcast_to(reshape(x, (*before, size, 1, *behind)), (*before, size, wanted // size, *behind))
        return reshape(repeated, (*before, wanted, *behind))
    front = reshape(x, (prod(before), size, prod(behind)))
    found = swapaxes(take(swapaxes(front, 0, 1), constant(places)), 0, 1)
    return reshape(found, (*before, wanted, *behind))


def _enlarged(x: Value, axis: int, times: int) -> Value:
    """Linear interpolation along an axis by a whole number, as as many sums of neighbours, which are interleaved."""
    size = x.shape[axis]
    first, last = slice_axis(x, axis, 0, 1), slice_axis(x, axis, size - 1, size)
    before = concat([first, slice_axis(x, axis, 0, size - 1)], axis=axis)
    behind = concat([slice_axis(x, axis, 1, size), last], axis=axis)
    parts = []
    for n in range(times):
        distance = (n + 0.5) / times - 0.5
        other = before if distance < 0 else behind
        parts.append(add(multiply(x, 1.0 - abs(distance)), multiply(other, abs(distance))))
    return reshape(stack(parts, axis=axis + 1), (*x.shape[:axis], size * times, *x.shape[axis + 1 :]))


def _matrix(size: int, wanted: int, scale: float, mode: str, align_corners: bool, antialias: bool) -> np.ndarray:
    """A matrix that interpolates along an axis."""
    if size == wanted and (antialias or mode != "bicubic"):  # as in PyTorch, whatever the factor
        return np.eye(size)
    numbers = np.arange(wanted)
    if align_corners:
        scale = (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    if antialias:
        return _antialiased(size, wanted, scale, mode)
    places = numbers * scale if align_corners else (numbers + 0.5) * scale - 0.5
    if mode != "bicubic":
        places = np.maximum(places, 0.0)
    first = np.floor(places).astype(np.int64)
    share = places - first
    cubic = {n: _cubic(share - n, CUBIC) for n in (-1, 0, 1, 2)}
    taps = cubic if mode == "bicubic" else {0: 1.0 - share, 1: share}
    matrix = np.zeros((wanted, size))
    for offset, weights in taps.items():
        np.add.at(matrix, (numbers, np.clip(first + offset, 0, size - 1)), weights)
    return matrix


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """The kernel of cubic convolution."""
    x = abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _antialiased(size: int, wanted: int, scale: float, mode: str) -> np.ndarray:
    """A matrix whose rows are kernels that are as much wider as the image becomes smaller."""
    widening = max(scale, 1.0)
    support = (2.0 if mode == "bicubic" else 1.0) * widening
    matrix = np.zeros((wanted, size))
    for n, row in enumerate(matrix):
        centre = (n + 0.5) * scale  # for aligned corners too, as in PyTorch
        start, stop = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), size)
        distance = (np.arange(start, stop) - centre + 0.5) / widening
        weights = _cubic(distance, _CUBIC_ANTIALIAS) if mode == "bicubic" else np.maximum(1.0 - abs(distance), 0.0)
        row[start:stop] = weights / weights.sum()
    return matrix


def pixel_shuffle(x: Value, upscale_factor: int) -> Value:
    """``[..., C * r**2, H, W]`` as ``[..., C, H * r, W * r]`` (Shi et al., 2016); `upscale_factor` is r.

    Raises
    ------
    TypeRuleError
        If the number of channels is not a multiple of the factor squared.
    """
    r = upscale_factor
    if len(x.shape) < 3 or r < 1 or x.shape[-3] % (r * r):
        raise TypeRuleError(
            f"pixel_shuffle: channels of [..., C, H, W] must be a multiple of the factor squared, got {x.type} and "
            f"{upscale_factor}; change one"
        )
    *lead, channels, rows, columns = x.shape
    made = (*lead, channels // (r * r), rows * r, columns * r)
    return _exchanged(x, (channels // (r * r), r, r, rows, columns), (0, 3, 1, 4, 2), made)


def pixel_unshuffle(x: Value, downscale_factor: int) -> Value:
    """``[..., C, H * r, W * r]`` as ``[..., C * r**2, H, W]``: the inverse of `pixel_shuffle`; `downscale_factor` is r.

    Raises
    ------
    TypeRuleError
        If the size of the image is not a multiple of the factor.
    """
    r = downscale_factor
    if len(x.shape) < 3 or r < 1 or x.shape[-2] % r or x.shape[-1] % r:
        raise TypeRuleError(
            f"pixel_unshuffle: rows and columns of [..., C, H, W] must be multiples of the factor, got {x.type} and "
            f"{downscale_factor}; change one"
        )
    *lead, channels, rows, columns = x.shape
    made = (*lead, channels * r * r, rows // r, columns // r)
    return _exchanged(x, (channels, rows // r, r, columns // r, r), (0, 2, 4, 1, 3), made)


def _exchanged(x: Value, split: tuple[int, ...], order: tuple[int, ...], made: tuple[int, ...]) -> Value:
    """The last three axes split in five, in another order, and merged to a shape."""
    parts = permute(reshape(x, (prod(made[:-3]), *split)), (0, *(axis + 1 for axis in order)))
    return reshape(parts, made)


def channel_shuffle(x: Value, groups: int) -> Value:
    """The channels of ``[N, C, ...]``: the first of each group, then the second of each (Zhang et al., 2018).

    Raises
    ------
    TypeRuleError
        If the number of channels is not a multiple of that of groups.
    """
    if len(x.shape) < 3 or groups < 1 or x.shape[1] % groups:
        raise TypeRuleError(
            f"channel_shuffle: the channels of [N, C, ...] must be a multiple of groups, got {x.type} and {groups}; "
            "change one"
        )
    n, channels, *rest = x.shape
    split = reshape(x, (n, groups, channels // groups, prod(rest)))
    return reshape(swapaxes(split, 1, 2), x.shape)
