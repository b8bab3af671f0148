"""Pooling over windows of images and sequences, with PyTorch's arguments."""

from collections.abc import Callable, Sequence

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.nn.functional.layers import pair, single
from adjoint.nn.functional.recording import Array, recorded

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "max_pool1d",
    "max_pool2d",
]


@recorded
def max_pool2d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Array:
    """The maximum of each window; the gradient goes to the first of equal elements.

    Parameters
    ----------
    input : Tensor
        Images, float, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    kernel_size, stride, padding
        Rows and columns of a window, the distances between windows (default: the window), and what is added at both
        ends, at most half the window.
    dilation, ceil_mode, return_indices
        1, False and False, the only choices that are supported.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """
    _refuse("max_pool2d", dilation=(dilation, (1, (1, 1))), ceil_mode=(ceil_mode, (False,)))
    _refuse("max_pool2d", return_indices=(return_indices, (False,)))
    return _batched("max_pool2d", input, lambda x: ops.max_pool2d(x, kernel_size, stride, padding))


@recorded
def avg_pool2d(
    input: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of each window.

    Parameters
    ----------
    input : Tensor
        Images, float, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    kernel_size, stride, padding
        As in `max_pool2d`; padded elements are 0.
    ceil_mode : bool, default False
        False, the only choice that is supported.
    count_include_pad : bool, default True
        Whether padded elements count.
    divisor_override : int, optional
        What the sum of a window is divided by, instead of the number of elements.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """
    _refuse("avg_pool2d", ceil_mode=(ceil_mode, (False,)))

    def pooled(x: Array) -> Array:
        if divisor_override is None:
            return ops.avg_pool2d(x, kernel_size, stride, padding, count_include_pad)
        rows, columns = pair(kernel_size)
        return ops.multiply(ops.avg_pool2d(x, kernel_size, stride, padding), rows * columns / divisor_override)

    return _batched("avg_pool2d", input, pooled)


@recorded
def max_pool1d(
    input: Array,
    kernel_size: int,
    stride: int | None = None,
    padding: int = 0,
    dilation: int = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Array:
    """The maximum of each window of sequences ``[N, C, L]`` or ``[C, L]``; arguments as in `max_pool2d`."""
    _refuse("max_pool1d", dilation=(dilation, (1,)), ceil_mode=(ceil_mode, (False,)))
    _refuse("max_pool1d", return_indices=(return_indices, (False,)))
    window, steps, around = _of_row(kernel_size, stride, padding)
    return _row("max_pool1d", input, lambda x: ops.max_pool2d(x, window, steps, around))


@recorded
def avg_pool1d(
    input: Array,
    kernel_size: int,
    stride: int | None = None,
    padding: int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """The mean of each window of sequences ``[N, C, L]`` or ``[C, L]``; arguments as in `avg_pool2d`."""
    _refuse("avg_pool1d", ceil_mode=(ceil_mode, (False,)))
    window, steps, around = _of_row(kernel_size, stride, padding)
    return _row("avg_pool1d", input, lambda x: ops.avg_pool2d(x, window, steps, around, count_include_pad))


@recorded
def adaptive_avg_pool2d(input: Array, output_size: int | Sequence[int | None] | None) -> Array:
    """The mean of each of a number of windows that cover the image.

    Window i of n covers the rows from ``floor(i * H / n)`` up to, not including, ``ceil((i + 1) * H / n)``.

    Parameters
    ----------
    input : Tensor
        Images, float, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    output_size : int or pair of int or None
        Rows and columns of the result; None keeps the size of the input.
    """
    return _batched("adaptive_avg_pool2d", input, lambda x: _adaptive_mean(x, _sizes(x, output_size)))


@recorded
def adaptive_avg_pool1d(input: Array, output_size: int) -> Array:
    """The mean of each of a number of windows that cover sequences ``[N, C, L]`` or ``[C, L]``."""
    return _row("adaptive_avg_pool1d", input, lambda x: _adaptive_mean(x, (1, output_size)))


@recorded
def adaptive_max_pool2d(
    input: Array, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Array:
    """The maximum of each of a number of windows of the same size that cover the image.

    Parameters
    ----------
    input : Tensor
        Images, float, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    output_size : int or pair of int or None
        Rows and columns of the result, which divide those of the input.
    return_indices : bool, default False
        False, the only choice that is supported.

    Raises
    ------
    InvalidValueError
        If a size does not divide that of the input, or indices are asked for.
    """
    _refuse("adaptive_max_pool2d", return_indices=(return_indices, (False,)))

    def pooled(x: Array) -> Array:
        sizes = _sizes(x, output_size)
        if any(n % size for n, size in zip(x.shape[2:], sizes, strict=True)):
            raise InvalidValueError(
                f"adaptive_max_pool2d: output_size must divide the size of the images, got {sizes} for {x.type}; use "
                "max_pool2d"
            )
        return ops.max_pool2d(x, [n // size for n, size in zip(x.shape[2:], sizes, strict=True)])

    return _batched("adaptive_max_pool2d", input, pooled)


def _refuse(name: str, **settings: tuple[object, tuple[object, ...]]) -> None:
    """Raise for a setting that is not one of those that are supported."""
    for setting, (given, allowed) in settings.items():
        plain = tuple(given) if isinstance(given, list) else given
        if plain not in allowed:
            raise InvalidValueError(
                f"{name}: {setting} must be {allowed[0]}, the only choice that is supported, got {given!r}; omit it"
            )


def _batched(name: str, x: Array, pooled: Callable[[Array], Array]) -> Array:
    """Pool images, or a single one."""
    if len(x.shape) not in (3, 4):
        raise TypeRuleError(f"{name}: the input must be [N, C, H, W] or [C, H, W], got {x.type}; reshape it")
    if len(x.shape) == 3:
        return ops.squeeze(pooled(ops.expand_dims(x, 0)), 0)
    return pooled(x)


def _row(name: str, x: Array, pooled: Callable[[Array], Array]) -> Array:
    """Pool sequences, as images of one row."""
    if len(x.shape) not in (2, 3):
        raise TypeRuleError(f"{name}: the input must be [N, C, L] or [C, L], got {x.type}; reshape it")
    images = ops.expand_dims(x, 2) if len(x.shape) == 3 else ops.expand_dims(x, (0, 2))
    return ops.squeeze(pooled(images), 2 if len(x.shape) == 3 else (0, 2))


def _of_row(window: int, stride: int | None, padding: int) -> tuple[tuple[int, int], ...]:
    """Settings of windows of a sequence, as those of images of one row."""
    first, steps, around = (single(n) for n in (window, window if stride is None else stride, padding))
    return (1, first), (1, steps), (0, around)


def _sizes(x: Array, wanted: int | Sequence[int | None] | None) -> tuple[int, int]:
    both = (wanted, wanted) if wanted is None or isinstance(wanted, int) else tuple(wanted)
    rows, columns = (n if size is None else size for n, size in zip(x.shape[2:], both, strict=True))
    return rows, columns


def _adaptive_mean(x: Array, sizes: tuple[int, int]) -> Array:
    if sizes == (1, 1):
        return ops.mean(x, (2, 3), keepdims=True)
    if not any(n % size for n, size in zip(x.shape[2:], sizes, strict=True)):
        return ops.avg_pool2d(x, [n // size for n, size in zip(x.shape[2:], sizes, strict=True)])
    rows, columns = (_averages(n, size, x.dtype) for n, size in zip(x.shape[2:], sizes, strict=True))
    return ops.matmul(ops.matmul(rows, x), columns, transpose_b=True)


def _averages(size: int, parts: int, dtype: np.dtype) -> Array:
    """A matrix that averages each of the windows that cover an axis."""
    matrix = np.zeros((parts, size))
    for n in range(parts):
        start, stop = n * size // parts, -(-(n + 1) * size // parts)
        matrix[n, start:stop] = 1.0 / (stop - start)
    return ops.constant(matrix, dtype)
