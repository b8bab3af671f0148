"""Powers and roots: gradients at the places where formulas break, against what PyTorch gives there."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import param
from adjoint.testing import check_gradients
from tests.ops.slopes import f32, f64, result, slopes

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("x", "y", "value", "for_x", "for_y"),
    [  # what torch.pow and its backward give for these
        (0.0, 0.0, 1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, 1.0, 0.0),
        (0.0, 2.0, 0.0, 0.0, 0.0),
        (0.0, 0.5, 0.0, INF, 0.0),
        (0.0, -1.0, INF, -INF, -INF),
        (-2.0, 3.0, -8.0, 12.0, NAN),
        (-2.0, 0.0, 1.0, 0.0, NAN),
        (-2.0, 0.5, NAN, NAN, NAN),
        (NAN, 0.0, 1.0, 0.0, NAN),
        (2.0, 0.0, 1.0, 0.0, 0.6931472),
        (3.0, 2.0, 9.0, 6.0, 9.887511),
        (1e-40, 0.0, 1.0, 0.0, -92.1034),
    ],
)
def test_power_and_its_gradients_follow_pytorch(x, y, value, for_x, for_y):
    np.testing.assert_allclose(result(ops.power, f32(x), f32(y)), [value], rtol=1e-6)
    found = slopes(ops.power, f32(x), f32(y))
    np.testing.assert_allclose(np.concatenate(found), [for_x, for_y], rtol=1e-5)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0, 0.5])
def test_a_constant_exponent_gives_the_same_gradient_as_a_tensor(exponent):
    x = f64(0.5, 1.5, 2.0)
    constant = slopes(lambda v: ops.power(v, exponent), x)[0]
    np.testing.assert_allclose(constant, slopes(ops.power, x, np.full(3, exponent))[0], rtol=1e-14)
    np.testing.assert_allclose(constant, exponent * x ** (exponent - 1), rtol=1e-14)


def test_a_square_by_power_is_smooth_at_0_to_any_order():
    x = f64(0.0, -1.0, 2.0)

    def second(v):
        return ops.power(ops.power(v, 2.0), 2.0)  # x**4: 4 x**3

    np.testing.assert_array_equal(slopes(second, x)[0], [0.0, -4.0, 32.0])
    check_gradients(lambda v: ops.power(v, 3.0), [x], order=3)


def test_second_order_at_base_0_is_finite():
    check_gradients(lambda v: ops.power(v, 2.0), [f64(0.0)], order=2)

    def slope(x, y):
        return ops.power(x, y).op.vjp(ops.full(1.0, x.shape, x.dtype), ops.power(x, y), x, y)[1]

    # d/dx of x**y log x at x = 0, y = 2 is 0; the naive graph gives 0 * inf
    assert slopes(slope, f64(0.0), f64(2.0))[0] == 0


def test_a_constant_base_has_the_gradient_of_an_exponential():
    y = f64(0.0, 1.0, 3.0)
    np.testing.assert_allclose(slopes(lambda v: ops.power(2.0, v), y)[0], np.log(2) * 2**y, rtol=1e-14)


def test_roots_at_0_have_the_infinite_slope_of_pytorch():
    np.testing.assert_array_equal(slopes(ops.sqrt, f32(0.0, 4.0))[0], [INF, 0.25])
    np.testing.assert_array_equal(slopes(ops.rsqrt, f32(0.0, 4.0))[0], [-INF, -0.0625])


def test_gradient_of_rsqrt_is_finite_where_out_cubed_overflows():
    np.testing.assert_allclose(slopes(ops.rsqrt, f32(1e-24))[0], [-0.5e36], rtol=1e-5)
    # the cotangent is 1e-6 and x**-1.5 is 3.5e38, more than f32 holds; their product is not
    found = slopes(lambda v: ops.multiply(ops.rsqrt(v), 1e-6), f32(2e-26))[0]
    np.testing.assert_allclose(found, [-1.767767e32], rtol=1e-5)


def test_reciprocal_and_square():
    np.testing.assert_array_equal(slopes(ops.reciprocal, f32(2.0, -4.0))[0], [-0.25, -0.0625])
    np.testing.assert_array_equal(slopes(ops.square, f32(3.0, 0.0, -1.5))[0], [6.0, 0.0, -3.0])
    assert result(ops.square, np.array([200], np.uint8))[0] == (200 * 200) % 256


def test_power_of_integers_is_refused_with_a_way_out():
    with pytest.raises(TypeRuleError, match=r"power: .* float, got i32\[2\]; .* or multiply an integer by itself"):
        ops.power(param("x", (2,), "i32"), 2)
