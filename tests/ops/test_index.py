import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import AdjointError, TypeRuleError
from adjoint.ir import param
from adjoint.ops.index import OneHot, ScatterAdd, Take, TakeAlong
from tests.ops.running import gradient, run

IDS = np.array([[3, 0, 0], [1, 3, 3]])
TABLE = np.arange(8, dtype=np.float64).reshape(4, 2)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "bool"])
def test_one_hot_is_rows_of_the_identity(dtype):
    found = run(lambda i: ops.one_hot(i, 4, dtype), IDS)
    np.testing.assert_array_equal(found, np.eye(4)[IDS])


def test_take_is_numpys_indexing():
    np.testing.assert_array_equal(run(ops.take, TABLE, IDS), TABLE[IDS])
    np.testing.assert_array_equal(run(ops.take, TABLE[:, 0].copy(), IDS.astype(np.uint8)), TABLE[:, 0][IDS])


def test_the_gradient_of_take_counts_how_often_a_row_was_taken():
    np.testing.assert_array_equal(gradient(ops.take, TABLE, IDS), [[2, 2], [1, 1], [0, 0], [3, 3]])


def test_an_embeddings_loss_has_the_gradient_of_the_same_product_with_one_hot():
    def through(rows):
        return lambda t, i: ops.square(ops.add(rows(t, i), 0.5))

    by_product = through(lambda t, i: ops.matmul(ops.one_hot(i, 4, "f64"), t))
    for order in (1, 2):
        found = gradient(through(ops.take), TABLE, IDS, order=order)
        np.testing.assert_allclose(found, gradient(by_product, TABLE, IDS, order=order), rtol=1e-13)


def test_take_along_last_picks_one_element_of_each_row():
    x = np.arange(24.0).reshape(2, 3, 4)
    expected = np.take_along_axis(x, IDS[..., None], -1)[..., 0]
    np.testing.assert_array_equal(run(ops.take_along_last, x, IDS), expected)
    np.testing.assert_array_equal(gradient(ops.take_along_last, x, IDS), np.eye(4)[IDS])


def test_scatter_add_adds_up_what_meets():
    updates = np.arange(6.0).reshape(2, 3)
    found = run(lambda i, u: ops.scatter_add(i, u, 5), IDS, updates)
    assert found.tolist() == [1 + 2, 3, 0, 0 + 4 + 5, 0]


def test_scatter_add_and_take_are_each_others_gradients():
    weights = np.array([2.0, 3.0, 5.0, 7.0])

    def weighted(u, i, w):
        return ops.multiply(ops.scatter_add(i, u, 4), w)

    np.testing.assert_array_equal(gradient(weighted, np.zeros((2, 3)), IDS, weights), weights[IDS])


OUT_OF_RANGE = [
    (OneHot(4), (), "one_hot"),
    (Take(), (TABLE,), "take"),
    (TakeAlong(), (np.zeros((2, 4)),), "take_along_last"),
]


@pytest.mark.parametrize("wrong", [4, -1, 100])
@pytest.mark.parametrize(("op", "before", "name"), OUT_OF_RANGE, ids=lambda x: x if isinstance(x, str) else "")
def test_an_id_out_of_range_is_named(op, before, name, wrong):
    with pytest.raises(ValueError, match=f"{name}: ids must be from 0 to 3 on an axis of size 4, got {wrong}") as error:
        op.reference(*before, np.array([1, wrong]))
    assert isinstance(error.value, AdjointError)


def test_scatter_add_names_an_id_out_of_range_too():
    with pytest.raises(ValueError, match="scatter_add: ids must be from 0 to 2 on an axis of size 3, got 3"):
        ScatterAdd(3).reference(np.array([0, 3]), np.zeros((2, 2)))


def test_refusals():
    table, ids, floats = param("t", (4, 2)), param("i", (3,), "i64"), param("f", (3,))
    with pytest.raises(
        TypeRuleError, match=r"take: the dtype must be integer or unsigned, got f32\[3\]; cast the ids to i64"
    ):
        ops.take(table, floats)
    with pytest.raises(TypeRuleError, match=r"one_hot: .* got f32\[3\]; cast the ids to i64"):
        ops.one_hot(floats, 4)
    with pytest.raises(TypeRuleError, match=r"without its last axis, got f32\[4,2\] and i64\[3\]; reshape one"):
        ops.take_along_last(table, ids)
    with pytest.raises(TypeRuleError, match=r"got ids i64\[3\] and updates f32\[4,2\]; pass one row per id"):
        ops.scatter_add(ids, table, 5)
