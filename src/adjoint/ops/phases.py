"""Phases: the rows of an image with the same remainder by a stride, computed apart and then interleaved."""

from collections.abc import Mapping, Sequence

from adjoint.ir.value import Value
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add
from adjoint.ops.create import full
from adjoint.ops.shape import pad, slice_axis

__all__ = ["Phase", "cut_or_padded", "interleaved", "window_phases"]


@dataclass(frozen=True, slots=True)
class Phase:
    """The rows (or columns) of an image with the same remainder by the stride, which some windows contain.

    Parameters
    ----------
    remainder, count : int
        The index of the first of them, and their number.
    taps : int
        Number of windows that contain each: row ``i * stride + remainder`` is element ``remainder + u * stride`` of
        window ``i - u``, for u below this number.
    """

    remainder: int
    count: int
    taps: int


def window_phases(size: int, window: int, stride: int) -> list[Phase]:
    """The phases of an axis, without those that no window contains."""
    reached = range(min(stride, window, size))
    return [Phase(r, -(-(size - r) // stride), -(-(window - r) // stride)) for r in reached]


def interleaved(
    parts: Mapping[tuple[int, ...], Value], stride: Sequence[int], size: Sequence[int], like: Value
) -> Value:
    """An image from its phases, with zeros where there is none.

    Parameters
    ----------
    parts : mapping
        The phases, by their remainders along the axes.
    stride, size : sequence of int
        The strides, and the size of the image.
    like : Value
        A value with the axes in front of those of the image, and the dtype.
    """
    total: Value | None = None
    for remainders, part in parts.items():
        settings = list(zip(remainders, part.shape[2:], stride, size, strict=True))
        behind = [n - r - ((count - 1) * s + 1) for r, count, s, n in settings]
        gaps = [s - 1 for s in stride]
        placed = pad(part, (0, 0, *remainders), (0, 0, *behind), interior=(0, 0, *gaps))
        total = placed if total is None else add(total, placed)
    return full(0.0, (*like.shape[:2], *size), like.dtype) if total is None else total


def cut_or_padded(x: Value, axis: int, first: int, last: int) -> Value:
    """Elements from `first` up to, not including, `last` along an axis, with zeros outside `x`."""
    size, length = x.shape[axis], last - first
    start = min(max(first, 0), size)
    stop = max(start, min(last, size))
    before = min(max(-first, 0), length)
    behind = length - before - (stop - start)
    axes = range(len(x.shape))
    kept = slice_axis(x, axis, start, stop)
    return pad(kept, [before if n == axis else 0 for n in axes], [behind if n == axis else 0 for n in axes])
