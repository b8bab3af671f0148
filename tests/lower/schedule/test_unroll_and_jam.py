"""Blocks of rows in a unit: which kernels are unrolled and jammed, and that a row's bits stay the same."""

from math import ceil

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile, host
from adjoint.ir import Function, param
from adjoint.kernel.ir import For, Kernel, When
from adjoint.kernel.printer import print_kernel
from adjoint.lower.passes import KERNEL_PASSES
from adjoint.pipeline import lower_function
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph
from tests.hardware import levels
from tests.lower.contractions.test_contractions import OPTIONS


def units(result, *params):
    """Units of each kernel of a function."""
    return [k.unit.extent for k in lower_function(Function("f", params, (result,)), host()).kernels]


def steps(kernel: Kernel):
    """The loops over the rows of a unit."""
    return [(s.var.extent, s.kind) for s in kernel.body if isinstance(s, For) and s.var.name == "r"]


def test_softmax_goes_step_by_step():
    """Maximum, sum, its logarithm for all rows at once, and the result."""
    x = param("x", (256, 40))
    lanes = host().lanes(x.dtype)
    rows = min(lanes, 8)
    (kernel,) = lower_function(Function("f", (x,), (ops.softmax(x),)), host()).kernels
    assert kernel.unit.extent == 256 // rows
    loops = [(rows, kind) for kind in ("serial", "vector", "serial", "vector", "serial")]
    assert steps(kernel) == loops, print_kernel(kernel)


@pytest.mark.parametrize("rows", [31, 64])
def test_few_rows_are_units(rows):
    """64 rows by 4 would leave 16 units for threads."""
    x = param("x", (rows, 40))
    assert units(ops.softmax(x), x) == [rows]


@pytest.mark.parametrize("rows", [257, 266])
def test_a_number_of_rows_that_few_numbers_divide_leaves_a_shorter_block(rows):
    x = param("x", (rows, 40))
    (kernel,) = lower_function(Function("f", (x,), (ops.softmax(x),)), host()).kernels
    together = min(host().lanes(x.dtype), 8)
    assert kernel.unit.extent == ceil(rows / together)
    (choice,) = kernel.body
    assert isinstance(choice, When)
    assert (choice.low, choice.high) == (0, rows // together)
    assert {loop.var.extent for loop in choice.then} == {together}
    assert {loop.var.extent for loop in choice.other} == {rows % together}


def test_rows_of_a_unit_stay_in_the_first_level_cache():
    x = param("x", (256, 5000))
    assert units(ops.sum(x, axis=1), x) == [256]


def test_numbers_that_choose_what_is_read_are_read_row_by_row():
    """A row's element is picked by an integer from memory, which no rewriting of indices reaches."""
    x, ids = param("x", (256, 40)), param("ids", (256,), "i64")
    picked = ops.take_along_last(x, ids)
    assert units(ops.subtract(picked, ops.sum(x, axis=1)), x, ids) == [256]


def test_columns_are_no_rows():
    x = param("x", (40, 4096))
    before = units(ops.sum(x, axis=0), x)
    assert before == [4096 // (2 * host().lanes(x.dtype))]


def network(shape):
    """Softmax, layer norm, extremes and the gradients of all: sums, a logarithm, a root, a quotient of every row."""
    x = param("x", shape)
    soft = ops.softmax(ops.multiply(x, 3.0))
    mixed = ops.multiply(ops.layer_norm(soft), ops.sin(x))
    high = ops.divide(ops.max(x, axis=-1), ops.logsumexp(ops.square(x), axis=-1))
    total = ops.add(ops.sum(mixed), ops.sum(high))
    return gradient(Function("loss", (x,), (total,)), ("x",))


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("shape", [(256, 33), (4, 48, 7), (128, 200), (160, 1), (257, 33), (7, 45, 5)])
def test_the_bits_of_a_row_stay_what_they_were(level, shape, monkeypatch):
    array = np.random.default_rng(0).standard_normal(shape).astype("f4")
    function = network(shape)
    together = compile(function, level, OPTIONS)
    monkeypatch.setitem(KERNEL_PASSES, "unroll_and_jam", lambda kernels, _: list(kernels))
    apart = compile(function, level, OPTIONS)
    fewer = [a.units < b.units for a, b in zip(together.kernels, apart.kernels, strict=True)]
    assert any(fewer) or shape[-1] == 1
    for got, want in zip(together(array), apart(array), strict=True):
        np.testing.assert_array_equal(got.view("u4"), want.view("u4"))


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("rows", [192, 197])
def test_rows_agree_with_the_reference(level, rows):
    function = network((rows, 65))
    array = np.random.default_rng(1).standard_normal((rows, 65)).astype("f4")
    agrees_with_graph(compile(function, level, OPTIONS)(array), function, array)


def test_doubles_and_floats_in_one_step():
    """As many rows as the wider ones have lanes."""
    x = param("x", (256, 20), "f64")
    y = ops.cast(ops.sqrt(ops.sum(ops.square(x), axis=1)), "f32")
    function = Function("f", (x,), (y,))
    array = np.random.default_rng(2).standard_normal((256, 20))
    agrees_with_graph(compile(function, options=OPTIONS)(array), function, array)
