"""Resizing of images, pixels moved into channels, and images read at computed positions, with PyTorch's arguments."""

from collections.abc import Sequence

from adjoint import ops
from adjoint.nn.functional.recording import Array, recorded
from adjoint.tensor.autocasting import full_precision

__all__ = [
    "affine_grid",
    "channel_shuffle",
    "grid_sample",
    "interpolate",
    "pixel_shuffle",
    "pixel_unshuffle",
    "upsample",
]


@recorded
def interpolate(
    input: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Array:
    """Sequences, images or volumes in another size.

    Parameters
    ----------
    input : Tensor
        Float, shape ``[N, C, L]``, ``[N, C, H, W]`` or ``[N, C, D, H, W]``.
    size : int or sequence of int, optional
        The size of the result along each axis.
    scale_factor : float or sequence of float, optional
        Instead: what the size is multiplied by; the result is rounded down.
    mode : {"nearest", "nearest-exact", "area", "linear", "bilinear", "bicubic", "trilinear"}, default "nearest"
        How pixels between those of the input are found; see `adjoint.ops.interpolate`.
    align_corners : bool, optional
        For the linear and cubic modes: whether the outermost pixels of both images coincide; default: False.
    recompute_scale_factor : bool, optional
        Whether positions are computed from the size of the result instead of the factor; default: False.
    antialias : bool, default False
        For "bilinear" and "bicubic": widen the kernel where the image becomes smaller.

    Raises
    ------
    TypeRuleError
        If the shape does not fit the mode.
    InvalidValueError
        If a setting is out of range.
    """
    return ops.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


def upsample(
    input: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Array:
    """`interpolate`, by its former name in PyTorch."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@recorded
def pixel_shuffle(input: Array, upscale_factor: int) -> Array:
    """``[..., C * r**2, H, W]`` as ``[..., C, H * r, W * r]`` (Shi et al., 2016).

    Parameters
    ----------
    input : Tensor
        Images, whose number of channels is a multiple of ``upscale_factor**2``.
    upscale_factor : int
        r.

    Raises
    ------
    TypeRuleError
        If the number of channels does not fit.
    """
    return ops.pixel_shuffle(input, upscale_factor)


@recorded
def pixel_unshuffle(input: Array, downscale_factor: int) -> Array:
    """``[..., C, H * r, W * r]`` as ``[..., C * r**2, H, W]``: the inverse of `pixel_shuffle`.

    Parameters
    ----------
    input : Tensor
        Images, whose size is a multiple of the factor.
    downscale_factor : int
        r.

    Raises
    ------
    TypeRuleError
        If the size does not fit.
    """
    return ops.pixel_unshuffle(input, downscale_factor)


@recorded
def channel_shuffle(input: Array, groups: int) -> Array:
    """Channels in another order: the first of each group, then the second of each, and so on (Zhang et al., 2018).

    Parameters
    ----------
    input : Tensor
        Shape ``[N, C, ...]``.
    groups : int
        Number of groups, of which C is a multiple.

    Raises
    ------
    TypeRuleError
        If the number of channels does not fit.
    """
    return ops.channel_shuffle(input, groups)


@recorded
def affine_grid(theta: Array, size: Sequence[int], align_corners: bool | None = None) -> Array:
    """The positions of an affine map of images or volumes, for `grid_sample`.

    Parameters
    ----------
    theta : Tensor
        Float matrices, shape ``[N, 2, 3]`` or ``[N, 3, 4]``.
    size : sequence of int
        The shape of the result of `grid_sample`, ``[N, C, H, W]`` or ``[N, C, D, H, W]``.
    align_corners : bool, optional
        Whether -1 and 1 are the centres of the outermost pixels rather than the ends of the image; default: False.

    Raises
    ------
    TypeRuleError
        If the matrices do not fit the size.
    """
    return ops.affine_grid(theta, size, bool(align_corners))


@full_precision
@recorded
def grid_sample(
    input: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Array:
    """Images or volumes read at positions (Jaderberg et al., 2015).

    Parameters
    ----------
    input : Tensor
        Float, shape ``[N, C, H, W]`` or ``[N, C, D, H, W]``.
    grid : Tensor
        The positions, shape ``[N, I, J, 2]`` or ``[N, K, I, J, 3]``: x, y and z, from -1 to 1 in the image.
    mode : {"bilinear", "nearest", "bicubic"}, default "bilinear"
        How pixels between those of the input are found; "bicubic" is for images. See `adjoint.ops.grid_sample`.
    padding_mode : {"zeros", "border", "reflection"}, default "zeros"
        What is outside the image: zeros, its outermost pixels, or its mirror image.
    align_corners : bool, optional
        Whether -1 and 1 are the centres of the outermost pixels rather than the ends of the image; default: False.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match.
    InvalidValueError
        If a setting is unknown.
    """
    return ops.grid_sample(input, grid, mode, padding_mode, bool(align_corners))
