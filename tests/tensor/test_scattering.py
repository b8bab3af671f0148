"""Writing at positions along an axis and under masks, against NumPy; in place too."""

import numpy as np

import adjoint as torch
from tests.tensor.comparing import check, message

F = np.arange(12.0, dtype=np.float32).reshape(3, 4) - 3
IDS = np.array([[0, 1], [2, 3], [0, 0]])
MASK = F % 3 == 0


def combined(function, include_self):
    found = F.copy()
    for i in range(3):
        for j in set(IDS[i]):
            met = [-F[i, n] for n in range(2) if IDS[i, n] == j]
            found[i, j] = function([F[i, j], *met] if include_self else met)
    return found


def written(key, value):
    found = F.copy()
    found[key] = value
    return found


def test_functions_and_methods():
    f, ids, mask = torch.tensor(F), torch.tensor(IDS), torch.tensor(MASK)
    two, part = torch.tensor([2, 0]), torch.tensor(-F[:, :2])
    added = F.copy()
    np.add.at(added, ([0, 0, 2], [1, 1, 3]), [10, 20, 30])
    places = (torch.tensor([0, 0, 2]), torch.tensor([1, 1, -1]))
    reduced = F.copy()
    reduced[:, [2, 0]] = np.maximum(F[:, [2, 0]], -F[:, :2])
    masked = F.copy()
    masked[MASK] = np.arange(100.0, 100.0 + MASK.sum())
    check(
        *(
            (torch.scatter_reduce(f, 1, ids, -f, name, include_self=own), combined(function, own))
            for name, function in {"sum": sum, "prod": np.prod, "mean": np.mean, "amax": max, "amin": min}.items()
            for own in (True, False)
        ),
        (f.clone().scatter_reduce_(1, ids, -f, "amax"), combined(max, True)),
        (f.scatter(1, ids, -f, reduce="multiply"), combined(np.prod, True)),
        (
            f.scatter_add(0, ids[:1], f),
            F + np.concatenate([[[F[0, 0], 0, 0, 0], [0, F[0, 1], 0, 0]], np.zeros((1, 4))]),
        ),
        (f.index_fill(1, two, 9), written((slice(None), [2, 0]), 9)),
        (f.clone().index_fill_(1, two, torch.tensor(9)), written((slice(None), [2, 0]), 9)),
        (f.index_copy(1, two, part), written((slice(None), [2, 0]), -F[:, :2])),
        (f.clone().index_copy_(1, two, part), written((slice(None), [2, 0]), -F[:, :2])),
        (f.index_reduce(1, two, part, "amax"), reduced),
        (f.clone().index_reduce_(1, two, part, "amax"), reduced),
        (f.index_put(places, torch.tensor([10.0, 20.0, 30.0]), accumulate=True), added),
        (f.index_put((None, two), torch.tensor(7.0)), written((slice(None), [2, 0]), 7)),
        (f.clone().index_put_((mask,), torch.tensor(7.0)), written(MASK, 7)),
        (f.masked_scatter(mask, torch.arange(100.0, 120.0)), masked),
        (f.clone().masked_scatter_(mask, torch.arange(100.0, 120.0)), masked),
        (torch.slice_scatter(f, part, 1, 0, None, 2), written((slice(None), slice(0, None, 2)), -F[:, :2])),
        (f.select_scatter(f[0], 0, -1), written(2, F[0])),
        (f.clone().tril_(), np.tril(F)),
        (f.clone().triu_(1), np.triu(F, 1)),
    )


def test_gradients():
    """Of two values for one element only the last has a gradient; a mask takes values one after another."""
    f, new = torch.tensor(F, requires_grad=True), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    twice = torch.tensor([1, 1, 0])
    weights = torch.tensor(F)
    (f[0].scatter(0, twice, new) * weights[0]).sum().backward()
    check((new.grad, [0, F[0, 1], F[0, 0]]), (f.grad[0], [0, 0, *F[0, 2:]]))
    new.grad = None
    (f.masked_scatter(torch.tensor(F[0] < -1), new.expand(3, 3).reshape(-1)) * weights).sum().backward()
    check((new.grad, [F[0, 0] + F[1, 1], F[0, 1] + F[2, 0], F[1, 0] + F[2, 1]]))


def test_refusals():
    f = torch.tensor(F)
    ids = torch.tensor([0])
    assert message(lambda: f.index_reduce(0, ids, f[:1], "sum")) == (
        "index_reduce: reduce must be prod, mean, amax or amin, got 'sum'; use index_add for sums"
    )
    assert message(lambda: f.index_fill(0, f, 1)) == (
        "index_fill: the index must be a vector of integers, got shape (3, 4); ravel it"
    )
    assert message(lambda: f.index_fill(0, ids, f)) == (
        "index_fill: the value must be a number, got shape (3, 4); use index_copy"
    )
    assert message(lambda: f.index_copy(0, ids, f)) == (
        "index_copy: the source must have one part per position, and the dtype of the tensor, got f32[3,4] for "
        "f32[3,4]; reshape or convert it"
    )
    assert message(lambda: f.scatter_reduce(1, torch.tensor(IDS), f.double(), "sum")) == (
        "scatter_reduce: src must have the dtype of the tensor, got f64[3,4] for f32[3,4]; convert it with to()"
    )
    assert message(lambda: f.index_put((None,), f)) == (
        "index_put: at least one tensor of positions is required, got none; pass one"
    )
    assert message(lambda: f.select_scatter(f[0], 0, 3)) == (
        "select_scatter: the index must be from -3 to 2 on axis 0, got 3; correct it"
    )
    assert message(lambda: f.slice_scatter(f, 0, 1)) == (
        "slice_scatter: src must have the type of the slice, got f32[3,4] for (2, 4) of f32[3,4]; reshape or convert it"
    )
    assert message(lambda: f.masked_scatter(f > 0, f.long())) == (
        "masked_scatter: the source must have elements, of the dtype of the tensor, got i64[3,4] for f32[3,4]; convert "
        "it with to()"
    )
