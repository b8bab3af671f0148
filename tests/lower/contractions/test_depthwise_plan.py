"""Plans of depthwise convolutions: which images are read in place, and results where these end anywhere in a vector."""

from functools import partial

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.kernel.ir import Load, Store, postorder, roots_of, walk
from adjoint.lower.contractions import depthwise_plan, schedules
from adjoint.lower.contractions.depthwise_plan import DepthwisePlan
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.hardware import SSE2, shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, agrees_with_gradients


def depthwise(batch, channels, size, window, stride=1, pads=None, image=None):
    """A depthwise convolution with a residual and a ReLU."""
    x, w = param("x", (batch, channels, *size)), param("w", (channels, 1, *window))
    pads = tuple(extent // 2 for extent in window) if pads is None else pads
    y = ops.conv2d(x if image is None else image(x), w, stride=stride, padding=pads, groups=channels)
    return Function("f", (x, w), (ops.relu(y) + y,))


def plan_of(function, target=AVX512):
    function = after_graph_passes(function)
    (made,) = contractions_of(function, target, value_names(function))[1].values()
    return made.plan


def in_place(function, target=AVX512):
    plan = plan_of(function, target)
    assert isinstance(plan, DepthwisePlan)
    return plan.image is not None


@pytest.mark.parametrize("stride", [1, 2])
def test_images_in_memory_are_read_without_a_copy(stride):
    (kernel,) = lower_function(depthwise(2, 16, (24, 24), (3, 3), stride), AVX512).kernels
    assert {b.name for b in kernel.reads} == {"x", "w"}
    assert kernel.scratch == ()
    assert kernel.unit.extent == 2 * 16


def test_rows_above_and_below_an_image_are_left_out():
    """The tiles at the top and at the bottom add two of the three rows of a window to one row of theirs."""
    function = depthwise(2, 16, (24, 16), (3, 3))
    (kernel,) = lower_function(function, AVX512).kernels
    plan = plan_of(function)
    sizes = [size for _, _, size in plan.border.tiles(plan.rows)]
    products = [s for s in walk(kernel.body) if isinstance(s, Store) and "x" in map(str, read_by(s))]
    assert len(products) == 3 * sum(sizes) - 2


def read_by(store):
    return [e.buffer for e in postorder(roots_of(store)) if isinstance(e, Load)]


def test_few_images_are_tiles_for_all_threads():
    assert not in_place(depthwise(1, 8, (64, 64), (3, 3)))


def test_without_masked_loads_only_every_second_element_is_read_in_place():
    assert not in_place(depthwise(2, 16, (24, 24), (3, 3)), SSE2)
    assert in_place(depthwise(2, 16, (24, 24), (3, 3), 2), SSE2)


def test_what_is_computed_on_the_way_is_padded():
    assert not in_place(depthwise(2, 16, (24, 24), (3, 3), image=ops.relu))


def test_rows_that_no_tile_holds_are_padded():
    assert not in_place(depthwise(2, 16, (8, 700), (3, 3)))


#: Batch, channels, size, window, stride, pads: tiles with a remainder, odd sizes, no border, lopsided windows.
CASES = [
    (2, 8, (24, 24), (3, 3), 1, None),
    (1, 17, (23, 37), (3, 3), 1, None),
    (2, 9, (7, 90), (5, 5), 1, (2, 2)),
    (1, 16, (9, 7), (7, 7), 1, None),
    (2, 8, (20, 21), (3, 5), 1, (0, 1)),
    (1, 16, (12, 13), (4, 2), 1, (3, 1)),
    (2, 9, (20, 40), (5, 5), 2, None),
    (1, 17, (23, 37), (3, 3), 2, None),
    (2, 8, (13, 150), (5, 7), 2, None),
    (1, 16, (31, 33), (3, 3), 2, (0, 0)),
    (2, 8, (20, 45), (3, 5), 2, (1, 0)),
    (1, 18, (30, 31), (5, 3), 2, (2, 2)),
    (1, 16, (9, 5), (3, 3), 2, None),
]


@pytest.mark.parametrize(("number", "level"), shared_among_levels(range(len(CASES))), ids=str)
def test_results_and_gradients_agree_with_the_reference(level, number):
    agrees_with_gradients(depthwise(*CASES[number]), level, number)


@pytest.mark.parametrize(("number", "computed"), [*((n, False) for n in range(len(CASES))), (0, True), (6, True)])
def test_results_have_the_bits_of_a_gemm(number, computed, monkeypatch):
    function = depthwise(*CASES[number], ops.relu if computed else None)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    own = partial(compile, options=OPTIONS)
    monkeypatch.setattr(schedules, "plan_depthwise_lanes", lambda *_: None)
    assert isinstance(plan_of(function), DepthwisePlan)
    made = own(function)(*arrays)
    monkeypatch.setattr(depthwise_plan, "_image_in_place", lambda *_: None)
    np.testing.assert_array_equal(own(function)(*arrays), made)
    monkeypatch.setattr(schedules, "plan_depthwise", lambda *_: None)
    np.testing.assert_array_equal(own(function)(*arrays), made)
