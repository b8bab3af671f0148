"""QR, eigenvalues and singular values of tensors, under the names of PyTorch, against NumPy."""

import numpy as np

import adjoint as torch
from tests.tensor.comparing import check, message

RNG = np.random.default_rng(0)
TALL, SQUARE = RNG.standard_normal((2, 4, 3)), RNG.standard_normal((2, 3, 3))
SYMMETRIC = SQUARE + SQUARE.swapaxes(-1, -2)
WIDE, RIGHT = TALL.swapaxes(-1, -2).copy(), RNG.standard_normal((2, 4, 2))


def test_decompositions_are_those_of_numpy():
    tall, wide, symmetric, right = map(torch.tensor, (TALL, WIDE, SYMMETRIC, RIGHT))
    linalg, numpy = torch.linalg, np.linalg
    values, vectors = linalg.eigh(symmetric)
    u, s, vh = linalg.svd(tall, full_matrices=False)
    left, small, rest = linalg.svd(wide, full_matrices=False)
    q, r = linalg.qr(wide)
    solution, residuals, *_ = linalg.lstsq(tall, right)
    deficient = torch.tensor(TALL[0] @ np.diag([1.0, 1.0, 0.0]))
    check(
        (linalg.qr(tall).Q, numpy.qr(TALL)[0]),
        (linalg.qr(tall, "r").R, numpy.qr(TALL)[1]),
        (q, numpy.qr(WIDE)[0]),
        (r, numpy.qr(WIDE)[1]),
        (linalg.qr(wide, "complete").R, numpy.qr(WIDE)[1]),
        (values, numpy.eigvalsh(SYMMETRIC)),
        (vectors * values.unsqueeze(-2) @ vectors.mT, SYMMETRIC),
        (vectors.mT @ vectors, np.broadcast_to(np.eye(3), (2, 3, 3))),
        (linalg.eigvalsh(symmetric, "U"), numpy.eigvalsh(SYMMETRIC)),
        (s, numpy.svd(TALL)[1]),
        (u * s.unsqueeze(-2) @ vh, TALL),
        (u.mT @ u, np.broadcast_to(np.eye(3), (2, 3, 3))),
        (left * small.unsqueeze(-2) @ rest, WIDE),
        (linalg.svdvals(symmetric), numpy.svd(SYMMETRIC)[1]),
        (linalg.pinv(tall), numpy.pinv(TALL)),
        (linalg.pinv(symmetric, hermitian=True), numpy.inv(SYMMETRIC)),
        (linalg.pinv(tall, rtol=0.5), numpy.pinv(TALL, 0.5)),
        (linalg.matrix_rank(deficient), np.array(2)),
        (linalg.matrix_rank(tall), np.array([3, 3])),
        (linalg.matrix_rank(tall, 1e3), np.array([0, 0])),
        (linalg.matrix_rank(tall, rtol=0.5), numpy.matrix_rank(TALL, 0.5 * numpy.svd(TALL)[1].max(-1))),
        (linalg.matrix_rank(tall, atol=torch.tensor([1e3, 0.0])), np.array([0, 3])),
        (linalg.matrix_rank(torch.ones(2, 0, 3)), np.array([0, 0])),
        (linalg.pinv(tall, atol=1e3), np.zeros((2, 3, 4))),
        (linalg.pinv(torch.ones(2, 0, 3)), np.zeros((2, 3, 0))),
        (linalg.cond(tall), numpy.cond(TALL)),
        (linalg.cond(tall, -2), 1 / numpy.cond(TALL)),
        (linalg.matrix_norm(tall, "nuc"), numpy.norm(TALL, "nuc", (1, 2))),
        (linalg.matrix_norm(tall, 2, (2, 1), True), numpy.norm(TALL, 2, (1, 2), True)),
        (linalg.norm(tall[0], -2), numpy.norm(TALL[0], -2)),
        (solution, numpy.pinv(TALL) @ RIGHT),
        (residuals, ((TALL @ numpy.pinv(TALL) @ RIGHT - RIGHT) ** 2).sum(-2)),
        (linalg.lstsq(wide, right[:, :3]).solution, numpy.pinv(WIDE) @ RIGHT[:, :3]),
        (linalg.vecdot(tall, right[:, :, :1]), (TALL * RIGHT[:, :, :1]).sum(-1)),
        rtol=1e-9,
        atol=1e-10,
    )


def test_values_have_gradients_where_they_are_equal():
    """Of the eigenvalues' sum the gradient is the identity, of that of the singular values it is ``U @ V.T``."""
    x = torch.eye(3, dtype="f64").requires_grad_()
    y = torch.tensor(np.diag([2.0, 2.0, 1.0]), requires_grad=True)
    (torch.linalg.eigvalsh(x).sum() + torch.linalg.svdvals(y).sum()).backward()
    check((x.grad, np.eye(3)), (y.grad, np.eye(3)))


def test_gradients_through_least_squares_and_pseudoinverses():
    """``d pinv(A) = -P dA P + P P.T dA.T (I - A P) + (I - P A) dA.T P.T P`` (Golub and Pereyra, 1973)."""
    a, b = torch.tensor(TALL[0], requires_grad=True), torch.tensor(TALL[0], requires_grad=True)
    (torch.linalg.pinv(a).sum() + torch.linalg.lstsq(b, torch.eye(4, dtype="f64")).solution.sum()).backward()
    p, ones = np.linalg.pinv(TALL[0]), np.ones((3, 4))
    expected = -p.T @ ones @ p.T + (np.eye(4) - TALL[0] @ p) @ ones.T @ p @ p.T
    check((a.grad, expected), (b.grad, expected), rtol=1e-8, atol=1e-10)


def test_refusals():
    x, linalg = torch.ones(3, 2), torch.linalg
    assert message(lambda: linalg.matrix_rank(x, 0.1, atol=0.2)) == (
        "matrix_rank: tol is another name for atol, got tol=0.1 and atol=0.2; omit tol"
    )
    assert message(lambda: linalg.qr(x, "full")) == (
        "qr: mode must be 'reduced', 'complete' or 'r', got 'full'; use 'reduced'"
    )
    assert message(lambda: linalg.qr(x, "complete")) == (
        "qr: mode 'complete' needs matrices with at most as many rows as columns, got (3, 2); use 'reduced'"
    )
    assert message(lambda: linalg.qr(x[0])) == (
        "qr: the operand must be a matrix or a batch of them, got f32[2]; reshape it"
    )
    assert message(lambda: linalg.svd(x)) == (
        "svd: full_matrices=True needs square matrices, got (3, 2); pass full_matrices=False"
    )
    assert message(lambda: linalg.eigh(x, "X")) == "eigh: UPLO must be 'L' or 'U', got 'X'; use 'L'"
    assert message(lambda: linalg.cond(x, 1)) == (
        "cond: p must be None, 2 or -2, got 1; multiply matrix_norm of the matrix and of its inverse"
    )
    assert message(lambda: linalg.lstsq(x, x, driver="gelsd")) == "lstsq: driver must be 'gels', got 'gelsd'; omit it"
    assert message(lambda: linalg.lstsq(x, x[0])) == (
        "lstsq: right sides must be columns [..., m, k] beside matrices [..., m, n] of floats, got shapes (3, 2) and "
        "(2,); reshape one"
    )
