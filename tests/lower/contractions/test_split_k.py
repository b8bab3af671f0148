"""Split-K and M-blocked contractions: what is planned so, and the results at every vector width."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.codegen.targets import target_for
from adjoint.codegen.transpose import match_transpose
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import Function, apply, param
from adjoint.kernel.ir import For, walk
from adjoint.lower.contractions import schedules
from adjoint.lower.contractions.split_k_plan import SplitKPlan, plan_split_k
from adjoint.lower.program import contractions_of
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph
from tests.hardware import needs, shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, contraction_of


def weight_gradient(batch, channels, out, size, window, stride=1, dilation=1):
    """The gradient of a convolution's weight, from the images and the cotangent."""
    result = (size - (window - 1) * dilation - 1) // stride + 1
    x, ct = param("x", (batch, channels, size, size)), param("ct", (batch, out, result, result))
    op = Conv2dWeightGradient((stride,) * 2, (0, 0), (dilation,) * 2, 1, (window, window))
    return Function("dw", (x, ct), (apply(op, x, ct),))


def _plan(function, target):
    function = after_graph_passes(function)
    (made,) = contractions_of(function, target, value_names(function))[1].values()
    return made.plan


def planned_gradient(*args, **kwargs):
    """The context and the planned contractions of such a gradient."""
    function = after_graph_passes(weight_gradient(*args, **kwargs))
    return contractions_of(function, AVX512, value_names(function))


def gradients_agree(level, batch, channels, out, size, window, stride, padding, dilation=1, groups=1):
    """Compile a convolution and its gradients for that vector width, and compare them with the reference."""
    x, w = param("x", (batch, channels, size, size)), param("w", (out, channels // groups, window, window))
    y = ops.conv2d(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)
    function = gradient(Function("loss", (x, w), (ops.sum(ops.square(y)),)), ("x", "w"))
    rng = np.random.default_rng(size)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


def test_the_gradient_of_a_weight_is_planned_with_lanes_along_channels():
    plan = plan_split_k(AVX512, contraction_of(weight_gradient(64, 16, 32, 10, 3)))
    assert plan is not None
    assert plan.lane.extent == 32
    assert plan.width == 32
    assert np.prod(plan.tile) * plan.vectors + plan.vectors <= AVX512.vector_registers - 1
    assert all(v.extent % t == 0 for v, t in zip(plan.rows, plan.tile, strict=True))


#: AVX-512 on units of 256 bits, as on Zen 4: twice as many narrow vectors start.
SPLIT = replace(AVX512, fma_units=1, load_units=1, datapath_bytes=32)


@pytest.mark.parametrize(("out", "lanes"), [(20, 8), (40, 8), (28, 16), (48, 16)])
def test_narrow_vectors_leave_fewer_lanes_idle_where_more_of_them_start(out, lanes):
    c = contraction_of(weight_gradient(16, 64, out, 14, 3))
    model, plan = plan_split_k(AVX512, c), plan_split_k(SPLIT, c)
    assert model is not None
    assert plan is not None
    assert (plan.lanes, plan.parts, plan.lane) == (lanes, model.parts, model.lane)


def test_narrow_vectors_give_the_same_bits():
    needs("avx512")
    for function in (weight_gradient(2, 24, 20, 48, 11), weight_gradient(3, 36, 40, 61, 3, 2)):
        assert isinstance(_plan(function, SPLIT), SplitKPlan)
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
        wide, narrow = (compile(function, target, OPTIONS)(*arrays) for target in ("avx512", SPLIT))
        np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize(("out", "groups"), [(176, 2), (192, 1)])
def test_threads_have_even_shares_where_the_last_panel_is_narrower(out, groups):
    """Of six panels, the last may be half as wide: the first three then take 1.09 times an even share."""
    x, w = param("x", (2, 162, 37, 37)), param("w", (out, 162, 5, 5))
    c = contraction_of(Function("f", (x, w), (ops.conv2d(x, w),)))
    plan = plan_split_k(replace(SPLIT, cores=2), c)
    assert plan is not None
    assert plan.panels == 6
    assert plan.groups == groups


def test_small_weights_are_summed_in_parts_for_threads():
    """Two panels of lanes would be two units of work: parts of the batch make sixteen."""
    plan = plan_split_k(AVX512, contraction_of(weight_gradient(64, 4, 64, 10, 3)))
    panels = -(-64 // plan.width)
    assert plan.parts * panels >= 16
    assert 64 % plan.parts == 0


def test_blocks_divide_what_is_summed_and_fit_a_first_level_cache():
    plan = plan_split_k(AVX512, contraction_of(weight_gradient(8, 16, 16, 66, 3)))
    extents = (8 // plan.parts, 64, 64)
    assert all(e % b == 0 for e, b in zip(extents, plan.blocks, strict=True))
    assert np.prod(plan.blocks) * plan.width * 4 <= 32 * 1024


def test_a_prime_extent_is_divided_into_blocks_of_equal_size_but_the_last():
    """Rows of 17 pixels: one of them would be a block of its own, and sums would be fetched every 17 steps."""
    function = weight_gradient(4, 90, 80, 33, 1, stride=2)
    plan = plan_split_k(AVX512, contraction_of(function))
    assert plan is not None
    assert plan.divided == 1
    images, rows, pixels = plan.blocks
    assert (images, pixels) == (1, 17)
    assert 2 <= rows < 17
    assert prod(plan.blocks) * plan.width * 4 <= costs.l1_bytes(AVX512)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)


def test_large_gradients_that_every_panel_reads_again_do_not_run_as_a_gemm():
    """A GEMM packs them, and reads them from memory for each panel of columns; split-K prefetches what it reads."""
    context, planned = planned_gradient(32, 256, 512, 28, 1, stride=2)
    (made,) = planned.values()
    assert made.contraction.left.buffer.nbytes > costs.l3_block_bytes(context.target)
    assert isinstance(made.plan, SplitKPlan)


def test_few_channels_leave_lanes_idle_and_run_otherwise():
    assert plan_split_k(AVX512, contraction_of(weight_gradient(32, 1, 6, 32, 5))) is None


CASES = [
    (4, 16, 16, 20, 3, 1, 1, 1),
    (6, 5, 24, 9, 3, 2, 1, 1),
    (3, 17, 16, 7, 3, 1, 1, 1),
    (6, 3, 32, 12, 5, 1, 0, 1),
    (2, 32, 48, 7, 3, 1, 1, 1),
    (2, 24, 32, 14, 3, 2, 1, 1),
    (5, 16, 32, 8, 1, 2, 0, 1),
    (3, 40, 8, 37, 1, 2, 0, 1),
    (7, 8, 16, 11, 3, 1, 0, 2),
    (1, 64, 16, 4, 3, 1, 1, 1),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_convolutions_and_their_gradients_agree_with_the_reference(level, case):
    gradients_agree(level, *case)


def test_every_second_element_is_transposed_in_registers():
    """Where windows move by two, as in the shortcuts of a residual network."""
    x, ct = param("x", (2, 104, 41, 41)), param("ct", (2, 40, 21, 21))
    function = Function("dw", (x, ct), (apply(Conv2dWeightGradient((2, 2), (0, 0), (1, 1), 1, (1, 1)), x, ct),))
    loops = [s for k in lower_function(function, AVX512).kernels for s in walk(k.body) if isinstance(s, For)]
    found = [match for loop in loops if (match := match_transpose(loop)) is not None]
    assert {(match.outer.extent, match.inner.extent) for match in found if match.stride == 2} == {(16, 16), (16, 8)}


def test_what_follows_the_sum_sees_the_total_of_the_parts():
    """The update of the weight is done once, behind the last part."""
    made = weight_gradient(64, 4, 64, 10, 3)
    w = param("w", (64, 4, 3, 3))
    new = ops.subtract(w, ops.multiply(made.results[0], 0.5))
    step = Function("step", (*made.params, w), (new,), {"donate": (("w", 0),)})
    first, second = lower_function(step, host()).kernels
    assert first.name.endswith("_sums")
    assert [b.name for b in second.writes] == ["w"]
    rng = np.random.default_rng(0)
    x, ct, old = (rng.standard_normal(p.shape).astype("f4") for p in step.params)
    kept = old.copy()
    compile(step, options=OPTIONS)["step"].bind({"w": kept})(x, ct)
    agrees_with_graph(kept, step, x, ct, old)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_parts_are_added_in_one_order_for_any_number_of_threads(threads):
    function = weight_gradient(64, 16, 16, 12, 3)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    one, many = (compile(function, options=CompileOptions(threads=n))(*arrays) for n in (1, threads))
    np.testing.assert_array_equal(one, many)


def test_results_are_stored_in_the_runs_that_they_have():
    """Images of a block lie far apart in the result: each is stored by vectors of its own, not element by element."""
    x, w = param("x", (8, 256, 16, 16)), param("w", (512, 256, 3, 3))
    function = Function("f", (x, w), (ops.conv2d(x, w, stride=2),))
    *_, end = lower_function(function, target_for("avx512")).kernels
    (result,) = end.writes
    stored = []
    for statement in walk(end.body):
        if isinstance(statement, For) and statement.kind == "vector" and statement.var.extent > 1:
            (store,) = statement.body
            stored += [index.coefficient(statement.var) for buffer, index, _ in store.targets if buffer is result]
    assert stored
    assert set(stored) == {1}


#: Batch, channels, channels of the result, size; panels times groups.
GROUPED = [(4, 128, 256, 28, 32), (8, 128, 248, 28, 64), (4, 128, 264, 27, 36)]


@pytest.mark.parametrize("level", ["avx512", "avx2", "sse2"])
@pytest.mark.parametrize("case", GROUPED, ids=str)
def test_panels_meet_groups_of_images_that_stay_in_cache(level, case, monkeypatch):
    """With the epilogue in the unit, where the last panel is whole and where it is not."""
    monkeypatch.setattr(schedules, "plan_channel_lanes", lambda *_: None)
    batch, channels, out, size, units = case
    x, w, bias = (
        param("x", (batch, channels, size, size)),
        param("w", (out, channels, 3, 3)),
        param("b", (1, out, 1, 1)),
    )
    function = Function("f", (x, w, bias), (ops.relu(ops.add(ops.conv2d(x, w, stride=2, padding=1), bias)),))
    target = target_for(level)
    if level == "avx512":
        pad, panels, products = lower_function(function, target).kernels
        assert panels.name.endswith("_panels")
        assert {b.name for b in products.reads} == {pad.writes[0].name, panels.writes[0].name, "b"}
        assert products.unit.extent == units
    needs(level)
    rng = np.random.default_rng(size)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    got = [compile(function, level, CompileOptions(threads=n))(*arrays) for n in (1, 3)]
    agrees_with_graph(got[0], function, *arrays)
    np.testing.assert_array_equal(*got)


def test_gradients_of_large_weights_meet_groups_of_channels():
    x, ct = param("x", (8, 128, 15, 15)), param("ct", (8, 512, 7, 7))
    function = Function("dw", (x, ct), (apply(Conv2dWeightGradient((2, 2), (0, 0), (1, 1), 1, (3, 3)), x, ct),))
    plan = plan_split_k(AVX512, contraction_of(function))
    assert plan is not None
    assert plan.groups > 1
    assert plan.parts == 1
    assert plan.units == plan.groups * 16
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    got = [compile(function, options=CompileOptions(threads=n))(*arrays) for n in (1, 3)]
    agrees_with_graph(got[0], function, *arrays)
    np.testing.assert_array_equal(*got)


def test_of_equal_tiles_one_reads_few_lines():
    """Fourteen neighbours of one row of an image, not seven rows of two images."""
    x, w = param("x", (8, 128, 30, 30)), param("w", (256, 128, 3, 3))
    plan = plan_split_k(AVX512, contraction_of(Function("f", (x, w), (ops.conv2d(x, w, stride=2),))))
    assert plan is not None
    assert plan.tile == (1, 1, 14)


def test_few_panels_are_divided_evenly_among_cores():
    """Seven panels of channels would be four units for one core and three for the other."""
    function = weight_gradient(2, 48, 217, 38, 7)
    plan = plan_split_k(AVX512, contraction_of(function))
    assert plan is not None
    assert plan.panels * plan.parts == 7
    assert costs.imbalance(AVX512, plan.units) == 1


def test_row_groups_need_not_be_equal():
    """Five parts of 17 tiles are three for one core and two for the other; halves of them are five for each."""
    function = weight_gradient(25, 34, 29, 50, 5)
    target = replace(AVX512, cores=2)
    plan = plan_split_k(target, contraction_of(function))
    assert plan is not None
    tiles = plan.rows[0].extent // plan.tile[0]
    assert (plan.parts, tiles, plan.panels, plan.groups) == (5, 17, 1, 2)
    assert plan.group_rows == 9 * plan.tile[0]
    small = weight_gradient(5, 34, 29, 41, 7, 2)
    assert _plan(small, target).group_rows == 18
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in small.params]
    agrees_with_graph(compile(small, options=OPTIONS)(*arrays), small, *arrays)
