"""Gathering, scattering, segments of rows and sparse matrices, against NumPy and difference quotients."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import AdjointError, TypeRuleError
from adjoint.ir import Function, param
from adjoint.testing import check_gradients, interpret
from adjoint.transforms import gradient as gradient_of
from adjoint.transforms import jvp, vectorize
from tests.ops.running import differences, gradient, run

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4))
IDS = np.array([[3, 0, 3], [1, 1, 2], [0, 0, 0]])
NEW = RNG.standard_normal((3, 3))


def test_gather_and_scatter_work_along_any_axis():
    np.testing.assert_array_equal(run(ops.gather, X, IDS), np.take_along_axis(X, IDS, 1))
    down = np.array([[2, 0, 1, 1]])
    np.testing.assert_array_equal(run(lambda x, i: ops.gather(x, i, 0), X, down), np.take_along_axis(X, down, 0))
    wanted = X.copy()
    wanted[down[0], range(4)] += 1
    found = run(lambda x, i: ops.scatter(x, i, ops.full(1.0, (1, 4), "f64"), 0, "add"), X, down)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_combines_all_that_meet(reduce, include_self):
    function = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    wanted = X.copy()
    for i, j in np.ndindex(X.shape):
        met = [NEW[i, n] for n in range(3) if IDS[i, n] == j]
        if met:
            wanted[i, j] = function([X[i, j], *met] if include_self else met)

    def build(x, new, ids):
        return ops.scatter_reduce(x, ids, new, 1, reduce, include_self)

    np.testing.assert_allclose(run(build, X, NEW, IDS), wanted, rtol=1e-14)
    check_gradients(build, (X, NEW, IDS), rtol=1e-5)


def test_the_factors_of_a_product_have_slopes_where_some_are_zero():
    """None, one and two zeros: the slope is the product of the others, which a division cannot give."""
    x, ids = np.array([2.0, 0.0, 0.0, 3.0]), np.array([0, 1, 2, 2, 3])
    new = np.array([5.0, 4.0, 0.0, 7.0, 0.0])

    def product(x, new, ids):
        return ops.scatter(x, ids, new, reduce="prod")

    assert gradient(product, x, new, ids).tolist() == [5, 4, 0, 0]
    assert gradient(lambda new, x, ids: product(x, new, ids), new, x, ids).tolist() == [2, 0, 0, 0, 3]


def test_of_equal_maxima_each_has_an_equal_share():
    x, ids, new = np.array([1.0, 2.0]), np.array([0, 0, 1]), np.array([1.0, 1.0, 0.0])

    def largest(x, new, ids):
        return ops.scatter(x, ids, new, reduce="amax")

    np.testing.assert_allclose(gradient(largest, x, new, ids), [1 / 3, 1])
    np.testing.assert_allclose(gradient(lambda new, x, ids: largest(x, new, ids), new, x, ids), [1 / 3, 1 / 3, 0])


def test_coordinates_select_elements_and_parts_and_add_to_them():
    x, ids = RNG.standard_normal((2, 3, 4)), np.array([[1, 2], [0, 0], [1, 2]])
    np.testing.assert_array_equal(run(ops.gather_nd, x, ids), x[ids[:, 0], ids[:, 1]])
    wanted = np.zeros_like(x)
    np.add.at(wanted, (ids[:, 0], ids[:, 1]), x[0, :, :])
    np.testing.assert_array_equal(run(lambda i, u: ops.scatter_nd(i, u, x.shape), ids, x[0]), wanted)
    counts = np.zeros_like(x)
    np.add.at(counts, (ids[:, 0], ids[:, 1]), 1.0)
    np.testing.assert_array_equal(gradient(ops.gather_nd, x, ids), counts)


def test_computed_coordinates_out_of_range_read_a_neighbour_without_a_gradient_and_write_nothing():
    x, ids = param("x", (2, 3), "f64"), param("ids", (3, 2), "f64")
    places = ops.cast(ops.floor(ids), "i64")  # computed, so they are not checked
    found = ops.gather_nd(x, places)
    added = ops.scatter_nd(places, ops.full(1.0, (3,), "f64"), (2, 3))
    function = jointly(Function("f", (x, ids), (ops.sum(found),)), found, added)
    given = np.arange(6.0).reshape(2, 3), np.array([[0.0, 3.0], [1.0, 1.0], [-1.0, 0.0]])
    read, written, slopes = compile(function, options=CompileOptions(threads=1, cache=False))(*given)
    assert read.tolist() == [2, 4, 0]
    assert written.tolist() == slopes.tolist() == [[0, 0, 0], [0, 1, 0]]


def jointly(loss, *others):
    """A function with other results and the gradient of a loss."""
    with_slopes = gradient_of(loss, ["x"])
    return Function("f", with_slopes.params, (*others, with_slopes.results[1]))


SEGMENTS = {"segment_sum": (np.sum, 0), "segment_mean": (np.mean, 0)}
SEGMENTS |= {"segment_max": (np.max, -np.inf), "segment_min": (np.min, np.inf)}


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_are_reduced_in_any_order(name):
    function, empty = SEGMENTS[name]
    x, ids = RNG.standard_normal((6, 2)), np.array([2, 0, 2, 2, 4, 0])
    wanted = [function(x[ids == n], 0) if np.any(ids == n) else np.full(2, empty) for n in range(5)]

    def build(x, i):
        return getattr(ops, name)(x, i, 5)

    np.testing.assert_allclose(run(build, x, ids), wanted, rtol=1e-14)
    check_gradients(lambda x, i: ops.gather(build(x, i), ops.constant(np.array([[0, 2], [2, 4]])), 0), (x, ids))


def test_sparse_matrices_times_dense_ones():
    dense, sparse = RNG.standard_normal((5, 3)), np.zeros((4, 5))
    rows, columns = np.array([0, 0, 2, 3, 3, 3]), np.array([1, 4, 0, 2, 2, 3])
    starts, values = np.array([0, 2, 2, 3, 6]), RNG.standard_normal(6)
    np.add.at(sparse, (rows, columns), values)
    coo = run(lambda v, d, r, c: ops.coo_matmul(r, c, v, d, 4), values, dense, rows, columns)
    np.testing.assert_allclose(coo, sparse @ dense, rtol=1e-12)

    def csr(v, d, s, c):
        return ops.csr_matmul(s, c, v, d)

    np.testing.assert_allclose(run(csr, values, dense, starts, columns), sparse @ dense, rtol=1e-12)
    np.testing.assert_allclose(run(csr, values, dense[:, 0].copy(), starts, columns), sparse @ dense[:, 0], rtol=1e-12)
    check_gradients(csr, (values, dense, starts, columns), rtol=1e-5)


def test_forward_mode_and_batches_of_examples():
    x, new, ids = param("x", (4,), "f64"), param("new", (3,), "f64"), param("ids", (3,), "i64")
    result = ops.sum(ops.square(ops.scatter_reduce(x, ids, ops.square(new), reduce="mean")))
    single = Function("f", (x, new, ids), (result,))
    directions = RNG.standard_normal(4), RNG.standard_normal(3)
    _, slope = interpret(jvp(single), X[0], NEW[0], IDS[0], *directions)
    along = differences(
        lambda t: float(interpret(single, X[0] + t * directions[0], NEW[0] + t * directions[1], IDS[0])[0]),
        np.zeros(()),
    )
    np.testing.assert_allclose(slope, along, rtol=1e-6)
    (rows,) = interpret(vectorize(single, [0, None, 0], 3), X, NEW[0], IDS)
    np.testing.assert_allclose(rows, [interpret(single, x, NEW[0], i)[0] for x, i in zip(X, IDS, strict=True)])


REFUSED = {
    "gather: ids must have as many axes as the tensor, got i64[3] for f64[3,4]; reshape it": lambda x, i: ops.gather(
        x, i[0]
    ),
    "scatter_reduce: reduce must be one of sum, prod, mean, amax, amin, got 'max'": lambda x, i: ops.scatter_reduce(
        x, i, x, reduce="max"
    ),
    "gather_nd: the last axis of the ids must hold a coordinate for some of the first axes, got i64[3,3] for shape "
    "(3, 4); reshape it": ops.gather_nd,
    "segment_max: there must be one id for each row, got ids i64[3,3] for f64[3,4]; reshape one": (
        lambda x, i: ops.segment_max(x, i, 3)
    ),
    "coo_matmul: rows, columns and values must be vectors of one length beside a matrix or vector, got i64[3,3], "
    "i64[3,3], f64[4] and f64[3,4]; reshape them": lambda x, i: ops.coo_matmul(i, i, x[0], x, 3),
    "csr_matmul: the starts must be a vector with one number more than there are rows, got i64[3,3]": (
        lambda x, i: ops.csr_matmul(i, i[0], x[0], x)
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refusals(sentence):
    with pytest.raises((AdjointError, TypeRuleError)) as error:
        REFUSED[sentence](param("x", (3, 4), "f64"), param("i", (3, 3), "i64"))
    assert error.value.message == sentence
