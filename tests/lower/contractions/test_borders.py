"""Products with the zeros around an image: which they are, and results without them at every vector width."""

import pytest

from adjoint import ops
from adjoint.ir import Function, apply, param
from adjoint.kernel.index import Var
from adjoint.kernel.ir import When, walk
from adjoint.lower.contractions import schedules
from adjoint.lower.contractions.borders import Border
from adjoint.lower.contractions.split_k_plan import SplitKPlan
from adjoint.lower.program import contractions_of
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.hardware import shared_among_levels
from tests.lower.contractions.test_contractions import AVX512
from tests.lower.contractions.test_split_k import gradients_agree


def test_rows_with_the_same_steps_form_a_piece():
    border = Border(Var("i", 5), Var("a", 3), -1, 1, 1, 5)
    assert border.pieces() == [(0, 1, (1, 3)), (1, 3, (0, 3)), (4, 1, (0, 2))]
    assert border.share == 13 / 15


def test_steps_may_run_backwards_and_rows_in_strides():
    """Every second row of an image of four; the last one and its window are outside."""
    border = Border(Var("i", 4), Var("a", 3), 1, 2, -1, 4)
    assert [border.steps(i) for i in range(4)] == [(0, 2), (0, 3), (2, 3), (0, 0)]


def planned(batch, channels, out, size, window):
    x, w = param("x", (batch, channels, size, size)), param("w", (out, channels, window, window))
    function = after_graph_passes(Function("f", (x, w), (ops.conv2d(ops.relu(x), w, padding=window // 2),)))
    (made,) = contractions_of(function, AVX512, value_names(function))[1].values()
    return made.plan


def test_small_images_leave_borders_out_along_both_axes():
    plan = planned(32, 144, 240, 7, 7)
    assert isinstance(plan, SplitKPlan)
    assert {b.row.extent for b in plan.borders} == {7}
    assert plan.tile[1:] == (1, 1)


@pytest.fixture
def sums_alone(monkeypatch):
    """Leave out Winograd's algorithm, which is faster for some of these."""
    monkeypatch.setattr(schedules, "_winograd", lambda *_: None)


@pytest.mark.usefixtures("sums_alone")
def test_large_images_keep_them():
    plan = planned(1, 32, 32, 120, 5)
    assert not getattr(plan, "borders", ())


def weight_gradient(batch, channels, out, size, window):
    x, ct = param("x", (batch, channels, size, size)), param("ct", (batch, out, size, size))
    operator = Conv2dWeightGradient((1, 1), (window // 2, window // 2), (1, 1), 1, (window, window))
    function = after_graph_passes(Function("f", (x, ct), (apply(operator, ops.relu(x), ct),)))
    return contractions_of(function, AVX512, value_names(function)), function


@pytest.mark.usefixtures("sums_alone")
def test_a_divided_axis_leaves_out_rows_in_branches():
    """Blocks have 12 of 24 rows of the image; at the first row of a window, the first three are above the image."""
    (_, found), function = weight_gradient(32, 3, 29, 24, 7)
    (made,) = found.values()
    plan = made.plan
    assert isinstance(plan, SplitKPlan)
    assert plan.blocks[1] < 24
    (border,) = plan.branches
    assert (border.row.extent, border.step.extent) == (7, 24)
    assert not any(b.row is border.row for b in plan.borders)
    kernels = lower_function(function, AVX512).kernels
    branches = [s for k in kernels for s in walk(k.body) if isinstance(s, When) and (s.low, s.high) == (0, 24)]
    assert branches
    assert {(s.index.low, s.index.high) for s in branches} == {(-3, 26)}


#: Batch, channels and those of the result, size, window, stride, groups: borders, prime extents, and groups.
CASES = [
    (12, 16, 16, 5, 5, 1, 1),
    (8, 3, 29, 24, 7, 1, 1),
    (7, 13, 29, 6, 3, 1, 1),
    (3, 32, 40, 7, 5, 2, 2),
    (2, 11, 11, 9, 3, 1, 11),
    (8, 96, 96, 21, 5, 2, 96),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_convolutions_and_their_gradients_agree_with_the_reference(level, case):
    *shape, stride, groups = case
    gradients_agree(level, *shape, stride, padding=shape[-1] // 2, groups=groups)


def test_planes_of_a_depthwise_gradient_are_padded_where_they_are_used():
    """Rows of 40 pixels end in half a vector, whose other lanes are not read: units have planes of their own."""
    x, ct = param("x", (8, 48, 40, 40)), param("ct", (8, 48, 40, 40))
    op = Conv2dWeightGradient((1, 1), (1, 1), (1, 1), 48, (3, 3))
    products, total = lower_function(Function("dw", (x, ct), (apply(op, x, ct),)), AVX512).kernels
    assert products.unit.extent == 8 * 48
    assert {b.name for b in products.reads} == {"x", "ct"}
    assert total.reads == products.writes
