"""Functions of neural networks at the top level: PyTorch's signatures, which differ from those of `nn.functional`."""

import inspect

import numpy as np
import pytest

import adjoint as torch
from adjoint.errors import AdjointError
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn import top_level

RNG = np.random.default_rng(0)


def tensor(*shape):
    return torch.tensor(RNG.standard_normal(shape).astype(np.float32))


def test_they_are_the_functions_of_nn_functional():
    x, mean, var, ids = tensor(2, 4, 3, 3), tensor(4), tensor(4).square(), torch.tensor([0, 2, 2])
    grid, table, line = tensor(2, 1, 2, 2), tensor(3, 2), tensor(2, 4, 6)
    pairs = [
        (
            torch.batch_norm(x, mean, var, mean, var, False, 0.1, 1e-5, True),
            F.batch_norm(x, mean, var, mean, var),
        ),
        (
            torch.instance_norm(x, mean, var, None, None, True, 0.1, 1e-5),
            F.instance_norm(x, None, None, mean, var),
        ),
        (torch.layer_norm(x, [3, 3], eps=0.1), F.layer_norm(x, [3, 3], eps=0.1)),
        (torch.group_norm(x, 2, mean, var), F.group_norm(x, 2, mean, var)),
        (torch.dropout(x, 0.5, False), x),
        (torch.embedding(table, ids), table[ids]),
        (torch.embedding(table, ids, 2), table[ids]),
        (torch.constant_pad_nd(table, [1, 0], 2.0), F.pad(table, [1, 0], value=2.0)),
        (torch.grid_sampler(x, grid, 1, 2, True), F.grid_sample(x, grid, "nearest", "reflection", True)),
        *zip(torch.max_pool1d_with_indices(line, 2), F.max_pool1d(line, 2, return_indices=True), strict=True),
        *zip(torch.adaptive_max_pool1d(line, 3), F.adaptive_max_pool1d(line, 3, True), strict=True),
        (torch.relu_(line - 0.5), F.relu(line - 0.5)),
        (F.hardtanh_(line * 2, -1.0, 0.5), F.hardtanh(line * 2, -1.0, 0.5)),
        (torch.clamp_min(line, 0), F.relu(line)),
        (-torch.clamp_max(-line, 0), F.relu(line)),
        (torch.fill(line, 2.5), torch.full_like(line, 2.5)),
        (torch.ger(mean, var), torch.outer(mean, var)),
    ]
    for n, (found, expected) in enumerate(pairs):
        np.testing.assert_array_equal(found.numpy(), expected.numpy(), err_msg=str(n))


def test_dropout_in_place_and_of_channels():
    torch.manual_seed(0)
    x, y = torch.ones(8, 4), torch.feature_dropout(torch.ones(4, 8, 2, 2), 0.5, True)
    assert torch.dropout_(x, 0.5, True) is x
    assert set(x.numpy().ravel()) == {0.0, 2.0}
    channels = y.numpy().reshape(32, 4)
    assert (channels == channels[:, :1]).all()
    assert set(channels[:, 0]) == {0.0, 2.0}


def test_a_row_of_padding_has_no_gradient():
    table = torch.ones(3, 2, requires_grad=True)
    torch.embedding(table, torch.tensor([0, 2, 2]), 2).sum().backward()
    np.testing.assert_array_equal(table.grad.numpy(), [[1, 1], [0, 0], [0, 0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: torch.embedding(tensor(3, 2), torch.tensor([0]), scale_grad_by_freq=True),
            "embedding: scale_grad_by_freq must be False, got True; divide the gradient by the counts of bincount",
        ),
        (
            lambda: torch.feature_dropout(tensor(3), 0.5, True),
            "feature_dropout: the input must have 2 to 5 axes, [N, C, ...], got the shape (3,); reshape it",
        ),
        (
            lambda: torch.grid_sampler(tensor(1, 1, 2, 2), tensor(1, 1, 1, 2), 3, 0, True),
            "grid_sampler: interpolation_mode must be 0, 1 or 2, got 3; use grid_sample",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AdjointError) as error:
        call()
    assert error.value.message == message


def test_all_are_at_the_top_level():
    assert all(getattr(torch, name) is getattr(top_level, name) for name in top_level.__all__)
    assert list(inspect.signature(torch.conv2d).parameters)[:3] == ["input", "weight", "bias"]
