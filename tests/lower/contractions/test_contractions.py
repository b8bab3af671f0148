"""Contractions under every plan against NumPy in float64: in place, packed, transposed, blocked, with remainders."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.targets import target_for
from adjoint.codegen.transpose import match_transpose
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import Function, param
from adjoint.ir.printer import value_names
from adjoint.kernel.ir import For, walk
from adjoint.lower.context import Context
from adjoint.lower.contractions import gemm_plan
from adjoint.lower.contractions.gemm_plan import Form, forms, plan_gemm
from adjoint.lower.contractions.inner_product_sweep_plan import plan_inner_product
from adjoint.lower.contractions.matching import match_contraction
from adjoint.lower.fusion.groups import fuse
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes, lower_function
from adjoint.transforms.differentiate import gradient
from benchmarks.contraction_peers.adjoint import function_of
from benchmarks.random_cases import draw
from tests.closeness import agrees_with_graph, close_to_product
from tests.hardware import AVX2, AVX512, KINDS, SSE2, levels

OPTIONS = CompileOptions(cache=False, threads=2)


def product(m, k, n, transpose_a=False, transpose_b=False, batch=()):
    a = param("a", (*batch, *((k, m) if transpose_a else (m, k))))
    b = param("b", (*batch, *((n, k) if transpose_b else (k, n))))
    return Function("product", (a, b), (ops.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b),))


def contraction_of(function):
    """The contraction that the first group of a function is, or None."""
    (group,) = fuse(function).groups
    slots = lower_function(function, host()).slots
    homes = dict(zip((*function.params, *function.results), slots, strict=True))
    return match_contraction(Context(host(), homes, {}, {}), group)


def agrees_with_gradients(function, level, seed):
    """The result of a function, and the gradients of the sum of its squares, are what their graphs mean."""
    loss = Function("loss", function.params, (ops.sum(ops.square(function.results[0])),))
    backward = gradient(loss)
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    for each in (function, backward):
        agrees_with_graph(compile(each, level, OPTIONS)(*arrays), each, *arrays)


SHAPES = [
    (1, 1, 2),
    (1, 300, 70),
    (64, 784, 128),
    (33, 17, 10),
    (5, 1030, 50),
    (130, 70, 97),
    (16, 512, 1024),
    (48, 2100, 1030),
]


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_products_agree_with_float64(m, k, n, transpose_a, transpose_b):
    function = product(m, k, n, transpose_a, transpose_b)
    rng = np.random.default_rng(m + k + n)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    got = compile(function, options=OPTIONS)(a, b)
    close_to_product(got, a.T if transpose_a else a, b.T if transpose_b else b)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("columns", [2, 3, 5])
def test_rows_of_few_columns_agree_at_every_width(level, columns):
    """Lanes run along the rows, and tiles are transposed in registers, in which most rows of a square are missing."""
    function = product(216, 200, columns, transpose_a=True)
    (kernel,) = lower_function(function, AVX512).kernels
    assert any(isinstance(s, For) and match_transpose(s) for s in walk(kernel.body))
    rng = np.random.default_rng(columns)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    close_to_product(compile(function, level, OPTIONS)(a, b), a.T, b)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(
    ("rows", "steps", "columns"), [(7, 12, 481), (48, 5, 77), (33, 4, 20), (20, 15, 14), (9, 21, 50)]
)
def test_few_steps_are_packed_as_transposes(level, rows, steps, columns):
    """Of a right operand whose rows are along k, shorter than a vector, or a vector and a few elements more."""
    function = product(rows, steps, columns, transpose_b=True, batch=(3,))
    loops = [s for k in lower_function(function, AVX512).kernels for s in walk(k.body) if isinstance(s, For)]
    assert any(match_transpose(loop) for loop in loops)
    rng = np.random.default_rng(rows)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    close_to_product(compile(function, level, OPTIONS)(a, b), a, b.swapaxes(1, 2))


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), (True, True)])
def test_outer_products_have_no_tiles(batch, flags):
    """They write their result row by row, where tiles would write short runs of several rows."""
    function = product(21, 1, 37, *flags, batch=batch)
    assert not contractions_of(function, AVX512, value_names(function))[1]
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    got = compile(function, options=OPTIONS)(a, b)
    close_to_product(got, a.swapaxes(-1, -2) if flags[0] else a, b.swapaxes(-1, -2) if flags[1] else b)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_in_batches_at_every_width(level, transpose_b):
    function = product(19, 45, 33, False, transpose_b, batch=(2, 3))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    close_to_product(compile(function, level, OPTIONS)(a, b), a, b.swapaxes(-1, -2) if transpose_b else b)


@pytest.mark.blas
def test_float64_products():
    a, b = param("a", (21, 40), "f64"), param("b", (31, 40), "f64")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((21, 40)), rng.standard_normal((31, 40))
    made = compile(Function("f", (a, b), (ops.matmul(a, b, transpose_b=True),)), options=OPTIONS)
    close_to_product(made(x, y), x, y.T)


@pytest.mark.blas
def test_an_epilogue_sees_sums_that_waited():
    """The sum over k is blocked here, and the bias must be added once."""
    x, w, b = param("x", (32, 2100)), param("w", (2100, 1030)), param("b", (1030,))
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in (x, w, b)]
    function = Function("f", (x, w, b), (ops.relu(ops.add(ops.matmul(x, w), b)),))
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE2])
@pytest.mark.parametrize(("m", "k", "n"), SHAPES[1:])
def test_tiles_fit_the_registers(target, m, k, n):
    plan = plan_gemm(target, contraction_of(product(m, k, n)))
    # What a single row multiplies needs no registers.
    loaded = plan.tile.vectors if plan.tile.rows > 1 else 0
    assert plan.tile.rows * plan.tile.vectors + loaded < target.vector_registers
    assert plan.lanes <= target.lanes(np.dtype(np.float32))
    assert plan.tile.rows <= m


def test_what_is_packed():
    assert plan_gemm(AVX512, contraction_of(product(64, 784, 128))).form.right == "in place"
    assert plan_gemm(AVX512, contraction_of(product(64, 128, 128, transpose_b=True))).form.right != "in place"
    large = plan_gemm(AVX512, contraction_of(product(128, 4096, 4096)))
    assert large.form.right == "panels"
    assert large.block < 4096


def test_a_sum_of_squares_is_no_contraction():
    x = param("x", (8, 16))
    assert contraction_of(Function("f", (x,), (ops.sum(ops.multiply(x, x), axis=1),))) is None


def test_axes_that_both_factors_walk_as_one_are_merged():
    x, w = param("x", (4, 6, 16)), param("w", (16, 32))
    made = contraction_of(Function("f", (x, w), (ops.matmul(x, w),)))
    assert (made.rows, made.columns, made.depth, made.batch) == (24, 32, 16, ())


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 100, 1), (7, 64, 1), (130, 77, 1), (1, 64, 50), (50, 33, 3), (3, 1000, 3)]
)
def test_thin_products_run_as_dot_products(level, m, k, n):
    function = product(m, k, n, transpose_b=True)
    rng = np.random.default_rng(m + k + n)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    close_to_product(compile(function, level, OPTIONS)(a, b), a, b.T)


def test_a_matrix_times_a_vector_packs_nothing():
    assert plan_inner_product(AVX512, contraction_of(product(512, 512, 1, transpose_b=True))) is not None
    assert plan_inner_product(AVX512, contraction_of(product(64, 128, 128))) is None


def test_rows_of_a_reshaped_tensor_are_split():
    """Heads side by side again, as attention's output projection reads them."""
    x, w = param("x", (3, 4, 6, 8)), param("w", (32, 40))
    rows = ops.reshape(ops.permute(x, (0, 2, 1, 3)), (18, 32))
    made = contraction_of(Function("f", (x, w), (ops.matmul(rows, w),)))
    assert made is not None
    assert (made.batches, made.rows, made.columns, made.depth) == (3, 6, 40, 32)


@pytest.mark.parametrize("level", levels())
def test_split_rows_are_multiplied_right(level):
    x, w, ct = param("x", (3, 4, 6, 8)), param("w", (32, 40)), param("ct", (18, 40))
    rows = ops.reshape(ops.permute(x, (0, 2, 1, 3)), (18, 32))
    function = Function("f", (x, w, ct), (ops.matmul(rows, w), ops.matmul(rows, ct, transpose_a=True)))
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    rows = a.transpose(0, 2, 1, 3).reshape(18, 32)
    forward, backward = compile(function, level, OPTIONS)(a, b, c)
    close_to_product(forward, rows, b)
    close_to_product(backward, rows.T, c)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("size", [4, 8, 12, 16])
def test_convolutions_of_small_images(level, size):
    """Rows shorter than a vector are joined: forward, and both gradients, at every width."""
    x, w = param("x", (5, 6, size, size)), param("w", (7, 6, 3, 3))
    loss = Function("loss", (x, w), (ops.sum(ops.square(ops.conv2d(x, w, padding=1))),))
    function = gradient(loss, ("x", "w"))
    rng = np.random.default_rng(size)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


@pytest.mark.blas
@pytest.mark.parametrize(
    ("batch", "m", "k", "n", "transpose_a", "transpose_b"),
    [
        ((2,), 1, 1, 2, False, True),
        ((2,), 1, 2, 17, True, False),
        ((3,), 1, 4, 5, False, False),
        ((2, 1), 1, 3, 7, True, True),
    ],
)
def test_axes_of_one_element_between_others(batch, m, k, n, transpose_a, transpose_b):
    function = product(m, k, n, transpose_a, transpose_b, batch)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    left, right = (a.swapaxes(-1, -2) if transpose_a else a), (b.swapaxes(-1, -2) if transpose_b else b)
    close_to_product(compile(function, options=OPTIONS)(a, b), left, right)


@pytest.mark.parametrize("groups", [3, 6])
@pytest.mark.parametrize("window", [1, 3])
def test_grouped_convolutions(groups, window):
    x, w = param("x", (2, 6, 4, 2)), param("w", (6, 6 // groups, window, window))
    function = Function("f", (x, w), (ops.conv2d(x, w, groups=groups, padding=window // 2),))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    agrees_with_graph(compile(function, options=OPTIONS)(a, b), function, a, b)


def test_panels_of_a_large_matrix_are_wide_and_computed_tile_by_tile():
    """Rows of 16 KB: a panel takes four tiles' columns of each, and a tile's share stays in the first-level cache."""
    plan = plan_gemm(AVX512, contraction_of(product(128, 4096, 4096)))
    assert plan.wide == 4
    assert plan.block * plan.columns * 4 <= 32 * 1024
    assert plan_gemm(AVX512, contraction_of(product(128, 4096, 4096, transpose_b=True))).wide == 1
    assert plan_gemm(AVX512, contraction_of(product(128, 512, 512))).wide == 1


@pytest.mark.parametrize("level", levels())
def test_wide_panels_give_the_product(monkeypatch, level):
    """With a last block of k that is shorter, and rows that tiles do not divide."""
    function = product(43, 1100, 2048)
    panels = Form(right="panels"), "columns"
    monkeypatch.setattr(gemm_plan, "forms", lambda *args: [panels] if panels in forms(*args) else [])
    target = host() if level == "host" else target_for(level)
    plan = plan_gemm(target, contraction_of(function))
    assert (plan.form.right, plan.wide) == ("panels", 4)
    assert 43 % plan.tile.rows
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    close_to_product(compile(function, level, OPTIONS)(a, b), a, b)


def test_taps_of_a_weight_that_lie_apart_are_packed_once():
    """A gradient at stride 2: every second tap of each window, read for every image."""
    x, w = param("x", (8, 64, 14, 14)), param("w", (48, 64, 3, 3))
    some = ops.slice(w, (0, 0, 0, 1), (48, 64, 3, 2), (1, 1, 2, 1))
    plan = plan_gemm(AVX512, contraction_of(Function("f", (x, w), (ops.conv2d(x, some),))))
    assert plan.form.left == "whole"
    assert plan_gemm(AVX512, contraction_of(Function("f", (x, w), (ops.conv2d(x, w),)))).form.left == "in place"


@pytest.mark.parametrize("kind", list(KINDS))
def test_random_contractions_have_a_plan_on_every_kind_of_cpu(kind):
    for family in ("products", "convolutions"):
        for case in draw(family, 30, seed=list(KINDS).index(kind)):
            function = after_graph_passes(function_of(case)[0])
            planned = contractions_of(function, KINDS[kind], value_names(function))[1]
            assert all(made.plan.cycles >= 0 for made in planned.values()), case.name
