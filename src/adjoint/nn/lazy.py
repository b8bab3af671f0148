"""Layers that take the size of their input from the first batch: ``nn.LazyLinear(10)``."""

from collections.abc import Callable, Mapping
from typing import Any

from adjoint.errors import TypeRuleError
from adjoint.modules import Module
from adjoint.nn.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from adjoint.nn.linear import Linear
from adjoint.nn.normalization import (
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from adjoint.tensor.assign import assign
from adjoint.tensor.preparation import prepare

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]


class _Lazy(Module):
    """What the layers share: with the first batch, or state dictionary, a layer gets its size and its own class.

    Until then, its parameters are those of an input of size 0. They stay the same tensors, so that an optimizer may
    have been created with them.
    """

    #: The class of the layer, and its setting that is the size of the input.
    _layer: Callable[..., Module]
    _setting = "in_channels"
    #: Of the layer: the number of axes of an image.
    axes: int

    def __init__(self, *args: Any, **settings: Any) -> None:
        object.__setattr__(self, "_settings", (args, settings))
        super().__init__(0, *args, **settings)  # type: ignore[call-arg]

    def initialize(self, size: int) -> None:
        """Become the layer for inputs of a size, with newly drawn parameters.

        Parameters
        ----------
        size : int
            The number of features or channels.
        """
        args, settings = self.__dict__.pop("_settings")
        layer = type(self)._layer(size, *args, **settings)
        for tables in ((self._parameters, layer._parameters), (self._buffers, layer._buffers)):
            for name, tensor in tables[1].items():
                own = tables[0][name]
                if own is not None and tensor is not None:
                    assign(own, tensor.elements().array)
        object.__setattr__(self, self._setting, size)
        object.__setattr__(self, "__class__", type(layer))

    def initialize_from(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Become the layer that has parameters of some shapes, if one of them has the size.

        Parameters
        ----------
        shapes : mapping of str to tuple of int
            The shapes of parameters and buffers by name.
        """
        if "weight" in shapes:
            self.initialize(self._size_in(shapes["weight"]))

    def _size_in(self, weight: tuple[int, ...]) -> int:
        """The size of the input for a weight of a shape."""
        return weight[1] * self.groups if hasattr(self, "groups") else weight[1]

    def _size_of(self, shape: tuple[int, ...]) -> int:
        """The size of an input of a shape: the channels are in front of the axes of an image."""
        axes = self.axes
        if len(shape) not in (axes + 1, axes + 2):
            raise TypeRuleError(
                f"{type(self).__name__}: the input must have {axes + 1} or {axes + 2} axes, got the shape {shape}; "
                "use the layer for it"
            )
        return shape[-1 - axes]

    def forward(self, input: Any, *args: Any, **keywords: Any) -> Any:
        """Become the layer for inputs like this one, and call it."""
        size = self._size_of(tuple(input.shape))
        prepare(type(self).__name__, lambda: self.initialize(size))
        return self.forward(input, *args, **keywords)


class LazyLinear(_Lazy, Linear):
    """`Linear` without `in_features`, which is the last axis of the first batch."""

    _layer = Linear
    _setting = "in_features"

    def _size_of(self, shape: tuple[int, ...]) -> int:
        if not shape:
            raise TypeRuleError("LazyLinear: the input must have an axis of features, got a scalar; reshape it")
        return shape[-1]


class LazyConv1d(_Lazy, Conv1d):
    """`Conv1d` without `in_channels`, which are those of the first batch."""

    _layer = Conv1d


class LazyConv2d(_Lazy, Conv2d):
    """`Conv2d` without `in_channels`, which are those of the first batch."""

    _layer = Conv2d


class LazyConv3d(_Lazy, Conv3d):
    """`Conv3d` without `in_channels`, which are those of the first batch."""

    _layer = Conv3d


class _LazyTransposed(_Lazy):
    """Transposed convolutions, whose weight begins with the channels of the input."""

    def _size_in(self, weight: tuple[int, ...]) -> int:
        return weight[0]


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """`ConvTranspose1d` without `in_channels`, which are those of the first batch."""

    _layer = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """`ConvTranspose2d` without `in_channels`, which are those of the first batch."""

    _layer = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """`ConvTranspose3d` without `in_channels`, which are those of the first batch."""

    _layer = ConvTranspose3d


class _LazyNorm(_Lazy):
    """Normalizations, of whose parameters and statistics each has one element per channel."""

    _setting = "num_features"

    def initialize_from(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """As for other layers; without parameters, the statistics have the size."""
        for name in ("weight", "running_mean"):
            if name in shapes:
                self.initialize(shapes[name][0])
                return


class _LazyBatchNorm(_LazyNorm, BatchNorm):
    """Batch normalizations, whose input has a batch in front of the channels."""

    def _size_of(self, shape: tuple[int, ...]) -> int:
        if len(shape) not in self.ranks:
            raise TypeRuleError(
                f"{type(self).__name__}: the input must have {' or '.join(map(str, self.ranks))} axes, got the shape "
                f"{shape}; use the layer for it"
            )
        return shape[1]


class LazyBatchNorm1d(_LazyBatchNorm, BatchNorm1d):
    """`BatchNorm1d` without `num_features`, which are the channels of the first batch."""

    _layer = BatchNorm1d


class LazyBatchNorm2d(_LazyBatchNorm, BatchNorm2d):
    """`BatchNorm2d` without `num_features`, which are the channels of the first batch."""

    _layer = BatchNorm2d


class LazyBatchNorm3d(_LazyBatchNorm, BatchNorm3d):
    """`BatchNorm3d` without `num_features`, which are the channels of the first batch."""

    _layer = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """`InstanceNorm1d` without `num_features`, which are the channels of the first batch."""

    _layer = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """`InstanceNorm2d` without `num_features`, which are the channels of the first batch."""

    _layer = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """`InstanceNorm3d` without `num_features`, which are the channels of the first batch."""

    _layer = InstanceNorm3d
