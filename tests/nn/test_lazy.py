"""Layers that take the size of their input from the first batch."""

import numpy as np
import pytest

import adjoint as torch
from adjoint import nn, optim
from adjoint.errors import TypeRuleError

#: By layer: its settings, and the shape of an input.
LAYERS = {
    "Linear": ((3,), (2, 5)),
    "Conv1d": ((4, 2), (2, 6, 5)),
    "Conv2d": ((4, 2), (2, 6, 5, 5)),
    "Conv3d": ((4, 2), (2, 6, 3, 3, 3)),
    "ConvTranspose1d": ((4, 2), (2, 6, 5)),
    "ConvTranspose2d": ((4, 2), (6, 5, 5)),
    "ConvTranspose3d": ((4, 2), (2, 6, 2, 2, 2)),
    "BatchNorm1d": ((), (4, 6)),
    "BatchNorm2d": ((), (2, 6, 3, 3)),
    "BatchNorm3d": ((), (2, 6, 2, 2, 2)),
    "InstanceNorm1d": ((1e-5, 0.1, True), (2, 6, 3)),
    "InstanceNorm2d": ((1e-5, 0.1, True), (2, 6, 3, 3)),
    "InstanceNorm3d": ((1e-5, 0.1, True), (2, 6, 2, 2, 2)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_call_makes_them_the_layers(name):
    settings, shape = LAYERS[name]
    size = shape[0] if len(shape) == 3 and name.endswith("2d") else shape[-1] if name == "Linear" else shape[1]
    lazy, layer = getattr(nn, f"Lazy{name}")(*settings), getattr(nn, name)(size, *settings)
    assert isinstance(lazy, type(layer))
    before = [id(parameter) for parameter in lazy.parameters()]
    torch.manual_seed(0)
    found = lazy(torch.ones(*shape))
    torch.manual_seed(0)
    layer = getattr(nn, name)(size, *settings)
    assert type(lazy) is type(layer)
    assert repr(lazy) == repr(layer)
    assert [id(parameter) for parameter in lazy.parameters()] == before
    assert found.shape == layer(torch.ones(*shape)).shape
    for one, other in zip(lazy.parameters(), layer.parameters(), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())


def test_an_optimizer_may_have_their_parameters_before():
    model = nn.Sequential(nn.LazyLinear(2), nn.LazyBatchNorm1d(), nn.LazyLinear(1))
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    x = torch.tensor(np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32))
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (model(x).squeeze() - x[:, 0]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    assert losses[-1] < losses[0]
    assert model[0].in_features == 3


def test_a_state_dictionary_gives_them_their_size():
    make = {False: lambda: nn.Conv2d(6, 4, 1, groups=2), True: lambda: nn.LazyConv2d(4, 1, groups=2)}
    source = nn.Sequential(make[False](), nn.ConvTranspose2d(4, 2, 1), nn.InstanceNorm2d(2, track_running_stats=True))
    target = nn.Sequential(make[True](), nn.LazyConvTranspose2d(2, 1), nn.LazyInstanceNorm2d(track_running_stats=True))
    target.load_state_dict(source.state_dict())
    assert repr(target) == repr(source)
    np.testing.assert_array_equal(target[0].weight.detach().numpy(), source[0].weight.detach().numpy())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: nn.LazyConv2d(1, 1)(torch.ones(2, 3)),
            "LazyConv2d: the input must have 3 or 4 axes, got the shape (2, 3); use the layer for it",
        ),
        (
            lambda: nn.LazyBatchNorm1d()(torch.ones(3)),
            "LazyBatchNorm1d: the input must have 2 or 3 axes, got the shape (3,); use the layer for it",
        ),
        (
            lambda: nn.LazyLinear(1)(torch.tensor(1.0)),
            "LazyLinear: the input must have an axis of features, got a scalar; reshape it",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(TypeRuleError) as error:
        call()
    assert error.value.message == message
