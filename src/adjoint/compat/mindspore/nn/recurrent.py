"""`mindspore.nn.layer.rnns`: recurrent layers with MindSpore's arguments."""

from typing import Any

from adjoint import nn as native
from adjoint.compat.mindspore.common.parameter import Parameter
from adjoint.compat.mindspore.nn.cell import Cell
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError

__all__ = ["GRU", "LSTM", "RNN"]


class LSTM(Cell, native.LSTM):
    """``LSTM(input_size, hidden_size, num_layers=1, has_bias=True)``: `adjoint.nn.LSTM`."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, has_bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, dtype: Any = None,
    ) -> None:  # fmt: skip
        native.LSTM.__init__(
            self, input_size, hidden_size, num_layers, has_bias, batch_first, dropout, bidirectional, dtype=dtype
        )
        named(self)

    def construct(self, x: Any, hx: Any = None, seq_length: Any = None) -> Any:
        """The outputs, and the last states."""
        _check_lengths(seq_length)
        return native.LSTM.forward(self, x, hx)


class GRU(Cell, native.GRU):
    """``GRU(input_size, hidden_size, num_layers=1, has_bias=True)``: `adjoint.nn.GRU`."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, has_bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, dtype: Any = None,
    ) -> None:  # fmt: skip
        native.GRU.__init__(
            self, input_size, hidden_size, num_layers, has_bias, batch_first, dropout, bidirectional, dtype=dtype
        )
        named(self)

    def construct(self, x: Any, hx: Any = None, seq_length: Any = None) -> Any:
        """The outputs, and the last state."""
        _check_lengths(seq_length)
        return native.GRU.forward(self, x, hx)


class RNN(Cell, native.RNN):
    """``RNN(input_size, hidden_size, num_layers=1, nonlinearity="tanh")``: `adjoint.nn.RNN`."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", has_bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, dtype: Any = None,
    ) -> None:  # fmt: skip
        native.RNN.__init__(
            self, input_size, hidden_size, num_layers, nonlinearity, has_bias, batch_first, dropout, bidirectional,
            dtype=dtype,
        )  # fmt: skip
        named(self)

    def construct(self, x: Any, hx: Any = None, seq_length: Any = None) -> Any:
        """The outputs, and the last state."""
        _check_lengths(seq_length)
        return native.RNN.forward(self, x, hx)


def named(cell: Cell) -> None:
    """Put parameters with names in place of those of a module of adjoint."""
    for name, parameter in list(cell.named_parameters(recurse=False)):
        setattr(cell, name, Parameter(parameter, name))


def _check_lengths(given: Any) -> None:
    if given is not None:
        raise InvalidValueError("seq_length is not covered, got lengths; mask the outputs, or use nn.utils.rnn")


__getattr__ = uncovered(__name__, {}, "adjoint.nn")
