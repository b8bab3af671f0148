"""References against mpmath's 50 digits, and gradients where rounding could eat them."""

import mpmath
import numpy as np
import pytest

from adjoint import ops
from tests.ops.slopes import f32, f64, result, slopes

MP = {
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "erf": mpmath.erf,
}
DERIVATIVE = {
    "exp": mpmath.exp,
    "expm1": mpmath.exp,
    "log": lambda x: 1 / x,
    "log1p": lambda x: 1 / (1 + x),
    "tanh": lambda x: mpmath.sech(x) ** 2,
    "sigmoid": lambda x: 1 / (2 + mpmath.exp(x) + mpmath.exp(-x)),
    "sin": mpmath.cos,
    "cos": lambda x: -mpmath.sin(x),
    "erf": lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x),
}
POSITIVE = f64(1e-300, 1e-10, 0.1, 0.5, 1, 1.5, 3, 30, 700)
POINTS = np.concatenate([-POSITIVE[:-1], POSITIVE])


def points_of(name):
    if name == "log":
        return POSITIVE
    return POINTS[POINTS > -1] if name == "log1p" else POINTS


@pytest.mark.parametrize("name", MP)
def test_references_agree_with_mpmath(name):
    x = points_of(name)
    with mpmath.workdps(50):
        expected = f64(*(float(MP[name](mpmath.mpf(v))) for v in x))
    np.testing.assert_allclose(result(getattr(ops, name), x), expected, rtol=4e-16)


@pytest.mark.parametrize("name", DERIVATIVE)
def test_gradients_agree_with_derivatives_by_mpmath(name):
    x = points_of(name)
    with mpmath.workdps(50):
        expected = f64(*(float(DERIVATIVE[name](mpmath.mpf(v))) for v in x))
    found = slopes(getattr(ops, name), x)[0]
    if name in ("tanh", "sigmoid"):  # from a result that is itself rounded, hence exact in absolute terms only
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=3e-16)
    else:
        np.testing.assert_allclose(found, expected, rtol=2e-15, atol=1e-308)


def test_the_gradient_of_tanh_loses_nothing_but_the_rounding_of_its_result():
    x = np.linspace(3, 8, 101, dtype=np.float32)
    out = np.tanh(x)
    exact = 1 - out.astype(np.float64) ** 2
    np.testing.assert_allclose(slopes(ops.tanh, x)[0], exact, rtol=3e-7)
    assert np.max(np.abs((1 - out * out) / exact - 1)) > 1e-5, "the plain formula does lose digits here"


def test_the_gradient_of_expm1_is_right_where_the_result_is_minus_1():
    np.testing.assert_allclose(slopes(ops.expm1, f32(-50, 0))[0], [np.exp(-50.0), 1], rtol=1e-6)


def test_gradients_at_0_are_exact():
    known = {"exp": 1, "expm1": 1, "log1p": 1, "tanh": 1, "sigmoid": 0.25, "sin": 1, "cos": 0}
    for name, slope in known.items():
        assert slopes(getattr(ops, name), f64(0.0))[0] == slope, name
    assert slopes(ops.erf, f64(0.0))[0] == pytest.approx(1.1283791670955126, rel=1e-15)  # 2/sqrt(pi)


def test_saturation_overflow_and_poles():
    inf = np.inf
    known = {
        "exp": [(1000, inf), (-1000, 0), (-inf, 0)],
        "expm1": [(1000, inf), (-1000, -1)],
        "log": [(0, -inf), (-1, np.nan), (inf, inf)],
        "log1p": [(-1, -inf), (-2, np.nan), (1e-30, np.float32(1e-30))],
        "tanh": [(100, 1), (-inf, -1)],
        "sigmoid": [(1000, 1), (-1000, 0), (0, 0.5)],
        "sin": [(inf, np.nan)],
        "cos": [(-inf, np.nan)],
        "erf": [(10, 1), (-inf, -1)],
    }
    for name, pairs in known.items():
        x, y = zip(*pairs, strict=True)
        np.testing.assert_array_equal(result(getattr(ops, name), f32(*x)), f32(*y), err_msg=name)


def test_slopes_beyond_saturation_are_0_not_nan():
    for name in ("tanh", "sigmoid", "erf"):
        np.testing.assert_array_equal(slopes(getattr(ops, name), f32(1000, -1000))[0], [0, 0], err_msg=name)
