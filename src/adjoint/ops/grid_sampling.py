"""Images read at computed positions: grids of positions, and interpolation between the pixels around them.

M. Jaderberg et al., "Spatial transformer networks", 2015. Positions are from -1 to 1 along each axis, x before y.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.value import Value
from adjoint.ops.arithmetic import add, divide, multiply, subtract
from adjoint.ops.contract import matmul
from adjoint.ops.convert import cast
from adjoint.ops.create import constant, iota
from adjoint.ops.index import take
from adjoint.ops.logic import equal, greater_equal, less_equal, logical_and, where
from adjoint.ops.piecewise import abs as absolute
from adjoint.ops.piecewise import clip, floor
from adjoint.ops.resize import CUBIC
from adjoint.ops.rules import require_float
from adjoint.ops.shape import expand_dims, permute, reshape, transpose

__all__ = ["affine_grid", "grid_sample"]


def affine_grid(theta: Value, size: Sequence[int], align_corners: bool = False) -> Value:
    """The positions of an affine map of images or volumes, for `grid_sample`.

    Parameters
    ----------
    theta : Value
        Float matrices, shape ``[N, 2, 3]`` or ``[N, 3, 4]``.
    size : sequence of int
        The shape of the result of `grid_sample`, ``[N, C, H, W]`` or ``[N, C, D, H, W]``.
    align_corners : bool, default False
        Whether -1 and 1 are the centres of the outermost pixels rather than the ends of the image.

    Returns
    -------
    Value
        Shape ``[N, H, W, 2]`` or ``[N, D, H, W, 3]``.

    Raises
    ------
    TypeRuleError
        If the matrices do not fit the size.
    """
    require_float("affine_grid", theta)
    n, _, *image = size
    axes = len(image)
    if axes not in (2, 3) or theta.shape != (n, axes, axes + 1):
        raise TypeRuleError(
            f"affine_grid: theta must be [N, 2, 3] for a size of 4 numbers or [N, 3, 4] for one of 5, got {theta.type} "
            f"and {list(size)}; change one"
        )
    along = []
    for count in image:
        ends = np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1)
        along.append(ends if align_corners else ends * (count - 1) / count)
    places = np.meshgrid(*along, indexing="ij")
    base = np.stack([*reversed(places), np.ones(image)], -1).reshape(-1, axes + 1)
    found = matmul(constant(base, theta.dtype), transpose(theta, (0, 2, 1)))
    return reshape(found, (n, *image, axes))


def grid_sample(
    x: Value, grid: Value, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Value:
    """Images or volumes read at positions, like `torch.nn.functional.grid_sample`.

    Parameters
    ----------
    x : Value
        Float, shape ``[N, C, H, W]`` or ``[N, C, D, H, W]``.
    grid : Value
        The positions, shape ``[N, I, J, 2]`` or ``[N, K, I, J, 3]``: x, y and z, from -1 to 1 in the image.
    mode : {"bilinear", "nearest", "bicubic"}, default "bilinear"
        "bilinear" interpolates linearly between the pixels around a position; "nearest" takes the nearest, of two
        equally near ones the one with the even index; "bicubic", for images, interpolates by cubic convolution (Keys,
        1981) with the parameter -0.75 between 4 x 4 pixels, of which `padding_mode` moves each into the image. The
        gradient of positions is 0 for "nearest".
    padding_mode : {"zeros", "border", "reflection"}, default "zeros"
        What is outside the image: zeros, its outermost pixels, or its mirror image.
    align_corners : bool, default False
        Whether -1 and 1 are the centres of the outermost pixels rather than the ends of the image.

    Returns
    -------
    Value
        Shape ``[N, C, I, J]`` or ``[N, C, K, I, J]``.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match.
    InvalidValueError
        If a setting is unknown, or the mode is not for volumes.
    """
    require_float("grid_sample", x)
    axes = len(x.shape) - 2
    if axes not in (2, 3) or len(grid.shape) != axes + 2 or grid.shape[0] != x.shape[0] or grid.shape[-1] != axes:
        raise TypeRuleError(
            "grid_sample: the input must be [N, C, H, W] and the grid [N, I, J, 2], or [N, C, D, H, W] and "
            f"[N, K, I, J, 3], got {x.type} and {grid.type}; reshape one"
        )
    if grid.dtype != x.dtype or 0 in x.shape[2:]:
        raise TypeRuleError(
            f"grid_sample: input and grid must have the same dtype, and images must not be empty, got {x.type} and "
            f"{grid.type}; cast one"
        )
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise InvalidValueError(
            f"grid_sample: the mode must be 'bilinear', 'nearest' or 'bicubic', got {mode!r}; use 'bilinear'"
        )
    if mode == "bicubic" and axes != 2:
        raise InvalidValueError(
            f"grid_sample: the mode 'bicubic' is for images [N, C, H, W], got {x.type}; use 'bilinear'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise InvalidValueError(
            f"grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', got {padding_mode!r}; use 'zeros'"
        )
    along = []
    for axis, size in enumerate(x.shape[2:]):
        place = _unnormalized(grid[..., axes - 1 - axis], size, align_corners)
        along.append(_taps(place, size, mode, padding_mode, align_corners))
    table = reshape(permute(x, (0, *range(2, axes + 2), 1)), (x.shape[0] * prod(x.shape[2:]), x.shape[1]))
    total = _sampled(table, x.shape[2:], along)
    return permute(total, (0, axes + 1, *range(1, axes + 1)))


def _unnormalized(place: Value, size: int, align_corners: bool) -> Value:
    """Positions from -1 to 1 as fractional indices."""
    if align_corners:
        return multiply(add(place, 1.0), (size - 1) / 2)
    return divide(subtract(multiply(add(place, 1.0), float(size)), 1.0), 2.0)


def _inside(place: Value, size: int, padding_mode: str, align_corners: bool) -> Value:
    """Positions moved into the image as the padding mode says."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        start, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if not span:
            return multiply(place, 0.0)
        distance = absolute(subtract(place, start))
        turns = floor(divide(distance, span))
        rest = subtract(distance, multiply(turns, span))
        is_even = equal(multiply(floor(divide(turns, 2.0)), 2.0), turns)
        place = add(where(is_even, rest, subtract(span, rest)), start)
    return clip(place, 0.0, size - 1.0)


def _taps(place: Value, size: int, mode: str, padding_mode: str, align_corners: bool) -> list[tuple[Value, Value]]:
    """The pixels along an axis that a position is interpolated from, and their weights, 0 outside the image."""
    if mode == "bicubic":
        low = floor(place)
        share = subtract(place, low)
        taps = [
            (_inside(add(low, float(n)), size, padding_mode, align_corners), _cubic_weight(distance, n in (0, 1)))
            for n, distance in ((-1, add(share, 1.0)), (0, share), (1, subtract(1.0, share)), (2, subtract(2.0, share)))
        ]
    else:
        inside = _inside(place, size, padding_mode, align_corners)
        if mode == "nearest":
            at = _rounded(inside)
            taps = [(at, add(multiply(at, 0.0), 1.0))]
        else:
            low = floor(inside)
            taps = [(at, subtract(1.0, absolute(subtract(inside, at)))) for at in (low, add(low, 1.0))]
    return [
        (clip(at, 0.0, size - 1.0), where(logical_and(greater_equal(at, 0.0), less_equal(at, size - 1.0)), weight, 0.0))
        for at, weight in taps
    ]


def _cubic_weight(distance: Value, is_near: bool) -> Value:
    """The kernel of cubic convolution with the parameter -0.75, for distances up to 1 (near), or from 1 to 2."""
    if is_near:
        inner = subtract(multiply(distance, CUBIC + 2.0), CUBIC + 3.0)
        return add(multiply(multiply(inner, distance), distance), 1.0)
    inner = add(multiply(subtract(multiply(distance, CUBIC), 5.0 * CUBIC), distance), 8.0 * CUBIC)
    return subtract(multiply(inner, distance), 4.0 * CUBIC)


def _sampled(table: Value, size: Sequence[int], along: list[list[tuple[Value, Value]]]) -> Value:
    """The pixels around positions, weighted and added: ``[N, ..., C]``."""
    total: Value | None = None
    for corner in product(*along):
        weight: Value | None = None
        ids = iota(corner[0][0].shape, 0)
        for count, (at, own) in zip(size, corner, strict=True):
            weight = own if weight is None else multiply(weight, own)
            ids = add(multiply(ids, count), cast(at, "i64"))
        assert weight is not None
        part = multiply(take(table, ids), expand_dims(weight, -1))
        total = part if total is None else add(total, part)
    assert total is not None
    return total


def _rounded(x: Value) -> Value:
    """The nearest integers, of two equally near ones the even one."""
    up = floor(add(x, 0.5))
    is_tie = equal(subtract(up, x), 0.5)
    is_odd = equal(subtract(up, multiply(floor(divide(up, 2.0)), 2.0)), 1.0)
    return where(logical_and(is_tie, is_odd), subtract(up, 1.0), up)
