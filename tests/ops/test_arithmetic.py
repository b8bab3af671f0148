"""Sums, products and quotients at the ends of their dtypes, and gradients by hand."""

import ml_dtypes
import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import param
from tests.ops.slopes import f32, result, slopes


def i8(*values):
    return np.array(values, np.int8)


def test_integers_wrap_around():
    assert result(ops.add, i8(127), i8(1)) == -128
    assert result(ops.subtract, i8(-128), i8(1)) == 127
    assert result(ops.multiply, i8(64), i8(4)) == 0
    assert result(ops.negative, i8(-128)) == -128


def test_integer_division_rounds_down_and_never_traps():
    np.testing.assert_array_equal(result(ops.divide, i8(7, -7, 7, -7), i8(2, 2, -2, -2)), [3, -4, -4, 3])
    np.testing.assert_array_equal(result(ops.divide, i8(5, -5, 0, -128), i8(0, 0, 0, -1)), [0, 0, 0, -128])


def test_float_division_by_0():
    found = result(ops.divide, f32(1, -1, 0, 1), f32(0, 0, 0, -0.0))
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan, -np.inf])


def test_gradients_by_hand():
    x, y = f32(6.0, -2.0), f32(4.0, 0.5)
    expected = {
        ops.add: ([1, 1], [1, 1]),
        ops.subtract: ([1, 1], [-1, -1]),
        ops.multiply: ([4, 0.5], [6, -2]),
        ops.divide: ([0.25, 2], [-0.375, 8]),
    }
    for function, wanted in expected.items():
        np.testing.assert_array_equal(slopes(function, x, y), wanted)
    np.testing.assert_array_equal(slopes(ops.negative, x)[0], [-1, -1])


def test_gradient_of_a_quotient_is_finite_where_the_squared_divisor_overflows():
    x, y = f32(1e30), f32(1e25)
    np.testing.assert_allclose(slopes(ops.divide, x, y), [[1e-25], [-1e-20]], rtol=1e-6)


def test_an_operand_used_twice_collects_both_parts():
    np.testing.assert_array_equal(slopes(lambda v: ops.multiply(v, v), f32(3.0))[0], [6.0])


def test_16_bit_floats_are_rounded_once_from_float32():
    for dtype, x, y in [(np.float16, 2048.0, 1.0), (ml_dtypes.bfloat16, 256.0, 1.0)]:
        # x + 1 is a tie between neighbours and goes to the even one; x + 1 + 1 in two steps never moves
        assert result(ops.add, np.array([x], dtype), np.array([y], dtype)) == x
        assert result(ops.add, np.array([x], dtype), np.array([2.0], dtype)) == x + 2
    third = result(ops.divide, np.array([1], ml_dtypes.bfloat16), np.array([3], ml_dtypes.bfloat16))
    assert float(third[0]) == 0.333984375  # 0x3eab, the bfloat16 nearest to 1/3


@pytest.mark.parametrize(
    ("function", "dtype", "words"),
    [
        (ops.add, "bool", r"add: the dtype must be float or integer or unsigned, got bool\[2\]; cast it"),
        (lambda x, _: ops.negative(x), "u8", r"negative: .* got u8\[2\]; cast to a type with a sign"),
        (lambda x, _: ops.sqrt(x), "i32", r"sqrt: the dtype must be float, got i32\[2\]; cast to a float"),
    ],
)
def test_dtypes_without_a_meaning_are_refused(function, dtype, words):
    with pytest.raises(TypeRuleError, match=words):
        function(param("x", (2,), dtype), param("y", (2,), dtype))
