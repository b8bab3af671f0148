"""Phases of rows: when rows are copied, what a tap reads, and results where images end anywhere in a vector."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.kernel.index import as_index
from adjoint.lower.contractions import schedules
from adjoint.lower.contractions.depthwise import DepthwisePlan
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.hardware import shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, agrees_with_gradients


def strided(batch, channels, size, window, pads=None, image=None):
    """A depthwise convolution whose windows move by two."""
    x, w = param("x", (batch, channels, *size)), param("w", (channels, 1, *window))
    pads = tuple(extent // 2 for extent in window) if pads is None else pads
    y = ops.conv2d(x if image is None else image(x), w, stride=2, padding=pads, groups=channels)
    return Function("f", (x, w), (ops.relu(y) + y,))


def plan_of(function):
    function = after_graph_passes(function)
    (made,) = contractions_of(function, AVX512, value_names(function))[1].values()
    return made.plan


def test_windows_that_move_by_two_columns_read_phases():
    plan = plan_of(strided(2, 8, (88, 88), (5, 5)))
    assert isinstance(plan, DepthwisePlan)
    phases = plan.phases
    assert phases.pitch == 48  # 44 columns and two taps beyond them
    assert phases.rows(3) == 9
    buffer = phases.buffer(3)
    starts = [phases.load(buffer, 1, as_index(tap), as_index(0)).index.constant for tap in range(5)]
    assert starts == [96, 144, 97, 145, 98]


def test_windows_that_move_by_one_column_do_not():
    x, w = param("x", (2, 8, 88, 88)), param("w", (8, 1, 5, 5))
    plan = plan_of(Function("f", (x, w), (ops.conv2d(x, w, padding=2, groups=8),)))
    assert isinstance(plan, DepthwisePlan)
    assert plan.phases is None


def test_rows_are_copied_from_the_image_without_its_border():
    (kernel,) = lower_function(strided(2, 8, (88, 88), (5, 5)), AVX512).kernels
    assert {b.name for b in kernel.reads} == {"x", "w"}
    assert "phases" in {b.name for b in kernel.scratch}


#: Batch, channels, size, window, pads: tiles with a remainder, several panels, odd sizes, no border, lopsided windows.
CASES = [
    (2, 3, (40, 40), (5, 5), None),
    (1, 5, (23, 37), (3, 3), None),
    (2, 2, (19, 150), (7, 7), None),
    (1, 4, (31, 33), (3, 3), (0, 0)),
    (2, 3, (20, 45), (3, 5), (1, 0)),
    (1, 2, (30, 31), (5, 3), (2, 2)),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_results_and_gradients_agree_with_the_reference(level, case):
    agrees_with_gradients(strided(*case), level, case[1])


@pytest.mark.parametrize("image", [None, ops.relu], ids=["in memory", "computed"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_have_the_bits_of_a_gemm(case, image, monkeypatch):
    function = strided(*case, image)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    made = compile(function, options=OPTIONS)(*arrays)
    assert plan_of(function).phases is not None
    for name in ("plan_depthwise_lanes", "plan_depthwise", "plan_collapsed", "plan_channel_lanes"):
        monkeypatch.setattr(schedules, name, lambda *_: None)
    assert isinstance(plan_of(function), GemmPlan)
    np.testing.assert_array_equal(compile(function, options=OPTIONS)(*arrays), made)
