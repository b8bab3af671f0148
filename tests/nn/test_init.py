"""Initialization: distributions, refusals, and the same numbers for the same seed."""

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.errors import AdjointError
from adjoint.nn import init
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Parameter

SHAPE = (60, 40, 3, 3)
FAN_IN, FAN_OUT = 40 * 9, 60 * 9


@pytest.fixture(autouse=True)
def seeded():
    adjoint.manual_seed(3)


def drawn(function, *args, shape=SHAPE, **settings):
    parameter = Parameter(from_array(np.zeros(shape, np.float32)))
    assert function(parameter, *args, **settings) is parameter
    assert parameter.requires_grad
    return parameter.numpy(force=True)


@pytest.mark.parametrize(
    ("function", "settings", "bound"),
    [
        (init.uniform_, {"a": -0.5, "b": 0.5}, 0.5),
        (init.xavier_uniform_, {"gain": 2.0}, 2 * np.sqrt(6 / (FAN_IN + FAN_OUT))),
        (init.kaiming_uniform_, {}, np.sqrt(2) * np.sqrt(3 / FAN_IN)),
        (init.kaiming_uniform_, {"a": 5**0.5}, FAN_IN**-0.5),
        (init.kaiming_uniform_, {"mode": "fan_out", "nonlinearity": "tanh"}, 5 / 3 * np.sqrt(3 / FAN_OUT)),
    ],
)
def test_even_distributions(function, settings, bound):
    array = drawn(function, **settings)
    assert bound * 0.999 < np.abs(array).max() <= bound * (1 + 1e-6)
    # The standard deviation of n draws is within 5 / sqrt(n) of the true one.
    np.testing.assert_allclose(array.std(), bound / np.sqrt(3), rtol=5 / array.size**0.5)
    assert abs(array.mean()) < 5 * array.std() / array.size**0.5


@pytest.mark.parametrize(
    ("function", "settings", "std"),
    [
        (init.normal_, {"std": 0.3}, 0.3),
        (init.xavier_normal_, {}, np.sqrt(2 / (FAN_IN + FAN_OUT))),
        (init.kaiming_normal_, {"nonlinearity": "relu"}, np.sqrt(2 / FAN_IN)),
    ],
)
def test_normal_distributions(function, settings, std):
    array = drawn(function, **settings)
    np.testing.assert_allclose(array.std(), std, rtol=5 / array.size**0.5)
    assert abs(array.mean()) < 5 * std / array.size**0.5
    np.testing.assert_allclose([(np.abs(array) < n * std).mean() for n in (1, 2)], (0.6827, 0.9545), atol=0.01)


def test_truncated_normal_distribution():
    array = drawn(init.trunc_normal_, std=0.5, a=-0.5, b=1.0)
    assert array.min() >= -0.5
    assert array.max() <= 1.0
    # The mean of a normal distribution cut at -1 and 2 standard deviations: (phi(1) - phi(2)) / (Phi(2) - Phi(-1)).
    np.testing.assert_allclose(array.mean(), 0.5 * (0.24197072 - 0.05399097) / (0.97724987 - 0.15865525), atol=0.01)


def test_matrices():
    assert drawn(init.constant_, 3.0, shape=(2, 1)).tolist() == [[3.0], [3.0]]
    assert drawn(init.ones_, shape=(2,)).tolist() == [1.0, 1.0]
    assert drawn(init.zeros_, shape=(2,)).tolist() == [0.0, 0.0]
    assert drawn(init.eye_, shape=(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    for shape in ((5, 3), (3, 5), (4, 2, 3)):
        matrix = drawn(init.orthogonal_, 2.0, shape=shape).reshape(shape[0], -1).astype(np.float64)
        product = matrix @ matrix.T if shape[0] < matrix.shape[1] else matrix.T @ matrix
        np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)
    assert (drawn(init.sparse_, 0.25, shape=(8, 5)) == 0).sum(0).tolist() == [2] * 5
    kernel = drawn(init.dirac_, shape=(2, 3, 3, 3))
    assert kernel[0, 0, 1, 1] == kernel[1, 1, 1, 1] == 1
    assert kernel.sum() == 2


def test_seeds_repeat_what_layers_draw():
    arrays = []
    for _ in range(2):
        adjoint.manual_seed(11)
        model = nn.Sequential(nn.Linear(4, 3), nn.Conv2d(2, 3, 2), nn.Embedding(5, 2, padding_idx=-1))
        arrays.append([p.numpy(force=True).tolist() for p in model.parameters()])
    assert arrays[0] == arrays[1]
    assert 0.25 < np.abs(arrays[0][0]).max() <= 0.5  # 1 / sqrt(4)
    assert 0.17 < np.abs(arrays[0][2]).max() <= 8**-0.5
    assert arrays[0][4][4] == [0.0, 0.0]


def test_what_initialization_refuses():
    vector, matrix = from_array(np.zeros(3)), from_array(np.zeros((2, 2)))
    for call, expected in (
        (
            lambda: init.xavier_uniform_(vector),
            "xavier_uniform_: the tensor must have at least two axes, got f64[3]; use uniform_",
        ),
        (lambda: init.eye_(vector), "eye_: the tensor must have two axes, got f64[3]; reshape it"),
        (
            lambda: init.kaiming_normal_(matrix, mode="fan"),
            "kaiming_normal_: the mode must be fan_in or fan_out, got 'fan'; use fan_in",
        ),
        (
            lambda: init.trunc_normal_(matrix, a=9.0, b=10.0),
            "trunc_normal_: the bounds must leave a part of the distribution, got 9.0 to 10.0 for mean 0.0 and "
            "standard deviation 1.0; widen them",
        ),
        (
            lambda: init.constant_(3, 1.0),
            "constant_: what is initialized must be a tensor, got an int; pass a parameter",
        ),
        (
            lambda: init.calculate_gain("gelu"),
            "calculate_gain: the nonlinearity must be one of linear, identity, conv1d, conv2d, conv3d, sigmoid, "
            "conv_transpose1d, conv_transpose2d, conv_transpose3d, tanh, relu, selu, leaky_relu, got 'gelu'; use one "
            "of them",
        ),
    ):
        with pytest.raises(AdjointError) as caught:
            call()
        assert caught.value.message == expected
