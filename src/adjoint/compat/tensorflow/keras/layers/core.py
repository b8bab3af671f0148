"""Layers of vectors: dense ones, embeddings, dropout, and changes of shape."""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.compat.tensorflow.keras import activations
from adjoint.compat.tensorflow.keras.layers.base import Layer
from adjoint.compat.uncovered import uncovered
from adjoint.ir import as_dtype
from adjoint.nn import functional
from adjoint.tensor.tensor import Tensor

__all__ = [
    "ELU", "Activation", "Dense", "Dropout", "Embedding", "Flatten", "InputLayer", "Lambda", "LeakyReLU", "Permute",
    "ReLU", "RepeatVector", "Rescaling", "Reshape", "Softmax",
]  # fmt: skip
__getattr__ = uncovered(__name__, {}, "adjoint.nn")


class InputLayer(Layer):
    """The shape of what a `Sequential` takes."""

    def __init__(self, shape: Sequence[int] | None = None, batch_size: int | None = None, **settings: Any) -> None:
        del batch_size
        settings.pop("dtype", None)
        super().__init__(input_shape=shape, **settings) if shape is not None else super().__init__(**settings)

    def call(self, inputs: Tensor) -> Tensor:
        """The inputs."""
        return inputs


class Dense(Layer):
    """``activation(inputs @ kernel + bias)``."""

    def __init__(
        self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros", **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        self.units, self.activation, self.use_bias = units, activations.get(activation), use_bias
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer

    def build(self, input_shape: Any) -> None:
        """Make the kernel [inputs, units] and the bias."""
        self.kernel = self.add_weight((input_shape[-1], self.units), self.kernel_initializer, name="kernel")
        self.bias = self.add_weight((self.units,), self.bias_initializer, name="bias") if self.use_bias else None

    def call(self, inputs: Tensor) -> Tensor:
        """The layer of inputs [..., inputs]."""
        made = inputs.matmul(self.kernel)
        return self.activation(made if self.bias is None else made + self.bias)


class Activation(Layer):
    """An activation by its name, or a function."""

    def __init__(self, activation: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self.activation = activations.get(activation)

    def call(self, inputs: Tensor) -> Tensor:
        """The activation of the inputs."""
        return self.activation(inputs)


class ReLU(Layer):
    """``max(x, 0)``, perhaps limited."""

    def __init__(self, max_value: float | None = None, negative_slope: float = 0.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.max_value, self.negative_slope = max_value, negative_slope

    def call(self, inputs: Tensor) -> Any:
        """The activation of the inputs."""
        slope = self.negative_slope
        made = functional.leaky_relu(inputs, slope) if slope else functional.relu(inputs)
        return made if self.max_value is None else made.clamp(max=self.max_value)


class LeakyReLU(Layer):
    """``x`` where it is positive, ``negative_slope * x`` elsewhere."""

    def __init__(self, negative_slope: float = 0.3, **settings: Any) -> None:
        super().__init__(**settings)
        self.negative_slope = negative_slope

    def call(self, inputs: Tensor) -> Any:
        """The activation of the inputs."""
        return functional.leaky_relu(inputs, self.negative_slope)


class ELU(Layer):
    """``x`` where it is positive, ``alpha * (exp(x) - 1)`` elsewhere."""

    def __init__(self, alpha: float = 1.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.alpha = alpha

    def call(self, inputs: Tensor) -> Any:
        """The activation of the inputs."""
        return functional.elu(inputs, self.alpha)


class Softmax(Layer):
    """Softmax along an axis."""

    def __init__(self, axis: int = -1, **settings: Any) -> None:
        super().__init__(**settings)
        self.axis = axis

    def call(self, inputs: Tensor) -> Any:
        """The shares."""
        return functional.softmax(inputs, self.axis)


class Dropout(Layer):
    """Zeros in place of some elements, in training."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: Any = None, **settings: Any) -> None:
        del noise_shape, seed
        super().__init__(**settings)
        self.rate = rate

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        """The inputs, with zeros in training."""
        return functional.dropout(inputs, self.rate, training) if training else inputs


class Flatten(Layer):
    """All axes but the first as one."""

    def call(self, inputs: Tensor) -> Tensor:
        """The inputs in the shape [N, ...]."""
        return inputs.reshape((inputs.shape[0], -1)) if inputs.ndim != 2 else inputs


class Reshape(Layer):
    """Other sizes for all axes but the first."""

    def __init__(self, target_shape: Sequence[int], **settings: Any) -> None:
        super().__init__(**settings)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Tensor) -> Any:
        """The inputs in the shape [N, *target_shape]."""
        return inputs.reshape((inputs.shape[0], *self.target_shape))


class Permute(Layer):
    """The axes after the first in another order, counted from 1."""

    def __init__(self, dims: Sequence[int], **settings: Any) -> None:
        super().__init__(**settings)
        self.dims = tuple(dims)

    def call(self, inputs: Tensor) -> Any:
        """The inputs with their axes in order."""
        return inputs.permute((0, *self.dims))


class RepeatVector(Layer):
    """Copies of a vector along a new axis."""

    def __init__(self, n: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.n = n

    def call(self, inputs: Tensor) -> Any:
        """The inputs in the shape [N, n, F]."""
        return inputs.unsqueeze(1).expand((inputs.shape[0], self.n, inputs.shape[1]))


class Rescaling(Layer):
    """``scale * x + offset``."""

    def __init__(self, scale: float, offset: float = 0.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.scale, self.offset = scale, offset

    def call(self, inputs: Tensor) -> Any:
        """The scaled inputs, as floats."""
        x = inputs if inputs.is_floating_point() else inputs.to(as_dtype("float32"))
        return x * self.scale + self.offset


class Lambda(Layer):
    """A function as a layer."""

    def __init__(self, function: Callable[..., Any], **settings: Any) -> None:
        super().__init__(**settings)
        self.function = function

    def call(self, inputs: Any) -> Any:
        """The function of the inputs."""
        return self.function(inputs)


class Embedding(Layer):
    """The rows of a table with the numbers that are the inputs."""

    def __init__(
        self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform", input_length: Any = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        del input_length
        super().__init__(**settings)
        self.size, self.embeddings_initializer = (input_dim, output_dim), embeddings_initializer

    def build(self, input_shape: Any) -> None:
        """Make the table [input_dim, output_dim]."""
        del input_shape
        self.embeddings = self.add_weight(self.size, self.embeddings_initializer, name="embeddings")

    def call(self, inputs: Tensor) -> Any:
        """The rows, [..., output_dim]."""
        return functional.embedding(inputs.to(as_dtype("int64")), self.embeddings)
