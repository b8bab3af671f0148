"""Coordinates, computed slices, segments and sparse products of tensors, against NumPy, in one program."""

import numpy as np

import adjoint as torch
from adjoint import jit
from tests.tensor.comparing import check, message

X = np.arange(12.0, dtype=np.float32).reshape(4, 3)
IDS = np.array([1, 0, 1, 1])
AT = np.array([[0, 2], [3, 1]])


def test_functions():
    x, ids, at = torch.tensor(X, requires_grad=True), torch.tensor(IDS), torch.tensor(AT)
    start, weights = torch.tensor(9), torch.tensor([2.0, 3.0, 5.0, 7.0])
    sparse, replaced, added = np.zeros((2, 4), np.float32), X.copy(), np.zeros((4, 3))
    sparse[IDS, [3, 0, 1, 2]] = [2, 3, 5, 7]
    replaced[2:, 1:] = 0
    added[tuple(AT.T)] = [5, 6]
    starts, columns = torch.tensor([0, 1, 4]), torch.tensor([0, 3, 1, 2])
    product = torch.csr_matmul(starts, columns, torch.tensor([3.0, 2.0, 5.0, 7.0]), x)
    product.sum().backward()
    check(
        (torch.gather_nd(x, at), X[tuple(AT.T)]),
        (torch.scatter_nd(at, torch.tensor([5.0, 6.0]), (4, 3)), added),
        (torch.dynamic_slice(x, (start, -2), (2, 2)), X[2:, 1:]),
        (torch.dynamic_update_slice(x, torch.zeros(2, 2), (start, start)), replaced),
        (torch.segment_sum(x, ids, 3), [X[1], X[0] + X[2] + X[3], np.zeros(3)]),
        (torch.segment_mean(x, ids, 2), [X[1], X[[0, 2, 3]].mean(0)]),
        (torch.segment_max(x, ids, 2), X[[1, 3]]),
        (torch.segment_min(x, ids, 2), X[[1, 0]]),
        (torch.coo_matmul(ids, torch.tensor([3, 0, 1, 2]), weights, x, 2), sparse @ X),
        (product, sparse @ X),
        (x.grad, np.broadcast_to(sparse.sum(0)[:, None], X.shape)),
    )


def test_positions_are_checked_before_the_program_runs():
    x = torch.tensor(X)
    run = jit(lambda x, ids: torch.segment_sum(x, ids, 2))
    assert message(lambda: run(x, torch.tensor([0, 3, 1, 1])).numpy()) == (
        "ids holds indices and must be in [0, 2), got 3 at 1; correct the data"
    )
