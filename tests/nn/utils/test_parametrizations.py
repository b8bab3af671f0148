"""Weights as functions of other parameters, in both of PyTorch's ways, against NumPy."""

from copy import deepcopy

import numpy as np
import pytest

import adjoint as torch
from adjoint import nn
from adjoint.errors import AdjointError
from adjoint.nn.utils import parametrizations, parametrize

RNG = np.random.default_rng(0)


def array(tensor):
    return tensor.detach().numpy()


def weight_gradients(g, v, ct):
    """The gradients of ``g * v / norm(v)`` of matrices, row by row (Salimans and Kingma, 2016, equation 3)."""
    norm = np.linalg.norm(v, axis=1, keepdims=True)
    of_g = (ct * v).sum(1, keepdims=True) / norm
    return of_g, g / norm * ct - g * of_g / norm**2 * v


@pytest.mark.parametrize(
    ("normalize", "names"),
    [
        (parametrizations.weight_norm, ("parametrizations.weight.original0", "parametrizations.weight.original1")),
        (nn.utils.weight_norm, ("weight_g", "weight_v")),
    ],
)
def test_weight_normalization(normalize, names):
    layer = nn.Linear(3, 2)
    weight, x = array(layer.weight).copy(), RNG.standard_normal((4, 3)).astype(np.float32)
    assert normalize(layer) is layer
    parameters = dict(layer.named_parameters())
    assert set(parameters) == {"bias", *names}
    g, v = (parameters[name] for name in names)
    np.testing.assert_allclose(array(g), np.linalg.norm(weight, axis=1, keepdims=True), rtol=1e-6)
    with torch.no_grad():
        g.mul_(3.0)
    found = layer(torch.tensor(x))
    found.sum().backward()
    np.testing.assert_allclose(array(found), x @ (3 * weight).T + array(layer.bias), rtol=1e-5, atol=1e-6)
    expected = weight_gradients(array(g), weight, np.tile(x.sum(0), (2, 1)))
    np.testing.assert_allclose(g.grad.numpy(), expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(v.grad.numpy(), expected[1], rtol=1e-4, atol=1e-5)


def test_the_norm_of_an_axis_and_of_the_whole():
    weight = array((layer := nn.ConvTranspose1d(2, 3, 2)).weight)
    whole = parametrizations.weight_norm(nn.Linear(2, 2), dim=None)
    parametrizations.weight_norm(layer, dim=1)
    original = layer.parametrizations.weight.original0
    np.testing.assert_allclose(array(original)[0, :, 0], np.sqrt((weight**2).sum((0, 2))), rtol=1e-6)
    assert (original.shape, whole.parametrizations.weight.original0.shape) == ((1, 3, 1), ())


@pytest.mark.parametrize("normalize", [parametrizations.spectral_norm, nn.utils.spectral_norm])
def test_spectral_normalization(normalize):
    torch.manual_seed(0)
    layer = normalize(nn.Conv2d(2, 3, 2, bias=False), n_power_iterations=5)
    (original,) = layer.parameters()
    u, v = layer.buffers()
    x = torch.ones(1, 2, 2, 2)
    found = layer(x)
    found.sum().backward()
    # The first singular vectors and the gradient of W / s, of which that of s is their outer product.
    matrix = array(original).reshape(3, 8).astype(np.float64)
    left, values, right = np.linalg.svd(matrix)
    np.testing.assert_allclose(array(found)[0, :, 0, 0], matrix.sum(1) / values[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(abs(array(u) @ left[:, 0]), 1.0, rtol=1e-5)
    np.testing.assert_allclose(abs(array(v) @ right[0]), 1.0, rtol=1e-5)
    expected = 1 / values[0] - matrix.sum() / values[0] ** 2 * np.outer(left[:, 0], right[0])
    np.testing.assert_allclose(original.grad.numpy().reshape(3, 8), expected, rtol=1e-3, atol=1e-4)
    layer.eval()
    before = array(u).copy()
    layer(x)
    np.testing.assert_array_equal(array(u), before)


def test_one_power_iteration_updates_the_buffers():
    layer = parametrizations.spectral_norm(nn.ConvTranspose1d(2, 3, 1))
    inner = layer.parametrizations.weight[0]
    matrix = array(layer.parametrizations.weight.original).transpose(1, 0, 2).reshape(3, -1)
    v = array(inner._v).copy()
    assert array(layer.weight).shape == (2, 3, 1)
    u = matrix @ v
    np.testing.assert_allclose(array(inner._u), u / np.linalg.norm(u), rtol=1e-5)


class Symmetric(nn.Module):
    def forward(self, x):
        return (x + x.T) / 2


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


def test_own_functions_and_their_removal():
    layer = nn.Linear(2, 2)
    weight, original = array(layer.weight).copy(), layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert isinstance(layer, nn.Linear)
    assert layer.parametrizations.weight.original is original
    np.testing.assert_allclose(array(layer.weight), weight + weight.T, rtol=1e-6)
    copy = deepcopy(layer)
    with torch.no_grad():
        copy.parametrizations.weight.original.zero_()
    assert not array(copy.weight).any()
    np.testing.assert_allclose(array(layer.weight), weight + weight.T, rtol=1e-6)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert not parametrize.is_parametrized(layer)
    assert [name for name, _ in layer.named_parameters()] == ["bias", "weight"]
    np.testing.assert_allclose(array(layer.weight), weight + weight.T, rtol=1e-6)
    parametrize.register_parametrization(layer, "bias", Doubled())
    parametrize.remove_parametrizations(layer, "bias", leave_parametrized=False)


@pytest.mark.parametrize(
    ("normalize", "remove"),
    [
        (nn.utils.weight_norm, nn.utils.remove_weight_norm),
        (nn.utils.spectral_norm, nn.utils.remove_spectral_norm),
    ],
)
def test_normalized_weights_become_ordinary_ones(normalize, remove):
    layer = nn.Linear(3, 2)
    normalize(layer).eval()
    found = array(layer(torch.eye(3)))
    assert remove(layer) is layer
    np.testing.assert_allclose(array(layer(torch.eye(3))), found, rtol=1e-6)
    assert [name for name, _ in layer.named_parameters()] == ["bias", "weight"]
    assert not list(layer.buffers())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: parametrize.register_parametrization(nn.Linear(1, 1), "wieght", Doubled()),
            "register_parametrization: Linear has no parameter or buffer 'wieght'; pass the name of one",
        ),
        (
            lambda: parametrize.register_parametrization(nn.Linear(1, 2), "weight", nn.Flatten(0)),
            "register_parametrization: the shape of weight must stay (2, 1), got (2,); pass unsafe=True if it may "
            "change",
        ),
        (
            lambda: parametrize.remove_parametrizations(nn.Linear(1, 1), "weight"),
            "remove_parametrizations: weight of Linear must have a parametrization, got none; leave it as it is",
        ),
        (
            lambda: parametrize.remove_parametrizations(
                parametrizations.weight_norm(nn.Linear(1, 1)), "weight", leave_parametrized=False
            ),
            "remove_parametrizations: leave_parametrized=False needs a single original, got 2 for weight; omit it",
        ),
        (
            lambda: nn.utils.remove_weight_norm(nn.Linear(1, 1)),
            "remove_weight_norm: weight of Linear must have been normalized, got an ordinary one; leave it as it is",
        ),
        (
            lambda: parametrizations.spectral_norm(nn.Linear(1, 1), n_power_iterations=0),
            "spectral_norm: n_power_iterations must be at least 1, got 0; use 1",
        ),
        (
            lambda: parametrizations.spectral_norm(nn.Linear(1, 1), dim=2),
            "spectral_norm: dim must be an axis of the weight, which has 2, got 2; use 0",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AdjointError) as error:
        call()
    assert error.value.message == message
