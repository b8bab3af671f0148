"""Recurrent layers: RNN, LSTM and GRU."""

from collections.abc import Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, described
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.functional.recurrent import GATES, recurrent_layer
from adjoint.nn.parameters import check_sizes, drawn, own_dtype
from adjoint.nn.recurrent_cells import check_state, rnn_kind
from adjoint.nn.utils.rnn import PackedSequence, pack_rows, unpack_rows
from adjoint.tensor.creation import zeros
from adjoint.tensor.joining import cat, stack
from adjoint.tensor.tensor import Tensor

__all__ = ["GRU", "LSTM", "RNN"]


class _Recurrent(Module):
    """Layers of recurrent cells."""

    def __init__(
        self,
        kind: str,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        device: object,
        dtype: object,
        proj_size: int = 0,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        check_sizes(name, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers, proj_size=proj_size)
        if num_layers < 1 or hidden_size < 1:
            raise InvalidValueError(
                f"{name}: num_layers and hidden_size must be at least 1, got {num_layers} and {hidden_size}; "
                "increase them"
            )
        if not 0 <= dropout <= 1:
            raise InvalidValueError(f"{name}: dropout must be from 0 to 1, got {dropout}; pass a probability")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        if proj_size >= hidden_size:
            raise InvalidValueError(
                f"{name}: proj_size must be smaller than hidden_size, got {proj_size} and {hidden_size}; pass 0 for no "
                "projection"
            )
        self.proj_size = proj_size
        self._kind = kind
        own, bound, rows = own_dtype(device, dtype), hidden_size**-0.5, GATES[kind] * hidden_size
        state_size = proj_size or hidden_size
        for layer, suffix in self._passes():
            width = input_size if layer == 0 else state_size * (1 + bidirectional)
            setattr(self, f"weight_ih_{suffix}", drawn((rows, width), bound, own))
            setattr(self, f"weight_hh_{suffix}", drawn((rows, state_size), bound, own))
            if bias:
                setattr(self, f"bias_ih_{suffix}", drawn((rows,), bound, own))
                setattr(self, f"bias_hh_{suffix}", drawn((rows,), bound, own))
            if proj_size:
                setattr(self, f"weight_hr_{suffix}", drawn((proj_size, hidden_size), bound, own))

    def _passes(self) -> list[tuple[int, str]]:
        """The layers, each with the end of the names of its parameters, forward before backward."""
        ends = ("", "_reverse") if self.bidirectional else ("",)
        return [(layer, f"l{layer}{end}") for layer in range(self.num_layers) for end in ends]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        names = ("weight_ih", "weight_hh", *("bias_ih", "bias_hh") * self.bias, *("weight_hr",) * bool(self.proj_size))
        return [[getattr(self, f"{name}_{suffix}") for name in names] for _, suffix in self._passes()]

    def flatten_parameters(self) -> None:
        """Do nothing; in PyTorch, it arranges the parameters in memory for cuDNN."""

    def _run(self, input: Any, state: Sequence[Any] | None) -> tuple[Any, list[Any]]:
        """The outputs of the last layer, and the final states of all layers."""
        if isinstance(input, PackedSequence):
            padded, lengths = unpack_rows(input)
            if state is not None and input.sorted_indices is not None:
                state = [part[:, input.sorted_indices] for part in state]
            outputs, last = self._layers(self._checked(padded), state, lengths)
            if input.unsorted_indices is not None:
                last = [part[:, input.unsorted_indices] for part in last]
            return pack_rows(outputs, input), last
        if not isinstance(input, Tensor) or input.ndim not in (2, 3):
            given = list(input.shape) if isinstance(input, Tensor) else described(input)
            raise TypeRuleError(
                f"{type(self).__name__}: the input must have 2 or 3 axes, got {given}; pass [steps, batch, input_size] "
                "or [batch, steps, input_size] with batch_first=True"
            )
        if input.ndim == 2:
            state = None if state is None else [part.unsqueeze(1) for part in state]
            outputs, last = self._layers(self._checked(input.unsqueeze(1)), state, None)
            return outputs.squeeze(1), [part.squeeze(1) for part in last]
        rows = input.transpose(0, 1) if self.batch_first else input
        outputs, last = self._layers(self._checked(rows), state, None)
        return (outputs.transpose(0, 1) if self.batch_first else outputs), last

    def _checked(self, rows: Any) -> Any:
        if rows.shape[-1] != self.input_size:
            raise TypeRuleError(
                f"{type(self).__name__}: the last axis of the input must be input_size={self.input_size}, got "
                f"{rows.shape[-1]}; reshape the input, or change input_size"
            )
        return rows

    def _layers(self, rows: Any, state: Sequence[Any] | None, lengths: Any) -> tuple[Any, list[Any]]:
        passes = self._passes()
        directions = 1 + self.bidirectional
        sizes = [self.proj_size or self.hidden_size, *[self.hidden_size] * (self._kind == "lstm")]
        shapes = [(len(passes), rows.shape[1], size) for size in sizes]
        if state is None:
            state = [zeros(shape, dtype=rows.dtype) for shape in shapes]
        check_state(type(self).__name__, state, shapes)
        finals: list[tuple[Any, ...]] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                rows = F.dropout(rows, self.dropout, self.training)
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                weights = self.all_weights[number]
                biases = weights[2:4] if self.bias else (None, None)
                made, *last = recurrent_layer(
                    self._kind,
                    rows,
                    [part[number] for part in state],
                    weights[0],
                    weights[1],
                    biases[0],
                    biases[1],
                    lengths,
                    direction == 1,
                    weights[-1] if self.proj_size else None,
                )
                outputs.append(made)
                finals.append(tuple(last))
            rows = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
        return rows, [stack(list(parts)) for parts in zip(*finals, strict=True)]

    def extra_repr(self) -> str:
        """The sizes, and the settings that are not the defaults."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        defaults |= {"proj_size": 0}
        parts += [f"{name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value]
        return ", ".join(parts)


class RNN(_Recurrent):
    """Simple recurrent layers: ``h = tanh(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)`` at every step.

    The steps are a loop in the compiled program, whose size does not depend on their number.

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes of the input and of the state.
    num_layers : int, default 1
        Number of layers, each of which takes the outputs of the one before.
    nonlinearity : {"tanh", "relu"}, default "tanh"
        The function.
    bias : bool, default True
        Whether there are biases.
    batch_first : bool, default False
        Whether input and output are ``[B, T, ...]`` instead of ``[T, B, ...]``; states are not affected.
    dropout : float, default 0.0
        The probability of dropout between layers while training.
    bidirectional : bool, default False
        Whether each layer also goes from the last step to the first; both outputs are joined.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 : Parameter
        Of the first layer: shapes ``[hidden_size, input_size]``, ``[hidden_size, hidden_size]`` and twice
        ``[hidden_size]``, drawn evenly between plus and minus ``1 / sqrt(hidden_size)``. Those of other layers end with
        their number, those of the second direction with ``_reverse`` too.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        settings = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        super().__init__(rnn_kind("RNN", nonlinearity), *settings)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The outputs and the final states.

        Parameters
        ----------
        input : Tensor or PackedSequence
            Shape ``[T, B, I]``, ``[B, T, I]`` with `batch_first`, or ``[T, I]`` for a single sequence.
        hx : Tensor, optional
            The initial states, shape ``[layers * directions, B, H]``, or without B; default: zeros.

        Returns
        -------
        output : Tensor or PackedSequence
            The states of the last layer at all steps, shape ``[T, B, directions * H]``.
        h_n : Tensor
            The final states, of the shape of `hx`.
        """
        output, (last,) = self._run(input, None if hx is None else [hx])
        return output, last


class LSTM(_Recurrent):
    """Layers of long short-term memory (Hochreiter, Schmidhuber, 1997), with the gates of PyTorch: i, f, g, o.

    Parameters are those of `RNN`, with four times as many rows and without a nonlinearity.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype
        As for `RNN`.
    proj_size : int, default 0
        If it is not 0, hidden states are projected to this size, less than `hidden_size` (H. Sak, A. Senior and F.
        Beaufays, "Long short-term memory recurrent neural network architectures for large scale acoustic modeling",
        2014): outputs, and hidden but not cell states, have this size.

    Attributes
    ----------
    weight_hr_l0 : Parameter
        With `proj_size`, the projection of the first layer, ``[proj_size, hidden_size]``; then `weight_hh_l0` is
        ``[4 * hidden_size, proj_size]``.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: object = None,
        dtype: object = None,
    ) -> None:
        settings = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        super().__init__("lstm", *settings, proj_size)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, tuple[Any, Any]]:
        """The outputs, and the pair of the final hidden and cell states; `hx` is such a pair. Otherwise as `RNN`."""
        output, (hidden, cell) = self._run(input, hx)
        return output, (hidden, cell)


class GRU(_Recurrent):
    """Layers of gated recurrent units (Cho et al., 2014), with the gates of PyTorch: r, z, n.

    Parameters are those of `RNN`, with three times as many rows and without a nonlinearity.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        settings = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        super().__init__("gru", *settings)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The outputs and the final states, as `RNN`."""
        output, (last,) = self._run(input, None if hx is None else [hx])
        return output, last
