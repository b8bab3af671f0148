"""Selection and accumulation by positions against NumPy."""

import numpy as np

import adjoint as torch
from tests.tensor.comparing import check, message

F = np.arange(12.0, dtype=np.float32).reshape(3, 4)
IDS = np.array([[0, 1], [2, 3], [0, 0]])


def scattered(x, values, add):
    found = x.copy()
    for (i, j), at in np.ndenumerate(IDS):
        found[i, at] = found[i, at] + values[i, j] if add else values[i, j]
    return found


def test_functions_as_in_numpy():
    f, ids, b = torch.tensor(F), torch.tensor(IDS), torch.tensor(F % 3 == 0)
    added = F.copy()
    np.add.at(added, [0, 2, 0], 2 * F)
    check(
        (f.gather(1, ids), np.take_along_axis(F, IDS, 1)),
        (f.gather(0, ids[:1] + 1), [[F[1, 0], F[2, 1]]]),
        (f.gather(1, ids[:, 1:]), np.take_along_axis(F, IDS[:, 1:], 1)),
        (torch.take_along_dim(f, f.argmax(1, keepdim=True), 1), F.max(1, keepdims=True)),
        (f.take(torch.tensor([0, 5, -1])), F.take([0, 5, -1])),
        (f.index_select(1, torch.tensor([2, 0])), F[:, [2, 0]]),
        (f.scatter_add(1, ids, -f), scattered(F, -F, add=True)),
        (f.scatter(1, ids, -f), scattered(F, -F, add=False)),
        (f.scatter(1, ids, 9.0), scattered(F, np.full_like(F, 9), add=False)),
        (f.clone().scatter_add_(1, ids, -f), scattered(F, -F, add=True)),
        (f.index_add(0, torch.tensor([0, 2, 0]), f, alpha=2), added),
        (f.masked_fill(b, -1e9), np.where(F % 3 == 0, -1e9, F)),
        (f.masked_select(b), F[F % 3 == 0]),
        (b.nonzero(), np.argwhere(F % 3 == 0)),
        (torch.where(b)[1], np.nonzero(F % 3 == 0)[1]),
        (torch.bincount(torch.tensor([0, 3, 1, 3]), minlength=6), [1, 1, 0, 2, 0, 0]),
    )


def test_gradients_return_to_the_elements():
    f = torch.tensor(F, requires_grad=True)
    (f.gather(1, torch.tensor(IDS)) * torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    check((f.grad, [[1, 2, 0, 0], [0, 0, 3, 4], [11, 0, 0, 0]]))


def test_refusals():
    f = torch.tensor(F)
    assert message(lambda: f.gather(1, torch.tensor([0]))) == (
        "gather: the index must have as many axes as the tensor, and be no larger except along dim, got shapes (1,) "
        "and (3, 4) with dim 1; index with [] for other selections"
    )
    assert message(lambda: f.gather(1, torch.tensor([[4]]))) == (
        "gather: positions must be from -4 to 3, got 4; correct them"
    )
    assert message(lambda: f.gather(1, f)) == (
        "gather: the index must have an integer dtype, got f32[3, 4]; convert it with long()"
    )
    assert message(lambda: f.bincount()) == (
        "bincount: elements must be integers of at least 0, got f32; convert them first"
    )
    assert message(lambda: f.scatter(1, torch.tensor([[0]]), f, reduce="amax")) == (
        "scatter: reduce must be None, 'add' or 'multiply', got 'amax'; use scatter_reduce"
    )


def test_bools_are_added_by_or():
    """The results of PyTorch 2.13."""
    two, yes = torch.tensor([0, 0]), torch.tensor([True, True])
    empty = torch.zeros(2, dtype=torch.bool)
    check(
        (empty.scatter_add(0, two, yes), [True, False]),
        (yes.scatter(0, two, ~yes, reduce="multiply"), [False, True]),
        (empty.index_add(0, two, yes), [True, False]),
        (torch.index_put(empty, (two,), yes, accumulate=True), [True, False]),
        (torch.scatter_reduce(empty, 0, two, yes, "amax"), [True, False]),
        (torch.scatter_reduce(yes, 0, two, ~yes, "prod", include_self=False), [False, True]),
    )
    assert message(lambda: torch.scatter_reduce(empty, 0, two, yes, "mean")) == (
        "scatter_reduce: a mean takes numbers, got bool[2]; convert it with float()"
    )


def test_an_index_without_elements_has_any_shape():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    found = torch.gather(x, 0, torch.zeros(3, 0, dtype=torch.int64))
    check((found, np.zeros((3, 0))), (torch.autograd.grad(found.sum() + x.sum(), x)[0], [1.0, 1.0]))


def test_sums_of_weights_are_floats():
    counted = torch.bincount(torch.tensor([0, 1, 1]), torch.tensor([1, 2, 3]))
    assert (counted.tolist(), counted.dtype) == ([1.0, 5.0], torch.float64)
    counted = torch.bincount(torch.tensor([], dtype=torch.int64), torch.tensor([]), minlength=2)
    assert (counted.tolist(), counted.dtype) == ([0.0, 0.0], torch.float64)
