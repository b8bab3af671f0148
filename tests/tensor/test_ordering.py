"""Sorting, ranks, search and counting of tensors; all numbers from PyTorch 2.13, unless NumPy has the function."""

import numpy as np

import adjoint as torch
from adjoint import jit
from tests.tensor.comparing import check, message

T = np.array([[2.0, 1.0, 2.0, 1.0, 5.0], [3.0, 3.0, 3.0, 0.0, 3.0]], np.float32)
N = np.array([[1.0, np.nan, 3.0, 2.0], [np.nan, np.nan, np.nan, np.nan]], np.float32)


def test_functions_and_methods():
    t, n = torch.tensor(T), torch.tensor(N)
    values, indices = t.sort(0, descending=True)
    top = t.topk(2, largest=False)
    check(
        (values, -np.sort(-T, 0)),
        (indices, [[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]]),
        (torch.sort(t).indices, [[1, 3, 0, 2, 4], [3, 0, 1, 2, 4]]),
        (t.argsort(1, True), [[4, 0, 2, 1, 3], [0, 1, 2, 4, 3]]),
        (t.msort(), np.sort(T, 0)),
        (top.values, [[1, 1], [0, 3]]),
        (top.indices, [[1, 3], [3, 0]]),
        (t.kthvalue(3).values, [2, 3]),
        (t.median(), 2),
        (t.median(1, keepdim=True).indices, [[0], [1]]),
        (n.nanmedian(), 2),
        (n.nanmedian(1)[0], [2, np.nan]),
        (n.median(1).values, [np.nan, np.nan]),
        (t.mode().values, [1, 3]),
        (t.mode(keepdim=True).indices, [[3], [4]]),
        (t.quantile(0.3), np.quantile(T, 0.3)),
        (t.quantile(torch.tensor([0.25, 1.0]), 1), np.quantile(T, [0.25, 1], 1)),
        (t.quantile([0.1, 0.7], 0, interpolation="nearest"), np.quantile(T, [0.1, 0.7], 0, method="nearest")),
        (n.nanquantile(0.5, 1), [2, np.nan]),
        (torch.searchsorted(torch.tensor([1.0, 2.0, 2.0]), t, side="right"), np.searchsorted([1, 2, 2], T, "right")),
        (torch.bucketize(t, torch.tensor([1, 3])), np.searchsorted([1, 3], T)),
        (t.histc(3), [1 + 2, 2 + 4, 1]),
        (t.histc(2, 1, 3), [2, 6]),
        (torch.isin(t, torch.tensor([1, 5])), np.isin(T, [1, 5])),
        (torch.isin(t, 3, invert=True), T != 3),
        (torch.tensor(2.5).sort().values, 2.5),
        (torch.tensor([True, False]).sort().values, [False, True]),
    )
    assert torch.searchsorted(torch.tensor([1, 2]), 2, out_int32=True).dtype == torch.int32


def test_gradients():
    """By hand: weights go to the elements at their ranks, the median's to one, and the quantile's to two halves."""
    t = torch.tensor(np.array([[4.0, 1.0, 3.0, 2.0, 0.0]], np.float32), requires_grad=True)
    ((t.sort().values * torch.arange(5.0)).sum() + 10 * t.median() + 100 * t.quantile(0.625, 1).sum()).backward()
    check((t.grad, [[4, 1, 3 + 50, 2 + 10 + 50, 0]]))


def test_distinct_elements():
    array = np.array([[3, 1, 3], [1, 1, 0]])
    x = torch.tensor(array)
    found, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    check((found, [0, 1, 3]), (inverse, [[2, 1, 2], [1, 1, 0]]), (counts, [1, 3, 2]))
    runs, place, lengths = torch.unique_consecutive(x, return_inverse=True, return_counts=True)
    check((runs, [3, 1, 3, 1, 0]), (place, [[0, 1, 2], [3, 3, 4]]), (lengths, [1, 1, 1, 2, 1]))
    rows = torch.tensor(np.array([[1, 2], [0, 5], [1, 2], [1, 2]]))
    check((rows.unique(dim=0), [[0, 5], [1, 2]]), (rows.unique_consecutive(dim=0), [[1, 2], [0, 5], [1, 2]]))


def test_refusals():
    x = torch.tensor(T)
    assert message(lambda: x.quantile(1.5)) == (
        "quantile: q must be a number from 0 to 1, or a vector of them, got 1.5"
    )
    assert message(lambda: x.long().histc()) == (
        "histc: the dtype must be float, got i64[2,5]; convert it with float()"
    )
    assert message(lambda: x.histc(0)) == "histc: bins must be positive and min at most max, got 0, 0 and 0"
    assert message(lambda: torch.searchsorted(x[0], x, right=True, side="up")) == (
        "searchsorted: side must be 'left' or 'right', as right says, got 'up'"
    )
    assert message(lambda: jit(lambda x: (x * 2).unique())(x)) == (
        "unique: the shape of the result depends on the elements, which a traced function cannot have, got f32[2,5]; "
        "call it outside of the function"
    )


def test_searches_in_rows_that_a_sorter_orders():
    rows, values = torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[1.5, 3.0]])
    found = torch.searchsorted(rows, values, sorter=torch.argsort(rows), side="right")
    assert found.tolist() == [[1, 3]]
    assert message(lambda: torch.searchsorted(rows, values, sorter=torch.tensor([0]))) == (
        "searchsorted: the sorter must have one position per element, got shapes (1,) and (1, 3); pass "
        "argsort(sorted_sequence)"
    )


def test_unique_parts_of_an_axis_without_elements():
    found, counts = torch.unique_consecutive(torch.zeros(5, 0, 5), return_counts=True, dim=1)
    assert (tuple(found.shape), counts.tolist()) == ((5, 0, 5), [])
