"""Elementwise kernels: loops are split where a choice by position changes."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile, host
from adjoint.ir import Function, param
from adjoint.kernel.printer import print_kernel
from adjoint.pipeline import lower_function
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph
from tests.hardware import levels
from tests.lower.contractions.test_contractions import OPTIONS


def text(function):
    (kernel,) = lower_function(function, host()).kernels
    return print_kernel(kernel)


def test_a_pad_compares_nothing_and_masks_nothing():
    x = param("x", (4, 8, 32, 32))
    made = text(Function("f", (x,), (ops.pad(x, (0, 0, 1, 1), (0, 0, 1, 1)),)))
    assert "select" not in made
    assert " if " not in made
    assert made.count("x[") == 1


def test_pieces_beside_each_other_are_read_without_a_choice():
    x, y = param("x", (32, 5), "f32"), param("y", (32, 40))
    made = text(Function("f", (x, y), (ops.concat(x, y, axis=1),)))
    assert "select" not in made


def test_where_threads_would_have_no_units_positions_are_compared():
    x = param("x", (100_000,))
    assert "select" in text(Function("f", (x,), (ops.pad(x, (1,), (1,)),)))


def test_zeros_between_elements_need_no_guard():
    """What stands at ``i // 2`` is inside the operand also where i is odd, and the 0 is chosen there."""
    x = param("x", (4, 8, 16, 16))
    between = ops.pad(x, (0, 0, 0, 1), (0, 0, 1, 0), interior=(0, 0, 1, 1))
    made = text(Function("f", (x,), (between,)))
    assert "select" in made
    assert " if " not in made
    assert made.count("for l ") == 2, "a row of each remainder, and nothing is cut at the border: remainders say all"


def test_rows_are_not_chosen_by_their_remainder():
    x, y = param("x", (64, 9, 11)), param("y", (64, 8, 11))
    rows = ops.add(ops.pad(x, 0, 0, interior=(0, 1, 0)), ops.pad(y, (0, 1, 0), (0, 1, 0), interior=(0, 1, 0)))
    made = text(Function("f", (x, y), (rows,)))
    assert "select" not in made
    assert "if 0 <= (u) % 9 < 8" in made, "the last unit of an image has one row"


def test_what_may_lie_outside_keeps_its_guard():
    """Two zeros behind the last element: there, ``i // 2`` is the element after it."""
    x = param("x", (100_000,))
    assert " if " in text(Function("f", (x,), (ops.pad(x, (0,), (2,), interior=(1,)),)))


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("size", [(12, 24), (7, 11)])
def test_the_gradient_of_an_image_at_a_stride_is_put_together(size, stride):
    x, w = param("x", (3, 4, *size)), param("w", (5, 4, 3, 3))
    loss = ops.sum(ops.square(ops.conv2d(ops.relu(x), w, stride=stride, padding=1)))
    function = gradient(Function("loss", (x, w), (loss,)), ("x",))
    rng = np.random.default_rng(stride)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(
    ("shape", "low", "high", "interior"),
    [
        ((4, 8, 5, 7), (0, 0, 1, 2), (0, 0, 3, 0), (0, 0, 0, 0)),
        ((4, 8, 5, 7), (0, 0, 1, 1), (0, 0, 1, 1), (0, 0, 1, 1)),
        ((16, 3), (0, 20), (0, 1), (0, 0)),
        ((3, 40, 33), (1, 0, 1), (0, 0, 1), (0, 0, 0)),
        ((2, 40, 1), (0, 0, 1), (0, 0, 1), (0, 0, 2)),
        ((4, 8, 5, 8), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 1, 1)),
        ((20, 6, 16), (0, 2, 1), (0, 1, 1), (0, 1, 2)),
        ((20, 16), (0, 4), (0, 0), (0, 1)),
        ((20, 9), (0, 1), (0, 5), (0, 2)),
    ],
)
def test_pads_agree_with_the_reference(level, shape, low, high, interior):
    x = param("x", shape)
    padded = ops.pad(ops.exp(x), low, high, 2.0, interior)
    function = Function("f", (x,), (ops.multiply(padded, 3.0),))
    array = np.random.default_rng(0).standard_normal(shape).astype("f4")
    agrees_with_graph(compile(function, level, OPTIONS)(array), function, array)


@pytest.mark.parametrize("shape", [(1, 0, 3), (0, 1, 3), (2, 0, 5), (0,), (3, 0)])
def test_empty_results_with_more_axes_than_their_operand_compile(shape):
    x = param("x", (3, 3))
    function = Function("f", (x,), (ops.reshape(ops.slice(x, (0, 0), (0, 3)), shape),))
    array = np.ones((3, 3), np.float32)
    assert compile(function, options=OPTIONS)(array).shape == shape
