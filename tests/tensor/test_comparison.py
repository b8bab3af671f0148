"""Comparisons and logic against NumPy."""

import numpy as np

import adjoint as torch
from tests.tensor.comparing import check, message

F = np.array([[0.5, -1.0, np.nan], [np.inf, 2.0, 0.0]], np.float32)
G = np.array([[0.5, 1.0, 0.0], [np.inf, -2.0, 0.0]], np.float32)
B = np.array([[True, False, True], [False, True, False]])


def test_comparisons_as_in_numpy():
    f, g, b = map(torch.tensor, (F, G, B))
    check(
        (f == g, F == G),
        (f != 0, F != 0),
        (f < g, F < G),
        (f <= 0.5, F <= 0.5),
        (f > g, F > G),
        (f <= 0.5, F <= 0.5),
        (b > False, B > False),
        (b & (f > 0), B & (F > 0)),
        (b | (f > 0), B | (F > 0)),
        (b ^ True, B ^ True),
        (~b, ~B),
        (torch.logical_and(f, b), np.logical_and(F, B)),
        (torch.logical_xor(b, g), np.logical_xor(B, G)),
        (g.logical_not(), np.logical_not(G)),
        (f.isnan(), np.isnan(F)),
        (f.isinf(), np.isinf(F)),
        (f.isfinite(), np.isfinite(F)),
        (torch.isclose(f, g, equal_nan=True), np.isclose(F, G, equal_nan=True)),
        (torch.where(b, f, g), np.where(B, F, G)),
        (torch.where(b, 1, 0), np.where(B, 1, 0)),
        (g.where(b, 7.0), np.where(B, G, 7)),
    )


def test_questions_about_whole_tensors():
    g = torch.tensor(G)
    assert torch.equal(g, g.clone())
    assert not torch.equal(g, g[0])
    assert torch.allclose(g, g * (1 + 1e-7))
    assert not g.allclose(g + 1)
    assert 2.0 not in g
    assert (g == None, g != None) == (False, True)  # noqa: E711
    assert -2.0 in g
    assert len({g, g}) == 1


def test_operators_of_bits_refuse_floats():
    g = torch.tensor(G)
    assert (
        message(lambda: g & g)
        == "bitwise_and: operands must be integers or bools, got f32[2,3]; convert it with long()"
    )
