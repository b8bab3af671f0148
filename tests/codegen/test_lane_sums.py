"""Sums of lanes of several vectors: where they are made together, and that the bits are those of a tree for each."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.lane_sums import match_lane_sums
from adjoint.codegen.targets import target_for
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.kernel.ir import For, walk
from adjoint.kernel.parser import parse_kernel
from adjoint.kernel.printer import print_kernels
from adjoint.pipeline import lower_function
from tests.closeness import agrees_with_graph
from tests.golden.running import in_order
from tests.hardware import levels
from tests.lower.contractions.test_contractions import OPTIONS

PATTERN = """
kernel y: computes %y
  1 units, on one thread; 0 flops, 0 bytes
  reads x f32[64]; writes y f32[4]; registers part f32[{size}], result f32[4]
  for u in 0..1 units:
    for j in 0..{count} {kind}:
      for l in 0..16 vector:
        part[l] = x[{place}]
      result[{to}] = across(add, part[0..{lanes}] in {width} lanes)
    for j.1 in 0..4 unroll:
      y[j.1] = result[j.1]
"""
USUAL = {"size": 16, "count": 4, "kind": "unroll", "place": "j*16 + l", "to": "j", "lanes": 16, "width": 16}


def matched(**changes):
    kernel = parse_kernel(PATTERN.format(**USUAL | changes).strip())
    return [match for s in walk(kernel.body) if isinstance(s, For) and (match := match_lane_sums(s)) is not None]


def test_vectors_of_an_unrolled_loop_are_added_up_together():
    (match,) = matched()
    assert match.outer.extent == 4
    assert match.inner.extent == 16


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "interleave"},
        {"count": 1},
        {"to": "0"},
        {"place": "j + l*4"},
        {"lanes": 9},
        {"size": 32, "width": 32},
    ],
)
def test_anything_else_is_added_up_one_by_one(changes):
    assert matched(**changes) == []


def linear(rows, depth, columns):
    x, w, b = param("x", (rows, depth)), param("w", (columns, depth)), param("b", (columns,))
    return Function("linear", (x, w, b), (ops.relu(ops.add(ops.matmul(x, w, transpose_b=True), b)),))


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(("rows", "columns"), [(1, 40), (2, 3), (3, 5), (4, 9), (5, 34), (7, 1), (12, 15)])
def test_products_have_the_bits_of_their_kernels(level, rows, columns):
    """One to eight columns of a tile, in the rests of rows and columns too; the interpreter adds lanes one by one.

    Weights are powers of 2, so that a product is exact, and added with one rounding whether it is fused or not.
    """
    function = linear(rows, 100, columns)
    kernels = lower_function(function, target_for(level)).kernels
    assert "across(add" in print_kernels(kernels)
    rng = np.random.default_rng(rows)
    x, w, b = function.params
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in (x, w, b)]
    arrays[1] = (rng.choice([-1.0, 1.0], w.shape) * 2.0 ** rng.integers(-3, 4, w.shape)).astype("f4")
    external = {b: arrays["xwb".index(b.name)].ravel() for k in kernels for b in k.reads if b.name in ("x", "w", "b")}
    external |= {b: np.zeros(b.size, "f4") for k in kernels for b in k.writes}
    wanted = in_order(kernels, external)["result0"].reshape(rows, columns)
    np.testing.assert_array_equal(compile(function, level, OPTIONS)(*arrays), wanted)


@pytest.mark.parametrize("dtype", ["f64", "f16"])
def test_other_dtypes(dtype):
    x, w = param("x", (3, 200), dtype), param("w", (21, 200), dtype)
    function = Function("f", (x, w), (ops.matmul(x, w, transpose_b=True),))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype(p.dtype) for p in function.params]
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)


def test_a_result_that_is_turned_afterwards_is_stored_element_by_element():
    x, w = param("x", (3, 200)), param("w", (21, 200))
    function = Function("f", (x, w), (ops.permute(ops.matmul(x, w, transpose_b=True), (1, 0)),))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)
