"""Products and `einsum` against NumPy."""

import numpy as np
import pytest

import adjoint as torch
from adjoint import Function, ops, param
from tests.tensor.comparing import check, message

RNG = np.random.default_rng(4)
A, M, V = (RNG.standard_normal(shape).astype(np.float32) for shape in ((3, 4), (4, 5), (4,)))
P, Q = (RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4), (2, 4, 5)))


def test_products_as_in_numpy():
    a, m, v, p, q = map(torch.tensor, (A, M, V, P, Q))
    check(
        (a @ m, A @ M),
        (p @ q, P @ Q),
        (v @ v, V @ V),
        (torch.mm(a, m), A @ M),
        (p.bmm(q), P @ Q),
        (a.mv(v), A @ V),
        (v.dot(v), V @ V),
        (v.outer(v), np.outer(V, V)),
        (torch.inner(a, a), np.inner(A, A)),
        (torch.addmm(v[:1], a, m, beta=0.5, alpha=2), 0.5 * V[0] + 2 * A @ M),
        (torch.baddbmm(v[0], p, q), V[0] + P @ Q),
        (torch.addmv(v[:3], a, v), V[:3] + A @ V),
        (torch.trace(a), np.trace(A)),
        (torch.tensordot(p, q, ([0, 2], [0, 1])), np.tensordot(P, Q, ([0, 2], [0, 1]))),
    )


@pytest.fixture(scope="module")
def equations():
    """Equations with their operands."""
    return [
        ("ij,jk->ik", A, M),
        ("bij,bjk->bki", P, Q),
        ("bij,kj->bik", P, A),
        ("ij->ji", A),
        ("ij->", A),
        ("ii->i", A[:, :3]),
        ("ii", A[:, :3]),
        ("i,j->ij", V, V),
        ("ij,ij->i", A, A),
        ("i,ij,jk->k", V[:3], A, M),
        ("...ij,jk->...ik", P, M),
        ("bij,bjk", P, Q),
        ("bi,bj->bij", A, A),
    ]


def test_einsum_as_in_numpy(equations):
    check(*((torch.einsum(text, *map(torch.tensor, given)), np.einsum(text, *given)) for text, *given in equations))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda a: torch.einsum("ij,jk->ik", a),
            "einsum: the equation must have one term per operand, got 'ij,jk->ik' with 1; correct it",
        ),
        (
            lambda a: torch.einsum("ijk->i", a),
            "einsum: each term must have one letter per axis, got 'ijk' for f32[3,4]; correct 'ijk->i'",
        ),
        (
            lambda a: torch.einsum("ij->ik", a),
            "einsum: the result must have letters of the operands, each once, got 'ik'; correct 'ij->ik'",
        ),
        (
            lambda a: a.bmm(a),
            "bmm: the operand must be a batch of matrices, got f32[3,4]; use matmul for other shapes",
        ),
    ],
)
def test_refusals(call, sentence):
    assert message(lambda: call(torch.tensor(A))) == sentence


def test_einsum_multiplies_the_pair_that_is_cheapest_first():
    """From left to right, the first product would have 50 x 50 elements."""
    x, y, z = (param(name, shape) for name, shape in (("x", (50, 2)), ("y", (2, 50)), ("z", (50, 2))))
    made = Function("f", (x, y, z), (ops.einsum("ab,bc,cd->ad", x, y, z),))
    assert max(value.type.size for value in made.values()) == 100


def test_einsum_refuses_axes_of_different_sizes():
    a, m = torch.tensor(A), torch.tensor(M)
    assert message(lambda: torch.einsum("ii->i", a)) == (
        "einsum: axes with one letter must have one size, got 3 and 4 for 'i' in f32[3,4]; correct the equation"
    )
    assert message(lambda: torch.einsum("ij,kj->ik", a, m)) == (
        "einsum: axes with one letter must have one size or size 1, got 4 and 5 for 'j'; correct the equation"
    )


def test_sums_of_products_with_a_start():
    a, m, v, p, q = map(torch.tensor, (A, M, V, P, Q))
    check(
        (torch.addr(m, v, m[0], beta=0.5, alpha=2), 0.5 * M + 2 * np.outer(V, M[0])),
        (torch.addbmm(a @ m, p, q, beta=2), 2 * A @ M + (P @ Q).sum(0)),
        (v.vdot(v), V @ V),
        rtol=1e-4,
    )
