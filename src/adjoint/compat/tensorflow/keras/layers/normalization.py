"""Normalization over batches and over features."""

from typing import Any

from adjoint.compat.tensorflow.keras.layers.base import Layer
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.nn import functional
from adjoint.tensor.tensor import Tensor

__all__ = ["BatchNormalization", "LayerNormalization"]
__getattr__ = uncovered(__name__, {}, "adjoint.nn")


def _last(name: str, axis: Any) -> None:
    if axis not in (-1, [-1], (-1,)):
        raise InvalidValueError(f"{name}: axis must be -1, got {axis!r}; transpose the inputs")


class BatchNormalization(Layer):
    """Normalization over the batch, with running statistics that keep ``momentum`` of what they were."""

    def __init__(
        self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        _last("BatchNormalization", axis)
        self.momentum, self.epsilon, self.center, self.scale = momentum, epsilon, center, scale
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer

    def build(self, input_shape: Any) -> None:
        """Make gamma, beta and the running statistics."""
        size = (input_shape[-1],)
        self.gamma = self.add_weight(size, self.gamma_initializer, name="gamma") if self.scale else None
        self.beta = self.add_weight(size, self.beta_initializer, name="beta") if self.center else None
        self.moving_mean = self.add_weight(size, "zeros", trainable=False, name="moving_mean")
        self.moving_variance = self.add_weight(size, "ones", trainable=False, name="moving_variance")

    def call(self, inputs: Tensor, training: bool = False) -> Any:
        """The normalized inputs; a frozen layer normalizes as in inference."""
        axes = tuple(range(inputs.ndim - 1))
        if training and self.trainable:
            mean, variance = inputs.mean(axes), inputs.var(axes, correction=0)
            for running, now in ((self.moving_mean, mean), (self.moving_variance, variance)):
                running.mul_(self.momentum).add_(now.detach() * (1 - self.momentum))
        else:
            mean, variance = self.moving_mean, self.moving_variance
        factor = (variance + self.epsilon).rsqrt()
        factor = factor if self.gamma is None else factor * self.gamma
        made = (inputs - mean) * factor
        return made if self.beta is None else made + self.beta


class LayerNormalization(Layer):
    """Normalization over the last axis."""

    def __init__(
        self, axis: int = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        _last("LayerNormalization", axis)
        self.epsilon, self.center, self.scale = epsilon, center, scale
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer

    def build(self, input_shape: Any) -> None:
        """Make gamma and beta."""
        size = (input_shape[-1],)
        self.gamma = self.add_weight(size, self.gamma_initializer, name="gamma") if self.scale else None
        self.beta = self.add_weight(size, self.beta_initializer, name="beta") if self.center else None

    def call(self, inputs: Tensor) -> Any:
        """The normalized inputs."""
        return functional.layer_norm(inputs, (inputs.shape[-1],), self.gamma, self.beta, self.epsilon)
