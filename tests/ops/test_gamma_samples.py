"""The derivative of gamma variables: differences of the distribution function, and integrals with 40 digits."""

from math import exp, lgamma, log

import numpy as np
import pytest

from adjoint import Function, ops, param
from adjoint.ops.gamma_samples import gamma_slope, moving_with
from adjoint.testing import check_gradients, interpret
from adjoint.transforms import gradient

EXTREME = [
    (0.001, 1e-200, 4.599414466669988e-195),
    (0.01, 1e-30, 6.85166673319527e-27),
    (0.05, 0.4, 8.821561627884233),
    (0.0002, 0.09, 944.87710458908),
    (0.03, 0.0327, 3.287801895281783),
    (0.5, 20.0, 4.889171772944083),
    (3.0, 40.0, 2.9347629990088615),
    (3.0, 0.001, 0.002721992282139207),
    (1000.0, 900.0, 0.9484026381794104),
    (1000.0, 1000.0, 1.0001666833238059),
    (100000.0, 101000.0, 1.004985091138492),
    (200.0, 300.0, 1.2174040621568964),
]


def distribution(a, z):
    """The distribution function by its power series (Abramowitz and Stegun, 6.5.29), whose terms are positive."""
    term, total, n = 1.0 / a, 0.0, 0
    while term > total * 1e-18:
        total += term
        n += 1
        term *= z / (a + n)
    return total * exp(a * log(z) - z - lgamma(a))


def slope(a, z):
    values = param("a", np.shape(a), "f64"), param("z", np.shape(z), "f64")
    return interpret(Function("f", values, (gamma_slope(*values),)), np.asarray(a), np.asarray(z))[0]


def test_slopes_are_differences_of_quantiles():
    """From -(dF/da) / f; z from the lower to the upper tail."""
    cases = [(a, a * part) for a in (0.1, 0.6, 1.0, 2.5, 8.0, 20.0) for part in (0.01, 0.3, 0.9, 1.1, 1.9)]
    expected = []
    for a, z in cases:
        h = 1e-4 * a
        change = distribution(a - 2 * h, z) - 8 * distribution(a - h, z)
        change += 8 * distribution(a + h, z) - distribution(a + 2 * h, z)
        expected.append(-change / (12 * h) / exp((a - 1) * log(z) - z - lgamma(a)))
    np.testing.assert_allclose(slope(*np.transpose(cases)), expected, rtol=1e-6)


def test_slopes_of_extreme_samples():
    """Numbers of mpmath with 40 digits, ``quad`` of the integral of the module's docstring."""
    found = slope(*np.transpose([case[:2] for case in EXTREME]))
    np.testing.assert_allclose(found, [case[2] for case in EXTREME], rtol=2e-7)


def test_samples_that_are_zero_have_no_slope():
    assert slope([1e-3, 0.5, 2.0], [0.0, 0.0, 0.0]) == pytest.approx(0.0, abs=1e-100)


def test_higher_derivatives():
    a, z = np.array([0.4, 1.5, 6.0]), np.array([0.1, 2.0, 5.0])
    check_gradients(gamma_slope, (a, z), order=1)
    x, samples = param("a", (3,), "f64"), param("z", (3,), "f64")
    first = gradient(Function("f", (x, samples), (ops.sum(moving_with(x, samples)),)), ["a"])
    second = gradient(Function("g", (x, samples), (ops.sum(first.results[1]),)), ["a"])
    total, found = interpret(second, a, z)
    h = 1e-5
    slopes = slope(a, z)
    # The sample moves along with a.
    expected = (slope(a + h, z + h * slopes) - slope(a - h, z - h * slopes)) / (2 * h)
    assert total == pytest.approx(slopes.sum())
    np.testing.assert_allclose(found, expected, rtol=1e-5)
