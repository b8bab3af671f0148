"""Machines with other numbers of cores: they share work differently, and compute the same bits."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.targets import host_target
from adjoint.compiler import CompileOptions, compile
from adjoint.ir import Function, apply, param
from adjoint.ir.printer import value_names
from adjoint.lower.contractions.channel_lanes_plan import ChannelLanesPlan
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan
from adjoint.lower.contractions.split_k_plan import SplitKPlan
from adjoint.lower.program import contractions_of
from adjoint.lower.winograd.plan import WinogradPlan
from adjoint.lower.winograd.weight_gradient_plan import WinogradGradientPlan
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import lower_function
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph
from tests.runtime.networks import NETWORKS, batches, module_of

CORES = (1, 16, 64)


def on(cores):
    return replace(host_target(), cores=cores)


def arrays_of(function, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(1, 5, p.shape).astype(p.dtype)
        if p.dtype.kind == "i"
        else rng.uniform(0.01, 0.1, p.shape).astype(p.dtype)
        for p in function.params
    ]


def run(function, cores, arrays, threads=3):
    results = compile(function, on(cores), CompileOptions(cache=False, threads=threads))(*(a.copy() for a in arrays))
    return results if isinstance(results, list | tuple) else (results,)


def bits(results):
    return [np.asarray(result).tobytes() for result in results]


@cache
def step_of(name):
    """A training step of a network with arguments for it."""
    module = module_of(name)
    step = module["step"]
    ((x, y),) = batches(module, 1)
    given = [np.asarray(a, p.dtype) for a, p in zip((x, y), step.params, strict=False)]
    return step, [*given, *arrays_of(step)[2:]]


@pytest.mark.parametrize("name", NETWORKS)
def test_training_steps_are_equal_for_any_number_of_cores(name):
    step, arrays = step_of(name)
    # Tests of other files compile the step for this machine too, so that it mostly is in the cache.
    want = bits(compile(step, options=CompileOptions(threads=3))(*(a.copy() for a in arrays)))
    for cores in CORES if name in ("mlp", "linreg") else CORES[1:] if name != "resnet8" else CORES[-1:]:
        assert bits(run(step, cores, arrays)) == want, cores


def weight_gradient(images, channels, filters, size, window):
    x, ct = (
        param("x", (images, channels, size + window - 1, size + window - 1)),
        param("ct", (images, filters, size, size)),
    )
    op = Conv2dWeightGradient((1, 1), (0, 0), (1, 1), 1, (window, window))
    return Function("dw", (x, ct), (apply(op, x, ct),))


def plan_on(cores, function):
    _, planned = contractions_of(function, on(cores), value_names(function))
    return next(iter(planned.values())).plan


#: Weight gradients that need row groups on 64 cores: few images, few output channels.
IN_ROW_GROUPS = {
    "split_k": (weight_gradient(16, 6, 16, 10, window=5), SplitKPlan),
    "window": (weight_gradient(8, 3, 16, 32, window=3), SplitKPlan),
    "winograd": (weight_gradient(16, 32, 16, 16, window=3), WinogradGradientPlan),
    "one image": (weight_gradient(1, 48, 32, 16, window=3), WinogradGradientPlan),
}


@pytest.mark.parametrize("name", IN_ROW_GROUPS)
def test_row_groups_share_weight_gradients_among_many_cores(name):
    function, kind = IN_ROW_GROUPS[name]
    few, many = plan_on(2, function), plan_on(64, function)
    assert isinstance(few, kind)
    assert isinstance(many, kind)
    assert few.units >= 2
    assert few.parts == many.parts
    assert many.groups > few.groups
    assert many.units >= 2 * few.units
    arrays = arrays_of(function)
    results = run(function, 64, arrays)
    assert bits(results) == bits(run(function, 2, arrays))
    agrees_with_graph(results, function, *arrays)


def test_groups_of_rows_are_enough_for_many_cores():
    x, w = param("x", (64, 16, 31, 31)), param("w", (128, 16, 11, 11))
    function = Function("convolution", (x, w), (ops.conv2d(x, w, stride=2),))
    few, many = plan_on(2, function), plan_on(64, function)
    assert isinstance(few, ChannelLanesPlan)
    assert isinstance(many, ChannelLanesPlan)
    assert many.units >= 64
    arrays = arrays_of(function)
    assert bits(run(function, 64, arrays)) == bits(run(function, 2, arrays))


def test_weights_packed_by_units_or_as_a_whole_give_the_same_bits():
    """On one core, all rows are a group, which packs its weights; two cores have two such; 16 share packed ones."""
    x, w = param("x", (2, 8, 44, 44)), param("w", (20, 8, 5, 5))
    function = Function("convolution", (x, w), (ops.conv2d(x, w, stride=2),))
    arrays = arrays_of(function)
    results = run(function, 1, arrays)
    for cores in (2, 16):
        assert bits(run(function, cores, arrays)) == bits(results)
    agrees_with_graph(results, function, *arrays)


def test_inner_products_have_smaller_units():
    function = weight_gradient(32, 1, 6, 28, window=5)
    few, many = plan_on(2, function), plan_on(64, function)
    assert isinstance(few, InnerProductPlan)
    assert isinstance(many, InnerProductPlan)
    assert few.inside
    assert not many.inside
    arrays = arrays_of(function)
    assert bits(run(function, 64, arrays)) == bits(run(function, 2, arrays))


@pytest.mark.parametrize(("images", "channels", "size"), [(4, 16, 16), (1, 16, 32), (1, 64, 56)])
def test_winograd_convolutions_of_few_images_have_units_for_all_cores(images, channels, size):
    x, w = param("x", (images, channels, size + 2, size + 2)), param("w", (channels, channels, 3, 3))
    function = Function("convolution", (x, w), (ops.conv2d(x, w),))
    few, many = plan_on(2, function), plan_on(64, function)
    assert isinstance(few, WinogradPlan)
    assert isinstance(many, WinogradPlan)
    assert (few.images, few.rows) == (many.images, many.rows)
    assert few.units >= 4
    assert many.units >= 2 * few.units
    arrays = arrays_of(function)
    results = run(function, 64, arrays)
    assert bits(results) == bits(run(function, 2, arrays))
    agrees_with_graph(results, function, *arrays)


def matrix_product(m, k, n):
    x, w = param("x", (m, k)), param("w", (k, n))
    return Function("product", (x, w), (ops.matmul(x, w),))


def gather_gradient(rows, count, width):
    table, ids, ct = param("table", (rows, width)), param("ids", (count,), "i64"), param("ct", (count, width))
    loss = ops.sum(ops.multiply(ops.take(table, ids), ct))
    return gradient(Function("gather", (table, ids, ct), (loss,)), ("table",))


def column_sums(rows, columns):
    x = param("x", (rows, columns))
    return Function("columns", (x,), (ops.sum(x, axis=0),))


@pytest.mark.parametrize(
    ("function", "least"),
    [
        (matrix_product(64, 784, 128), 64),
        (matrix_product(256, 256, 256), 64),
        (column_sums(2000, 128), 8),
        (gather_gradient(31, 500, 128), 8),
    ],
    ids=["64x784x128", "256x256x256", "columns", "scatter"],
)
def test_kernels_have_more_units_for_more_cores(function, least):
    def units(cores):
        return max(k.unit.extent for k in lower_function(function, on(cores)).kernels)

    assert units(64) >= max(least, units(2))
    arrays = arrays_of(function)
    assert bits(run(function, 64, arrays)) == bits(run(function, 2, arrays))
