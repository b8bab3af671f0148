"""``x[...]`` is NumPy's, compared with NumPy on any basic index, and what it does not allow is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import TensorType, TupleType, Value, param
from adjoint.ops.calls import Call
from tests.ops.slopes import f32, result, slopes

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@settings(deadline=None)
@given(st.data())
def test_basic_indexing_is_numpys(data):
    shape = data.draw(array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    key = data.draw(basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    np.testing.assert_array_equal(result(lambda v: v[key], x), x[key])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_indices_in_an_array_or_value_beside_slices_are_numpys(data):
    axis = data.draw(st.integers(0, 2))
    ids = np.array(data.draw(st.lists(st.integers(0, X.shape[axis] - 1), min_size=1, max_size=4)))
    ids = ids.reshape(data.draw(st.sampled_from([(-1,), (1, -1), (-1, 1)])))
    others = [data.draw(st.sampled_from([np.s_[:], np.s_[1:], np.s_[::-1]])) for _ in range(2)]
    key = [*others[:axis], ids, *others[axis:]]
    if data.draw(st.booleans()):
        key.insert(data.draw(st.integers(0, len(key))), None)
    place = next(n for n, item in enumerate(key) if item is ids)
    expected = X[tuple(key)]
    np.testing.assert_array_equal(result(lambda v: v[tuple(key)], X), expected)
    found = result(lambda v, i: v[(*key[:place], i, *key[place + 1 :])], X, ids)
    np.testing.assert_array_equal(found, expected)


def test_a_scalar_value_and_a_list_select_as_in_numpy():
    np.testing.assert_array_equal(result(lambda v, i: v[i], X, np.array(2)), X[2])
    np.testing.assert_array_equal(result(lambda v: v[[0, -1]], X), X[[0, -1]])
    np.testing.assert_array_equal(result(lambda v: v[..., [-5, 4]], X), X[..., [-5, 4]])
    small, long = np.array([-1, 5], np.int8), np.arange(200, dtype=np.float32)
    np.testing.assert_array_equal(result(lambda v: v[small], long), [199, 5])


def test_selecting_everything_is_the_value_itself():
    x = param("x", (3, 4))
    assert x[:] is x
    assert x[...] is x
    assert x[0:9, ::1] is x


def test_numpys_integers_are_integers():
    x = param("x", (3, 4))
    assert x[np.int8(1)].shape == (4,)
    assert x[np.int64(-1) :, np.uint8(2)].shape == (1,)


def test_gradients_reach_the_selected_elements():
    (found,) = slopes(lambda v: v[::-2, 1:], np.ones((3, 3), np.float32))
    np.testing.assert_array_equal(found, [[0, 1, 1], [0, 0, 0], [0, 1, 1]])
    (found,) = slopes(lambda v: v[[1, 1, 0]], f32(1, 2, 3))
    np.testing.assert_array_equal(found, [1, 2, 0])


MASK, IDS, HALVES = param("mask", (3,), "bool"), param("ids", (2,), "i64"), param("halves", (2,))


@pytest.mark.parametrize(
    ("key", "error", "sentence"),
    [
        (
            np.s_[3],
            InvalidValueError,
            "indexing: index 3 is out of range for axis 0 of f32[3,4]; use -3 to 2",
        ),
        (
            np.s_[:, -5],
            InvalidValueError,
            "indexing: index -5 is out of range for axis 1 of f32[3,4]; use -4 to 3",
        ),
        (
            np.s_[0, 0, 0],
            TypeRuleError,
            "indexing: there must be at most one index per axis, got 3 for f32[3,4]; remove some",
        ),
        (
            np.s_[..., 0, ...],
            TypeRuleError,
            "indexing: an index may contain one ..., got 2 for f32[3,4]; remove the others",
        ),
        (
            np.s_[1.0],
            TypeRuleError,
            "indexing: 1.0 is not an index, got it for f32[3,4]; use integers, slices, ..., None, or one integer "
            "tensor or array",
        ),
        (
            np.s_[True],
            TypeRuleError,
            "indexing: True is not an index, got it for f32[3,4]; use integers, slices, ..., None, or one integer "
            "tensor or array",
        ),
        (
            np.s_[:, "a"],
            TypeRuleError,
            "indexing: 'a' is not an index, got it for f32[3,4]; use integers, slices, ..., None, or one integer "
            "tensor or array",
        ),
        (
            np.s_[::0],
            TypeRuleError,
            "indexing: the step of a slice must not be 0, got ::0 for f32[3,4]; use 1",
        ),
        (
            np.s_[1.5:],
            TypeRuleError,
            "indexing: a slice takes integers, because shapes are static, got 1.5:: for f32[3,4]; select elements that "
            "depend on data with take",
        ),
        (
            np.s_[:IDS],
            TypeRuleError,
            "indexing: a slice takes integers, because shapes are static, got :<Value ids: i64[2] = param>: for "
            "f32[3,4]; select elements that depend on data with take",
        ),
        (
            MASK,
            TypeRuleError,
            "indexing: a mask is not an index, because the number of elements would depend on data, got bool[3] for "
            "f32[3,4]; select with ops.where",
        ),
        (
            np.ones(3, bool),
            TypeRuleError,
            "indexing: an array of indices must have an integer dtype, got bool for f32[3,4]; use integers, slices, "
            "..., None, or one integer tensor or array",
        ),
        (
            [0, 3],
            InvalidValueError,
            "indexing: indices must be from -3 to 2 on axis 0 of f32[3,4], got 0 to 3; correct them",
        ),
        (
            (IDS, [0]),
            TypeRuleError,
            "indexing: a tensor of indices must be the only index besides slices, got another for f32[3,4]; index in "
            "two steps, or use take_along_last",
        ),
        (
            (0, IDS),
            TypeRuleError,
            "indexing: a tensor of indices must be the only index besides slices, got another for f32[3,4]; index in "
            "two steps, or use take_along_last",
        ),
    ],
)
def test_refusals(key, error, sentence):
    with pytest.raises(error) as refusal:
        param("x", (3, 4))[key]
    assert refusal.value.message == sentence


def test_float_indices_are_left_to_take_to_refuse():
    with pytest.raises(TypeRuleError, match=r"^take: .* got f32\[2\]; cast the ids to i64"):
        param("x", (3, 4))[HALVES]


def test_tuples_are_refused():
    pair = Value(Call, (), TupleType((TensorType((2,)), TensorType((2,)))))
    with pytest.raises(TypeRuleError) as refusal:
        pair[0]
    assert refusal.value.message == (
        "indexing: only a tensor has elements, got (f32[2], f32[2]); extract one with tuple_get"
    )


def test_the_empty_axis_has_no_index():
    with pytest.raises(InvalidValueError, match=r"index 0 is out of range for axis 0 of f32\[0\]; the axis is empty, "):
        ops.getitem(param("x", (0,)), 0)
