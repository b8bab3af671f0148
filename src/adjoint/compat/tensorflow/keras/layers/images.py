"""Layers of images [N, H, W, C]: convolutions and pooling."""

from collections.abc import Sequence
from typing import Any

from adjoint.compat.tensorflow import nn
from adjoint.compat.tensorflow.keras import activations
from adjoint.compat.tensorflow.keras.layers.base import Layer
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.nn import functional
from adjoint.tensor.tensor import Tensor

__all__ = [
    "AveragePooling2D", "Conv2D", "DepthwiseConv2D", "GlobalAveragePooling1D", "GlobalAveragePooling2D",
    "GlobalMaxPooling2D", "MaxPooling2D", "ZeroPadding2D",
]  # fmt: skip
__getattr__ = uncovered(
    __name__,
    {
        "Conv2DTranspose": "use adjoint.nn.ConvTranspose2d, with channels first",
        "UpSampling2D": "use adjoint.nn.Upsample, with channels first",
    },
    "adjoint.nn",
)

_Sizes = int | Sequence[int]


def _channels_last(name: str, data_format: str | None) -> None:
    if data_format not in (None, "channels_last"):
        raise InvalidValueError(f"{name}: data_format must be 'channels_last', got {data_format!r}; transpose images")


class Conv2D(Layer):
    """A convolution of images."""

    def __init__(
        self, filters: int, kernel_size: _Sizes, strides: _Sizes = (1, 1), padding: str = "valid",
        data_format: str | None = None, dilation_rate: _Sizes = (1, 1), groups: int = 1, activation: Any = None,
        use_bias: bool = True, kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        _channels_last("Conv2D", data_format)
        self.filters, self.window, self.strides = filters, nn.pair(kernel_size), nn.pair(strides)
        self.padding, self.dilations, self.groups = padding, nn.pair(dilation_rate), groups
        self.activation, self.use_bias = activations.get(activation), use_bias
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer

    def build(self, input_shape: Any) -> None:
        """Make the kernel [H, W, inputs / groups, filters] and the bias."""
        shape = (*self.window, input_shape[-1] // self.groups, self.filters)
        self.kernel = self.add_weight(shape, self.kernel_initializer, name="kernel")
        self.bias = self.add_weight((self.filters,), self.bias_initializer, name="bias") if self.use_bias else None

    def call(self, inputs: Tensor) -> Tensor:
        """The convolution."""
        made = nn.convolved(inputs, self.kernel, self.strides, self.padding, self.dilations, self.groups)
        return self.activation(made if self.bias is None else made + self.bias)


class DepthwiseConv2D(Layer):
    """A convolution of each channel by itself."""

    def __init__(
        self, kernel_size: _Sizes, strides: _Sizes = (1, 1), padding: str = "valid", depth_multiplier: int = 1,
        data_format: str | None = None, dilation_rate: _Sizes = (1, 1), activation: Any = None, use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        _channels_last("DepthwiseConv2D", data_format)
        self.window, self.strides, self.padding = nn.pair(kernel_size), nn.pair(strides), padding
        self.multiplier, self.dilations = depth_multiplier, nn.pair(dilation_rate)
        self.activation, self.use_bias = activations.get(activation), use_bias
        self.depthwise_initializer, self.bias_initializer = depthwise_initializer, bias_initializer

    def build(self, input_shape: Any) -> None:
        """Make the kernel [H, W, inputs, multiplier] and the bias."""
        channels = input_shape[-1]
        self.kernel = self.add_weight(
            (*self.window, channels, self.multiplier), self.depthwise_initializer, name="kernel"
        )
        count = channels * self.multiplier
        self.bias = self.add_weight((count,), self.bias_initializer, name="bias") if self.use_bias else None

    def call(self, inputs: Tensor) -> Tensor:
        """The convolution."""
        channels = inputs.shape[-1]
        kernel = self.kernel.reshape((*self.window, 1, channels * self.multiplier))
        made = nn.convolved(inputs, kernel, self.strides, self.padding, self.dilations, channels)
        return self.activation(made if self.bias is None else made + self.bias)


class MaxPooling2D(Layer):
    """The maximum of windows; they move by their size by default."""

    def __init__(
        self, pool_size: _Sizes = (2, 2), strides: _Sizes | None = None, padding: str = "valid",
        data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        _channels_last(type(self).__name__, data_format)
        self.window, self.padding = nn.pair(pool_size), padding
        self.strides = self.window if strides is None else nn.pair(strides)

    def call(self, inputs: Tensor) -> Any:
        """The pooled images."""
        return nn.max_pool2d(inputs, self.window, self.strides, self.padding)


class AveragePooling2D(MaxPooling2D):
    """The mean of windows; they move by their size by default."""

    def call(self, inputs: Tensor) -> Any:
        """The pooled images."""
        return nn.avg_pool2d(inputs, self.window, self.strides, self.padding)


class GlobalAveragePooling2D(Layer):
    """The mean over all pixels."""

    def __init__(self, data_format: str | None = None, keepdims: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        _channels_last(type(self).__name__, data_format)
        self.keepdims = keepdims

    def call(self, inputs: Tensor) -> Any:
        """The means [N, C]."""
        return inputs.mean((1, 2), keepdim=self.keepdims)


class GlobalMaxPooling2D(GlobalAveragePooling2D):
    """The maximum over all pixels."""

    def call(self, inputs: Tensor) -> Any:
        """The maxima [N, C]."""
        return inputs.amax((1, 2), keepdim=self.keepdims)


class GlobalAveragePooling1D(Layer):
    """The mean over all steps of a sequence [N, T, C]."""

    def call(self, inputs: Tensor) -> Any:
        """The means [N, C]."""
        return inputs.mean(1)


class ZeroPadding2D(Layer):
    """Zeros around images."""

    def __init__(self, padding: Any = (1, 1), data_format: str | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        _channels_last("ZeroPadding2D", data_format)
        given = [padding] * 2 if isinstance(padding, int) else list(padding)
        self.ends = [(one, one) if isinstance(one, int) else tuple(one) for one in given]

    def call(self, inputs: Tensor) -> Any:
        """The larger images."""
        (top, bottom), (left, right) = self.ends
        return functional.pad(inputs, (0, 0, left, right, top, bottom))
