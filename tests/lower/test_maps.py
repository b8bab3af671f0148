"""Elementwise kernels: axes cut where a choice by position changes."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile, host, lower_function
from adjoint.ir import Function, param
from adjoint.kernel.printer import print_kernel
from adjoint.testing import interpret
from tests.codegen.test_targets import levels
from tests.lower.test_contractions import OPTIONS


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


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(
    ("shape", "low", "high", "interior"),
    [
        ((4, 8, 5, 7), (0, 0, 1, 2), (0, 0, 3, 0), (0, 0, 0, 0)),
        ((4, 8, 5, 7), (0, 0, 1, 1), (0, 0, 1, 1), (0, 0, 1, 1)),
        ((16, 3), (0, 20), (0, 1), (0, 0)),
        ((3, 40, 33), (1, 0, 1), (0, 0, 1), (0, 0, 0)),
        ((2, 40, 1), (0, 0, 1), (0, 0, 1), (0, 0, 2)),
    ],
)
def test_pads_agree_with_the_reference(level, shape, low, high, interior):
    x = param("x", shape)
    padded = ops.pad(ops.exp(x), low, high, 2.0, interior)
    function = Function("f", (x,), (ops.multiply(padded, 3.0),))
    array = np.random.default_rng(0).standard_normal(shape).astype("f4")
    (want,) = interpret(function, array)
    np.testing.assert_allclose(compile(function, level, OPTIONS)(array), want, rtol=1e-6)
