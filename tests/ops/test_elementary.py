"""Elementwise composites: special values and conventions of gradients, as those of PyTorch unless it says otherwise."""

import math

import numpy as np

from adjoint import ops
from adjoint.testing import check_gradients
from tests.ops.running import gradient, run

INF, NAN = math.inf, math.nan
ODD = np.array([0.0, -0.0, 1.5, -1.5, 2.5, INF, -INF, NAN])


def same(found, wanted):
    np.testing.assert_array_equal(found, np.asarray(wanted))


def test_rounding_is_that_of_numpy():
    for function, numpy in ((ops.ceil, np.ceil), (ops.trunc, np.trunc), (ops.round, np.rint)):
        found = run(function, ODD)
        same(found, numpy(ODD))
        same(np.signbit(found[:7]), np.signbit(numpy(ODD)[:7]))
    same(run(lambda v: ops.round(v, 1), np.array([0.25, 0.35, -1.25])), [0.2, 0.4, -1.2])
    same(run(lambda v: v.round(-2), np.array([150.0, 250.0, -349.0])), [200, 200, -300])
    same(run(ops.frac, np.array([1.25, -1.25])), [0.25, -0.25])


def test_questions_about_floats():
    for function, numpy in (
        (ops.isnan, np.isnan),
        (ops.isinf, np.isinf),
        (ops.isfinite, np.isfinite),
        (ops.isposinf, np.isposinf),
        (ops.isneginf, np.isneginf),
        (ops.signbit, np.signbit),
    ):
        same(run(function, ODD), numpy(ODD))
        same(run(function, np.array([3, -1], np.int32)), numpy(np.array([3.0, -1.0])))


def test_infinities_and_nan_are_replaced():
    greatest = float(np.finfo(np.float32).max)
    same(run(ops.nan_to_num, np.array([NAN, INF, -INF, 2], np.float32)), np.float32([0, greatest, -greatest, 2]))
    same(run(lambda v: ops.nan_to_num(v, 7.0, 8.0, 9.0), np.array([NAN, INF, -INF])), [7, 8, 9])


def test_remainders_have_the_sign_of_the_dividend_or_of_the_divisor():
    x, y = np.array([7.0, -7.0, 7.0, -7.0, 1.0, -1.0, 1.0]), np.array([3.0, 3.0, -3.0, -3.0, INF, INF, 0.0])
    with np.errstate(all="ignore"):
        same(run(ops.fmod, x, y), np.fmod(x, y))
        same(run(ops.remainder, x, y), [1, 2, -2, -1, 1, INF, NAN])
    whole = np.array([7, -7, 7, -7], np.int32), np.array([3, 3, -3, -3], np.int32)
    same(run(ops.fmod, *whole), np.fmod(*whole))
    same(run(ops.remainder, *whole), np.remainder(*whole))
    quotients = gradient(lambda y, x: ops.remainder(x, y), np.array([3.0, -3.0]), np.array([7.5, 7.5]))
    same(quotients, [-2, 3])


def test_of_equal_numbers_the_first_gets_the_gradient_of_fmax_and_fmin():
    x, y = np.array([1.0, 2.0, NAN, 2.0, NAN]), np.array([1.0, NAN, 2.0, 1.0, NAN])
    same(run(ops.fmax, x, y), [1, 2, 2, 2, NAN])
    same(run(ops.fmin, x, y), [1, 2, 2, 1, NAN])
    same(gradient(ops.fmax, x, y)[:4], [1, 1, 0, 1])
    same(gradient(ops.fmin, x, y)[:4], [1, 1, 0, 0])


def test_large_and_infinite_operands_do_not_overflow():
    x, y = np.array([3e200, 0.0, INF, NAN]), np.array([4e200, 0.0, NAN, -INF])
    np.testing.assert_allclose(run(ops.hypot, x, y), [5e200, 0, INF, INF])
    np.testing.assert_allclose(gradient(ops.hypot, x, y)[:2], [0.6, 0.0])
    x, y = np.array([1000.0, -INF, INF, 2.0]), np.array([1000.0, -INF, 1.0, 2.0])
    np.testing.assert_allclose(run(ops.logaddexp, x, y), [1000 + math.log(2), -INF, INF, 2 + math.log(2)])
    np.testing.assert_allclose(run(ops.logaddexp2, x, y)[[0, 3]], [1001, 3])


def test_products_with_the_logarithm_of_zero():
    x, y = np.array([0.0, 0.0, 0.0, 2.0]), np.array([0.0, -1.0, NAN, math.e])
    same(run(ops.xlogy, x, y), [0, 0, NAN, 2])
    same(gradient(ops.xlogy, x, y)[[0, 3]], [0, 1])


def test_steps_signs_and_scales():
    same(run(ops.heaviside, np.array([-1.0, 0.0, 2.0, NAN]), np.full(4, 0.5)), [0, 0.5, 1, 0])
    same(run(ops.copysign, np.array([1.0, -2.0, 3.0]), np.array([-0.0, 1.0, -5.0])), [-1, 2, -3])
    same(run(ops.ldexp, np.array([0.75, -1.0]), np.array([3, -2], np.int32)), [6, -0.25])
    same(run(lambda v: ops.rad2deg(ops.deg2rad(v)), np.array([90.0])), [90])
    odds = run(lambda v: ops.logit(v, 0.25), np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(odds, [-math.log(3), 0, math.log(3)])


def test_derivatives_where_formulas_have_singularities():
    """Of second order too: at a tie, at 0, and in both parts of sinc."""
    check_gradients(ops.logaddexp, [np.array([1.0, 0.3, -2.0]), np.array([1.0, 0.9, 5.0])])
    check_gradients(ops.sinc, [np.array([0.0, 0.1, 0.3, -1.7, 4.0])])
    np.testing.assert_allclose(run(ops.sinc, np.array([0.0, 0.5, 3.0, 1.5])), [1, 2 / math.pi, 0, -2 / 3 / math.pi])
    check_gradients(lambda x: ops.logit(x), [np.array([0.2, 0.5])])
