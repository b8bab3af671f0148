"""Padding, one-hot vectors, resizing of images, and distances between vectors."""

from collections.abc import Sequence

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES
from adjoint.nn.functional.recording import Array, recorded
from adjoint.tensor.tensor import Tensor

__all__ = ["cosine_similarity", "interpolate", "one_hot", "pad", "pairwise_distance", "pixel_shuffle"]

#: The modes of `pad` and those of NumPy.
_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@recorded
def pad(input: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    """`input` with elements added at the ends of its last axes.

    Parameters
    ----------
    input : Tensor
        Any dtype.
    pad : sequence of int
        For the last axis, then for the one before, and so on: how many elements before and after. Negative numbers
        remove elements.
    mode : {"constant", "reflect", "replicate", "circular"}, default "constant"
        What is added: a value, or elements of the input.
    value : float, optional
        The value; default: 0.

    Raises
    ------
    InvalidValueError
        If the mode is unknown, or the numbers are not pairs of at most as many axes as there are.
    """
    rank = len(input.shape)
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise InvalidValueError(
            f"pad: the numbers must be pairs for at most {rank} axes of {input.type}, got {list(pad)}; pass two each"
        )
    axes = [(rank - 1 - n, pad[2 * n], pad[2 * n + 1]) for n in range(len(pad) // 2)]
    if mode == "constant":
        low, high = [0] * rank, [0] * rank
        for axis, before, after in axes:
            low[axis], high[axis] = max(before, 0), max(after, 0)
            if before < 0 or after < 0:
                input = ops.slice_axis(input, axis, max(-before, 0), input.shape[axis] - max(-after, 0))
        return ops.pad(input, low, high, 0.0 if value is None else value)
    if mode not in _MODES:
        raise InvalidValueError(f"pad: the mode must be constant, {', '.join(_MODES)}, got {mode!r}; use one of them")
    for axis, before, after in axes:
        size = input.shape[axis]
        most = size - 1 if mode == "reflect" else size if mode == "circular" else max(before, after)
        if max(before, after) > most or min(before, after) < 0:
            raise InvalidValueError(
                f"pad: with mode {mode!r}, an axis of {size} can get 0 to {most} elements, got {before} and {after}; "
                "pad less"
            )
        places = np.pad(np.arange(size), (before, after), mode=_MODES[mode])  # type: ignore[call-overload]
        input = _taken(input, axis, places)
    return input


def _taken(x: Array, axis: int, places: np.ndarray) -> Array:
    """The parts of a tensor at some places along an axis."""
    front = ops.take(ops.swapaxes(x, 0, axis), ops.constant(places))
    return ops.swapaxes(front, 0, axis)


@recorded
def _one_hot(ids: Array, num_classes: int) -> Array:
    return ops.one_hot(ids, num_classes, DTYPES["i64"])


def one_hot(tensor: Array, num_classes: int = -1) -> Array:
    """A row of zeros per id, with a one at the id, i64.

    Parameters
    ----------
    tensor : Tensor
        Integers from 0 to ``num_classes - 1``.
    num_classes : int, default -1
        Length of the rows; -1 reads the ids, and takes the greatest one plus one.
    """
    if num_classes == -1 and isinstance(tensor, Tensor):
        num_classes = int(tensor.elements().array.max()) + 1
    return _one_hot(tensor, num_classes)


@recorded
def interpolate(
    input: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Array:
    """Images in another size.

    Parameters
    ----------
    input : Tensor
        Float, shape ``[N, C, H, W]``.
    size : int or pair of int, optional
        Rows and columns of the result.
    scale_factor : float or pair of float, optional
        Instead: what the size is multiplied by; the result is rounded down.
    mode : {"nearest", "bilinear"}, default "nearest"
        "nearest" takes element ``floor(i * H / rows)`` for row i; "bilinear" interpolates linearly between the centres
        of pixels or, with `align_corners`, between pixels of which the outermost ones coincide.
    align_corners : bool, optional
        For "bilinear"; default: False.

    Raises
    ------
    TypeRuleError
        If it is not an image.
    InvalidValueError
        If a setting is out of range.
    """
    if len(input.shape) != 4:
        raise TypeRuleError(f"interpolate: the input must be [N, C, H, W], got {input.type}; reshape it")
    if (size is None) == (scale_factor is None):
        raise InvalidValueError("interpolate: either size or scale_factor must be given, got both or none; pass one")
    if mode not in ("nearest", "bilinear"):
        raise InvalidValueError(f"interpolate: the mode must be nearest or bilinear, got {mode!r}; use nearest")
    if size is not None:
        sizes = (size, size) if isinstance(size, int) else tuple(size)
        scales = [n / wanted for n, wanted in zip(input.shape[2:], sizes, strict=True)]
    else:
        given = scale_factor
        factors = (given, given) if isinstance(given, int | float) else tuple(given)  # type: ignore[arg-type]
        sizes = tuple(int(n * factor) for n, factor in zip(input.shape[2:], factors, strict=True))
        scales = [1 / factor for factor in factors]
    for axis, (wanted, scale) in enumerate(zip(sizes, scales, strict=True), 2):
        size_now = input.shape[axis]
        if mode == "nearest":
            places = np.minimum(np.floor(np.arange(wanted) * scale).astype(np.int64), size_now - 1)
            input = _taken(input, axis, places)
        else:
            weights = ops.constant(_between_pixels(size_now, wanted, scale, bool(align_corners)), input.dtype)
            input = ops.matmul(weights, input) if axis == 2 else ops.matmul(input, weights, transpose_b=True)
    return input


def _between_pixels(size: int, wanted: int, scale: float, align_corners: bool) -> np.ndarray:
    """A matrix that interpolates linearly along an axis."""
    if align_corners:
        places = np.arange(wanted) * ((size - 1) / (wanted - 1) if wanted > 1 else 0.0)
    else:
        places = np.maximum((np.arange(wanted) + 0.5) * scale - 0.5, 0.0)
    first = np.minimum(places.astype(np.int64), size - 1)
    share = places - first
    matrix = np.zeros((wanted, size))
    np.add.at(matrix, (np.arange(wanted), first), 1.0 - share)
    np.add.at(matrix, (np.arange(wanted), np.minimum(first + 1, size - 1)), share)
    return matrix


@recorded
def pixel_shuffle(input: Array, upscale_factor: int) -> Array:
    """``[N, C * r**2, H, W]`` as ``[N, C, H * r, W * r]`` (Shi et al., 2016).

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
    r = upscale_factor
    if len(input.shape) != 4 or r < 1 or input.shape[1] % (r * r):
        raise TypeRuleError(
            f"pixel_shuffle: channels of [N, C, H, W] must be a multiple of the factor squared, got {input.type} and "
            f"{upscale_factor}; change one"
        )
    n, channels, rows, columns = input.shape
    split = ops.reshape(input, (n, channels // (r * r), r, r, rows, columns))
    return ops.reshape(ops.permute(split, (0, 1, 4, 2, 5, 3)), (n, channels // (r * r), rows * r, columns * r))


@recorded
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """``sum(x1 * x2) / (norm(x1) * norm(x2))`` along an axis, with norms of at least `eps`."""
    first, second = ops.broadcast(x1, x2)
    norms = [ops.maximum(ops.norm(x, 2.0, dim), eps) for x in (first, second)]
    return ops.divide(ops.sum(ops.multiply(first, second), dim), ops.multiply(*norms))


@recorded
def pairwise_distance(x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Array:
    """The norm ``sum(abs(x1 - x2 + eps)**p)**(1/p)`` along the last axis."""
    return ops.norm(ops.add(ops.subtract(*ops.broadcast(x1, x2)), eps), p, -1, keepdim)
