"""Recurrent layers over sequences [N, T, F], as loops in the compiled program."""

from typing import Any

import adjoint
from adjoint.compat.tensorflow.keras.layers.base import Layer
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.nn.functional.recurrent import recurrent_layer
from adjoint.tensor.tensor import Tensor

__all__ = ["GRU", "LSTM", "SimpleRNN"]
__getattr__ = uncovered(__name__, {"Bidirectional": "use adjoint.nn.LSTM(bidirectional=True)"}, "adjoint.nn")


class _Recurrent(Layer):
    """What recurrent layers have in common."""

    gates, kind, states = 1, "rnn_tanh", 1

    def __init__(
        self, units: int, activation: str = "tanh", recurrent_activation: str = "sigmoid", use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros", return_sequences: bool = False, return_state: bool = False,
        go_backwards: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        name = type(self).__name__
        if (activation, recurrent_activation, return_state) != ("tanh", "sigmoid", False) or not use_bias:
            raise InvalidValueError(
                f"{name}: activations are tanh and sigmoid, with a bias and without return_state, got others; use "
                f"adjoint.nn.{'RNN' if name == 'SimpleRNN' else name}"
            )
        self.units, self.sequences, self.backwards = units, return_sequences, go_backwards
        self.initializers = kernel_initializer, recurrent_initializer, bias_initializer

    def build(self, input_shape: Any) -> None:
        """Make the kernels [inputs, gates * units] and [units, gates * units], and the bias."""
        width = self.gates * self.units
        kernel, recurrent, bias = self.initializers
        self.kernel = self.add_weight((input_shape[-1], width), kernel, name="kernel")
        self.recurrent_kernel = self.add_weight((self.units, width), recurrent, name="recurrent_kernel")
        self.bias = self.add_weight(self.bias_shape(width), bias, name="bias")

    def bias_shape(self, width: int) -> tuple[int, ...]:
        """The shape of the bias."""
        return (width,)

    def native(self) -> tuple[Any, Any, Any, Any]:
        """The weights and biases as PyTorch has them."""
        return self.kernel.T, self.recurrent_kernel.T, self.bias, adjoint.zeros_like(self.bias)

    def call(self, inputs: Tensor) -> Any:
        """The last state [N, units], or all of them [N, T, units]."""
        zeros = inputs.new_zeros((inputs.shape[0], self.units))
        found = recurrent_layer(
            self.kind, inputs.transpose(0, 1), (zeros,) * self.states, *self.native(), None, self.backwards
        )
        if not self.sequences:
            return found[1]
        outputs = found[0].transpose(0, 1)
        return outputs.flip(1) if self.backwards else outputs


class SimpleRNN(_Recurrent):
    """``h = tanh(x @ kernel + h @ recurrent_kernel + bias)``."""


class LSTM(_Recurrent):
    """Long short-term memory, with the gates i, f, c, o; the bias of f is 1 at first."""

    gates, kind, states = 4, "lstm", 2

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        super().build(input_shape)
        if self.initializers[2] == "zeros":
            self.bias[self.units : 2 * self.units] = 1.0


class GRU(_Recurrent):
    """Gated recurrent units, with the gates z, r, h and a bias for inputs and state, as with ``reset_after=True``."""

    gates, kind = 3, "gru"

    def __init__(self, units: int, *arguments: Any, reset_after: bool = True, **settings: Any) -> None:
        if not reset_after:
            raise InvalidValueError("GRU: reset_after must be True, got False; leave it out")
        super().__init__(units, *arguments, **settings)

    def bias_shape(self, width: int) -> tuple[int, ...]:
        """The shape of the bias."""
        return (2, width)

    def native(self) -> tuple[Any, Any, Any, Any]:
        """The weights and biases as PyTorch has them: r, z, n."""

        def ordered(w: Tensor) -> Any:
            z, r, h = w.split(self.units, -1)
            return adjoint.cat([r, z, h], -1)

        return ordered(self.kernel).T, ordered(self.recurrent_kernel).T, ordered(self.bias[0]), ordered(self.bias[1])
