"""Offsets of lanes against Python's integers, and loads of windows against NumPy."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.module import emit_modules
from adjoint.codegen.strided_loads import contiguous_run, lane_offsets, window_loads
from adjoint.compiler import CompileOptions, compile
from adjoint.ir import Function, apply, param
from adjoint.kernel.index import Dynamic, Var, as_index
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import finish_program, lower_function
from tests.closeness import agrees_with_graph
from tests.hardware import AVX512, shared_among_levels

LANE, OTHER = Var("l", 16), Var("i", 5)


@pytest.mark.parametrize(
    ("index", "meaning"),
    [
        (lambda v: v, lambda i: i),
        (lambda v: v * 3, lambda i: 3 * i),
        (lambda v: v // 2, lambda i: i // 2),
        (lambda v: (v // 8) * 10 + v % 8, lambda i: i // 8 * 10 + i % 8),
        (lambda v: ((v + 3) // 4) * 7, lambda i: (i + 3) // 4 * 7),
        (lambda v: -v, lambda i: -i),
    ],
)
def test_what_a_lane_adds(index, meaning):
    made = index(as_index(LANE)) + as_index(OTHER) * 100 + 7
    assert lane_offsets(made, LANE, 16) == [meaning(i) for i in range(16)]


def test_lanes_that_also_depend_on_something_else_have_no_offsets():
    assert lane_offsets((as_index(LANE) + as_index(OTHER)) // 3, LANE, 16) == []
    assert lane_offsets(as_index(Dynamic(_Reading(LANE), 9)), LANE, 16) == []


class _Reading:
    """Stands for an expression that depends on a variable."""

    def __init__(self, var):
        self.var = var

    def variables(self):
        return frozenset({self.var})


@pytest.mark.parametrize(
    ("offsets", "length"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 8),
        ([0, 1, 2, 3, 10, 11, 12, 13], 4),
        ([0, 1, 5, 6, 2, 3, 9, 10], 2),
        ([0, 2, 4, 6], 1),
        ([5, 5, 5, 5], 1),
    ],
)
def test_lengths_of_runs(offsets, length):
    assert contiguous_run(offsets) == length


@pytest.mark.parametrize(
    "offsets",
    [
        *([step * lane for lane in range(16)] for step in (3, 4, 5, 6, 7, 8)),
        [6 * lane for lane in range(9)],
        [90 - 6 * lane for lane in range(16)],
        [0, 1, 2, 40, 41, 42, 7, 7, 33, 5, 60, 0, 11, 12, 13, 14],
    ],
)
def test_shuffles_of_a_window_pick_every_lane(offsets):
    memory, made = np.arange(max(offsets) + 1), None
    for first, picks in window_loads(offsets, 16, 4):
        one = memory[first : first + 16]
        assert len(one) == 16
        made = np.concatenate([one if made is None else made, one])[picks]
    assert made is not None
    np.testing.assert_array_equal(made[: len(offsets)], offsets)


def test_windows_that_take_too_many_loads_are_gathered():
    assert window_loads([9 * lane for lane in range(16)], 16, 4) == []
    assert window_loads([3 * lane for lane in range(8)], 8, 4) == []


@pytest.mark.parametrize(("step", "level"), shared_among_levels([3, 5, 6, 8, 11]))
@pytest.mark.parametrize("rows", [16, 37])
def test_strided_rows_are_numpys(step, level, rows):
    x = param("x", (rows, step))
    columns = Function("columns", (x,), (ops.sum(ops.multiply(x, x), axis=1),))
    product = Function("product", (x, y := param("y", (step, 1))), (ops.matmul(x, y),))
    rng = np.random.default_rng(step)
    a, b = (rng.integers(-9, 10, size).astype("f4") for size in ((rows, step), (step, 1)))
    options = CompileOptions(threads=1, cache=False)
    np.testing.assert_array_equal(compile(columns, level, options)(a), (a * a).sum(axis=1))
    np.testing.assert_array_equal(compile(product, level, options)(a, b), a @ b)


def test_taps_that_move_by_two_share_what_they_load():
    """Even and odd elements are picked from the same two vectors; the next even ones lack the last of them only."""
    x, ct = param("x", (1, 40, 73, 73)), param("ct", (1, 40, 36, 36))
    op = Conv2dWeightGradient((2, 2), (0, 0), (1, 1), 40, (3, 3))
    program = finish_program(lower_function(Function("dw", (x, ct), (apply(op, x, ct),)), AVX512))
    blocks = "".join(emit_modules(program, AVX512)).split("br label")
    products = max(blocks, key=lambda block: block.count("@llvm.fmuladd"))
    assert products.count("@llvm.fmuladd") == 9
    # Two vectors in each row of the window, the gradient, and the sums.
    assert products.count("load <16 x float>") == 3 * 2 + 1 + 9
    # The third tap of a row needs one element more; where a row begins with an odd element, so does the second.
    assert products.count("load float") == products.count("select <16 x i1>") == 4


def test_a_few_lanes_beside_zeros_are_inserted_one_by_one():
    """Of the 17 columns of the result, two vectors hold 16; the last one reads two elements of each row, or one."""
    x, w = param("x", (4, 8, 33, 33)), param("w", (8, 1, 3, 3))
    function = Function("f", (x, w), (ops.conv2d(x, w, stride=2, padding=1, groups=8),))
    text = "".join(emit_modules(finish_program(lower_function(function, AVX512)), AVX512))
    assert "insertelement <16 x float> zeroinitializer" in text
    assert "gather" not in text
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, options=CompileOptions(threads=1, cache=False))(*arrays), function, *arrays)
