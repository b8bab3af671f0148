"""Recurrent cells and layers: the step of an RNN, LSTM or GRU, and one layer of it over a sequence, as a loop.

The products of the input with its weight are one product for all steps, before the loop; the gradient of the weight of
the state is one product after it (`adjoint.transforms.loop_gradients`).
"""

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.nn.functional.recording import Array, recorded
from adjoint.tensor.autocasting import lowered

__all__ = ["GATES", "recurrent_cell", "recurrent_layer"]

#: Number of gates of each kind of cell, in the order of PyTorch: i, f, g, o of an LSTM; r, z, n of a GRU.
GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}


def _next(kind: str, from_input: Any, from_state: Any, state: Sequence[Any]) -> tuple[Any, ...]:
    """The next state, given what the gates get from the input and from the state."""
    size = state[-1].shape[-1]

    def gate(x: Any, number: int) -> Any:
        return ops.slice_axis(x, -1, number * size, (number + 1) * size)

    if kind == "lstm":
        total = from_input + from_state
        i, f, g, o = (gate(total, n) for n in range(4))
        cell = ops.sigmoid(f) * state[1] + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(cell), cell
    if kind == "gru":
        r, z = (ops.sigmoid(gate(from_input, n) + gate(from_state, n)) for n in range(2))
        new = ops.tanh(gate(from_input, 2) + r * gate(from_state, 2))
        return (new + z * (state[0] - new),)
    activation = ops.relu if kind == "rnn_relu" else ops.tanh
    return (activation(from_input + from_state),)


def _product(x: Any, weight: Any, bias: Any, state: Any = None) -> Any:
    """The product with a weight; with a state, computed in the weight's dtype and converted to that of the state."""
    made = ops.matmul(x if state is None else ops.cast(x, weight.dtype), weight, transpose_b=True)
    made = made if bias is None else made + bias
    return made if state is None else ops.cast(made, state.dtype)


def recurrent_cell(
    kind: str,
    input: Array,
    state: Sequence[Array],
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None = None,
    bias_hh: Array | None = None,
) -> tuple[Array, ...]:
    """One step of a recurrent layer.

    Within `adjoint.autocast`, products compute in its dtype; so does all of an RNN, and the state of others keeps its
    dtype.

    Parameters
    ----------
    kind : {"rnn_tanh", "rnn_relu", "lstm", "gru"}
        The kind of cell.
    input : Tensor
        Shape ``[B, I]``.
    state : sequence of Tensor
        The hidden state, shape ``[B, H]``, and for an LSTM the cell state.
    weight_ih, weight_hh : Tensor
        Shapes ``[gates * H, I]`` and ``[gates * H, H]``.
    bias_ih, bias_hh : Tensor, optional
        Shape ``[gates * H]``.

    Returns
    -------
    tuple of Tensor
        The next state.
    """
    weights = (weight_ih, weight_hh, bias_ih, bias_hh)
    low = lowered(input, state, *weights)
    if low is None:
        return _cell(kind, input, state, *weights)
    given, narrow, *others = low
    kept = narrow if kind.startswith("rnn") else state
    return _cell(kind, given, kept, others[0], others[1], others[2], others[3], True)


@recorded
def _cell(
    kind: str,
    input: Array,
    state: Sequence[Array],
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    mixed: bool = False,
) -> tuple[Array, ...]:
    like = state[0] if mixed else None
    from_input, from_state = _product(input, weight_ih, bias_ih, like), _product(state[0], weight_hh, bias_hh, like)
    return _next(kind, from_input, from_state, state)


def recurrent_layer(
    kind: str,
    input: Array,
    state: Sequence[Array],
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None = None,
    bias_hh: Array | None = None,
    lengths: Array | None = None,
    reverse: bool = False,
    weight_hr: Array | None = None,
) -> tuple[Array, ...]:
    """One layer in one direction over a sequence, as a loop in the compiled program.

    Within `adjoint.autocast`, products compute in its dtype; so does all of an RNN and of an LSTM, and the state of a
    GRU keeps its dtype.

    Parameters
    ----------
    kind : {"rnn_tanh", "rnn_relu", "lstm", "gru"}
        The kind of cell.
    input : Tensor
        Shape ``[T, B, I]``.
    state : sequence of Tensor
        The initial hidden state, shape ``[B, H]``, and for an LSTM the initial cell state.
    weight_ih, weight_hh, bias_ih, bias_hh : Tensor
        As for `recurrent_cell`.
    lengths : Tensor, optional
        The number of steps of each sequence, i64[B]; the state stays as it is outside of them, and outputs are zeros.
        Default: all steps.
    reverse : bool, default False
        Whether to go from the last step to the first.
    weight_hr : Tensor, optional
        The projection of an LSTM's hidden state, shape ``[P, H]``: hidden states, and the columns of `weight_hh`, have
        P elements then.

    Returns
    -------
    tuple of Tensor
        The hidden states of all steps, shape ``[T, B, H]``, and the final state.
    """
    weights = (weight_ih, weight_hh, bias_ih, bias_hh, weight_hr)
    low = lowered(input, state, *weights)
    if low is None:
        return _layer(kind, input, state, *weights, lengths, reverse)
    given, narrow, *others = low
    kept = state if kind == "gru" else narrow
    return _layer(kind, given, kept, others[0], others[1], others[2], others[3], others[4], lengths, reverse, True)


@recorded
def _layer(
    kind: str,
    input: Array,
    state: Sequence[Array],
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    weight_hr: Array | None,
    lengths: Array | None,
    reverse: bool,
    mixed: bool = False,
) -> tuple[Array, ...]:
    steps, batch, _ = input.shape
    like = state[0] if mixed else None
    rows = ops.reshape(input, (steps * batch, input.shape[2]))
    shared = None if bias_ih is None else bias_ih if kind == "gru" else bias_ih + bias_hh
    gates = ops.reshape(_product(rows, weight_ih, shared, like), (steps, batch, weight_ih.shape[0]))

    def step(state: tuple[Any, ...], row: Any) -> tuple[tuple[Any, ...], Any]:
        from_state = _product(state[0], weight_hh, bias_hh if kind == "gru" else None, like)
        new = _next(kind, row[0], from_state, state)
        if weight_hr is not None:
            new = (_product(new[0], weight_hr, None, like), *new[1:])
        if lengths is None:
            return new, new[0]
        kept = tuple(ops.where(row[1], x, old) for x, old in zip(new, state, strict=True))
        return kept, ops.where(row[1], new[0], 0.0)

    xs = [gates]
    if lengths is not None:
        present = ops.iota((steps, 1), 0, "i64") < ops.reshape(ops.cast(lengths, "i64"), (1, batch))
        xs.append(ops.reshape(present, (steps, batch, 1)))
    last, outputs = ops.scan(step, tuple(state), xs, reverse=reverse)
    return (outputs, *last)
