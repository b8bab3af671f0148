"""Depthwise convolutions with lanes along channels: when they are chosen, what they read, and results."""

from dataclasses import replace

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.lower.contractions import schedules
from adjoint.lower.contractions.depthwise_lanes import DepthwiseLanesPlan, plan_depthwise_lanes
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.hardware import shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, agrees_with_gradients


def depthwise(batch, channels, size, window, stride=1, dilation=1, image=None):
    """A convolution of each channel with a window of its own, a residual and a ReLU."""
    x, w = param("x", (batch, channels, *size)), param("w", (channels, 1, *window))
    pads = [(extent // 2) * dilation for extent in window]
    y = ops.conv2d(x if image is None else image(x), w, None, stride, tuple(pads), dilation, channels)
    return Function("f", (x, w), (ops.relu(y) + y,))


def plan_of(function):
    function = after_graph_passes(function)
    (made,) = contractions_of(function, AVX512, value_names(function))[1].values()
    return made.plan


def only_this_kind(monkeypatch):
    """Choose it wherever it is possible."""

    def free(*args):
        plan = plan_depthwise_lanes(*args)
        return None if plan is None else replace(plan, cycles=0.0)

    for name in ("_split_k", "_winograd"):
        monkeypatch.setattr(schedules, name, lambda *_: None)
    monkeypatch.setattr(schedules, "plan_depthwise_lanes", free)


@pytest.mark.parametrize(
    "function",
    [
        depthwise(16, 64, (8, 8), (5, 5), stride=2),
        depthwise(16, 200, (5, 5), (3, 3), stride=2),
        depthwise(16, 64, (20, 20), (7, 7), stride=2),
    ],
    ids=["8x8", "5x5", "20x20"],
)
def test_small_images_and_windows_that_move_by_two_have_lanes_along_channels(function):
    assert isinstance(plan_of(function), DepthwiseLanesPlan)


@pytest.mark.parametrize(
    "function",
    [
        depthwise(4, 64, (32, 32), (3, 3)),
        depthwise(16, 7, (8, 8), (5, 5), stride=2),
        depthwise(1, 64, (200, 200), (5, 5), stride=2),
    ],
    ids=["rows that fill vectors", "fewer channels than lanes", "larger than a cache"],
)
def test_other_convolutions_have_lanes_along_rows(function):
    assert not isinstance(plan_of(function), DepthwiseLanesPlan)


def test_an_image_in_memory_is_read_without_padding():
    packing, products = lower_function(depthwise(16, 64, (8, 8), (5, 5), stride=2), AVX512).kernels
    assert {b.name for b in packing.reads} == {"w"}
    assert "x" in {b.name for b in products.reads}
    assert products.unit.extent == 16 * 4


def test_an_image_that_is_computed_is_padded_where_it_is():
    kernels = lower_function(depthwise(16, 64, (8, 8), (5, 5), stride=2, image=ops.relu), AVX512).kernels
    (products,) = (k for k in kernels if "planes" in {b.name for b in k.scratch})
    assert "x" not in {b.name for b in products.reads}
    planes = next(b for b in products.scratch if b.name == "planes")
    assert planes.size == 11 * 11 * 16  # the last row and column are in no window


def test_tiles_leave_out_pixels_at_borders(monkeypatch):
    """Of rows of 8 pixels, windows of five leave out six of forty products."""
    only_this_kind(monkeypatch)
    plan = plan_of(depthwise(2, 16, (8, 8), (5, 5)))
    border = plan.image.border(plan.contraction.n)
    assert plan.pixels == 8
    assert border.tiles(8) == [(0, 1, 8)]
    assert border.runs(0, 8) == [(0, 1, (2, 8)), (1, 1, (1, 8)), (2, 1, (0, 8)), (3, 1, (0, 7)), (4, 1, (0, 6))]


#: Batch, channels, size, window, stride, dilation: remainders of channels, squares and tiles.
CASES = [
    (2, 16, (8, 8), (5, 5), 1, 1),
    (1, 19, (13, 9), (3, 3), 2, 1),
    (3, 32, (5, 21), (7, 7), 1, 1),
    (2, 9, (18, 19), (3, 5), 2, 1),
    (1, 40, (12, 14), (3, 3), 1, 2),
    (5, 16, (4, 4), (3, 3), 1, 1),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_results_and_gradients_agree_with_the_reference(level, case, monkeypatch):
    only_this_kind(monkeypatch)
    agrees_with_gradients(depthwise(*case), level, case[1])


@pytest.mark.parametrize("image", [None, ops.relu], ids=["in memory", "computed"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_have_the_bits_of_a_gemm(case, image, monkeypatch):
    only_this_kind(monkeypatch)
    function = depthwise(*case, image)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    made = compile(function, options=OPTIONS)(*arrays)
    assert isinstance(plan_of(function), DepthwiseLanesPlan)
    for name in ("plan_depthwise_lanes", "plan_depthwise", "plan_collapsed", "plan_channel_lanes"):
        monkeypatch.setattr(schedules, name, lambda *_: None)
    assert isinstance(plan_of(function), GemmPlan)
    np.testing.assert_array_equal(compile(function, options=OPTIONS)(*arrays), made)


def test_several_threads_give_the_same_bits(monkeypatch):
    only_this_kind(monkeypatch)
    function = depthwise(8, 64, (16, 16), (5, 5), stride=2)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    one, two = (compile(function, options=replace(OPTIONS, threads=n))(*arrays) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
