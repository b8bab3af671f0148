"""Trigonometric, hyperbolic, error and gamma functions against published numbers, and their composites."""

import math

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import param
from adjoint.testing import check_gradients
from tests.ops.running import gradient, run

EULER = 0.5772156649015329


def test_gamma_functions_at_places_with_a_closed_form():
    x = np.array([0.5, 1.0, 5.0, -0.5])
    roots = math.log(math.sqrt(math.pi))
    np.testing.assert_allclose(
        run(ops.lgamma, x), [roots, 0, math.log(24), roots + math.log(2)], rtol=1e-14, atol=1e-15
    )
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
    wanted = [-EULER - 2 * math.log(2), -EULER, harmonic - EULER, -EULER - 2 * math.log(2) + 2]
    np.testing.assert_allclose(run(ops.digamma, x), wanted, rtol=1e-13)
    trigamma = run(lambda v: ops.polygamma(1, v), np.array([1.0, 0.5, -0.5]))
    np.testing.assert_allclose(trigamma, [math.pi**2 / 6, math.pi**2 / 2, math.pi**2 / 2 + 4], rtol=1e-13)
    # -2 * zeta(3), Abramowitz and Stegun, 23.2; and torch.polygamma(2, torch.tensor(-0.3, dtype=torch.float64)).
    second = run(lambda v: ops.polygamma(2, v), np.array([1.0, -0.3]))
    np.testing.assert_allclose(second, [-2 * 1.2020569031595942, 67.63908119988314], rtol=1e-12)


def test_the_inverse_error_function_inverts_the_error_function():
    x = np.array([-3.0, -0.3, 1e-9, 0.02, 1.1, 2.5])
    np.testing.assert_allclose(run(lambda v: ops.erfinv(ops.erf(v)), x), x, rtol=1e-9)
    # The quartiles of a normal distribution are 0.67448975 standard deviations from its mean.
    assert abs(run(ops.erfinv, np.array(0.5)) * math.sqrt(2) - 0.6744897501960817) < 1e-15


def test_powers_and_logarithms_of_two_are_exact_for_whole_numbers():
    whole = np.arange(-120, 120, dtype=np.float32)
    assert run(ops.exp2, whole).tolist() == (2.0**whole).tolist()
    assert run(lambda v: ops.log2(ops.exp2(v)), whole).tolist() == whole.tolist()
    np.testing.assert_allclose(run(ops.log10, np.array([1e-3, 1.0, 1e5])), [-3, 0, 5], rtol=1e-15)


def test_angles_of_the_axes_and_of_signed_zeros():
    y, x = np.array([0.0, 0.0, -0.0, 1.0, -1.0]), np.array([1.0, -1.0, -1.0, 0.0, -0.0])
    wanted = [0, math.pi, -math.pi, math.pi / 2, -math.pi / 2]
    assert run(ops.atan2, y, x).tolist() == wanted
    assert gradient(ops.atan2, np.zeros(1), np.zeros(1)).tolist() == [0.0], "0 at the origin"


def test_hyperbolic_functions_are_finite_just_before_they_overflow():
    x = np.array([89.0, -89.0], np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(run(ops.sinh, x), np.sinh(wide), rtol=1e-5)
    np.testing.assert_allclose(run(ops.cosh, x), np.cosh(wide), rtol=1e-5)
    assert gradient(ops.sinh, np.array([-200.0])) == np.cosh(200.0)


def test_gradients_at_the_ends_of_the_range_are_infinite():
    ends = np.array([-1.0, 1.0])
    assert gradient(ops.asin, ends).tolist() == [math.inf, math.inf]
    assert gradient(ops.acos, ends).tolist() == [-math.inf, -math.inf]


def test_third_derivatives_of_lgamma():
    check_gradients(ops.lgamma, [np.array([0.7, 3.2, 9.1])], order=3)


def test_the_order_of_polygamma_is_checked():
    with pytest.raises(InvalidValueError) as error:
        ops.polygamma(-1, param("x", (2,)))
    assert error.value.message == "polygamma: n must be at least 0, got -1; use lgamma for the integral"
