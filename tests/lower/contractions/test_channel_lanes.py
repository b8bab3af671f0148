"""Convolutions with lanes along channels: when they are chosen, what a unit has, and results at every vector width."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.compiler import compile
from adjoint.ir import Function, apply, param
from adjoint.kernel.index import Var
from adjoint.lower.contractions import channel_lanes_plan, schedules
from adjoint.lower.contractions.channel_lanes_plan import ChannelLanesPlan, plan_channel_lanes
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.program import contractions_of
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.hardware import KINDS, shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, agrees_with_gradients


def convolution(batch, channels, out, size, window, stride=1, groups=1):
    """A convolution, a bias, a residual and a ReLU."""
    x, w = param("x", (batch, channels, *size)), param("w", (out, channels // groups, window, window))
    y = ops.conv2d(x, w, padding=window // 2, stride=stride, groups=groups)
    b = param("b", (out, 1, 1))
    return Function("f", (x, w, b), (ops.relu(y + b) + y,))


def planned(function):
    function = after_graph_passes(function)
    (made,) = contractions_of(function, AVX512, value_names(function))[1].values()
    return made


def plan_of(function):
    return planned(function).plan


def only_this_kind(monkeypatch):
    """Choose it wherever it is possible."""

    def free(*args):
        plan = plan_channel_lanes(*args)
        return None if plan is None else replace(plan, cycles=0.0)

    for name in ("_split_k", "_winograd"):
        monkeypatch.setattr(schedules, name, lambda *_: None)
    monkeypatch.setattr(schedules, "plan_channel_lanes", free)


def test_short_runs_of_a_matrix_in_memory_are_waited_for_and_images_are_not():
    """A matrix contiguous along k, of which tiles read a few rows; and images with windows that move by two."""
    target = KINDS["avx512 on a mesh"]
    x, w = param("x", (128, 4096)), param("w", (4096, 4096))
    product, images = (
        Function("f", (x, w), (ops.matmul(x, ops.transpose(w)),)),
        convolution(16, 176, 16, (40, 40), 5, 2),
    )
    for function, lanes_along_channels in ((product, False), (images, True)):
        function = after_graph_passes(function)
        (made,) = contractions_of(function, target, value_names(function))[1].values()
        assert isinstance(made.plan, ChannelLanesPlan) is lanes_along_channels


@pytest.mark.parametrize(
    "function",
    [
        convolution(16, 176, 16, (40, 40), 5, stride=2),
        convolution(32, 216, 40, (30, 30), 5, stride=2),
        convolution(2, 64, 64, (100, 100), 7, stride=2),
    ],
    ids=["one vector of channels", "three vectors", "large images"],
)
def test_windows_that_move_by_two_elements_have_lanes_along_channels(function, monkeypatch):
    """Unless Winograd's algorithm is faster."""
    monkeypatch.setattr(schedules, "_winograd", lambda *_: None)
    assert isinstance(plan_of(function), ChannelLanesPlan)


@pytest.mark.parametrize(
    "function",
    [
        convolution(4, 64, 64, (64, 64), 1),
        convolution(4, 16, 3, (64, 64), 5),
        convolution(4, 64, 64, (32, 32), 3, groups=64),
    ],
    ids=["a matrix product", "fewer channels than lanes", "depthwise"],
)
def test_other_convolutions_have_lanes_along_rows(function):
    assert not isinstance(plan_of(function), ChannelLanesPlan)


def test_a_unit_is_a_group_of_rows_and_a_panel_of_channels(monkeypatch):
    only_this_kind(monkeypatch)
    function = convolution(16, 64, 80, (40, 40), 5, stride=2)
    plan = plan_of(function)
    assert isinstance(plan, ChannelLanesPlan)
    assert [v.extent for v in plan.rows] == [16, 20, 20]
    kernels = lower_function(function, AVX512).kernels
    packing, products = kernels[-2:]
    groups = [16, 16 * 20][plan.shared] // plan.share
    assert products.unit.extent == groups * plan.panels
    (panels,) = packing.writes
    assert panels.size == plan.panels * plan.width * 64 * 25
    sums = next(b for b in products.scratch if b.name == "sums")
    assert sums.size == plan.share * [20 * 20, 20][plan.shared] * plan.width


def test_a_panel_that_one_unit_meets_is_packed_block_by_block_in_that_unit(monkeypatch):
    only_this_kind(monkeypatch)
    function = convolution(1, 193, 48, (5, 5), 3, stride=2)
    plan = plan_of(function)
    assert isinstance(plan, ChannelLanesPlan)
    assert plan.groups == 1
    products = lower_function(function, AVX512).kernels[-1]
    assert products.unit.extent == plan.panels
    assert "w" in {b.name for b in products.reads}
    panel = next(b for b in products.scratch if b.name == "panel")
    assert panel.size == plan.block * 9 * plan.width
    assert plan.block < 193


@pytest.mark.parametrize(
    "function",
    [
        convolution(5, 146, 91, (13, 13), 7, stride=2),
        convolution(2, 131, 75, (13, 13), 5),
        convolution(8, 14, 159, (9, 9), 7),
    ],
    ids=["three panels", "three panels for two groups of rows", "five panels for two groups of rows"],
)
def test_two_cores_have_even_shares(function, monkeypatch):
    """If they cost little; otherwise these have an odd number of units."""
    only_this_kind(monkeypatch)
    function, target = after_graph_passes(function), replace(AVX512, cores=2)

    def units():
        (made,) = contractions_of(function, target, value_names(function))[1].values()
        assert isinstance(made.plan, ChannelLanesPlan)
        return made.plan.units

    assert units() % 2 == 0
    monkeypatch.setattr(costs, "EVEN_UNITS", 0)
    assert units() in (3, 5)


@pytest.mark.parametrize(("cores", "groups"), [(1, 1), (2, 2)])
def test_a_group_of_rows_for_each_core_packs_the_weights_for_itself(cores, groups):
    x, w = param("x", (2, 8, 44, 44)), param("w", (20, 8, 5, 5))
    function = after_graph_passes(Function("f", (x, w), (ops.conv2d(x, w, stride=2),)))
    target = replace(AVX512, cores=cores)
    (made,) = contractions_of(function, target, value_names(function))[1].values()
    assert isinstance(made.plan, ChannelLanesPlan)
    assert made.plan.packs_blocks
    assert made.plan.groups == groups
    (kernel,) = lower_function(function, target).kernels
    assert kernel.unit.extent == groups * made.plan.panels


def test_cores_share_the_packing_of_a_single_panel():
    """It is packed in parts along the input channels."""
    x, w = param("x", (16, 64, 44, 44)), param("w", (16, 64, 5, 5))
    packing, products = lower_function(
        Function("f", (x, w), (ops.conv2d(x, w, stride=2),)), replace(AVX512, cores=2)
    ).kernels
    assert packing.unit.extent == 4
    assert products.unit.extent > 4


def test_a_block_of_a_panel_stays_in_the_first_level_cache(monkeypatch):
    only_this_kind(monkeypatch)
    for channels in (64, 176, 331):
        plan = plan_of(convolution(16, channels, 64, (40, 40), 5, stride=2))
        assert isinstance(plan, ChannelLanesPlan)
        block = plan.block * 25 * plan.width * 4
        assert costs.l1_bytes(AVX512) / 4 < block <= costs.l1_bytes(AVX512)


def test_an_image_in_memory_is_read_without_padding(monkeypatch):
    only_this_kind(monkeypatch)
    (products,) = lower_function(convolution(3, 9, 20, (6, 17), 7), AVX512).kernels
    assert {b.name for b in products.reads} == {"x", "w", "b"}


def test_rows_of_an_image_that_several_values_read_stay_padded(monkeypatch):
    """Padding costs nothing more, then: it is there for the weight's gradient."""
    only_this_kind(monkeypatch)
    x, w = param("x", (3, 9, 6, 17)), param("w", (20, 9, 7, 7))
    padded = ops.pad(ops.relu(x), (0, 0, 3, 3), (0, 0, 3, 3))
    kernels = lower_function(Function("f", (x, w), (ops.conv2d(padded, w), ops.sum(padded))), AVX512).kernels
    (products,) = (k for k in kernels if "sums" in {b.name for b in k.scratch})
    assert "x" not in {b.name for b in products.reads}


def test_a_tap_that_is_outside_for_a_whole_tile_is_left_out(monkeypatch):
    """Windows of seven on rows of four pixels: the first and the last tap meet one pixel of four."""
    only_this_kind(monkeypatch)
    agrees_with_gradients(convolution(2, 8, 16, (4, 4), 7), "host", 0)


#: Batch, channels in and out, size, window, stride, groups: remainders of channels, rows, columns, and blocks.
CASES = [
    (2, 3, 17, (13, 13), 3, 1, 1),
    (1, 5, 40, (37, 18), 5, 2, 1),
    (3, 6, 12, (9, 20), 3, 2, 2),
    (2, 67, 33, (9, 9), 7, 2, 1),
    (5, 4, 20, (6, 5), 3, 1, 1),
    (1, 130, 23, (11, 40), 3, 1, 1),
    (3, 9, 20, (6, 17), 7, 1, 1),
    (2, 8, 18, (19, 24), 5, 2, 2),
    # The gradient of the weight sums over 1,681 pixels: panels of an image stay in the second-level cache.
    (2, 3, 9, (41, 41), 3, 1, 1),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_results_and_gradients_agree_with_the_reference(level, case, monkeypatch):
    only_this_kind(monkeypatch)
    agrees_with_gradients(convolution(*case), level, case[2])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_have_the_bits_of_a_gemm(case, monkeypatch):
    only_this_kind(monkeypatch)
    function = convolution(*case)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    made = compile(function, options=OPTIONS)(*arrays)
    assert isinstance(plan_of(function), ChannelLanesPlan)
    for name in ("plan_channel_lanes", "plan_collapsed"):
        monkeypatch.setattr(schedules, name, lambda *_: None)
    assert isinstance(plan_of(function), GemmPlan)
    np.testing.assert_array_equal(compile(function, options=OPTIONS)(*arrays), made)


@pytest.mark.parametrize("extents", [(33, 6, 6), (1, 1, 1), (5, 40, 40), (64, 7), (2000,), (3, 100, 100)])
def test_some_groups_of_rows_fit_every_tile(extents):
    """Of a tile with 29 of 33 images of 6x6, a unit has more pixels than other units may have."""
    rows = tuple(Var(f"r{n}", extent) for n, extent in enumerate(extents))
    for tile in itertools.product(*(range(1, min(extent, 30) + 1, 7) for extent in extents)):
        assert list(channel_lanes_plan._groups(rows, tile)), tile


def plan_of_gradient(size):
    """The plan for the gradient of the weight of a 1x1 convolution, whether it is chosen or not."""
    x, ct = param("x", (64, 256, size, size)), param("ct", (64, 256, size, size))
    function = Function("dw", (x, ct), (apply(Conv2dWeightGradient((1, 1), (0, 0), (1, 1), 1, (1, 1)), x, ct),))
    function = after_graph_passes(function)
    context, planned = contractions_of(function, AVX512, value_names(function))
    (made,) = planned.values()
    return plan_channel_lanes(context, made.contraction)


def test_a_panel_of_one_image_stays_in_a_cache():
    """Gradients of weights sum over the pixels of an image: four vectors for 196 of them would be 50 KB."""
    plan = plan_of_gradient(14)
    assert plan is not None
    assert 196 * plan.width * 4 <= costs.l1_bytes(AVX512)
    plan = plan_of_gradient(40)
    assert plan is not None
    assert plan.vectors == 1
    assert costs.l1_bytes(AVX512) < 1600 * 16 * 4 <= costs.l2_block_bytes(AVX512)
    assert plan_of_gradient(200) is None
