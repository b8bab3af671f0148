"""Kinks and steps: the conventions are PyTorch's, at the very points where a derivative is not unique."""

import math

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import param
from tests.ops.slopes import f32, result, slopes

NAN, INF = np.nan, np.inf


def test_relu_has_slope_0_at_0():
    np.testing.assert_array_equal(slopes(ops.relu, f32(-1, -0.0, 0, 1e-30, 2))[0], [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(result(ops.relu, f32(-1, 0, 2, -INF, NAN)), [0, 0, 2, 0, NAN])


def test_abs_has_slope_0_at_0():
    np.testing.assert_array_equal(slopes(ops.abs, f32(-2, -0.0, 0, 3))[0], [-1, 0, 0, 1])
    assert result(ops.abs, np.array([-128], np.int8)) == -128


@pytest.mark.parametrize(("function", "winner"), [(ops.maximum, 0), (ops.minimum, 1)])
def test_ties_share_the_gradient_equally(function, winner):
    found = slopes(function, f32(2, 1, 5), f32(1, 1, 7))
    expected = [[1, 0.5, 0], [0, 0.5, 1]]
    np.testing.assert_array_equal(found, expected if winner == 0 else expected[::-1])


@pytest.mark.parametrize("function", [ops.maximum, ops.minimum])
def test_extremes_are_nan_beside_a_nan_and_both_operands_get_the_gradient(function):
    x, y = f32(NAN, 1), f32(1, NAN)
    np.testing.assert_array_equal(result(function, x, y), [NAN, NAN])
    np.testing.assert_array_equal(slopes(function, x, y), [[1, 1], [1, 1]])


def test_maximum_of_a_value_with_itself_has_slope_1():
    np.testing.assert_array_equal(slopes(lambda v: ops.maximum(v, v), f32(-3, 4))[0], [1, 1])


def test_clip_passes_the_gradient_on_its_bounds():
    x = f32(-1.5, -1, 0, 1, 1.5, NAN)
    np.testing.assert_array_equal(slopes(lambda v: ops.clip(v, -1, 1), x)[0], [0, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(result(lambda v: ops.clip(v, -1, 1), x), [-1, -1, 0, 1, 1, NAN])


def test_clip_on_a_bound_that_the_dtype_rounds():
    x = np.array([0.1, -0.1], np.float16)  # not the float64 0.1
    np.testing.assert_array_equal(slopes(lambda v: ops.clip(v, -0.1, 0.1), x)[0], [1, 1])


def test_clip_with_one_side_open():
    np.testing.assert_array_equal(result(lambda v: ops.clip(v, -math.inf, 0), f32(-9, 9)), [-9, 0])


@pytest.mark.parametrize("bounds", [(1, 0), (math.nan, 1), (0, math.nan)])
def test_clip_refuses_an_empty_interval(bounds):
    with pytest.raises(InvalidValueError, match="clip: low must be at most high, got "):
        ops.clip(param("x", (2,)), *bounds)


def test_clip_refuses_integers():
    with pytest.raises(
        TypeRuleError, match=r"clip: the dtype must be float, got i32\[2\]; cast to a float such as f32"
    ):
        ops.clip(param("x", (2,), "i32"), 0, 1)


def test_no_gradient_flows_through_steps():
    x = f32(-1.5, 0, 2.5)
    for step in (ops.sign, ops.floor):
        np.testing.assert_array_equal(slopes(step, x)[0], [0, 0, 0])
        np.testing.assert_array_equal(slopes(lambda v, s=step: ops.multiply(v, s(v)), x)[0], result(step, x))


def test_sign_and_floor_at_special_values():
    np.testing.assert_array_equal(result(ops.sign, f32(-INF, -2, 0, 1e-30, NAN)), [-1, -1, 0, 1, NAN])
    np.testing.assert_array_equal(result(ops.sign, np.array([0, 200], np.uint8)), [0, 1])
    np.testing.assert_array_equal(result(ops.floor, f32(-0.5, 2, -INF, 1e30)), [-1, 2, -INF, np.float32(1e30)])
