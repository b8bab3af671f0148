"""Gradients of the weights of depthwise convolutions with lanes along channels: when they are chosen, and results."""

from dataclasses import replace

import numpy as np
import pytest

from adjoint.codegen.targets import target_for
from adjoint.compiler import compile
from adjoint.ir import Function, apply, param
from adjoint.lower.contractions import schedules
from adjoint.lower.contractions.depthwise_gradient import DepthwiseGradientPlan, plan_depthwise_gradient
from adjoint.lower.program import contractions_of
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.hardware import shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, agrees_with_graph


def gradient(batch, channels, size, window, stride=1):
    """The gradient of the weights of a convolution that divides an image by its stride."""
    pads = tuple(extent // 2 for extent in window)
    rows = tuple((n + 2 * p - w) // stride + 1 for n, p, w in zip(size, pads, window, strict=True))
    x, ct = param("x", (batch, channels, *size)), param("ct", (batch, channels, *rows))
    op = Conv2dWeightGradient((stride, stride), pads, (1, 1), channels, window)
    return Function("f", (x, ct), (apply(op, x, ct),))


def plan_of(function, target=AVX512):
    function = after_graph_passes(function)
    (made,) = contractions_of(function, target, value_names(function))[1].values()
    return made.plan


def only_this_kind(monkeypatch):
    """Choose it wherever it is possible."""

    def free(*args):
        plan = plan_depthwise_gradient(*args)
        return None if plan is None else replace(plan, cycles=-1.0)

    monkeypatch.setattr(schedules, "plan_depthwise_gradient", free)


@pytest.mark.parametrize(
    "function",
    [
        gradient(16, 64, (7, 7), (3, 3)),
        gradient(16, 64, (14, 14), (3, 3), stride=2),
        gradient(4, 48, (36, 36), (5, 5), stride=2),
        gradient(1, 96, (17, 17), (7, 7)),
    ],
    ids=["7x7", "14x14 by two", "36x36 by two", "one image"],
)
def test_gradients_of_small_images_have_lanes_along_channels(function):
    assert isinstance(plan_of(function), DepthwiseGradientPlan)


@pytest.mark.parametrize(
    "function",
    [gradient(16, 64, (28, 28), (3, 3)), gradient(4, 7, (7, 7), (3, 3)), gradient(4, 64, (3, 3), (3, 3))],
    ids=["rows that fill vectors", "fewer channels than lanes", "fewer elements than lanes"],
)
def test_other_gradients_do_not(function):
    assert not isinstance(plan_of(function), DepthwiseGradientPlan)


def test_images_are_split_for_several_threads_and_read_without_padding():
    function = gradient(16, 64, (7, 7), (3, 3))
    plan = plan_of(function)
    sums, total = lower_function(function, AVX512).kernels
    assert (plan.panels, plan.parts) == (4, 4)
    assert sums.unit.extent == 16
    assert {b.name for b in sums.reads} >= {"x", "ct"}
    assert total.reads == sums.writes


def test_every_cpu_splits_the_images_alike():
    function = gradient(12, 40, (9, 9), (5, 5))
    plans = [plan_of(function, target_for(level)) for level in ("avx512", "avx2")]
    assert [plan.lanes for plan in plans] == [16, 8]
    assert plans[0].parts == plans[1].parts


#: Batch, channels, size, window, stride: remainders of channels and squares, several tiles of rows, lopsided windows.
CASES = [
    (4, 16, (7, 7), (3, 3), 1),
    (3, 19, (13, 9), (3, 3), 2),
    (2, 32, (5, 21), (7, 7), 1),
    (6, 9, (18, 19), (3, 5), 2),
    (1, 24, (11, 14), (5, 5), 1),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_results_agree_with_the_reference(level, case, monkeypatch):
    only_this_kind(monkeypatch)
    function = gradient(*case)
    assert isinstance(plan_of(function), DepthwiseGradientPlan)
    rng = np.random.default_rng(case[1])
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


def test_threads_and_vector_widths_give_the_same_bits(monkeypatch):
    only_this_kind(monkeypatch)
    function = gradient(8, 40, (10, 10), (3, 3), 2)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    # Without fused multiply-adds, products are rounded.
    levels = {level for _, level in shared_among_levels([0, 1])} - {"sse2"}
    made = [
        compile(function, level, replace(OPTIONS, threads=threads))(*arrays) for threads in (1, 2) for level in levels
    ]
    for other in made[1:]:
        np.testing.assert_array_equal(other, made[0])
