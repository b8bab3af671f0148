"""Convolutions as GEMMs over pixels: when they are chosen, what their units read, and results."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjoint import costs, ops
from adjoint.codegen.targets import target_for
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.kernel.index import Var
from adjoint.kernel.ir import For, Load, Store, postorder, walk
from adjoint.lower.contractions import schedules
from adjoint.lower.contractions.borders import Border
from adjoint.lower.contractions.kn2row_plan import Kn2RowPlan, ShiftedRows, in_parts, plan_kn2row
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.closeness import agrees_with_graph
from tests.hardware import shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, agrees_with_gradients
from tests.lower.contractions.test_half import HALF, check


def convolution(batch, channels, out, size, window, padding=None, groups=1):
    """The squares of a convolution, and a bias."""
    x, w = param("x", (batch, channels, *size)), param("w", (out, channels // groups, *window))
    pads = [extent // 2 for extent in window] if padding is None else padding
    y = ops.conv2d(x, w, padding=tuple(pads), groups=groups)
    b = param("b", (out, 1, 1))
    return Function("f", (x, w, b), (y * y + b,))


def plan_of(function, target=AVX512):
    function = after_graph_passes(function)
    (made,) = contractions_of(function, target, value_names(function))[1].values()
    return made.plan


def only_this_kind(monkeypatch, rows=None, groups=None):
    """Choose it wherever it is possible, even for short sums; in units of so many rows, and groups of channels."""

    def free(*args):
        plan = plan_kn2row(*args)
        if plan is None:
            return None
        shifted = in_parts(plan.shifted, rows) if rows else plan.shifted
        return replace(plan, cycles=1e-9, shifted=replace(shifted, groups=groups or shifted.groups))

    monkeypatch.setattr(costs, "MIN_KN2ROW_DEPTH", 1)
    monkeypatch.setattr(schedules, "plan_kn2row", free)


@pytest.fixture
def _only_this_kind(monkeypatch):
    only_this_kind(monkeypatch)


@pytest.mark.parametrize(
    "function",
    [
        convolution(8, 64, 2, (17, 17), (5, 5)),
        convolution(8, 64, 1, (56, 56), (3, 3)),
        convolution(32, 336, 4, (13, 13), (5, 5), groups=2),
        convolution(16, 256, 2, (15, 15), (3, 3), padding=(0, 0)),
    ],
    ids=["few channels", "one channel", "groups", "not padded"],
)
def test_few_output_channels_run_as_a_gemm_over_pixels(function):
    assert isinstance(plan_of(function), Kn2RowPlan)


@pytest.mark.parametrize(
    "function",
    [
        convolution(8, 64, 64, (28, 28), (3, 3)),
        convolution(8, 64, 1, (28, 28), (1, 1), padding=(0, 0)),
        convolution(8, 64, 1, (1, 280), (1, 5)),
        convolution(8, 2, 2, (17, 17), (5, 5), groups=2),
    ],
    ids=["many channels", "windows of one", "one row", "depthwise"],
)
def test_other_convolutions_do_not(function):
    assert not isinstance(plan_of(function), Kn2RowPlan)


def test_nothing_is_padded():
    function = convolution(8, 64, 2, (17, 17), (5, 5))
    packs, gemm = lower_function(after_graph_passes(function), AVX512).kernels
    assert packs.name.endswith("_weights")
    assert "x" in {buffer.name for buffer in gemm.reads}
    shifted = plan_of(function).shifted
    assert (shifted.above, shifted.lines, shifted.below) == (2, 17, 2)
    assert shifted.units == gemm.unit.extent == 8


@pytest.mark.usefixtures("_only_this_kind")
@pytest.mark.parametrize(("name", "whole"), [("avx512", True), ("neon", False)])
def test_cpus_without_masks_leave_out_lanes_at_the_ends_of_rows_only(name, whole):
    *_, kernel = lower_function(after_graph_passes(convolution(2, 16, 2, (12, 21), (3, 3))), target_for(name)).kernels
    vectors = [loop for loop in walk(kernel.body) if isinstance(loop, For) and loop.kind == "vector"]
    guarded = [loop.var.extent for loop in vectors if any(load.guard is not None for load in loads_of(loop))]
    assert guarded == ([16, 5] if whole else [1, 1])


def loads_of(loop):
    values = [value for store in loop.body if isinstance(store, Store) for _, _, value in store.targets]
    return [e for e in postorder(values) if isinstance(e, Load) and e.buffer.name == "column"]


@pytest.mark.usefixtures("_only_this_kind")
def test_few_images_are_divided_into_rows():
    plan = plan_of(convolution(1, 64, 2, (64, 64), (3, 3)), replace(target_for("avx512"), cores=8))
    assert isinstance(plan, Kn2RowPlan)
    assert plan.units == 64 // plan.shifted.rows * plan.shifted.groups >= 8
    assert plan.shifted.lines < 64


def test_many_cores_share_output_channels():
    function = convolution(8, 64, 6, (10, 10), (5, 5), padding=(4, 4))
    few, many = (plan_kn2row(*arguments(function, cores)) for cores in (2, 24))
    assert (few.shifted.groups, many.shifted.groups) == (1, 6)
    assert many.units == 48


def arguments(function, cores):
    """What a convolution is planned from, on so many cores."""
    function, found = after_graph_passes(function), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedules, "plan_kn2row", lambda *args: found.append(args))
        contractions_of(function, replace(AVX512, cores=cores), value_names(function))
    context, c = found[0]
    return replace(context, target=replace(AVX512, cores=cores)), c


@given(st.integers(1, 40), st.integers(1, 7), st.integers(-6, 6), st.booleans(), st.data())
def test_each_unit_reads_the_rows_that_its_windows_meet(rows, taps, first, mirrored, data):
    """Whatever a window reads inside the image is read by the unit, and what is outside is a row of zeros."""
    size = data.draw(st.integers(max(1, rows + taps - 20), rows + taps + 4))
    down = Border(Var("y", rows), Var("k", taps), first, 1, -1 if mirrored else 1, size)
    whole = ShiftedRows(None, None, down, down, (), rows, size, 0)
    for some in (n for n in range(1, rows + 1) if rows % n == 0):
        shifted = in_parts(whole, some)
        if shifted is None:
            continue
        for part in range(rows // some):
            for row in range(some):
                for tap in range(taps):
                    line = shifted.line(part, row, tap) - shifted.above
                    at = first + part * some + row + tap * down.step_stride
                    assert -shifted.above <= line < shifted.lines + shifted.below
                    assert (0 <= line < shifted.lines) or not 0 <= at < size
                    assert line + part * shifted.step == at


#: Batch, channels in and out, size, window, padding, groups.
CASES = [
    (2, 9, 2, (13, 13), (5, 5), None, 1),
    (3, 16, 1, (7, 20), (3, 3), None, 1),
    (2, 24, 6, (9, 17), (3, 5), None, 3),
    (1, 8, 3, (33, 18), (3, 3), (0, 0), 1),
    (2, 10, 2, (12, 12), (4, 2), (3, 0), 1),
    (1, 17, 4, (6, 5), (3, 3), (2, 2), 1),
    (2, 8, 2, (24, 40), (7, 7), None, 2),
]


@pytest.mark.usefixtures("_only_this_kind")
@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_results_and_gradients_agree_with_the_reference(level, case):
    assert isinstance(plan_of(convolution(*case)), Kn2RowPlan)
    agrees_with_gradients(convolution(*case), level, case[2])


@pytest.mark.usefixtures("_only_this_kind")
@pytest.mark.parametrize(("padding", "chosen"), [((0, 1, 1), True), (1, False)], ids=["planes", "volumes"])
def test_volumes_are_padded_along_their_first_axis(padding, chosen):
    x, w = param("x", (2, 9, 4, 5, 6)), param("w", (2, 9, 3, 3, 3))
    function = Function("f", (x, w), (ops.conv3d(x, w, padding=padding),))
    assert isinstance(plan_of(function), Kn2RowPlan) == chosen
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)


@pytest.mark.usefixtures("_only_this_kind")
@pytest.mark.parametrize("dtype", HALF)
def test_operands_of_16_bits_are_multiplied_in_float32(dtype):
    def products(dtype):
        x, w = param("x", (2, 24, 14, 11), dtype), param("w", (2, 24, 3, 3), dtype)
        return Function("f", (x, w), (ops.conv2d(x, w, padding=1),))

    function = products(dtype)
    assert isinstance(plan_of(function), Kn2RowPlan)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype(p.dtype) for p in function.params]
    check(compile(function, options=OPTIONS)(*arrays), products, arrays)


def test_results_have_the_same_bits_however_many_units_there_are(monkeypatch):
    function = convolution(2, 32, 4, (40, 23), (5, 5))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    results = []
    for rows, groups in ((40, 1), (20, 1), (8, 2), (40, 4)):
        only_this_kind(monkeypatch, rows, groups)
        assert plan_of(function).units == 2 * 40 // rows * groups
        results.append(compile(function, options=OPTIONS)(*arrays))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
