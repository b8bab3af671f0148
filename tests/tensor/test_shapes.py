"""Shapes, joins, repetitions and diagonals against NumPy, with refusals."""

import numpy as np
import pytest

import adjoint as torch
from tests.tensor.comparing import check, message

F = np.arange(12.0, dtype=np.float32).reshape(3, 4)
T = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
V = np.arange(4.0, dtype=np.float32)


def test_views_as_in_numpy():
    f, t, v = map(torch.tensor, (F, T, V))
    check(
        (f.view(4, -1), F.reshape(4, 3)),
        (f.T, F.T),
        (t.mT, T.swapaxes(1, 2)),
        (t.transpose(0, 2), T.swapaxes(0, 2)),
        (t.permute(2, 0, 1), T.transpose(2, 0, 1)),
        (t.flatten(1), T.reshape(2, 12)),
        (t.flatten(0, 1), T.reshape(6, 4)),
        (f.unsqueeze(-1).squeeze(-1), F),
        (f.squeeze(0), F),
        (t.unflatten(2, (2, -1)), T.reshape(2, 3, 2, 2)),
        (t.movedim(0, 2), np.moveaxis(T, 0, 2)),
        (v.expand(3, -1), np.tile(V, (3, 1))),
        (f.narrow(1, 1, 2), F[:, 1:3]),
        (f.select(0, -1), F[-1]),
        (f.split([1, 2])[1], F[1:]),
        (f.split(3, 1)[1], F[:, 3:]),
        (f.chunk(2)[0], F[:2]),
        (f.unbind(1)[2], F[:, 2]),
        (t.diagonal(1, 1, 2), T.diagonal(1, 1, 2)),
        (f.diagonal(-1), F.diagonal(-1)),
        (list(f)[1], F[1]),
    )
    assert f.shape == (3, 4)
    assert f.shape.numel() == 12
    assert t.shape[1:].numel() == 12
    assert repr(t.shape[:-1] + (5,)) == "Size([2, 3, 5])"  # noqa: RUF005 - the sum of sizes is tested
    assert repr(f.size()) == "Size([3, 4])"
    assert f.stride() == (4, 1)
    assert f.T.stride() == (1, 4)
    assert not f.T.is_contiguous()


def test_joins_and_repetitions_as_in_numpy():
    f, v, i = torch.tensor(F), torch.tensor(V), torch.arange(4)
    x, y = np.meshgrid(V, V[:2], indexing="xy")
    check(
        (torch.cat([f, f], 1), np.concatenate([F, F], 1)),
        (torch.cat([v, i]), np.concatenate([V, np.arange(4)])),
        (torch.stack([v, v], 1), np.stack([V, V], 1)),
        (torch.hstack([f, f]), np.hstack([F, F])),
        (torch.vstack([v, v]), np.vstack([V, V])),
        (torch.dstack([f, f]), np.dstack([F, F])),
        (v.repeat(2, 3), np.tile(V, (2, 3))),
        (f.tile(2), np.tile(F, 2)),
        (f.repeat_interleave(2, 1), F.repeat(2, 1)),
        (f.flip(0, 1), F[::-1, ::-1]),
        (f.roll(1), np.roll(F, 1)),
        (f.roll((1, -1), (0, 1)), np.roll(F, (1, -1), (0, 1))),
        (f.tril(-1), np.tril(F, -1)),
        (f.triu(1), np.triu(F, 1)),
        (torch.diag(v, -1), np.diag(V, -1)),
        (torch.diag(f), np.diag(F)),
        (torch.meshgrid(v, v[:2], indexing="xy")[0], x),
        (torch.meshgrid(v, v[:2], indexing="xy")[1], y),
        (torch.broadcast_tensors(v, f)[0], np.broadcast_to(V, (3, 4))),
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda f: f.view(5, 2),
            "reshape: the number of elements must not change, got f32[3,4] with 12 to [5,2] with 10; correct one size, "
            "or use -1 for it",
        ),
        (lambda f: f.split(0), "split: the size of a part must be positive, got 0; pass at least 1"),
        (
            lambda f: f.split([1, 1]),
            "split: the sizes of the parts must add up to 3, the size of axis 0, got (1, 1)",
        ),
        (lambda f: f.chunk(0), "chunk: the number of parts must be positive, got 0; pass at least 1"),
        (
            lambda f: f.permute(0, 0),
            "permute: dims must contain each axis of the tensor once, got (0, 0) at rank 2; correct them",
        ),
        (
            lambda f: f.narrow(0, 2, 2),
            "narrow: start and length must select part of axis 0 with 3 elements, got 2 and 2",
        ),
        (lambda f: f.select(0, 3), "select: the index must be from -3 to 2 on axis 0, got 3"),
        (
            lambda f: f.repeat(2),
            "repeat: there must be a number for every axis, got (2,) at rank 2; use tile, or pass 1 for axes that stay",
        ),
        (lambda _: torch.cat([]), "cat: at least one tensor is required, got none; pass one"),
        (lambda f: f[0].tril(), "tril: the tensor must have at least 2 axes, got f32[4]; reshape it"),
        (
            lambda f: f.unflatten(0, (2, 2)),
            "unflatten: the sizes must have a product of 3, the size of axis 0, got (2, 2)",
        ),
        (lambda f: f[None].t(), "t: the tensor must have at most 2 axes, got 3; use transpose(-2, -1)"),
        (lambda f: torch.meshgrid(f[0], indexing="yx"), "meshgrid: indexing must be 'ij' or 'xy', got 'yx'"),
    ],
)
def test_refusals(call, sentence):
    assert message(lambda: call(torch.tensor(F))) == sentence


def test_parts_of_given_sizes():
    parts = torch.split_with_sizes(torch.arange(6), [1, 5])
    check((parts[0], np.arange(1)), (parts[1], np.arange(1, 6)))


def test_repeats_and_bounds_given_by_tensors_are_read():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    check(
        (torch.repeat_interleave(x, torch.tensor([2, 1]), dim=0, output_size=3), [[1, 2], [1, 2], [3, 4]]),
        (x.repeat_interleave(torch.tensor([0, 2]), 1), [[2, 2], [4, 4]]),
        (torch.repeat_interleave(torch.tensor([1, 0, 2])), [0, 2, 2]),
        (x.repeat_interleave(torch.tensor(2)), [1, 1, 2, 2, 3, 3, 4, 4]),
        (torch.narrow(x, 1, torch.tensor(1), 1), [[2], [4]]),
        (torch.tensor_split(x, torch.tensor([1]), dim=1)[1], [[2], [4]]),
        (torch.tensor_split(x, torch.tensor(2))[0], [[1, 2]]),
        (torch.atleast_2d(x, torch.tensor(1.0))[1], [[1.0]]),
        (torch.atleast_1d([torch.tensor(1.0), x])[0], [1.0]),
        (torch.atleast_3d([x])[0], [[[1], [2]], [[3], [4]]]),
        (x.mH, [[1, 3], [2, 4]]),
        (x.H, [[1, 3], [2, 4]]),
    )
    assert message(lambda: x.repeat_interleave(torch.tensor([1, -1]), 0)) == (
        "repeat_interleave: repeats must be an integer of at least 0 for each of 2 positions, got i64 of shape (2,); "
        "reshape or convert them"
    )
    assert message(lambda: x.repeat_interleave(2, 0, output_size=3)) == (
        "repeat_interleave: output_size must be the sum of repeats, 4, got 3; omit it"
    )
    assert message(lambda: x[0].H) == "H: the operand must be a matrix, got f32[2]; use mH for batches of them"
