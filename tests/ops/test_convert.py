"""Casts at the edges of dtypes, stop_gradient, check_range."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import param
from tests.ops.slopes import f32, f64, result, slopes


def cast_to(dtype, array):
    return result(lambda v: ops.cast(v, dtype), array)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("i8", [-128, -128, -1, 0, 0, 1, 127, 127, 0]),
        ("u8", [0, 0, 0, 0, 0, 1, 255, 255, 0]),
        ("i32", [-(2**31), -300, -1, 0, 0, 1, 300, 2**31 - 1, 0]),
        ("u32", [0, 0, 0, 0, 0, 1, 300, 2**32 - 1, 0]),
        ("i64", [-(2**63), -300, -1, 0, 0, 1, 300, 2**63 - 1, 0]),
        ("u64", [0, 0, 0, 0, 0, 1, 300, 2**64 - 1, 0]),
    ],
)
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_float_to_integer_truncates_saturates_and_makes_0_of_nan(source, dtype, expected):
    x = np.array([-1e30, -300, -1.9, -0.9, 0.9, 1.9, 300, 1e30, np.nan], source)
    found = cast_to(dtype, x)
    assert found.tolist() == expected


def test_the_ends_of_i64_are_exact():
    below = np.nextafter(2.0**63, 0)
    assert cast_to("i64", f64(2.0**63, below, -(2.0**63))).tolist() == [2**63 - 1, int(below), -(2**63)]


def test_integers_wrap_and_bool_is_not_0():
    assert cast_to("u8", np.array([-1, 256, 257])).tolist() == [255, 0, 1]
    assert cast_to("bool", f32(0, -0.0, 0.5, np.nan)).tolist() == [False, False, True, True]
    assert cast_to("f32", np.array([True, False])).tolist() == [1.0, 0.0]


def test_floats_round_to_nearest_even_and_overflow_to_infinity():
    assert cast_to("f32", np.array([2**24 + 1, 2**24 + 3])).tolist() == [2**24, 2**24 + 4]
    assert cast_to("f16", f32(65504, 65536, 1e-8)).tolist() == [65504, np.inf, 0]
    assert cast_to("bf16", f32(257, 259)).tolist() == [256, 260]


def test_a_cast_between_floats_casts_its_cotangent_back():
    x = param("x", (2,))
    out = ops.cast(x, "f64")
    (ct,) = out.op.vjp(param("ct", (2,), "f64"), out, x)
    assert ct.type == x.type
    np.testing.assert_array_equal(slopes(lambda v: ops.square(ops.cast(v, "f64")), f32(3, -1))[0], f32(6, -2))


def test_no_gradient_flows_through_integers():
    np.testing.assert_array_equal(slopes(lambda v: ops.cast(ops.cast(v, "i32"), "f32"), f32(1.5))[0], [0])


def test_a_cast_to_the_same_dtype_is_the_value_itself():
    x = param("x", (2,))
    assert ops.cast(x, "float32") is x


def test_a_cast_to_an_unknown_dtype_is_refused():
    with pytest.raises(TypeRuleError, match="dtype must be one of f32, f64"):
        ops.cast(param("x", (2,)), "complex64")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("float", "got float, which is f64 in NumPy and f32 in PyTorch; use 'f32' or 'f64'"),
        (float, "got float, which is f64 in NumPy and f32 in PyTorch; use 'f32' or 'f64'"),
        ("int", "got int, which is i64 in NumPy and i32 in PyTorch; use 'i32' or 'i64'"),
        (int, "got int, which is i64 in NumPy and i32 in PyTorch; use 'i32' or 'i64'"),
    ],
)
def test_a_dtype_without_a_width_is_refused(given, message):
    for code in (lambda: ops.cast(param("x", (2,)), given), lambda: param("x", (2,), given)):
        with pytest.raises(TypeRuleError) as caught:
            code()
        assert caught.value.message == f"dtype must say how wide the numbers are, {message}"


def test_no_dtype_is_refused():
    with pytest.raises(TypeRuleError, match=r"dtype must be one of f32, .*, got None"):
        param("x", (2,), None)


@pytest.mark.parametrize("given", ["f64", "float64", "double", np.float64, np.dtype(float)])
def test_a_dtype_with_a_width_may_be_given_as_numpy_does(given):
    assert param("x", (2,), given).dtype == np.dtype("float64")


def test_stop_gradient_passes_the_value_and_nothing_back():
    x = f32(3.0)
    assert result(ops.stop_gradient, x) == 3
    assert slopes(lambda v: ops.multiply(v, ops.stop_gradient(v)), x)[0] == 3


def test_check_range_lets_pass_what_is_inside_or_allowed():
    ids = np.array([0, 9, -100])
    np.testing.assert_array_equal(result(lambda v: ops.check_range(v, 0, 10, allow=-100), ids), ids)


@pytest.mark.parametrize("bad", [-1, 10, 2**40, -100])
def test_check_range_refuses_what_is_outside_and_says_where(bad):
    ids = np.array([[0, 1], [bad, 2]])
    with pytest.raises(InvalidValueError) as refusal:
        result(lambda v: ops.check_range(v, 0, 10), ids)
    assert refusal.value.message == (
        f"check_range: every element must be in [0, 10), got {bad} at (1, 0); correct the data"
    )
    assert isinstance(refusal.value, ValueError)


def test_check_range_says_what_else_is_allowed():
    with pytest.raises(InvalidValueError, match=r"in \[0, 10\) or equal -1, got 11 at \(0,\)"):
        result(lambda v: ops.check_range(v, 0, 10, allow=-1), np.array([11]))


def test_check_range_needs_integers_and_an_interval():
    with pytest.raises(TypeRuleError, match="check_range: the dtype must be integer or unsigned"):
        ops.check_range(param("x", (2,)), 0, 10)
    with pytest.raises(InvalidValueError, match="low must be below high, got 10 and 10"):
        ops.check_range(param("x", (2,), "i64"), 10, 10)
