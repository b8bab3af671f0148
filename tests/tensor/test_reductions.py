"""Reductions against NumPy, named pairs, gradients of what is composed."""

import pickle

import numpy as np
import pytest

import adjoint as torch
from tests.tensor.comparing import check, message

F = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
N = np.random.default_rng(3).integers(-5, 6, (3, 4))
B = F > 0


def test_reductions_as_in_numpy():
    f, i, b = map(torch.tensor, (F, N, B))
    check(
        (f.sum(), F.sum()),
        (f.sum(1, True), F.sum(1, keepdims=True)),
        (f.sum(axis=(0, 1)), F.sum()),
        (b.sum(0), B.sum(0)),
        (f.sum(dtype=torch.float64), F.sum(dtype=np.float64)),
        (i.prod(0), N.prod(0)),
        (f.mean(dim=0, keepdim=True), F.mean(0, keepdims=True)),
        (f.var(), F.var(ddof=1)),
        (f.var(1, unbiased=False), F.var(1)),
        (f.var(False), F.var()),
        (f.std(0, correction=2), F.std(0, ddof=2)),
        (torch.std_mean(f, 1)[0], F.std(1, ddof=1)),
        (torch.var_mean(f, 1)[1], F.mean(1)),
        (f.max(), F.max()),
        (i.min(1).values, N.min(1)),
        (i.min(1).indices, N.argmin(1)),
        (f.max(0, keepdim=True)[1], F.argmax(0)[None]),
        (torch.max(f, -f), np.maximum(F, -F)),
        (f.amin((0, 1)), F.min()),
        (f.argmax(), F.argmax()),
        (i.argmin(0), N.argmin(0)),
        (b.any(1), B.any(1)),
        (b.all(), B.all()),
        (i.any(0), N.any(0)),
        (i.count_nonzero(), np.count_nonzero(N)),
        (f.logsumexp(1), np.log(np.exp(F).sum(1))),
        (f.norm(), np.linalg.norm(F)),
        (f.norm(1, dim=0), abs(F).sum(0)),
        (f.norm(float("inf")), abs(F).max()),
        (f.norm(3, 1), (abs(F) ** 3).sum(1) ** (1 / 3)),
        (f.cumsum(1), F.cumsum(1)),
        (b.cumsum(0), B.cumsum(0)),
        (f.cumprod(0), F.cumprod(0)),
    )


def test_types_of_results():
    f, i = torch.tensor(F), torch.tensor(N)
    assert i.sum().dtype == torch.tensor(B).sum().dtype == torch.int64
    assert f.argmax().dtype == torch.int64


def test_several_results_have_names():
    found = torch.tensor([[1.0, 3.0], [5.0, 2.0]]).max(1)
    assert repr(found) == "adjoint.return_types.max(\nvalues=tensor([3., 5.]),\nindices=tensor([1, 0]))"
    assert found.values is found[0]
    assert repr(torch.tensor([[1.0, 3.0]]).min(1)).startswith("adjoint.return_types.min(\nvalues=")
    assert pickle.loads(pickle.dumps(found)).indices.tolist() == [1, 0]


def test_argmin_of_unsigned_and_nan():
    check(
        (torch.tensor([3, 0, 255], dtype=torch.uint8).argmin(), 1),
        (torch.tensor([1.0, np.nan, 0.0]).argmin(), 1),
        (torch.tensor([5, -(2**63)]).argmin(), 1),
    )


def test_gradients_of_norm_max_and_running_sums():
    x = torch.tensor(F, requires_grad=True)
    weights = torch.arange(12.0).reshape(3, 4)
    (x.max(1).values.sum() + x.norm() + (x.cumsum(1) * weights).sum()).backward()
    wanted = np.eye(4)[F.argmax(1)] + F / np.linalg.norm(F)
    wanted = wanted + np.arange(12.0).reshape(3, 4)[:, ::-1].cumsum(1)[:, ::-1]
    check((x.grad, wanted))
    zero = torch.zeros(3, requires_grad=True)
    zero.norm().backward()
    assert zero.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: x.mean(), "mean: the dtype must be float, got i64[2]; convert it with float()"),
        (lambda x: x.norm(), "norm: the dtype must be float, got i64[2]; convert it with float()"),
        (lambda x: x.float().norm("nuc"), "norm: p must be a number or 'fro', got 'nuc'; pass p=2 or another number"),
    ],
)
def test_refusals(call, sentence):
    assert message(lambda: call(torch.tensor([1, 2]))) == sentence


def test_a_tensor_without_axes_is_a_vector_of_one_element():
    """The results of PyTorch 2.13: also without axes, as they are with keepdim."""
    x = torch.tensor(-3.0, requires_grad=True)
    total = torch.sum(x, -1, keepdim=True) + x.logsumexp(0) + x.norm(2, 0)
    check(
        (total, -3.0),
        (torch.autograd.grad(total, x)[0], 1.0),
        (x.softmax(0), 1.0),
        (x.log_softmax(-1), 0.0),
        (x.amax((0,)), -3.0),
        (x.argmin(0, keepdim=True), 0),
        (x.prod(0), -3.0),
        (x.std(0, unbiased=False), 0.0),
        (torch.aminmax(x, dim=0)[1], -3.0),
        (torch.count_nonzero(x, 0), 1),
        (torch.nn.functional.normalize(x, dim=0), -1.0),
        (torch.nn.functional.cosine_similarity(x, x, dim=0), 1.0),
        (torch.nn.functional.softmin(x, dim=0), 1.0),
        (torch.nn.functional.log_softmax(x, dim=0), 0.0),
        (torch.index_select(x, 0, torch.tensor([0])), -3.0),
        (torch.gather(x, 0, torch.tensor([0, 0])), [-3.0, -3.0]),
        (torch.scatter_add(x, 0, torch.tensor(0), torch.tensor(2.0)), -1.0),
        (torch.scatter(x, 0, torch.tensor([0]), torch.tensor([2.0])), 2.0),
        (torch.index_add(x, 0, torch.tensor([0]), torch.tensor(2.0), alpha=-1), -5.0),
        (torch.index_copy(x, 0, torch.tensor(0), torch.tensor(2.0)), 2.0),
        (torch.index_fill(x, 0, torch.tensor([0]), 4.0), 4.0),
        (torch.index_reduce(x, 0, torch.tensor([0]), torch.tensor(2.0), "mean"), -0.5),
        (torch.scatter_reduce(x, 0, torch.tensor(0), torch.tensor(2.0), "prod", include_self=False), 2.0),
        (torch.nonzero(x), np.zeros((1, 0))),
        (torch.masked_select(x, torch.tensor(True)), [-3.0]),
    )
    assert message(lambda: x.sum(1)) == "sum: axis 1 is out of range for rank 1; use -1 to 0"


def test_integers_and_bools_where_pytorch_takes_them():
    i, b = map(torch.tensor, (N, B))
    check(
        (i.logsumexp(1), np.log(np.exp(N).sum(1))),
        (b.prod(0, dtype=torch.bool), B.all(0)),
        (b.sum(0, dtype=torch.bool), B.any(0)),
    )
