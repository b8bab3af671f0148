"""Pooling over windows of images: maximum and sum. `adjoint.ops.pool` has the functions, which pad the image."""

from itertools import product
from typing import ClassVar

import numpy as np

from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Builder, Index, Operand, Scalar
from adjoint.ops.phases import cut_or_padded, interleaved, window_phases
from adjoint.ops.rules import rounded
from adjoint.ops.shape import broadcast_to, pad, reshape
from adjoint.ops.window_places import OfWindows, WindowArgMax, WindowSpread

__all__ = ["MaxPool2d", "SumPool2d"]


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

        For non-overlapping adjacent windows, the cotangent is repeated. Otherwise, the elements with the same
        remainders by the stride are sums over small windows of the cotangent, without a stride.
        """
        (high, wide), (rows, columns) = self.window, ct.shape[2:]
        if self.window == self.stride:
            split = reshape(ct, (*ct.shape[:2], rows, 1, columns, 1))
            whole = reshape(
                broadcast_to(split, (*ct.shape[:2], rows, high, columns, wide)),
                (*ct.shape[:2], rows * high, columns * wide),
            )
            return (pad(whole, 0, (0, 0, x.shape[2] - rows * high, x.shape[3] - columns * wide)),)
        axes = zip(x.shape[2:], self.window, self.stride, strict=True)
        parts: dict[tuple[int, ...], Value] = {}
        for row, column in product(*(window_phases(*each) for each in axes)):
            met = cut_or_padded(ct, 2, 1 - row.taps, row.count)
            met = cut_or_padded(met, 3, 1 - column.taps, column.count)
            parts[row.remainder, column.remainder] = apply(SumPool2d((row.taps, column.taps), (1, 1)), met)
        return (interleaved(parts, self.stride, x.shape[2:], ct),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """A reduction over the window."""
        return k.reduce("add", self.window, lambda r: x(self.at(index, r)))
