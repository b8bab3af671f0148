"""Tensors taken apart, put together and rearranged, against NumPy."""

from itertools import combinations, combinations_with_replacement

import numpy as np

import adjoint as torch
from tests.tensor.comparing import check, message

F = np.arange(12.0, dtype=np.float32).reshape(3, 4)
G = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
V = np.array([2.0, -1.0, 5.0], np.float32)


def pairs(found, wanted):
    return zip(found, wanted, strict=True)


def test_functions_and_methods():
    f, g, v = torch.tensor(F), torch.tensor(G), torch.tensor(V)
    wide = np.zeros((2, 4, 4), np.float32)
    wide[:, [0, 1, 2], [1, 2, 3]] = G[:, :, 0]
    check(
        *pairs(f.tensor_split(3, 1), np.array_split(F, 3, 1)),
        *pairs(torch.tensor_split(f, (1, -1, 9), 1), [F[:, :1], F[:, 1:3], F[:, 3:], F[:, :0]]),
        *pairs(f.hsplit(2), np.hsplit(F, 2)),
        *pairs(f.vsplit([1]), np.vsplit(F, [1])),
        *pairs(g.dsplit(2), np.dsplit(G, 2)),
        *((torch.rot90(f, k), np.rot90(F, k)) for k in range(-1, 4)),
        (g.rot90(1, (2, 0)), np.rot90(G, 1, (2, 0))),
        (torch.column_stack([v, f]), np.column_stack([V, F])),
        (torch.row_stack([v, v]), np.vstack([V, V])),
        (torch.atleast_3d(f), np.atleast_3d(F)),
        (g[:, :, 0].diag_embed(1), wide),
        (torch.diag_embed(v, -1, 1, 0), np.diag(V, -1).T),
        (f.diagflat(), np.diagflat(F)),
        (torch.diag(v, 2), np.diag(V, 2)),
        (torch.tril(g, 1), np.tril(G, 1)),
        (torch.triu(f, -1), np.triu(F, -1)),
        (torch.block_diag(f, v), np.block([[F, np.zeros((3, 3))], [np.zeros((1, 4)), V[None]]])),
        (torch.cartesian_prod(v, v[:2]), [(a, b) for a in V for b in V[:2]]),
        (torch.combinations(v), list(combinations(V, 2))),
        (torch.combinations(v, 2, True), list(combinations_with_replacement(V, 2))),
        (torch.kron(f, v), np.kron(F, V)),
        (torch.cross(f[:, :3], v[None], -1), np.cross(F[:, :3], V[None])),
        (torch.linalg.cross(f, f + 1, dim=0), np.cross(F, F + 1, axis=0)),
        (f.unfold(1, 2, 1), np.lib.stride_tricks.sliding_window_view(F, 2, 1)),
        (f.unfold(1, 2, 2), F.reshape(3, 2, 2)),
        (g.unfold(1, 2, 3), G[:, :2].transpose(0, 2, 1)[:, None]),
        (torch.moveaxis(g, 0, -1), np.moveaxis(G, 0, -1)),
        (f.fliplr(), np.fliplr(F)),
    )


def test_gradients():
    f = torch.tensor(F, requires_grad=True)
    windows = f.unfold(1, 3, 1)
    blocks = torch.block_diag(f, f)
    (windows.sum() + (torch.kron(f, torch.tensor(V)) * 2).sum() + blocks.sum()).backward()
    check((f.grad, np.broadcast_to(np.array([1, 2, 2, 1]) + 2 * V.sum() + 2, (3, 4))))


def test_refusals():
    f = torch.tensor(F)
    assert message(lambda: f.hsplit(3)) == (
        "hsplit: the parts must be equal, got 3 parts of axis 1 with 4 elements; use tensor_split"
    )
    assert message(lambda: f.dsplit(2)) == "dsplit: the tensor must have at least 3 axes, got shape (3, 4)"
    assert message(lambda: f.tensor_split(0)) == (
        "tensor_split: the number of parts must be positive, got 0; pass at least 1"
    )
    assert message(lambda: f.rot90(1, (0, -2))) == "rot90: dims must be two different axes, got (0, -2); pass two"
    assert message(lambda: f.unfold(0, 4, 1)) == (
        "unfold: windows must have at most 3 elements and be at least 1 apart, got 4 and 1"
    )
    assert message(lambda: torch.cross(f, f, 1)) == (
        "cross: the axis must have 3 elements, got f32[3,4] and f32[3,4] with dim 1"
    )
    assert message(lambda: torch.block_diag(torch.ones(1, 1, 1))) == (
        "block_diag: blocks must be matrices, got shape (1, 1, 1); use cat and stack"
    )
    assert message(lambda: torch.diag_embed(f, 0, 1, 1)) == (
        "diag_embed: the axes must be different, got 1 and 1 for f32[3,4]"
    )
    assert message(lambda: torch.combinations(f)) == (
        "combinations: the tensor must be a vector and r at least 0, got shape (3, 4) and 2"
    )
