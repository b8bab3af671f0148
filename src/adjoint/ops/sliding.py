"""The base class of the convolution operators: attributes, type rules, windows in NumPy, elements for lowering."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from adjoint.errors import TypeRuleError, plural
from adjoint.ir.types import TensorType, dtype_name
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Builder, Coordinate, Index, Operand, Operator, Scalar
from adjoint.ops.rules import operands, require
from adjoint.ops.windows import Pair, fields, images, positions

__all__ = ["Sliding"]


@dataclass(frozen=True, slots=True)
class Sliding(Operator):
    """The attributes of all convolution operators: the positions of windows, and the groups of channels.

    Parameters
    ----------
    stride : tuple of int, default (1, 1)
        Distance between windows, in rows and columns; for volumes, in planes, rows and columns.
    padding : tuple of int, default (0, 0)
        Rows of zeros above and below the image, columns of zeros left and right of it.
    dilation : tuple of int, default (1, 1)
        Distance between the elements of a window, in rows and columns.
    groups : int, default 1
        Number of groups that input and output channels are divided into. An output channel depends on the input
        channels of its own group only.
    """

    flops: ClassVar[float] = 2.0
    #: Number of axes of an image: 2, or 3 for volumes.
    axes: ClassVar[int] = 2
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        for name in ("stride", "padding", "dilation"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def check(self, *inputs: TensorType) -> tuple[TensorType, TensorType]:
        """Check the rules that all of them share."""
        operands(self, inputs, 2)
        require(self, inputs, "float integer unsigned", "cast it to i32 first")
        fields(self.name, 1, self.axes, stride=self.stride, dilation=self.dilation)
        fields(self.name, 0, self.axes, padding=self.padding)
        if self.groups < 1:
            raise TypeRuleError(f"{self.name}: groups must be at least 1, got {self.groups}; use 1 for a single group")
        first, second = inputs
        if first.dtype != second.dtype:
            raise TypeRuleError(
                f"{self.name}: operands must have the same dtype, got {first} and {second}; cast one to "
                f"{dtype_name(first.dtype)}"
            )
        images(self.name, "the image", first, self.axes)
        return first, second

    def divided(self, what: str, channels: int, of: TensorType) -> int:
        """Number of channels per group."""
        if channels % self.groups:
            raise TypeRuleError(
                f"{self.name}: groups must divide the {what} channels, got {channels} of {of} in "
                f"{plural(self.groups, 'group')}; change one"
            )
        return channels // self.groups

    def positions(self, size: Sequence[int], window: Pair) -> Pair:
        """Number of windows along each axis of an image of that size."""
        return positions(self.name, size, window, self.stride, self.padding, self.dilation)

    def windows(self, x: np.ndarray, window: Pair) -> np.ndarray:
        """All windows of the image, ``[N, C, *positions, *window]``, as a view of the padded image."""
        edges = [(0, 0), (0, 0), *((p, p) for p in self.padding)]
        spans = [(k - 1) * d + 1 for k, d in zip(window, self.dilation, strict=True)]
        found = sliding_window_view(np.pad(x, edges), spans, axis=tuple(range(2, x.ndim)))
        steps = [np.s_[::step] for step in (*self.stride, *self.dilation)]
        return np.asarray(found[(np.s_[:], np.s_[:], *steps)])

    def element(
        self, k: Builder, x: Operand, image: Index, output: tuple[Coordinate, int], at: Index, inside: Index
    ) -> Scalar:
        """The image's element at `inside` in the window at `at`, in a channel of the output channel's group.

        `image` contains the index of the image and that of the channel within its group; `output` the output channel
        and the number of output channels per group.
        """
        (n, c), (o, per_group) = image, output
        channel = c if self.groups == 1 else (o // per_group) * (x.type.shape[1] // self.groups) + c
        own: list[Coordinate] = []
        tests: list[Scalar] = []
        for axis in range(self.axes):
            p = self.padding[axis]
            i = at[axis] * self.stride[axis] + inside[axis] * self.dilation[axis]
            own.append(i - p if p else i)
            if p:
                tests.append(k.inside(own[-1], 0, x.type.shape[2 + axis]))
        if not tests:
            return x((n, channel, *own))
        condition = tests[0]
        for test in tests[1:]:
            condition = k.call("and", condition, test)
        return k.choose(condition, lambda: x((n, channel, *own)), lambda: k.const(0, x.type.dtype))
