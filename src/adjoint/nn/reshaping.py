"""Modules that change the shape of their input, without parameters."""

from collections.abc import Sequence
from math import prod
from typing import Any

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.functional.recording import recorded

__all__ = [
    "ChannelShuffle",
    "Flatten",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "Unflatten",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


@recorded
def _flatten(x: Any, start: int, end: int) -> Any:
    rank = len(x.shape)
    if not (-rank <= start < rank and -rank <= end < rank and start % rank <= end % rank):
        raise TypeRuleError(
            f"Flatten: start_dim and end_dim must be axes of the input in this order, got {start} and {end} for "
            f"{x.type}; change one"
        )
    first, last = start % rank, end % rank
    return ops.reshape(x, (*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@recorded
def _unflatten(x: Any, dim: int, sizes: tuple[int, ...]) -> Any:
    rank = len(x.shape)
    if not -rank <= dim < rank:
        raise TypeRuleError(f"Unflatten: dim must be an axis of the input, got {dim} for {x.type}; change it")
    place = dim % rank
    known = prod(n for n in sizes if n != -1)
    inferred = [x.shape[place] // known if n == -1 and known else n for n in sizes]
    if prod(inferred) != x.shape[place]:
        raise TypeRuleError(
            f"Unflatten: the sizes must multiply to that of the axis, got {list(sizes)} for axis {place} of {x.type}; "
            "change them"
        )
    return ops.reshape(x, (*x.shape[:place], *inferred, *x.shape[place + 1 :]))


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` merged into one.

    Parameters
    ----------
    start_dim, end_dim : int, default 1 and -1
        The first and the last of these axes.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Any:
        """The input in another shape."""
        return _flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """An axis split into several.

    Parameters
    ----------
    dim : int
        The axis.
    unflattened_size : sequence of int
        The sizes of the new axes, of which one may be -1.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        """The input in another shape."""
        return _unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The settings."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(Module):
    """``[N, C * r**2, H, W]`` as ``[N, C, H * r, W * r]``: `functional.pixel_shuffle`.

    Parameters
    ----------
    upscale_factor : int
        r.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Any:
        """The input in another shape."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """``[N, C, H * r, W * r]`` as ``[N, C * r**2, H, W]``: `functional.pixel_unshuffle`.

    Parameters
    ----------
    downscale_factor : int
        r.
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Any:
        """The input in another shape."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels in another order, those of each group apart: `functional.channel_shuffle`.

    Parameters
    ----------
    groups : int
        Number of groups.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        """The input in another order."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return f"groups={self.groups}"


class Unfold(Module):
    """The windows of images as columns: `functional.unfold`, whose settings it takes.

    Parameters
    ----------
    kernel_size, dilation, padding, stride : int or pair of int
        Rows and columns of a window, the distance between its elements, zeros at both ends, and the distance between
        windows.
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Any) -> Any:
        """The columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """The sum of windows, given as columns, in an image: `functional.fold`, whose settings it takes.

    Parameters
    ----------
    output_size : int or pair of int
        Rows and columns of the image.
    kernel_size, dilation, padding, stride : int or pair of int
        As in `Unfold`.
    """

    def __init__(
        self,
        output_size: int | Sequence[int],
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size, self.dilation = output_size, kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Any) -> Any:
        """The images."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Upsample(Module):
    """Sequences, images or volumes in another size: `functional.interpolate`, whose settings it takes.

    Parameters
    ----------
    size : int or sequence of int, optional
        The size of the result along each axis.
    scale_factor : float or sequence of float, optional
        Instead: what the size is multiplied by.
    mode : {"nearest", "linear", "bilinear", "bicubic", "trilinear"}, default "nearest"
        How pixels between those of the input are found.
    align_corners : bool, optional
        For the linear and cubic modes.
    recompute_scale_factor : bool, optional
        Whether positions are computed from the size of the result instead of the factor.
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Any:
        """The input in the other size."""
        rest = self.mode, self.align_corners, self.recompute_scale_factor
        return F.interpolate(input, self.size, self.scale_factor, *rest)

    def extra_repr(self) -> str:
        """The settings."""
        how = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{how}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images with the mode "nearest".

    Parameters
    ----------
    size : int or pair of int, optional
        Rows and columns of the result.
    scale_factor : float or pair of float, optional
        Instead: what the size is multiplied by.
    """

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images with the mode "bilinear" and aligned corners.

    Parameters
    ----------
    size : int or pair of int, optional
        Rows and columns of the result.
    scale_factor : float or pair of float, optional
        Instead: what the size is multiplied by.
    """

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)
