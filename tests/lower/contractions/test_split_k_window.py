"""Split-K whose panel is shifted by taps: which axes are windows, what is planned so, and results at every width."""

import numpy as np
import pytest

from adjoint.compiler import CompileOptions, compile
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Load
from adjoint.lower.contractions.split_k_plan import plan_split_k
from adjoint.lower.contractions.split_k_window import Window, packed_steps, panel_step, windows_of
from tests.hardware import shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, contraction_of
from tests.lower.contractions.test_split_k import gradients_agree, weight_gradient

IMAGE, ROW, COLUMN = Var("n", 5), Var("y", 12), Var("x", 12)
CHANNEL, DOWN, RIGHT = Var("c", 20), Var("i", 3), Var("j", 3)


def images(stride=1, dilation=1):
    """Rows and columns of images of 40 x 40 pixels, where windows move by a stride and taps are apart."""
    y = as_index(ROW) * stride + as_index(DOWN) * dilation
    x = as_index(COLUMN) * stride + as_index(RIGHT) * dilation
    index = (as_index(IMAGE) * 20 + as_index(CHANNEL)) * 1600 + y * 40 + x
    return Load(Buffer("image", np.dtype("f4"), 5 * 20 * 1600, "param"), index)


def found(panel):
    return windows_of(panel, (CHANNEL, DOWN, RIGHT), (IMAGE, ROW, COLUMN))


def test_taps_are_windows_along_the_axes_that_they_shift():
    assert found(images()) == (Window(DOWN, ROW, 1, 1, 40), Window(RIGHT, COLUMN, 1, 1, 1))
    assert found(images(stride=2)) == (Window(DOWN, ROW, 1, 2, 40), Window(RIGHT, COLUMN, 1, 2, 1))
    assert found(images(2, 3)) == (Window(DOWN, ROW, 3, 2, 40), Window(RIGHT, COLUMN, 3, 2, 1))


def test_there_are_none_if_lanes_have_no_axis_of_their_own():
    assert windows_of(images(), (DOWN, RIGHT), (IMAGE, ROW, COLUMN)) == ()
    assert windows_of(images(), (CHANNEL,), (IMAGE, ROW, COLUMN)) == ()


def test_a_block_holds_the_steps_of_all_taps():
    """Every element that a tap and a step need is at the place where packing puts it."""
    panel = images(2, 3)
    windows, blocks, k = found(panel), (1, 4, 12), (IMAGE, ROW, COLUMN)
    load, axes, counts = packed_steps(panel, k, blocks, windows)
    assert counts == [1, 3 * 2 + 2 * 3 + 1, 11 * 2 + 2 * 3 + 1]
    for y, x, i, j in np.ndindex(4, 12, 3, 3):
        taps = {DOWN: as_index(i), RIGHT: as_index(j)}
        step = panel_step(k, [as_index(0), as_index(y), as_index(x)], blocks, taps, windows)
        _, down, right = np.unravel_index(step.constant, counts)
        at = {axes[0]: as_index(0), axes[1]: as_index(int(down)), axes[2]: as_index(int(right))}
        wanted = panel.index.substitute({IMAGE: as_index(0), ROW: as_index(y), COLUMN: as_index(x), **taps})
        assert load.index.substitute(at) == wanted


def test_images_are_packed_if_there_are_few_output_channels():
    plan = plan_split_k(AVX512, contraction_of(weight_gradient(5, 472, 6, 33, 7)))
    assert plan is not None
    assert plan.lane.extent == 472
    assert [w.row.extent for w in plan.windows] == [7, 7]
    assert [v.extent for v in plan.rows] == [6, 7, 7]
    vectors = np.prod(plan.tile[1:]) * plan.vectors
    assert plan.tile[0] * vectors + vectors < AVX512.vector_registers


def test_gradients_are_packed_if_there_are_enough():
    plan = plan_split_k(AVX512, contraction_of(weight_gradient(5, 472, 16, 33, 7)))
    assert plan is not None
    assert plan.lane.extent == 16
    assert not plan.windows


#: Batch, channels, those of the result, size, window, stride, padding, dilation, groups.
CASES = [
    (3, 33, 6, 17, 3, 1, 1, 1, 1),
    (2, 17, 1, 21, 5, 1, 2, 1, 1),
    (6, 83, 9, 13, 3, 2, 1, 1, 1),
    (2, 40, 4, 19, 3, 1, 1, 2, 1),
    (3, 48, 6, 11, 3, 1, 1, 1, 3),
    (1, 64, 2, 40, 7, 2, 3, 1, 1),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_convolutions_and_their_gradients_agree_with_the_reference(level, case):
    gradients_agree(level, *case)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_results_are_the_same_bits_for_any_number_of_threads(threads):
    function = weight_gradient(6, 83, 5, 20, 3)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    one, many = (compile(function, options=CompileOptions(threads=n))(*arrays) for n in (1, threads))
    np.testing.assert_array_equal(one, many)
