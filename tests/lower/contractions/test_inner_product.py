"""Inner products over images: which rows share what their windows read, and results at every vector width."""

from dataclasses import replace

import numpy as np
import pytest

from adjoint.compiler import CompileOptions, compile
from adjoint.ir import Function, apply, param
from adjoint.kernel.index import as_index
from adjoint.kernel.ir import For, Prefetch, Store, walk
from adjoint.lower.contractions import inner_product_loops, inner_product_sweep_plan
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan
from adjoint.lower.contractions.split_k_plan import SplitKPlan
from adjoint.lower.program import contractions_of
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.closeness import agrees_with_graph
from tests.hardware import needs, shared_among_levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS, product
from tests.lower.contractions.test_gemm_prefetch import lines_of


def weight_gradient(batch, channels, size, window, stride=1, dilation=1, out=1):
    """The gradient of the weights of a depthwise convolution, each channel with so many results."""
    pad = window // 2 * dilation
    reached = (size + 2 * pad - dilation * (window - 1) - 1) // stride + 1
    x, ct = param("x", (batch, channels, size, size)), param("ct", (batch, channels * out, reached, reached))
    op = Conv2dWeightGradient((stride, stride), (pad, pad), (dilation, dilation), channels, (window, window))
    return Function("dw", (x, ct), (apply(op, x, ct),))


def pointwise_gradient(batch, channels, size, outputs, stride=1, groups=1):
    """The gradient of the weights of a 1x1 convolution."""
    reached = (size - 1) // stride + 1
    x, ct = param("x", (batch, channels, size, size)), param("ct", (batch, outputs, reached, reached))
    op = Conv2dWeightGradient((stride, stride), (0, 0), (1, 1), groups, (1, 1))
    return Function("dw", (x, ct), (apply(op, x, ct),))


def plan_of(function, target=AVX512):
    function = after_graph_passes(function)
    (made,) = contractions_of(function, target, value_names(function))[1].values()
    return made.plan


def agrees_with_the_reference(function, level):
    rng = np.random.default_rng(len(function.params[0].shape))
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


def test_rows_of_an_image_are_shared_by_the_rows_of_a_window():
    function = weight_gradient(4, 32, 40, 3)
    plan = plan_of(function)
    assert isinstance(plan, InnerProductPlan)
    assert (plan.image_rows, plan.taps.extent, plan.columns) == (6, 3, 3)
    products = next(k for k in lower_function(function, AVX512).kernels if k.flops > 1e6)
    bodies = [s.body for s in walk(products.body) if isinstance(s, For) and s.kind == "vector" and len(s.body) > 1]
    # Six rows at a time and the four that remain; the first and the last row meet two rows of the window.
    assert sorted({len(body) for body in bodies}) == [4 * 9 - 3, 6 * 9 - 3, 6 * 9]
    most = max(bodies, key=len)
    loads = {str(load.index) for s in most if isinstance(s, Store) for load in s.targets[0][2].args[1:2]}
    assert len(loads) == (6 + 2) * 3


@pytest.mark.parametrize("stride", [1, 2])
def test_images_are_read_without_the_zeros_around_them(stride, monkeypatch):
    """A padded copy gives the same bits."""
    function = weight_gradient(4, 32, 41, 3, stride=stride)
    kernels = lower_function(function, AVX512).kernels
    assert {b.name for b in kernels[0].reads} == {"x", "ct"}
    assert kernels[0].scratch == ()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    made = compile(function, options=OPTIONS)(*arrays)
    monkeypatch.setattr(inner_product_loops, "image_of", lambda *_: None)
    assert any("%" in b.name for k in lower_function(function, AVX512).kernels for b in (*k.reads, *k.scratch))
    np.testing.assert_array_equal(compile(function, options=OPTIONS)(*arrays), made)


def test_an_image_whose_rows_are_split_is_padded():
    """Units of one image have different rows, of which the first or the last are outside."""
    function = weight_gradient(1, 4, 700, 3)
    assert plan_of(function).parts == 4
    assert "%" in "".join(b.name for k in lower_function(function, AVX512).kernels for b in (*k.reads, *k.scratch))
    agrees_with_the_reference(function, "host")


@pytest.mark.parametrize(
    "function",
    [
        weight_gradient(2, 16, 40, 7),
        weight_gradient(2, 16, 40, 3, stride=2),
        weight_gradient(2, 16, 40, 3, dilation=40),
        weight_gradient(2, 16, 40, 3, out=2),
    ],
    ids=["too many taps", "every second column", "windows without common rows", "several results for a channel"],
)
def test_others_take_one_row_at_a_time(function):
    plan = plan_of(function)
    assert getattr(plan, "image_rows", 1) == 1


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_the_order_of_additions_is_the_same_for_any_number_of_cores(cores):
    for function in (weight_gradient(4, 32, 40, 3), weight_gradient(1, 4, 24, 5), weight_gradient(16, 8, 33, 3)):
        few, many = plan_of(function), plan_of(function, replace(AVX512, cores=cores))
        assert (few.image_rows, few.parts) == (many.image_rows, many.parts)
        assert many.taps is not None


def test_the_rows_of_an_image_are_split_only_if_there_are_few_channels():
    assert plan_of(weight_gradient(1, 168, 72, 3, stride=2)).parts == 1
    assert plan_of(weight_gradient(1, 4, 401, 3, stride=2)).parts > 1
    assert plan_of(weight_gradient(6, 168, 72, 3, stride=2)).parts == 6
    assert plan_of(pointwise_gradient(10, 16, 59, 3)).parts == 10


def test_the_next_image_is_prefetched_once_where_the_load_units_have_room(monkeypatch):
    batch, channels, size, outputs = 40, 5, 16, 324
    function = pointwise_gradient(batch, channels, size, outputs)
    plan = plan_of(function)
    assert isinstance(plan, InnerProductPlan)
    assert plan.taps.extent == channels
    (kernel,) = lower_function(function, AVX512).kernels
    lines = kernel.unit.extent * lines_of("ct", kernel.body, {kernel.unit: as_index(0)})
    assert 1.0 <= lines / (batch * outputs * size**2 * 4 / AVX512.line_bytes) < 1.1
    # Tiles of one row load a vector for each multiply-add.
    monkeypatch.setattr(inner_product_sweep_plan, "_plan_sweep", lambda *_: None)
    narrow = pointwise_gradient(10, 16, 59, 3)
    assert (plan_of(narrow).rows, plan_of(narrow).taps.extent) == (1, 16)
    kernels = lower_function(narrow, AVX512).kernels
    assert not any(isinstance(s, Prefetch) for kernel in kernels for s in walk(kernel.body))


def test_gradients_of_pointwise_weights_are_inner_products_only_if_channels_are_few():
    kinds = [type(plan_of(pointwise_gradient(40, channels, 16, 324))) for channels in (5, 64)]
    assert kinds == [InnerProductPlan, SplitKPlan]


#: Batch, channels, size, window, stride, dilation: remainders of rows and of vectors, and windows without common rows.
CASES = [
    (2, 5, 19, 3, 1, 1),
    (3, 4, 33, 5, 2, 1),
    (2, 3, 41, 3, 1, 2),
    (1, 2, 45, 3, 2, 3),
    (40, 6, 9, 3, 2, 1),
    (2, 24, 89, 3, 1, 1),
    (1, 3, 37, 7, 1, 1),
    (1, 20, 72, 3, 2, 1),
    (2, 17, 101, 5, 2, 1),
]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES), ids=str)
def test_gradients_agree_with_the_reference(level, case):
    agrees_with_the_reference(weight_gradient(*case), level)


#: Batch, channels, size, outputs, stride of 1x1 convolutions.
POINTWISE = [(7, 5, 16, 33, 1), (3, 7, 12, 9, 2), (9, 2, 8, 70, 1), (5, 3, 9, 21, 1)]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(POINTWISE), ids=str)
def test_gradients_of_pointwise_weights_agree_with_the_reference(level, case):
    agrees_with_the_reference(pointwise_gradient(*case), level)


def test_gradients_of_pointwise_weights_give_the_same_bits_at_any_width_and_number_of_threads():
    needs("avx512")
    for case in POINTWISE:
        agrees_on_narrow_vectors(pointwise_gradient(*case))


def agrees_on_narrow_vectors(function):
    """Half as many lanes, and any number of threads, give the same bits."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    wide = compile(function, options=OPTIONS)(*arrays)
    for threads in (1, 3):
        narrow = compile(function, "avx2", CompileOptions(threads=threads, cache=False))(*arrays)
        np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_narrow_vectors_give_the_same_bits(case):
    needs("avx512")
    agrees_on_narrow_vectors(weight_gradient(*case))


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "order"),
    [(3032, 204, 6, "rows"), (6, 204, 3032, "columns"), (6, 2348, 1839, "columns")],
)
def test_the_larger_operand_of_a_plain_product_is_read_and_prefetched_once(rows, depth, columns, order):
    function = product(rows, depth, columns, transpose_b=True)
    plan = plan_of(function)
    assert isinstance(plan, InnerProductPlan)
    assert plan.order == order
    (kernel,) = lower_function(function, AVX512).kernels
    large, small = ("a", "b") if order == "rows" else ("b", "a")
    lines = kernel.unit.extent * lines_of(large, kernel.body, {kernel.unit: as_index(0)})
    assert 0.9 < lines / (max(rows, columns) * depth * 4 / AVX512.line_bytes) < 1.2
    assert lines_of(small, kernel.body, {kernel.unit: as_index(0)}) == 0


def test_the_vectors_of_the_shorter_side_stay_in_registers():
    """They are those that the inner one of the loops around a vector of products reads again."""
    function = weight_gradient(15, 8, 34, 3, out=6)
    plan = plan_of(function)
    assert isinstance(plan, InnerProductPlan)
    kernels = lower_function(function, AVX512).kernels
    nests = [
        (s.var.extent, s.body[0].var.extent)
        for kernel in kernels
        for s in walk(kernel.body)
        if isinstance(s, For) and s.kind == "unroll" and s.var.name in "ij" and is_product(s.body[0])
    ]
    assert nests
    assert all(outer >= inner for outer, inner in nests)
    assert any(outer > inner > 1 for outer, inner in nests)


def is_product(loop):
    """Whether a loop unrolls the multiply-adds of a tile along one side."""
    if not (isinstance(loop, For) and loop.kind == "unroll" and isinstance(loop.body[0], For)):
        return False
    (store,) = loop.body[0].body
    return isinstance(store, Store) and getattr(store.targets[0][2], "function", "") == "fma"


@pytest.mark.parametrize("columns", [1, 2])
def test_nothing_is_prefetched_where_the_load_units_are_busy(columns):
    """A matrix times a vector or two loads as often as it multiplies: the hardware prefetcher follows its rows."""
    function = product(1839, 2348, columns, transpose_b=True)
    assert isinstance(plan_of(function), InnerProductPlan)
    (kernel,) = lower_function(function, AVX512).kernels
    assert not any(isinstance(s, Prefetch) for s in walk(kernel.body))


def test_few_columns_run_as_a_gemm_where_narrow_vectors_leave_no_lanes_idle():
    """With 16 lanes, both take about as long; with 8, a GEMM of eight columns has none to spare."""
    assert isinstance(plan_of(product(1839, 2348, 2, transpose_b=True)), InnerProductPlan)
    assert isinstance(plan_of(product(1839, 2348, 8, transpose_b=True)), GemmPlan)


#: Rows, k and columns of products with few rows or columns, both operands contiguous along k.
NARROW = [(7, 1800, 301), (301, 1801, 7), (93, 882, 9), (10, 1505, 42), (458, 1190, 8), (40, 33, 10)]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(NARROW), ids=str)
def test_narrow_products_agree_with_the_reference(level, case):
    agrees_with_the_reference(product(*case, transpose_b=True), level)


#: The same with a small left operand that is not: rows fill squares or do not, steps neither.
COPIED = [(16, 875, 72), (26, 248, 191), (20, 403, 100), (3, 1000, 301)]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(COPIED), ids=str)
def test_products_with_a_copied_operand_agree_with_the_reference(level, case):
    agrees_with_the_reference(product(*case, transpose_a=True, transpose_b=True), level)


def test_an_operand_is_copied_in_squares_if_its_rows_fill_vectors():
    def unrolled(*case):
        function = product(*case, transpose_a=True, transpose_b=True)
        assert plan_of(function).packed == "left"
        copy = lower_function(function, AVX512).kernels[0]
        return {s.var.extent for s in walk(copy.body) if isinstance(s, For) and s.kind == "unroll"}

    assert unrolled(16, 875, 72) == {16}
    assert unrolled(26, 248, 191) == {16, 10}
    assert unrolled(3, 1000, 301) == set()


def test_narrow_products_give_the_same_bits_at_any_width_and_number_of_threads():
    needs("avx512")
    for case in NARROW:
        agrees_on_narrow_vectors(product(*case, transpose_b=True))
    for case in COPIED:
        agrees_on_narrow_vectors(product(*case, transpose_a=True, transpose_b=True))
