"""Convolutions whose tiles run across the ends of rows: when they are chosen, and results at every vector width."""

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.lower.contractions import schedules
from adjoint.lower.contractions.collapsed import CollapsedPlan
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.hardware import shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, agrees_with_gradients


@pytest.fixture(autouse=True)
def _lanes_along_rows(monkeypatch):
    """The other kinds of plan for images with short rows are tested elsewhere."""
    for name in ("plan_channel_lanes", "_winograd"):
        monkeypatch.setattr(schedules, name, lambda *_: None)


def convolution(batch, channels, out, size, window, groups=1, dilation=1, padded=True):
    """A convolution, a bias, a residual and a ReLU."""
    x, w = param("x", (batch, channels, *size)), param("w", (out, channels // groups, window, window))
    y = ops.conv2d(x, w, padding=(window // 2) * dilation if padded else 0, dilation=dilation, groups=groups)
    b = param("b", (out, 1, 1))
    return Function("f", (x, w, b), (ops.relu(y + b) + y,))


def plan_of(function):
    function = after_graph_passes(function)
    (made,) = contractions_of(function, AVX512, value_names(function))[1].values()
    return made.plan


def test_rows_continue_behind_the_columns_that_padding_adds():
    plan = plan_of(convolution(2, 8, 12, (20, 20), 5))
    assert isinstance(plan, CollapsedPlan)
    assert (plan.pitch, plan.rows) == (24, 10)
    assert plan.columns(plan.rows) == 9 * 24 + 20
    assert plan.gemm.contraction.columns == 236


def test_rows_of_an_image_that_is_not_padded_continue_behind_the_columns_that_windows_leave():
    plan = plan_of(convolution(2, 8, 12, (24, 24), 5, padded=False))
    assert isinstance(plan, CollapsedPlan)
    assert (plan.pitch, plan.contraction.columns) == (24, 20)


def test_few_units_hold_all_rows_and_uneven_ones_leave_a_remainder():
    assert plan_of(convolution(2, 8, 12, (7, 7), 5)).rows == 7
    assert plan_of(convolution(2, 8, 12, (37, 18), 5)).rows * 2 > 18


@pytest.mark.parametrize(
    "function",
    [
        convolution(2, 8, 12, (32, 32), 5),
        convolution(2, 8, 12, (20, 8), 5),
        convolution(2, 8, 12, (20, 20), 1),
        convolution(2, 12, 12, (20, 20), 5, groups=12),
    ],
    ids=["whole vectors", "several rows in a vector", "rows without padding", "depthwise"],
)
def test_other_convolutions_are_no_such_plans(function):
    assert not isinstance(plan_of(function), CollapsedPlan)


def test_a_unit_computes_some_rows_in_some_channels():
    (_, kernel) = lower_function(convolution(2, 8, 12, (20, 20), 5), AVX512).kernels
    plan = plan_of(convolution(2, 8, 12, (20, 20), 5))
    assert kernel.unit.extent == 2 * (20 // plan.rows) * -(-12 // plan.gemm.tile.rows)
    (sums,) = kernel.scratch
    assert sums.size == plan.gemm.tile.rows * 240


#: Batch, channels in and out, size, window, groups, dilation: remainders of channels, rows, and columns.
CASES = [
    (2, 3, 7, (13, 13), 3, 1, 1),
    (1, 5, 19, (37, 18), 5, 1, 1),
    (3, 6, 4, (9, 20), 3, 2, 1),
    (2, 4, 33, (7, 7), 7, 1, 1),
    (2, 3, 5, (19, 21), 3, 1, 2),
    (1, 2, 3, (41, 35), 5, 1, 1),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_results_and_gradients_agree_with_the_reference(level, case, monkeypatch):
    monkeypatch.setattr(costs, "COLLAPSED_COST", 0.0)  # wherever rows leave lanes idle
    agrees_with_gradients(convolution(*case), level, case[2])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_have_the_bits_of_a_gemm(case, monkeypatch):
    monkeypatch.setattr(costs, "COLLAPSED_COST", 0.0)
    monkeypatch.setattr(schedules, "_split_k", lambda *_: None)
    monkeypatch.setattr(schedules, "_winograd", lambda *_: None)
    function = convolution(*case)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    made = compile(function, options=OPTIONS)(*arrays)
    assert isinstance(plan_of(function), CollapsedPlan)
    monkeypatch.setattr(schedules, "plan_collapsed", lambda *_: None)
    assert isinstance(plan_of(function), GemmPlan)
    np.testing.assert_array_equal(compile(function, options=OPTIONS)(*arrays), made)
