"""Linear algebra of tensors, under the names of PyTorch, against NumPy."""

import numpy as np

import adjoint as torch
from adjoint import vmap
from tests.tensor.comparing import check, message

RNG = np.random.default_rng(0)
A = (RNG.standard_normal((2, 3, 3)) + 3 * np.eye(3)).astype(np.float32)
B = RNG.standard_normal((2, 3, 2)).astype(np.float32)
S = A @ A.swapaxes(-1, -2)
CHAIN = [RNG.standard_normal(shape).astype(np.float32) for shape in ((3, 9), (9, 2), (2, 7), (7, 4))]


def test_functions_and_methods():
    a, b, s = torch.tensor(A), torch.tensor(B), torch.tensor(S)
    factor = torch.linalg.cholesky(s)
    chain = [torch.tensor(one) for one in CHAIN]
    sign, logarithm = torch.linalg.slogdet(a)
    numpy = np.linalg
    check(
        (factor, numpy.cholesky(S)),
        (s.cholesky(upper=True), numpy.cholesky(S).swapaxes(-1, -2)),
        (b.cholesky_solve(factor), numpy.solve(S, B)),
        (factor.cholesky_inverse(), numpy.inv(S)),
        (torch.linalg.solve(a, b), numpy.solve(A, B)),
        (torch.linalg.solve(a, b[:, :, 0]), numpy.solve(A, B)[:, :, 0]),
        (torch.linalg.solve(a, b.mT, left=False), B.swapaxes(-1, -2) @ numpy.inv(A)),
        (torch.linalg.solve_triangular(a, b, upper=False), numpy.solve(np.tril(A), B)),
        (torch.linalg.solve_triangular(a, b.mT, upper=True, left=False), B.swapaxes(-1, -2) @ numpy.inv(np.triu(A))),
        (torch.triangular_solve(b, a, transpose=True).solution, numpy.solve(np.triu(A).swapaxes(-1, -2), B)),
        (torch.linalg.inv(a), numpy.inv(A)),
        (a.det(), numpy.det(A)),
        (sign, np.sign(numpy.det(A))),
        (logarithm, np.log(abs(numpy.det(A)))),
        (s.logdet(), np.log(numpy.det(S))),
        (a.matrix_power(5), numpy.matrix_power(A, 5)),
        (torch.linalg.matrix_power(a, -2), numpy.matrix_power(A, -2)),
        (torch.matrix_power(a, 0), np.broadcast_to(np.eye(3), (2, 3, 3))),
        (torch.linalg.multi_dot(chain), numpy.multi_dot(CHAIN)),
        (torch.linalg.multi_dot([chain[0][0], *chain[1:]]), numpy.multi_dot([CHAIN[0][0], *CHAIN[1:]])),
        (torch.linalg.cross(a, b[:, :, :1].mT), np.cross(A, B[:, :, :1].swapaxes(-1, -2))),
        (torch.linalg.diagonal(a, offset=1), np.diagonal(A, 1, -2, -1)),
        (torch.chain_matmul(*chain[:2]), CHAIN[0] @ CHAIN[1]),
        (vmap(lambda a, b: torch.linalg.solve(a, b))(a, b), numpy.solve(A, B)),
        rtol=1e-3,
        atol=1e-4,
    )


def test_gradients():
    """d log det S = trace(inv(S) dS), and d inv(A) = -inv(A) dA inv(A)."""
    a = torch.tensor(A[0].astype(np.float64), requires_grad=True)
    s = torch.tensor(S[0].astype(np.float64), requires_grad=True)
    (a.inverse().sum() + s.logdet()).backward()
    inverse, ones = np.linalg.inv(A[0].astype(np.float64)), np.ones((3, 3))
    check((a.grad, -inverse.T @ ones @ inverse.T), (s.grad, np.linalg.inv(S[0].astype(np.float64))), rtol=1e-9)


def test_refusals():
    x = torch.ones(2, 3)
    assert message(lambda: torch.matrix_power(x, 2)) == (
        "matrix_power: matrices must be square, got f32[2,3]; reshape it to [..., n, n]"
    )
    assert message(lambda: torch.linalg.multi_dot([x])) == (
        "multi_dot: at least two matrices are required, got 1; pass more"
    )
    assert message(lambda: torch.linalg.multi_dot([x, x[0], x])) == (
        "multi_dot: operands must be matrices, the first and the last may be vectors, got shapes (2, 3), (3,), (2, 3); "
        "use matmul"
    )
    assert message(lambda: torch.cholesky_inverse(x)) == (
        "cholesky_inverse: matrices must be square, got f32[2,3]; pass a factor of cholesky"
    )


def test_norms_of_vectors_and_matrices():
    matrix = np.arange(12.0).reshape(3, 4) - 5
    x, y = torch.tensor(matrix), torch.tensor(matrix[0])
    orders = (None, "fro", 1, -1, np.inf, -np.inf)
    found = [torch.linalg.norm(x, ord) for ord in orders]
    of_rows = torch.linalg.norm(x, dim=1, keepdim=True)
    lengths = [torch.linalg.norm(y, ord) for ord in (None, 1, 3, np.inf, 0)]
    stacked = torch.linalg.matrix_norm(torch.stack([x, 2 * x]), 1)
    np.testing.assert_allclose([n.item() for n in found], [np.linalg.norm(matrix, ord) for ord in orders])
    np.testing.assert_allclose(of_rows.numpy(), np.linalg.norm(matrix, axis=1, keepdims=True))
    np.testing.assert_allclose(
        [n.item() for n in lengths], [np.linalg.norm(matrix[0], ord) for ord in (None, 1, 3, np.inf, 0)]
    )
    np.testing.assert_allclose(stacked.tolist(), [10.0, 20.0])
    assert message(lambda: torch.linalg.norm(x, 3)) == (
        "matrix_norm: ord must be 'fro', 'nuc', 2, -2, 1, -1, inf or -inf, got 3; use one of them"
    )
    assert message(lambda: torch.linalg.norm(x[None], 2)) == (
        "norm: with ord=2 there must be one axis of a vector or two of a matrix, got 3; pass dim"
    )
