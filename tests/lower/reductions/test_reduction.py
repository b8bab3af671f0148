"""Reductions of few results of many elements: two stages, enough units for many threads, the same bits everywhere."""

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import DTYPES, Function, param
from adjoint.kernel.printer import print_kernel
from adjoint.pipeline import lower_function
from tests.closeness import agrees_with_graph, within
from tests.hardware import levels, missing

#: Levels with fused multiply-adds, which give the same bits.
FUSED = [level for level in ("avx512", "avx2") if not missing(level)] or ["host"]
#: Units that a machine with 64 cores needs.
MANY = 64
#: Shape and axes: one result and several, primes, axes that are outermost, innermost, both and in between.
CASES = [
    ((1 << 19,), None),
    ((524287,), None),
    ((1009, 601), None),
    ((7, 100003), None),
    ((3, 90001, 5), 1),
    ((5, 211, 3, 701), (1, 3)),
    ((600, 5, 300), (0, 2)),
    ((200003, 3), 0),
    ((3, 200003), 1),
    ((40000, 40), 0),
    ((20, 300000), 1),
]


def reduced(op, shape, dtype="f32", **attributes):
    x = param("x", shape, dtype)
    return Function("f", (x,), (op(x, **attributes),))


def numbers(shape, dtype="f32", seed=0):
    rng = np.random.default_rng(seed)
    kind = DTYPES[dtype]
    made = rng.integers(-1000, 1000, shape) if kind.kind in "iu" else rng.standard_normal(shape)
    return made.astype(kind)


def run(function, *arrays, level="host", threads=2):
    return compile(function, level, CompileOptions(threads=threads))(*arrays)


def kernels_of(function):
    return lower_function(function, host()).kernels


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_few_results_of_many_elements_have_units_for_many_threads(shape, axis):
    first, *second = kernels_of(reduced(ops.sum, shape, axis=axis))
    assert len(second) == 1
    assert first.parallel
    assert first.unit.extent >= MANY
    # No share is more than twice another one.
    assert first.unit.extent <= 2 * costs.REDUCTION_UNITS


@pytest.mark.parametrize(("shape", "axis"), CASES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_are_within_rounding(shape, axis, keepdims):
    function, x = reduced(ops.sum, shape, axis=axis, keepdims=keepdims), numbers(shape)
    agrees_with_graph(run(function, x), function, x)


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_bits_are_equal_on_any_number_of_threads_and_at_all_widths(shape, axis):
    function, x = reduced(ops.sum, shape, axis=axis), numbers(shape)
    found = {run(function, x, level=level, threads=n).tobytes() for level in FUSED for n in (1, 2, 3, 7)}
    assert len(found) == 1


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(("shape", "axis"), [((300007,), None), ((3, 90001, 5), 1)])
def test_extremes_and_products(level, shape, axis):
    x = numbers(shape)
    for op, numpy in ((ops.max, np.max), (ops.min, np.min)):
        np.testing.assert_array_equal(run(reduced(op, shape, axis=axis), x, level=level), numpy(x, axis))
    near_one = np.exp(0.01 * x)
    function = reduced(ops.prod, shape, axis=axis)
    agrees_with_graph(run(function, near_one, level=level), function, near_one)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(("shape", "axis"), [((300007,), 0), ((3, 90001, 5), 1), ((5, 200003), 1)])
def test_the_first_greatest_wins(level, shape, axis):
    function = reduced(ops.argmax, shape, axis=axis)
    assert len(kernels_of(function)) == 2
    # Few different numbers, so that the greatest is in many parts.
    x = np.round(numbers(shape))
    np.testing.assert_array_equal(run(function, x, level=level), x.argmax(axis))
    for value in (-np.inf, np.nan):
        same = np.full(shape, value, np.float32)
        np.testing.assert_array_equal(run(function, same, level=level), same.argmax(axis))
    x[..., 70001 % shape[-1]] = x[..., 80003 % shape[-1]] = np.nan
    np.testing.assert_array_equal(run(function, x, level=level), x.argmax(axis))


def test_integers_are_exact():
    for dtype in ("i32", "i64"):
        x = numbers((7, 100003), dtype)
        np.testing.assert_array_equal(run(reduced(ops.sum, x.shape, dtype, axis=1), x), x.sum(1, dtype=x.dtype))
        np.testing.assert_array_equal(run(reduced(ops.argmax, x.shape, dtype, axis=1), x), x.argmax(1))


def test_bfloat16_is_rounded_once():
    x = numbers((3, 100003), "bf16")
    found = run(reduced(ops.sum, x.shape, "bf16", axis=1), x)
    want = x.astype(np.float64).sum(1)
    # Parts are kept in float32: only the result is rounded to 8 bits.
    within(found, want, 2.0**-8 * abs(want) + 2.0**-24 * 400 * abs(x.astype(np.float64)).sum(1))


def test_producers_run_in_the_first_stage_and_the_epilogue_in_the_second():
    x, y = param("x", (1 << 19,)), param("y", (1 << 19,))
    loss = ops.sqrt(ops.sum(ops.square(ops.subtract(x, y))))
    function = Function("f", (x, y), (loss,))
    first, second = kernels_of(function)
    assert {b.name for b in first.reads} == {"x", "y"}
    assert [b.size for b in second.reads] == [first.unit.extent]
    arrays = numbers((1 << 19,)), numbers((1 << 19,), seed=1)
    agrees_with_graph(run(function, *arrays), function, *arrays)


def test_equal_parts_of_two_sums_share_their_loads():
    ct, x = param("ct", (4096, 32)), param("x", (4096, 32))
    function = Function("f", (ct, x), (ops.sum(ct, axis=0), ops.sum(ops.multiply(ct, x), axis=0)))
    first = kernels_of(function)[0]
    assert len(first.writes) == 2
    arrays = numbers((4096, 32)), numbers((4096, 32), seed=1)
    agrees_with_graph(run(function, *arrays), function, *arrays)


def test_parts_make_the_error_smaller():
    """One sum after the other, in float32, over a long column: parts add fewer numbers to each partial sum."""
    x = np.random.default_rng(0).uniform(0, 1, (300000, 16)).astype(np.float32)
    want = x.astype(np.float64).sum(0)
    found = run(reduced(ops.sum, x.shape, axis=0), x)
    serial = np.add.accumulate(x, axis=0)[-1]
    assert max(abs(found / want - 1)) < max(abs(serial / want - 1)) / 4


@pytest.mark.parametrize(
    ("shape", "axis"), [((0,), None), ((5, 0), 1), ((5, 0), 0), ((0, 5), 1), ((64, 512), 0), ((16, 131072), 1)]
)
def test_other_reductions_have_one_stage(shape, axis):
    """Nothing to add, few elements, or enough results for the threads of a small machine."""
    function, x = reduced(ops.sum, shape, axis=axis), numbers(shape)
    assert len(kernels_of(function)) == 1
    agrees_with_graph(run(function, x), function, x)


@pytest.mark.parametrize("level", levels())
def test_sums_over_the_rows_of_several_heads_read_vectors(level):
    """The gradient of the bias of a joint projection to queries, keys and values: heads lie apart in memory."""
    x = param("x", (3, 4, 3, 5, 32))
    rows = ops.reshape(ops.transpose(x, (1, 3, 0, 2, 4)), (20, 288))
    function = Function("f", (x,), (ops.sum(rows, axis=0),))
    (kernel,) = kernels_of(function)
    assert "across(" not in print_kernel(kernel), "lanes are neighbouring results, not rows that lie apart"
    agrees_with_graph(run(function, numbers(x.shape), level=level), function, numbers(x.shape))
