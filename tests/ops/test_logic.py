"""Comparisons with NaN, truth tables, and what a selection lets through."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import param
from tests.ops.slopes import f32, result, slopes

NAN = np.nan


def test_comparisons():
    x, y = f32(1, 2, 3, NAN, NAN, -0.0), f32(2, 2, 2, 1, NAN, 0.0)
    expected = {
        ops.equal: [0, 1, 0, 0, 0, 1],
        ops.not_equal: [1, 0, 1, 1, 1, 0],
        ops.less: [1, 0, 0, 0, 0, 0],
        ops.less_equal: [1, 1, 0, 0, 0, 1],
        ops.greater: [0, 0, 1, 0, 0, 0],
        ops.greater_equal: [0, 1, 1, 0, 0, 1],
    }
    for function, wanted in expected.items():
        found = result(function, x, y)
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, np.array(wanted, bool), err_msg=function.__name__)


def test_large_unsigned_integers_compare_as_unsigned():
    assert result(ops.greater, np.array([2**64 - 1], np.uint64), np.array([1], np.uint64))


def test_truth_tables():
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    np.testing.assert_array_equal(result(ops.logical_and, x, y), [True, False, False, False])
    np.testing.assert_array_equal(result(ops.logical_or, x, y), [True, True, True, False])
    np.testing.assert_array_equal(result(ops.logical_xor, x, y), [False, True, True, False])
    np.testing.assert_array_equal(result(ops.logical_not, x), [False, False, True, True])
    np.testing.assert_array_equal(result(lambda v: ops.logical_and(v, True), x), x)


def test_where_gives_the_gradient_to_what_was_selected():
    mask = np.array([True, False, True])
    found = slopes(lambda c, x, y: ops.where(c, ops.multiply(x, 2.0), y), mask, f32(1, 2, 3), f32(4, 5, 6))
    np.testing.assert_array_equal(found, [[2, 0, 2], [0, 1, 0]])


def test_where_hides_nan_and_infinity_from_result_and_gradient():
    mask = np.array([True, False])
    x, y = f32(1, NAN), f32(np.inf, 2)
    np.testing.assert_array_equal(result(ops.where, mask, x, y), [1, 2])
    np.testing.assert_array_equal(slopes(ops.where, mask, x, y), [[1, 0], [0, 1]])


def test_a_comparison_stops_the_gradient():
    def build(x):
        return ops.multiply(ops.cast(ops.greater(x, 0.0), "f32"), x)

    np.testing.assert_array_equal(slopes(build, f32(-1, 2))[0], [0, 1])


def test_numbers_are_no_truth_and_truth_has_no_order():
    x, mask = param("x", (2,)), param("m", (2,), "bool")
    with pytest.raises(TypeRuleError, match=r"logical_not: the dtype must be bool, got f32\[2\]; compare it"):
        ops.logical_not(x)
    with pytest.raises(TypeRuleError, match=r"less: the dtype must be float or integer or unsigned, got bool\[2\]"):
        ops.less(mask, mask)
    with pytest.raises(TypeRuleError, match=r"where: the dtype must be bool, got f32\[2\]; the condition comes first"):
        ops.where(x, x, x)
    assert ops.equal(mask, mask).type == mask.type
