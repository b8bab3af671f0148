"""Depthwise convolutions: which rows of the image a tile shares, and results at every vector width."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.lower.contractions import schedules
from adjoint.lower.contractions.depthwise_plan import DepthwisePlan
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.hardware import shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, agrees_with_gradients


def depthwise(batch, channels, size, window, stride=1, dilation=1, out=1):
    """A convolution of each channel with a window of its own, a residual and a ReLU."""
    x, w = param("x", (batch, channels, size, size)), param("w", (channels * out, 1, window, window))
    pad = (window // 2) * dilation
    y = ops.conv2d(x, w, stride=stride, padding=pad, dilation=dilation, groups=channels)
    return Function("f", (x, w), (ops.relu(y) + y,))


def grouped(batch, channels, out, size, window):
    """A convolution of groups of channels, with one result each."""
    x, w = param("x", (batch, channels, size, size)), param("w", (out, channels // out, window, window))
    return Function("f", (x, w), (ops.relu(ops.conv2d(x, w, padding=window // 2, groups=out)),))


def plan_of(function):
    function = after_graph_passes(function)
    (made,) = contractions_of(function, AVX512, value_names(function))[1].values()
    return made.plan


def rows_read(readers):
    return [dict(one) for one in readers]


def test_a_row_of_the_image_is_read_once_for_all_windows_that_contain_it():
    plan = plan_of(depthwise(1, 32, 40, 3))
    assert isinstance(plan, DepthwisePlan)
    assert rows_read(plan.readers(2)) == [{0: 0}, {0: 1, 1: 0}, {0: 2, 1: 1}, {1: 2}]


def test_windows_that_move_by_two_or_are_dilated_share_fewer_rows():
    strided, dilated = plan_of(depthwise(1, 32, 80, 3, stride=2)), plan_of(depthwise(1, 32, 40, 3, dilation=2))
    assert rows_read(strided.readers(2)) == [{0: 0}, {0: 1}, {0: 2, 1: 0}, {1: 1}, {1: 2}]
    assert rows_read(dilated.readers(3)) == [{0: 0}, {1: 0}, {0: 1, 2: 0}, {1: 1}, {0: 2, 2: 1}, {1: 2}, {2: 2}]


def test_rows_shorter_than_a_vector_are_shared_too():
    plan = plan_of(depthwise(4, 16, 5, 3))
    assert isinstance(plan, DepthwisePlan)
    assert (plan.rows, plan.vectors, plan.lanes) == (5, 1, 8)


def test_one_result_may_be_the_sum_of_several_channels():
    plan = plan_of(grouped(2, 12, 4, 24, 5))
    assert isinstance(plan, DepthwisePlan)
    assert [v.extent for v in plan.contraction.k] == [3, 5, 5]


def test_tiles_of_large_windows_have_several_rows():
    plan = plan_of(depthwise(1, 32, 96, 7))
    assert isinstance(plan, DepthwisePlan)
    assert plan.rows > 1
    assert plan.rows * plan.vectors >= 8


@pytest.mark.parametrize(
    "function",
    [depthwise(1, 16, 40, 3, out=2), depthwise(1, 8, 64, 31), depthwise(1, 8, 70, 3, stride=3)],
    ids=["several windows for each channel", "too large to unroll", "no overlap"],
)
def test_other_convolutions_are_no_such_plans(function):
    assert not isinstance(plan_of(function), DepthwisePlan)


def test_images_are_padded_where_they_are_used_although_tiles_leave_a_remainder():
    """89 rows and columns are tiles of four rows and three vectors, and remainders along both."""
    (kernel,) = lower_function(depthwise(16, 12, 89, 7), AVX512).kernels
    assert kernel.unit.extent == 16 * 12


#: Batch, channels, size, window, stride, dilation: remainders of rows and of vectors along them.
CASES = [
    (2, 5, 19, 3, 1, 1),
    (1, 3, 37, 7, 1, 1),
    (3, 4, 33, 5, 2, 1),
    (2, 3, 41, 3, 1, 2),
    (1, 2, 45, 3, 2, 3),
    (2, 24, 89, 3, 1, 1),
    (3, 7, 6, 5, 2, 1),
]

#: Batch, channels, results, size, window: several channels in a sum.
GROUPED = [(2, 15, 5, 21, 3), (3, 8, 4, 7, 5)]

FUNCTIONS = [*(depthwise(*case) for case in CASES), *(grouped(*case) for case in GROUPED)]
NAMES = [*map(str, CASES), *(f"groups {case}" for case in GROUPED)]


@pytest.mark.parametrize(("number", "level"), shared_among_levels(range(len(FUNCTIONS))), ids=str)
def test_results_and_gradients_agree_with_the_reference(level, number):
    agrees_with_gradients(FUNCTIONS[number], level, number)


@pytest.mark.parametrize("function", FUNCTIONS, ids=NAMES)
def test_results_have_the_bits_of_a_gemm(function, monkeypatch):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    made = compile(function, options=OPTIONS)(*arrays)
    assert isinstance(plan_of(function), DepthwisePlan)
    monkeypatch.setattr(schedules, "plan_depthwise", lambda *_: None)
    assert "depthwise" not in str(plan_of(function))
    np.testing.assert_array_equal(compile(function, options=OPTIONS)(*arrays), made)
