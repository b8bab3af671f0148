"""Pooling against PyTorch, its conventions for ties, NaN and padding, and sums that gradients must give back."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Function, apply, param
from adjoint.ops.window_places import WindowArgMax, WindowPick, WindowSpread
from adjoint.transforms import gradient
from tests.closeness import agrees_with_graph
from tests.ops.golden import agrees, cases
from tests.ops.running import gradient as slope
from tests.ops.running import run

RNG = np.random.default_rng(9)


@cases("max_pool2d")
def test_max_pooling_is_pytorchs_ties_included(case):
    agrees(case, ops.max_pool2d)


@cases("avg_pool2d")
def test_average_pooling_is_pytorchs(case):
    agrees(case, ops.avg_pool2d)


def test_the_first_of_equals_gets_the_gradient():
    x = np.array([[[[1.0, 1.0], [1.0, 1.0]]]])
    np.testing.assert_array_equal(slope(lambda v: ops.max_pool2d(v, 2), x), [[[[1, 0], [0, 0]]]])


def test_overlapping_windows_add_up():
    x = np.zeros((1, 1, 3, 3))
    x[0, 0, 1, 1] = 5.0
    np.testing.assert_array_equal(slope(lambda v: ops.max_pool2d(v, 2, stride=1), x)[0, 0, 1, 1], 4.0)


def test_nan_is_the_greatest_and_gets_the_gradient():
    x = np.array([[[[1.0, np.nan], [np.nan, 3.0]]]])
    assert np.isnan(run(lambda v: ops.max_pool2d(v, 2), x)).all()
    np.testing.assert_array_equal(slope(lambda v: ops.max_pool2d(v, 2), x), [[[[0, 1], [0, 0]]]])


def test_padding_is_never_the_greatest():
    x = np.full((1, 1, 3, 3), -1e30)
    np.testing.assert_array_equal(run(lambda v: ops.max_pool2d(v, 3, padding=1), x), np.full((1, 1, 1, 1), -1e30))
    assert (run(lambda v: ops.max_pool2d(v, 2, padding=1), np.full((1, 1, 2, 2), -7.0)) == -7.0).all()


def test_rows_left_over_get_no_gradient():
    x = RNG.standard_normal((1, 1, 5, 7))
    found = slope(lambda v: ops.max_pool2d(v, 2), x)
    assert not found[:, :, 4].any()
    assert not found[..., 6].any()
    assert found.sum() == 6


def test_average_counts_as_it_is_told():
    x = np.ones((1, 1, 2, 2))
    assert (run(lambda v: ops.avg_pool2d(v, 2, padding=1), x) == 0.25).all()
    assert (run(lambda v: ops.avg_pool2d(v, 2, padding=1, count_include_pad=False), x) == 1.0).all()


def test_halves_are_added_in_f32():
    x = np.full((1, 1, 64, 64), 60000.0, np.float16)
    assert run(lambda v: ops.avg_pool2d(v, 64), x).item() == np.float16(60000.0)


@pytest.mark.parametrize(("window", "stride"), [((2, 2), (2, 2)), ((3, 2), (1, 2)), ((2, 3), (3, 4))])
def test_picking_and_spreading_are_adjoint(window, stride):
    """``<ct, pick(x)> = <spread(ct), x>``, in whole numbers."""
    x = RNG.integers(-9, 10, (2, 3, 7, 9)).astype(np.float64)
    places = WindowArgMax(window, stride).reference(RNG.standard_normal(x.shape))
    ct = RNG.integers(-9, 10, places.shape).astype(np.float64)
    picked = WindowPick(window, stride).reference(x, places)
    spread = WindowSpread(window, stride, x.shape[2:]).reference(ct, places)
    assert np.sum(ct * picked) == np.sum(spread * x)


def test_places_outside_the_window_are_refused_by_the_reference_and_harmless_compiled():
    pick, spread = WindowPick((2, 2), (2, 2)), WindowSpread((2, 2), (2, 2), (2, 4))
    x, places = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4), np.array([[[[4, -1]]]])
    with pytest.raises(InvalidValueError, match="window_pick: ids must be from 0 to 3"):
        pick.reference(x, places)
    with pytest.raises(InvalidValueError, match="window_spread: ids must be from 0 to 3"):
        spread.reference(x[:, :, :1, :2], places)
    image, place = param("x", x.shape), param("places", places.shape, "i64")
    picked = apply(pick, image, place)
    function = Function("f", (image, place), (picked, apply(spread, picked, place)))
    got, spread_out = compile(function, options=CompileOptions(threads=1, cache=False))(x, places)
    assert np.isin(got, x).all()
    assert not spread_out.any()


@pytest.mark.parametrize(("window", "stride", "padding"), [(2, 2, 0), (3, 2, 1)])
def test_compiled_gradients_agree_with_the_references(window, stride, padding):
    x = param("x", (2, 3, 8, 18))
    pooled = ops.max_pool2d(x, window, stride, padding), ops.avg_pool2d(x, window, stride, padding)
    function = gradient(Function("f", (x,), (ops.sum(ops.sin(ops.add(*pooled))),)))
    array = RNG.standard_normal(x.shape).astype(np.float32)
    agrees_with_graph(compile(function, options=CompileOptions(threads=1, cache=False))(array), function, array)


@pytest.mark.parametrize("pool", [ops.max_pool2d, ops.avg_pool2d], ids=lambda f: f.__name__)
def test_refusals(pool):
    name, x = pool.__name__, param("x", (1, 1, 8, 8))
    with pytest.raises(
        InvalidValueError, match=f"{name}: padding must be at most half the window, got 2 for 3; pad less"
    ):
        pool(x, 3, padding=2)
    with pytest.raises(InvalidValueError, match=f"{name}: window must be an integer of at least 1, .* got 0"):
        pool(x, 0)
    with pytest.raises(InvalidValueError, match=rf"{name}: stride must be .* got \(2, 0\)"):
        pool(x, 2, (2, 0))
    with pytest.raises(TypeRuleError, match=rf"{name}: the dtype must be float, got i32\[1,1,2,2\]"):
        pool(param("i", (1, 1, 2, 2), "i32"), 2)
    with pytest.raises(TypeRuleError, match=rf"{name}: the image must have 4 axes, got f32\[8,8\]; reshape it"):
        pool(param("m", (8, 8)), 2)
    with pytest.raises(TypeRuleError, match="windows that span 9 on an axis of 8 padded by 0"):
        pool(x, 9)
