"""Pooling over windows of images: maximum and mean.

The operators' windows lie within the image; the constructors pad it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import divide
from adjoint.ops.base import Builder, Index, Operand, Scalar
from adjoint.ops.convert import cast
from adjoint.ops.create import constant
from adjoint.ops.reduce import widened
from adjoint.ops.rules import require_float, rounded
from adjoint.ops.shape import broadcast_to, pad, reshape
from adjoint.ops.window_places import OfWindows, WindowArgMax, WindowSpread
from adjoint.ops.windows import Pair, images, pair

__all__ = ["MaxPool2d", "SumPool2d", "avg_pool2d", "max_pool2d"]


@dataclass(frozen=True, slots=True)
class MaxPool2d(OfWindows):
    """The maximum of each window; NaN if any element is NaN.

    The gradient goes to the element that `WindowArgMax` selects.
    """

    name: ClassVar[str] = "max_pool2d"

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.max` over windows."""
        return rounded(lambda wide: np.max(self.windows(wide), (4, 5)), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """Each window's cotangent, passed to its maximum element."""
        places = apply(WindowArgMax(self.window, self.stride), x)
        return (apply(WindowSpread(self.window, self.stride, (x.shape[2], x.shape[3])), ct, places),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """A reduction over the window."""
        return k.reduce("max", self.window, lambda r: x(self.at(index, r)))


@dataclass(frozen=True, slots=True)
class SumPool2d(OfWindows):
    """The sum of each window. 16-bit floats are added in f32 and rounded once."""

    name: ClassVar[str] = "sum_pool2d"

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.sum` over windows."""
        return rounded(lambda wide: np.sum(self.windows(wide), (4, 5)), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """For each element, the sum of the cotangents of the windows that contain it.

        For non-overlapping adjacent windows, the cotangent is repeated; otherwise it is a sum over windows of the
        cotangent with zeros inserted.
        """
        (high, wide), (rows, columns) = self.window, ct.shape[2:]
        if self.window == self.stride:
            split = reshape(ct, (*ct.shape[:2], rows, 1, columns, 1))
            whole = reshape(
                broadcast_to(split, (*ct.shape[:2], rows, high, columns, wide)),
                (*ct.shape[:2], rows * high, columns * wide),
            )
            return (pad(whole, 0, (0, 0, x.shape[2] - rows * high, x.shape[3] - columns * wide)),)
        (down, right), (height, width) = self.stride, x.shape[2:]
        behind = (height - (rows - 1) * down - 1, width - (columns - 1) * right - 1)
        apart = pad(ct, (0, 0, high - 1, wide - 1), (0, 0, *behind), interior=(0, 0, down - 1, right - 1))
        return (apply(SumPool2d(self.window, (1, 1)), apart),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """A reduction over the window."""
        return k.reduce("add", self.window, lambda r: x(self.at(index, r)))


def _settings(
    name: str, x: Value, window: int | Sequence[int], stride: int | Sequence[int] | None, padding: int | Sequence[int]
) -> tuple[Pair, Pair, Pair]:
    sizes = pair(name, "window", window, 1)
    steps = sizes if stride is None else pair(name, "stride", stride, 1)
    around = pair(name, "padding", padding, 0)
    if any(2 * p > k for p, k in zip(around, sizes, strict=True)):
        raise InvalidValueError(
            f"{name}: padding must be at most half the window, got {padding!r} for {window!r}; pad less, or use pad "
            "first"
        )
    require_float(name, x)
    images(name, "the image", x.type)
    return sizes, steps, around


def max_pool2d(
    x: Value,
    window: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
) -> Value:
    """The maximum of each window, like `torch.nn.functional.max_pool2d`; NaN if any element is NaN.

    The gradient goes to the first of equal elements; gradients of overlapping windows add up.

    Parameters
    ----------
    x : Value
        Images, float, shape ``[N, C, H, W]``.
    window : int or pair of int
        Rows and columns of a window.
    stride : int or pair of int, optional
        Distance between windows, in rows and columns; default: `window`.
    padding : int or pair of int, default 0
        Rows above and below and columns left and right, at most half the window, which never are the maximum.

    Returns
    -------
    Value
        Shape ``[N, C, I, J]`` with ``I = (H + 2 * padding - window) // stride + 1``, and J likewise.
    """
    sizes, steps, around = _settings("max_pool2d", x, window, stride, padding)
    edges = (0, 0, *around)
    return apply(MaxPool2d(sizes, steps), pad(x, edges, edges, float("-inf")))


def avg_pool2d(
    x: Value,
    window: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    count_include_pad: bool = True,
) -> Value:
    """The mean of each window, like `torch.nn.functional.avg_pool2d`; ``mean(x, (2, 3))`` averages over all pixels.

    Parameters
    ----------
    x : Value
        Images, float, shape ``[N, C, H, W]``. 16-bit floats are computed in f32 and rounded once.
    window, stride, padding
        As in `max_pool2d`; padded elements are 0.
    count_include_pad : bool, default True
        Whether to divide by the size of the window everywhere rather than by the number of its elements in the image.
    """
    sizes, steps, around = _settings("avg_pool2d", x, window, stride, padding)
    edges = (0, 0, *around)
    op = SumPool2d(sizes, steps)
    total = apply(op, pad(widened(x), edges, edges))
    if count_include_pad:
        return cast(divide(total, float(sizes[0] * sizes[1])), x.dtype)
    ones = np.pad(np.ones((1, 1, *x.shape[2:])), [(n, n) for n in edges])
    counts = constant(op.reference(ones)[0, 0], dtype=total.dtype)
    return cast(divide(total, broadcast_to(counts, total.shape)), x.dtype)
