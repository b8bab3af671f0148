"""Sorting and selection by rank, against NumPy; binary search."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import AdjointError
from adjoint.ir import Function, param
from adjoint.testing import check_gradients, interpret
from adjoint.transforms import jvp, vectorize
from tests.ops.running import gradient, run

RNG = np.random.default_rng(0)
X = RNG.permutation(20).reshape(4, 5) / 8.0
TIES = np.array([[2.0, 1.0, 2.0, 1.0], [3.0, 3.0, 3.0, 0.0]])
ODD = np.array([[1.0, np.nan, -np.inf, 3.0], [np.nan, 2.0, np.nan, 2.0]])


def both(build, *arrays):
    """The two results of a function, from compiled code."""
    params = [param(f"p{n}", a.shape, a.dtype) for n, a in enumerate(arrays)]
    return compile(Function("f", tuple(params), build(*params)), options=CompileOptions(threads=1, cache=False))(
        *arrays
    )


def test_sorts_are_stable_and_nan_is_the_greatest():
    up, up_at, down, down_at, first, rows = both(
        lambda t, o: (*ops.sort(t), *ops.sort(o, descending=True), *ops.sort(t, 0)), TIES, ODD
    )
    assert up.tolist() == [[1, 1, 2, 2], [0, 3, 3, 3]]
    assert up_at.tolist() == [[1, 3, 0, 2], [3, 0, 1, 2]]
    np.testing.assert_array_equal(down, [[np.nan, 3, 1, -np.inf], [np.nan, np.nan, 2, 2]])
    assert down_at.tolist() == [[1, 3, 0, 2], [0, 2, 1, 3]]
    assert first.tolist() == np.sort(TIES, 0).tolist()
    assert rows.tolist() == [[0, 0, 0, 1], [1, 1, 1, 0]]


def test_gradients_return_to_where_elements_came_from():
    weights = ops.constant(np.array([1.0, 10.0, 100.0, 1000.0]))
    assert gradient(lambda x: ops.sort(x)[0] * weights, TIES).tolist() == [[100, 1, 1000, 10], [10, 100, 1000, 1]]
    assert gradient(lambda x: ops.topk(x, 2)[0] * weights[:2], TIES).tolist() == [[1, 0, 10, 0], [1, 10, 0, 0]]
    assert gradient(lambda x: ops.median(x)[0], TIES).tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]
    check_gradients(lambda x: ops.sort(x, 0)[0], (X,), rtol=1e-5)


def test_selection_by_rank():
    k, k_at, median, median_at, of_numbers, mode, mode_at = both(
        lambda t, o: (*ops.kthvalue(t, 3), *ops.median(o), ops.nanmedian(o)[0], *ops.mode(t, keepdims=True)), TIES, ODD
    )
    assert (k.tolist(), k_at.tolist()) == ([2, 3], [0, 1])
    assert np.isnan(median).all()
    assert median_at.tolist() == [1, 0]
    assert of_numbers.tolist() == [1, 2]
    assert (mode.tolist(), mode_at.tolist()) == ([[1], [3]], [[3], [2]])


METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def test_quantiles_are_numpys():
    q = np.array([0.0, 0.2, 0.5, 0.61, 1.0])
    x, fractions = param("x", X.shape, "f64"), param("q", q.shape, "f64")
    results = [ops.quantile(x, fractions, axis, interpolation=m) for m in METHODS for axis in (0, None)]
    results.append(ops.quantile(x, ops.full(0.25, (), "f64"), 1, True))
    function = Function("f", (x, fractions), tuple(results))
    found = compile(function, options=CompileOptions(threads=1, cache=False))(X, q)
    wanted = [np.quantile(X, q, axis, method=m) for m in METHODS for axis in (0, None)]
    for n, (a, b) in enumerate(zip(found, [*wanted, np.quantile(X, 0.25, 1, keepdims=True)], strict=True)):
        np.testing.assert_allclose(a, b, rtol=1e-13, err_msg=str(n))
    check_gradients(lambda x: ops.quantile(x, ops.constant(q), 1), (X,), rtol=1e-5)


def test_quantiles_of_rows_with_nan_are_nan_unless_it_is_left_out():
    q = ops.full(0.5, (), "f64")
    assert np.isnan(run(lambda x: ops.quantile(x, q, 1), ODD)).all()
    assert run(lambda x: ops.nanquantile(x, q, 1), ODD).tolist() == [1, 2]


def test_binary_search_counts_smaller_elements():
    row, values = np.array([1.0, 2.0, 2.0, 5.0]), np.array([[0.0, 1.0, 2.0], [4.0, 5.0, 9.0]])
    left, right, behind = both(
        lambda r, v: (
            ops.searchsorted(r, v),
            ops.searchsorted(r, v, True),
            ops.searchsorted(r, ops.full_like(v, float("nan"))),
        ),
        row,
        values,
    )
    np.testing.assert_array_equal(left, np.searchsorted(row, values))
    np.testing.assert_array_equal(right, np.searchsorted(row, values, "right"))
    assert behind.tolist() == [[4] * 3] * 2


def test_forward_mode_and_batches_of_examples():
    x = param("x", (5,), "f64")
    single = Function("f", (x,), (ops.sort(ops.square(x))[0], ops.argsort(x)))
    value, order, slope = interpret(jvp(single), X[1], np.arange(5.0))
    np.testing.assert_allclose(slope, (2 * X[1] * np.arange(5.0))[order])
    rows, _ = interpret(vectorize(single, [0], 4), X)
    np.testing.assert_array_equal(rows, np.sort(X**2))
    np.testing.assert_array_equal(value, rows[1])


REFUSED = {
    "topk: k must be from 0 to 5, the size of axis -1, got 6; choose fewer": lambda x: ops.topk(x, 6),
    "kthvalue: k must be from 1 to 5, the size of axis -1, got 0; correct it": lambda x: ops.kthvalue(x, 0),
    "an axis must not be empty to select an element, got axis -1 of f64[4,0]": lambda x: ops.median(x[:, :0]),
    "quantile: interpolation must be linear, lower, higher, midpoint, nearest, got 'cubic'": lambda x: ops.quantile(
        x, x[0, 0], interpolation="cubic"
    ),
    "quantile: q must be a scalar or a row of the dtype of the tensor, got f64[4,5] for f64[4,5]": lambda x: (
        ops.quantile(x, x)
    ),
    "quantile: the tensor must not be empty, got f64[0,5]; pass at least one element": lambda x: ops.quantile(
        x[:0], x[0, 0]
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refusals(sentence):
    with pytest.raises(AdjointError) as error:
        REFUSED[sentence](param("x", (4, 5), "f64"))
    assert error.value.message == sentence
