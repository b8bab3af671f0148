"""Recurrent layers and cells, against numbers of PyTorch 2.13 and against their cells."""

import numpy as np
import pytest

import adjoint as torch
from adjoint import nn, no_grad
from adjoint.errors import AdjointError
from adjoint.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

KINDS = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}
CELLS = {"RNN": nn.RNNCell, "LSTM": nn.LSTMCell, "GRU": nn.GRUCell}

#: ``torch.nn.X(3, 2, num_layers=2, bidirectional=True)`` over packed sequences: the loss, outputs and final states,
#: gradients of the input, and sums of the magnitudes of the gradients of weight_hh_l0, weight_ih_l1_reverse and
#: bias_hh_l0; and the first state of ``torch.nn.XCell(3, 2)``.
PYTORCH = {
    "RNN": (
        7.959295,
        [-0.843464, 0.000737, 0.25368, -0.223446],
        [0.811665, -0.063899, -0.170037, 0.116025],
        [0.238868, -0.434348, -0.126942],
        [4.062595, 4.999053, 3.978055],
        [0.775883, -0.884899],
    ),
    "LSTM": (
        2.980298,
        [-0.207475, 0.096267, 0.230228, -0.310228],
        [0.043395, 0.074494, -0.154085, 0.165111],
        [-0.368216, 0.158584, 0.327351],
        [0.814489, 2.332424, 4.309784],
        [0.499277, -0.080294],
    ),
    "GRU": (
        4.478242,
        [0.002834, 0.233534, 0.529622, -0.322578],
        [0.097113, 0.429667, -0.080944, 0.350788],
        [0.408576, -0.060945, -0.392871],
        [0.496227, 8.61786, 2.112077],
        [0.538194, -0.002478],
    ),
}


def filled(module):
    """The module with ``0.6 * sin(1.7 * k + n)`` as element k of parameter n."""
    with no_grad():
        for n, p in enumerate(module.parameters()):
            values = 0.6 * np.sin(np.arange(p.numel(), dtype="f") * np.float32(1.7) + n)
            p.copy_(torch.tensor(values.reshape(tuple(p.shape)).astype("f")))
    return module


def rows():
    return torch.tensor(np.cos(np.arange(36, dtype="f") * np.float32(0.9)).reshape(4, 3, 3).astype("f"))


def hidden(state):
    return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("name", KINDS)
def test_two_layers_in_both_directions_over_packed_sequences_are_those_of_pytorch(name):
    loss, outputs, last, slope, slopes, of_cell = PYTORCH[name]
    layer = filled(KINDS[name](3, 2, num_layers=2, bidirectional=True))
    x = rows().requires_grad_()
    out, state = layer(pack_padded_sequence(x, [2, 4, 1], enforce_sorted=False))
    padded, lengths = pad_packed_sequence(out)
    total = (padded**2).sum() + (hidden(state) ** 3).sum()
    if name == "LSTM":
        total = total + state[1].sum()
    total.backward()
    assert lengths.tolist() == [2, 4, 1]
    found = [
        total, padded[1, 1], hidden(state)[:, 2, 0], x.grad[0, 0],
        torch.stack([p.grad.abs().sum() for p in (layer.weight_hh_l0, layer.weight_ih_l1_reverse, layer.bias_hh_l0)]),
    ]  # fmt: skip
    for got, want in zip(found, (loss, outputs, last, slope, slopes), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=2e-5, atol=2e-6)
    first = filled(CELLS[name](3, 2))(rows()[0])
    np.testing.assert_allclose((first[1] if name == "LSTM" else first)[0].tolist(), of_cell, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_a_layer_is_its_cell_at_every_step(name):
    layer, cell = filled(KINDS[name](3, 2, batch_first=True)), filled(CELLS[name](3, 2))
    x = rows()
    count = 2 if name == "LSTM" else 1
    states = [torch.full((3, 2), 0.1 * (n + 1)) for n in range(count)]
    given = tuple(s.unsqueeze(0) for s in states)
    out, last = layer(x.transpose(0, 1), given if count == 2 else given[0])
    state, steps = tuple(states) if count == 2 else states[0], []
    for row in x:
        state = cell(row, state)
        steps.append(hidden(state))
    np.testing.assert_allclose(out.tolist(), torch.stack(steps, 1).tolist(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(hidden(last)[0].tolist(), hidden(state).tolist(), rtol=1e-5, atol=1e-6)
    single, _ = layer(x[:, 1])
    many, _ = layer(x.transpose(0, 1))
    np.testing.assert_allclose(single.tolist(), many[1].tolist(), rtol=1e-5, atol=1e-6)


def test_projected_states_are_those_of_pytorch():
    """``torch.nn.LSTM(3, 2, num_layers=2, bidirectional=True, proj_size=1)`` over the same packed sequences."""
    layer = filled(nn.LSTM(3, 2, num_layers=2, bidirectional=True, proj_size=1))
    x = rows().requires_grad_()
    out, (last, cell) = layer(pack_padded_sequence(x, [2, 4, 1], enforce_sorted=False))
    padded, _ = pad_packed_sequence(out)
    total = (padded**2).sum() + (last**3).sum() + cell.sum()
    total.backward()
    slopes = [p.grad.abs().sum() for p in (layer.weight_hh_l0, layer.weight_ih_l1_reverse, layer.weight_hr_l0)]
    found = [total, padded[1, 1], last[:, 2, 0], cell[1, 0], x.grad[0, 0], torch.stack(slopes)]
    wanted = [
        4.819238,
        [0.037543, 0.076028],
        [0.021764, 0.029406, 0.040217, 0.052144],
        [0.659083, -0.451784],
        [-0.092075, 0.277985, 0.020441],
        [0.108999, 0.565287, 0.13372],
    ]
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=2e-5, atol=2e-6)
    assert [list(p.shape) for p in layer.all_weights[2]] == [[8, 2], [8, 1], [8], [8], [1, 2]]
    assert repr(layer) == "LSTM(3, 2, num_layers=2, bidirectional=True, proj_size=1)"


def test_parameters_have_the_names_and_shapes_of_pytorch():
    layer = nn.LSTM(3, 2, num_layers=2, bidirectional=True)
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    assert list(shapes) == [
        f"{kind}_l{number}{end}"
        for number in range(2)
        for end in ("", "_reverse")
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    assert shapes["weight_ih_l0"] == (8, 3)
    assert shapes["weight_ih_l1_reverse"] == (8, 4)
    assert shapes["weight_hh_l1"] == (8, 2)
    assert all(np.abs(p.detach().numpy()).max() <= 0.5**0.5 for p in layer.parameters())
    assert [len(weights) for weights in nn.GRU(3, 2, num_layers=2, bias=False).all_weights] == [2, 2]
    assert [name for name, _ in nn.GRUCell(3, 2).named_parameters()] == ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
    assert layer.flatten_parameters() is None
    assert repr(layer) == "LSTM(3, 2, num_layers=2, bidirectional=True)"
    assert repr(nn.RNNCell(3, 2, bias=False)) == "RNNCell(3, 2, bias=False)"


def test_dropout_is_between_layers_while_training():
    torch.manual_seed(0)
    layer = filled(nn.RNN(3, 2, num_layers=2, dropout=0.5))
    first, second = layer(rows())[0].tolist(), layer(rows())[0].tolist()
    layer.eval()
    plain = filled(nn.RNN(3, 2, num_layers=2))(rows())[0].tolist()
    assert first != second
    assert layer(rows())[0].tolist() == plain
    alone = filled(nn.RNN(3, 2, dropout=0.5))
    assert alone(rows())[0].tolist() == filled(nn.RNN(3, 2))(rows())[0].tolist(), "one layer has nothing after it"


def test_relu_is_the_other_nonlinearity():
    cell = filled(nn.RNNCell(3, 2, nonlinearity="relu"))
    x = rows()[0]
    weights = [p.detach().numpy() for p in cell.parameters()]
    want = np.maximum(x.numpy() @ weights[0].T + weights[2] + weights[3], 0.0)
    np.testing.assert_allclose(cell(x).tolist(), want, rtol=1e-5)


REFUSED = {
    "RNN: nonlinearity must be 'tanh' or 'relu', got 'gelu'; use one": lambda: nn.RNN(3, 2, nonlinearity="gelu"),
    "LSTM: proj_size must be smaller than hidden_size, got 2 and 2; pass 0 for no projection": lambda: nn.LSTM(
        3, 2, proj_size=2
    ),
    "LSTM: the state must have the shape [1, 5, 1], [1, 5, 2] for this input, got [1, 5, 2], [1, 5, 2]; reshape it, "
    "or omit it for zeros": lambda: nn.LSTM(3, 2, proj_size=1)(torch.ones(4, 5, 3), [torch.ones(1, 5, 2)] * 2),
    "LSTM: the state must have the shape [1, 5, 2], [1, 5, 2] for this input, got [1, 5, 2]; reshape it, or omit it "
    "for zeros": lambda: nn.LSTM(3, 2)(torch.ones(4, 5, 3), [torch.ones(1, 5, 2)]),
    "GRU: num_layers and hidden_size must be at least 1, got 0 and 2; increase them": lambda: nn.GRU(3, 2, 0),
    "GRU: dropout must be from 0 to 1, got 2; pass a probability": lambda: nn.GRU(3, 2, dropout=2),
    "GRU: the input must have 2 or 3 axes, got [3]; pass [steps, batch, input_size] or [batch, steps, input_size] with "
    "batch_first=True": lambda: nn.GRU(3, 2)(torch.ones(3)),
    "GRU: the last axis of the input must be input_size=3, got 4; reshape the input, or change input_size": lambda: (
        nn.GRU(3, 2)(torch.ones(2, 4))
    ),
    "GRU: the state must have the shape [1, 5, 2] for this input, got [5, 2]; reshape it, or omit it for "
    "zeros": lambda: nn.GRU(3, 2)(torch.ones(4, 5, 3), torch.ones(5, 2)),
    "LSTMCell: the input must be [batch, 3] or [3], got [2]; reshape it, or change input_size": lambda: nn.LSTMCell(
        3, 2
    )(torch.ones(2)),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refusals(sentence):
    with pytest.raises(AdjointError) as error:
        REFUSED[sentence]()
    assert error.value.message == sentence
