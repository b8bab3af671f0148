"""Register-tiled contractions: stacks of tiles, large results in long runs, and packed operands."""

from dataclasses import replace

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.codegen.targets import target_for
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.kernel.index import Remainder
from adjoint.kernel.ir import For, Store, walk
from adjoint.lower.contractions import gemm_plan
from adjoint.lower.contractions.blocking import k_blocks, l2_chunk
from adjoint.lower.contractions.gemm_plan import Form, plan_gemm
from adjoint.lower.loops import indices_of
from adjoint.pipeline import lower_function
from tests.closeness import agrees_with_graph, close_to_product
from tests.hardware import KINDS, levels, needs, shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, contraction_of, product


def convolution(batch, channels, out, size, window=3):
    x, w = param("x", (batch, channels, size, size)), param("w", (out, channels, window, window))
    return Function("f", (x, w), (ops.conv2d(x, w),))


def test_few_channels_share_weights_between_rows_of_an_image():
    """Six channels of rows shorter than a vector are six accumulators: too few to keep two units busy."""
    plan = plan_gemm(AVX512, contraction_of(convolution(32, 16, 6, 18, 5)))
    assert plan.tile.stack == 2
    assert plan.tile.rows * plan.tile.vectors * plan.tile.stack >= 8


def test_many_channels_need_no_neighbours():
    assert plan_gemm(AVX512, contraction_of(convolution(8, 16, 16, 34))).tile.stack == 1


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("sizes", [(16, 6, 18, 5), (3, 5, 12, 3), (2, 4, 30, 3), (4, 3, 9, 2)])
def test_neighbours_agree_with_the_reference(level, sizes):
    function = convolution(3, *sizes)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


def updated(m, k, n):
    """A large matrix that is updated by a product, as an optimizer with two states does."""
    x, d = param("x", (k, m)), param("d", (k, n))
    w, a, b = (param(name, (m, n)) for name in "wab")
    g = ops.matmul(x, d, transpose_a=True)
    first = ops.add(ops.multiply(a, 0.9), g)
    second = ops.add(ops.multiply(b, 0.9), ops.square(g))
    return Function("f", (x, d, w, a, b), (ops.subtract(w, ops.multiply(first, second)), first, second))


def test_an_update_of_a_large_matrix_walks_few_rows_at_a_time():
    """Five rows of three tensors and of the result are as many runs of memory as the hardware follows."""
    few = plan_gemm(AVX512, contraction_of(product(1024, 64, 1024)), streams=3)
    assert few.tile.rows * 4 <= costs.HARDWARE_STREAMS


def strided(batch, channels, out, size):
    """A convolution with windows of one that reads every second row and column."""
    x, w = param("x", (batch, channels, size, size)), param("w", (out, channels, 1, 1))
    return Function("f", (x, w), (ops.conv2d(x, w, stride=2),))


def test_every_second_element_is_packed_where_many_rows_use_it():
    few, many = (plan_gemm(AVX512, contraction_of(strided(5, 40, out, 88))) for out in (2, 384))
    assert few.form.right == "in place"
    assert many.form.right == "panels"


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("sizes", [(7, 35, 13), (5, 64, 30)])
def test_strided_windows_of_one_agree_with_the_reference(level, sizes):
    function = strided(3, *sizes)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(("m", "k", "n"), [(512, 64, 1024), (300, 20, 1000), (1025, 3, 300)])
def test_updates_of_large_matrices_agree_with_float64(level, m, k, n):
    function = updated(m, k, n)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


def test_operands_whose_rows_meet_in_one_set_of_the_cache_are_packed(monkeypatch):
    """As wholes by kernels of their own, or the right one in panels."""
    function = product(2048, 512, 1024, transpose_a=True)
    plan = plan_gemm(AVX512, contraction_of(function))
    assert plan.form.left == "whole"
    assert plan.form.right != "in place"
    every = gemm_plan.forms
    whole = gemm_plan.Form(left="whole", right="whole")
    monkeypatch.setattr(gemm_plan, "forms", lambda *args: [one for one in every(*args) if one[0] == whole])
    names = [k.name for k in lower_function(function, AVX512).kernels]
    assert len(names) == 3
    assert names[0].endswith("_left")
    assert names[1].endswith("_right")


def test_a_left_operand_whose_lines_conflict_is_packed_if_it_is_reused():
    """Steps of 4 KiB reach sixteen sets of the second-level cache; steps of 1200 bytes reach all."""
    for m, packed in ((1024, True), (300, False)):
        plan = plan_gemm(AVX512, contraction_of(product(m, 1024, 1024, transpose_a=True)))
        assert (plan.form.left == "whole") is packed
    assert plan_gemm(AVX512, contraction_of(product(1024, 1024, 32, transpose_a=True))).form.left == "in place"


def test_lanes_run_along_the_rows_of_a_narrow_result():
    """Three columns would leave most lanes idle; the rows of the left operand are contiguous."""
    plan = plan_gemm(AVX512, contraction_of(product(216, 200, 3, transpose_a=True)))
    assert plan.form.swapped
    assert plan.lanes == 16
    assert not plan_gemm(AVX512, contraction_of(product(216, 200, 64, transpose_a=True))).form.swapped


#: AVX-512 on units of 256 bits, as on Zen 4: twice as many narrow vectors start.
SPLIT = replace(AVX512, fma_units=1, load_units=1, datapath_bytes=32)


@pytest.mark.parametrize(("columns", "lanes"), [(8, 8), (24, 8), (33, 8), (32, 16), (44, 16), (2, 2)])
def test_narrow_vectors_leave_fewer_lanes_idle_where_more_of_them_start(columns, lanes):
    c = contraction_of(product(216, 200, columns))
    assert plan_gemm(SPLIT, c).lanes == lanes
    assert plan_gemm(AVX512, c).lanes == min(1 << (columns - 1).bit_length(), 16)


def test_narrow_vectors_give_the_same_bits():
    needs("avx512")
    for function in (
        *(product(61, 70, n, transpose_b=n % 2 == 0) for n in (5, 8, 24, 33)),
        convolution(3, 20, 8, 21, 5),
        convolution(2, 40, 24, 12, 3),
    ):
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
        wide, narrow = (compile(function, target, OPTIONS)(*arrays) for target in ("avx512", SPLIT))
        np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(("m", "k", "n"), [(512, 70, 1024), (601, 200, 130), (601, 50, 3), (1024, 1024, 100)])
def test_packed_operands_give_the_product(level, m, k, n):
    function = product(m, k, n, transpose_a=True)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    close_to_product(compile(function, level, OPTIONS)(a, b), a.T, b)


def test_a_single_row_whose_steps_lie_pages_apart_needs_no_packing():
    """One column of a matrix as the left factor: there are no rows to put side by side."""
    x, w = param("x", (64, 1024)), param("w", (64, 512))
    column = ops.slice(x, (0, 3), (64, 4))
    function = Function("f", (x, w), (ops.matmul(column, w, transpose_a=True),))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    close_to_product(compile(function, options=OPTIONS)(a, b), a[:, 3:4].T, b)


def test_few_rows_update_their_sums_where_the_other_operand_streams_from_memory():
    for rows, depth, form in ((3, 4096, "updates"), (3, 64, "in place"), (40, 4096, "in place")):
        plan = plan_gemm(AVX512, contraction_of(product(rows, depth, 2048)))
        assert (plan.form.right == "updates") is (form == "updates")


#: Rows, k and columns, and the batch: ends of chunks, of vectors and of k, fewer steps than an update, one row.
UPDATED = [(3, 70, 554, 5), (1, 33, 1500, 1), (8, 16, 600, 2), (5, 7, 2100, 1), (2, 48, 1043, 3)]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(UPDATED), ids=str)
def test_updated_sums_have_the_bits_of_those_in_registers(monkeypatch, case, level):
    rows, depth, columns, batch = case
    x, y = param("x", (batch, rows, depth)), param("y", (batch, depth, columns))
    function = Function("f", (x, y), (ops.relu(ops.matmul(x, y)),))
    rng = np.random.default_rng(rows)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    expected = compile(function, level, OPTIONS)(*arrays)
    forms = gemm_plan.forms
    monkeypatch.setattr(gemm_plan, "forms", lambda *args: [one for one in forms(*args) if one[0].right == "updates"])
    (kernel,) = lower_function(function, target_for(level)).kernels
    assert any(b.name == "sums" for b in kernel.scratch) == (depth > costs.UPDATE_STEPS)
    for threads in (1, 3):
        made = compile(function, level, replace(OPTIONS, threads=threads))(*arrays)
        np.testing.assert_array_equal(made, expected)


def test_long_sums_of_small_results_are_added_up_block_by_block_of_k():
    """Gradients of weights among them; few steps of k, or a result beyond the caches, need no blocks."""
    mesh = KINDS["avx512 on a mesh"]
    for (m, k, n, transpose_a), blocks in (
        ((64, 4280, 256, False), True),
        ((16, 4000, 512, False), True),
        ((64, 100, 256, False), False),
        ((2048, 512, 2048, False), False),
    ):
        plan = plan_gemm(mesh, contraction_of(product(m, k, n, transpose_a=transpose_a)))
        assert (plan.form.right == "blocks") is blocks, (m, k, n)


#: Rows, k, columns and the batch, and whether the left operand is transposed: ends of tiles, vectors, units and k; row
#: groups and chunks of columns; a single row, and several blocks of rows.
BLOCKED = [
    (70, 300, 90, 1, True),
    (33, 129, 257, 2, False),
    (590, 200, 1100, 1, False),
    (5, 128, 17, 3, True),
    (1, 200, 40, 1, False),
    (16, 700, 530, 1, True),
]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("case", "level"), shared_among_levels(BLOCKED), ids=str)
def test_sums_of_blocks_have_the_bits_of_those_in_registers(monkeypatch, case, level, swapped):
    rows, depth, columns, batch, transposed = case
    x = param("x", (batch, depth, rows) if transposed else (batch, rows, depth))
    y, w = param("y", (batch, depth, columns)), param("w", (batch, rows, columns))
    function = Function("f", (x, y, w), (w - ops.relu(ops.matmul(x, y, transpose_a=transposed)),))
    rng = np.random.default_rng(rows)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    expected = compile(function, level, OPTIONS)(*arrays)

    def blocked(_, c):
        exchanged = Form(True, right="blocks")
        contiguous = swapped and c.m is not None and c.left.index.coefficient(c.m) == 1
        return [(exchanged if contiguous else Form(right="blocks"), "rows")]

    monkeypatch.setattr(gemm_plan, "forms", blocked)
    (kernel,) = lower_function(function, target_for(level)).kernels
    assert any(b.name == "sums" for b in kernel.scratch)
    for threads in (1, 3):
        made = compile(function, level, replace(OPTIONS, threads=threads))(*arrays)
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("cores", [1, 2, 16])
@pytest.mark.parametrize(("rows", "columns"), [(64, 256), (4096, 512), (16, 4096), (1000, 3000), (8, 30)])
def test_units_of_blocks_leave_their_sums_in_the_cache_and_are_enough_for_all_cores(rows, columns, cores):
    target = replace(AVX512, cores=cores)
    for height, width in ((14, 32), (5, 80)):
        wide, groups, block = k_blocks(target, rows, columns, 1000, 1, (height, width), 4)
        blocks, tiles = -(-rows // height), -(-columns // width)
        assert -(-blocks // groups) * height * wide * width * 4 <= 1.5 * costs.l2_block_bytes(target)
        assert groups * -(-tiles // wide) >= min(cores, blocks * tiles, tiles)
        assert block == 63


def test_a_bias_of_columns_that_fill_no_whole_tiles_is_read_in_vectors():
    """A product of sequences is one of all their positions; its columns are found again by a remainder."""
    x, w, b = param("x", (6, 21, 64)), param("w", (64, 332)), param("b", (332,))
    (kernel,) = lower_function(Function("f", (x, w, b), (ops.matmul(x, w) + b,)), AVX512).kernels
    read = [i for i in indices_of(kernel.body) for atom, _ in i.terms if isinstance(atom, Remainder) and atom.by == 332]
    assert not read


def with_gelu(shape, inputs, outputs, stacked=False):
    """A product with an activation of many operations behind it; of stacks of tiles, where sums are few."""
    if stacked:
        x, w = param("x", shape), param("w", (outputs, inputs, 5, 5))
        return Function("f", (x, w), (ops.gelu(ops.conv2d(x, w)),))
    x, w, b = param("x", shape), param("w", (inputs, outputs)), param("b", (outputs,))
    return Function("f", (x, w, b), (ops.gelu(ops.matmul(x, w) + b),))


GELUS = [((30, 40), 40, 50, False), ((3, 7, 24), 24, 100, False), ((4, 4, 16, 16), 4, 6, True), ((5, 3), 3, 2, False)]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(GELUS), ids=str)
def test_long_epilogues_are_loops(level, case):
    function = with_gelu(*case)
    unrolled = [
        loop
        for kernel in lower_function(function, target_for(level)).kernels
        for loop in walk(kernel.body)
        if isinstance(loop, For) and loop.kind == "unroll"
    ]
    stored = [s for loop in unrolled for s in walk(loop.body) if isinstance(s, Store)]
    assert not [s for s in stored if s.targets[0][0].space == "external"]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


#: Rows, steps and columns: one block of k and several, rows and columns that fill no whole tiles, several row groups;
#: and whether operands are stored transposed.
CHUNKED = [
    (100, 300, 384, False, False),
    (61, 1200, 203, False, False),
    (517, 700, 384, False, True),
    (45, 900, 449, True, False),
    (130, 520, 395, True, True),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CHUNKED), ids=str)
def test_rows_that_walk_a_chunk_of_panels_have_the_bits_of_those_that_do_not(monkeypatch, case, level):
    m, k, n, *transposed = case
    shapes = [shape[::-1] if turned else shape for shape, turned in zip(((m, k), (k, n)), transposed, strict=True)]
    a, b = (param(name, shape) for name, shape in zip("ab", shapes, strict=True))
    bias, (turn_a, turn_b) = param("bias", (n,)), transposed
    result = ops.relu(ops.add(ops.matmul(a, b, transpose_a=turn_a, transpose_b=turn_b), bias))
    function = Function("f", (a, b, bias), (result,))
    rng = np.random.default_rng(m)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    every = gemm_plan.forms

    def only(chosen):
        monkeypatch.setattr(gemm_plan, "forms", lambda *args: [one for one in every(*args) if chosen(*one)])
        return plan_gemm(target_for(level), contraction_of(function))

    def compiled(threads):
        return compile(function, level, replace(OPTIONS, threads=threads))(*arrays)

    assert only(lambda form, _: form == gemm_plan.Form(right="whole")).wide == 1
    expected = compiled(1)
    agrees_with_graph(expected, function, *arrays)
    chunks = gemm_plan.Form(left="whole" if turn_a else "in place", right="panels")
    plan = only(lambda form, order: form == chunks and order == "rows")
    assert plan.chunks
    assert plan.wide >= costs.MIN_CHUNK_TILES
    for threads in (1, 3):
        np.testing.assert_array_equal(compiled(threads), expected)


def test_long_rows_walk_a_chunk_of_panels_where_the_third_level_cache_is_far():
    """The weights of a transformer of width 384: as panels, all rows would come from there for each of them."""
    plan = plan_gemm(KINDS["avx512 on a mesh"], contraction_of(product(784, 1536, 384)))
    assert (plan.form.right, plan.order) == ("panels", "rows")
    assert plan.wide * plan.columns * plan.block * 4 <= costs.l2_block_bytes(KINDS["avx512 on a mesh"])


def test_panels_of_a_convolution_remain_among_its_plans():
    """Its rows walk no chunks, whatever the order of its units."""
    c = contraction_of(convolution(8, 64, 96, 18))
    assert c.rows > c.columns
    assert {plan.form.right for plan in gemm_plan.gemm_plans(AVX512, c, 0, 1)} == {"in place", "panels"}


def test_blocks_of_k_are_about_twice_as_long_as_a_chunk_is_wide():
    wide, block = l2_chunk(AVX512, 4096, 4096, 64, 4)
    assert 1 <= block / (wide * 64) <= 4


def test_chunks_have_about_equal_numbers_of_tiles():
    """Four tiles fit, but of nine, that would leave one alone; a narrow one counts as well."""
    assert l2_chunk(AVX512, 16 * 64, 512, 64, 4) == (4, 512)
    assert l2_chunk(AVX512, 9 * 64, 512, 64, 4) == l2_chunk(AVX512, 8 * 64 + 1, 512, 64, 4) == (3, 512)
