"""Cells of recurrent layers: one step of an RNN, LSTM or GRU."""

from collections.abc import Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, described
from adjoint.modules import Module
from adjoint.nn.functional.recurrent import GATES, recurrent_cell
from adjoint.nn.parameters import check_sizes, drawn, own_dtype, require_tensor
from adjoint.tensor.creation import zeros
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "check_state", "rnn_kind"]


def rnn_kind(name: str, nonlinearity: str) -> str:
    """The kind of cell of an RNN with a nonlinearity."""
    if nonlinearity not in ("tanh", "relu"):
        raise InvalidValueError(f"{name}: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}; use one")
    return f"rnn_{nonlinearity}"


class _Cell(Module):
    """One step of a recurrent layer."""

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(self, kind: str, input_size: int, hidden_size: int, bias: bool, device: object, dtype: object) -> None:
        super().__init__()
        check_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._kind = kind
        own, bound = own_dtype(device, dtype), hidden_size**-0.5 if hidden_size else 0.0
        rows = GATES[kind] * hidden_size
        self.weight_ih = drawn((rows, input_size), bound, own)
        self.weight_hh = drawn((rows, hidden_size), bound, own)
        self.register_parameter("bias_ih", drawn((rows,), bound, own) if bias else None)
        self.register_parameter("bias_hh", drawn((rows,), bound, own) if bias else None)

    def _step(self, input: Any, state: Sequence[Any] | None) -> tuple[Any, ...]:
        name = type(self).__name__
        require_tensor(name, input)
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise TypeRuleError(
                f"{name}: the input must be [batch, {self.input_size}] or [{self.input_size}], got "
                f"{list(input.shape)}; reshape it, or change input_size"
            )
        shapes = [(*input.shape[:-1], self.hidden_size)] * (1 + (self._kind == "lstm"))
        given = [zeros(shape, dtype=input.dtype) for shape in shapes] if state is None else list(state)
        check_state(name, given, shapes)
        rows, *parts = (x.unsqueeze(0) if input.ndim == 1 else x for x in (input, *given))
        found = recurrent_cell(self._kind, rows, parts, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return tuple(x.squeeze(0) if input.ndim == 1 else x for x in found)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


def check_state(name: str, state: Sequence[Any], shapes: Sequence[Sequence[int]]) -> None:
    """Raise unless the parts of a state have these shapes."""
    given = [list(part.shape) if isinstance(part, Tensor) else described(part) for part in state]
    wanted = [list(shape) for shape in shapes]
    if given != wanted:
        one, several = (", ".join(map(str, shapes)) for shapes in (wanted, given))
        raise TypeRuleError(
            f"{name}: the state must have the shape {one} for this input, got {several}; reshape it, or omit it for "
            "zeros"
        )


class RNNCell(_Cell):
    """One step of a simple recurrent layer: ``tanh(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)``.

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes of the input and of the state.
    bias : bool, default True
        Whether there are biases.
    nonlinearity : {"tanh", "relu"}, default "tanh"
        The function.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    weight_ih, weight_hh : Parameter
        Shapes ``[hidden_size, input_size]`` and ``[hidden_size, hidden_size]``, drawn evenly between plus and minus
        ``1 / sqrt(hidden_size)``.
    bias_ih, bias_hh : Parameter or None
        Shape ``[hidden_size]``, drawn likewise.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__(rnn_kind("RNNCell", nonlinearity), input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state, for an input ``[B, I]`` or ``[I]`` and a state ``[B, H]`` or ``[H]``, by default zeros."""
        return self._step(input, None if hx is None else [hx])[0]


class LSTMCell(_Cell):
    """One step of a long short-term memory (Hochreiter, Schmidhuber, 1997), with the gates of PyTorch: i, f, g, o.

    The cell state becomes ``sigmoid(f) * c + sigmoid(i) * tanh(g)``, the hidden state ``sigmoid(o) * tanh(c)`` of it.
    Parameters are those of `RNNCell`, with four times as many rows and without a nonlinearity.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: object = None, dtype: object = None
    ) -> None:
        super().__init__("lstm", input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The pair of the next hidden state and the next cell state, given such a pair, by default zeros."""
        return self._step(input, hx)


class GRUCell(_Cell):
    """One step of a gated recurrent unit (Cho et al., 2014), with the gates of PyTorch: r, z, n.

    The state becomes ``(1 - z) * n + z * h`` with ``n = tanh(W_in x + b_in + r * (W_hn h + b_hn))``. Parameters are
    those of `RNNCell`, with three times as many rows and without a nonlinearity.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: object = None, dtype: object = None
    ) -> None:
        super().__init__("gru", input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The next state, for an input ``[B, I]`` or ``[I]`` and a state ``[B, H]`` or ``[H]``, by default zeros."""
        return self._step(input, None if hx is None else [hx])[0]
