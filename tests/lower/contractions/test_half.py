"""Contractions of float16 and bfloat16: plans, conversions, results beside float64, and equal bits at all widths."""

from itertools import cycle, pairwise

import ml_dtypes
import numpy as np
import pytest

from adjoint import IRModule, SetupTrainer, Trainer, losses, ops, optim
from adjoint.codegen.targets import target_for
from adjoint.codegen.transpose import match_transpose
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import DTYPES, Function, TensorType, param
from adjoint.ir.printer import value_names
from adjoint.kernel.ir import Apply, For, Load, Store, postorder, walk
from adjoint.lower.contractions.channel_lanes_plan import ChannelLanesPlan
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan
from adjoint.lower.contractions.split_k_plan import SplitKPlan
from adjoint.lower.fusion.groups import fuse
from adjoint.lower.program import contractions_of
from adjoint.lower.winograd.plan import WinogradPlan
from adjoint.lower.winograd.weight_gradient_plan import WinogradGradientPlan
from adjoint.pipeline import GRAPH_PASSES, lower_function
from adjoint.testing.rounding import rounding, unit_roundoff
from adjoint.transforms.differentiate import gradient
from tests.closeness import within
from tests.codegen.emulator import run
from tests.hardware import levels, missing

HALF = ("bf16", "f16")
OPTIONS = CompileOptions(cache=False, threads=2)
F32 = DTYPES["f32"]
#: Levels with fused multiply-adds, which give the same bits.
FUSED = [level for level in ("avx512", "avx2") if host().architecture == "x86_64" and not missing(level)] or ["host"]


def product(dtype, m, k, n, transpose_a=False, transpose_b=False, batch=()):
    a = param("a", (*batch, *((k, m) if transpose_a else (m, k))), dtype)
    b = param("b", (*batch, *((n, k) if transpose_b else (k, n))), dtype)
    return Function("product", (a, b), (ops.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b),))


def convolution(dtype, batch, channels, out, size, window, stride=1, padding=0, groups=1):
    """A convolution and both gradients, each of them a sum of products of what is given."""
    x = param("x", (batch, channels, size, size), dtype)
    w = param("w", (out, channels // groups, window, window), dtype)
    y = ops.conv2d(x, w, stride=stride, padding=padding, groups=groups)
    ct = param("ct", y.shape, dtype)
    return Function("convolution", (x, w, ct), (y, *y.op.vjp(ct, y, x, w)))


def numbers(function, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(p.shape).astype(p.dtype) for p in function.params]


def check(found, make, arrays):
    """Results of sums in float32 that are rounded once, to the dtype of the result.

    `make` builds the function for a dtype; what is exact, and the rounding of sums, are those of its float32 form.
    """
    found = found if isinstance(found, list | tuple) else (found,)
    exact = rounding(make("f32"), *(array.astype("f4") for array in arrays))
    for number, (got, (want, bound)) in enumerate(zip(found, exact, strict=True)):
        unit = unit_roundoff(got.dtype)
        assert got.dtype == arrays[0].dtype
        within(got, want, bound + unit * (abs(want) + bound), f"result {number}")


def planned(function, target=None):
    """The plans of a function's contractions, and how many of its groups are sums of products."""
    for graph_pass in GRAPH_PASSES:
        function = graph_pass(function)
    fusion = fuse(function)
    products = [g for g in fusion.groups if g.root is not None and fusion.patterns[g.root].product]
    found = contractions_of(function, target or host(), value_names(function))[1]
    return [made.plan for made in found.values()], len(products)


SHAPES = [(1, 300, 70), (64, 96, 128), (33, 17, 10), (5, 530, 50), (130, 70, 97), (32, 1100, 530)]


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (False, True), (True, False), (True, True)])
def test_products_agree_with_float64(dtype, transpose_a, transpose_b):
    """Every shape in one of the dtypes, which differ in the conversion alone: plans are the same, as tested below."""
    for m, k, n in SHAPES[HALF.index(dtype) :: len(HALF)]:
        function = product(dtype, m, k, n, transpose_a, transpose_b)
        a, b = numbers(function, m + k + n)
        got = compile(function, options=OPTIONS)(a, b)
        check(got, lambda kind, s=(m, k, n): product(kind, *s, transpose_a, transpose_b), (a, b))


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("dtype", HALF)
def test_products_in_batches_at_every_width(level, dtype):
    if not target_for(level).converts_half and dtype == "f16":
        pytest.skip("float16 needs a conversion in hardware")
    for transpose_b in (False, True):
        function = product(dtype, 19, 45, 33, False, transpose_b, batch=(2, 3))
        arrays = numbers(function)
        got = compile(function, level, OPTIONS)(*arrays)
        check(got, lambda kind, tb=transpose_b: product(kind, 19, 45, 33, False, tb, batch=(2, 3)), arrays)


VECTORS = [(1, 100, 1), (130, 77, 1), (1, 64, 50), (50, 33, 3), (3, 1000, 3), (512, 512, 1)]


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("shape", VECTORS, ids=str)
def test_products_with_vectors_agree_with_float64(dtype, shape):
    function = product(dtype, *shape, transpose_b=True)
    arrays = numbers(function)
    check(compile(function, options=OPTIONS)(*arrays), lambda kind: product(kind, *shape, transpose_b=True), arrays)


#: Batch, channels, channels of the result, size, window, stride, padding, groups.
CONVOLUTIONS = {
    "winograd": (4, 16, 16, 12, 3, 1, 1, 1),
    "winograd at stride 2": (4, 16, 32, 16, 3, 2, 1, 1),
    "rows of seven": (3, 17, 20, 7, 3, 1, 1, 1),
    "few channels": (3, 3, 5, 14, 5, 1, 2, 1),
    "narrow images": (3, 24, 40, 4, 3, 1, 1, 1),
    "windows of one": (5, 16, 32, 8, 1, 2, 0, 1),
    "groups": (2, 24, 12, 10, 3, 1, 1, 2),
    "a channel a group": (2, 8, 8, 9, 3, 1, 1, 8),
    "wide windows at stride 2": (2, 3, 16, 23, 7, 2, 3, 1),
}


@pytest.mark.parametrize(("case", "dtype"), [*zip(CONVOLUTIONS, cycle(HALF), strict=False)])
def test_convolutions_and_their_gradients_agree_with_float64(case, dtype):
    function = convolution(dtype, *CONVOLUTIONS[case])
    arrays = numbers(function)
    got = compile(function, options=OPTIONS)(*arrays)
    check(got, lambda kind: convolution(kind, *CONVOLUTIONS[case]), arrays)


@pytest.mark.parametrize("level", FUSED)
@pytest.mark.parametrize("dtype", HALF)
def test_convolutions_agree_with_float64_at_every_width(level, dtype):
    function = convolution(dtype, *CONVOLUTIONS["rows of seven"])
    arrays = numbers(function)
    got = compile(function, level, OPTIONS)(*arrays)
    check(got, lambda kind: convolution(kind, *CONVOLUTIONS["rows of seven"]), arrays)


# Plans


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda dtype: product(dtype, 512, 512, 512), GemmPlan),
        (lambda dtype: product(dtype, 512, 512, 1, transpose_b=True), InnerProductPlan),
        (lambda dtype: weight_gradient(dtype, 16, 8, 32, 40, 11), SplitKPlan),
        (lambda dtype: forward(dtype, 8, 16, 16, 34, 3), WinogradPlan),
        (lambda dtype: weight_gradient(dtype, 8, 16, 16, 34, 3), WinogradGradientPlan),
    ],
    ids=["gemm", "inner product", "split-K", "winograd", "winograd's gradient"],
)
def test_the_plans_are_those_of_float32(dtype, make, kind):
    for target in ("avx512", "avx2", "neon"):
        for some in (dtype, "f32"):
            plans, products = planned(make(some), target_for(target))
            assert [type(plan) for plan in plans] == [kind]
            assert products == 1


def forward(dtype, batch, channels, out, size, window, stride=1):
    x, w = param("x", (batch, channels, size, size), dtype), param("w", (out, channels, window, window), dtype)
    return Function("f", (x, w), (ops.conv2d(x, w, stride=stride),))


def weight_gradient(dtype, batch, channels, out, size, window):
    made = forward(dtype, batch, channels, out, size, window)
    (y,) = made.results
    ct = param("ct", y.shape, dtype)
    return Function("f", (made.params[0], ct), (y.op.vjp(ct, y, *made.params)[1],))


def conversions_in_products(kernels):
    """Conversions of what is loaded in 16 bits, as operands of multiply-adds that are executed in the inner loops."""
    stores = [s for kernel in kernels for s in walk(kernel.body) if isinstance(s, Store)]
    products = [
        e for s in stores for e in postorder([v for _, _, v in s.targets]) if getattr(e, "function", "") == "fma"
    ]
    factors = [x for e in products for x in e.operands[:2] if isinstance(x, Apply) and x.function == "cast"]
    return [x for x in factors if isinstance(x.operands[0], Load)]


@pytest.mark.parametrize("dtype", HALF)
def test_operands_that_are_used_many_times_are_converted_once(dtype):
    """By packing or beforehand; the loop over k then holds loads of float32 alone."""
    for make in (
        lambda: product(dtype, 512, 512, 512),
        lambda: product(dtype, 512, 512, 512, transpose_b=True),
        lambda: product(dtype, 256, 2048, 512, transpose_a=True),
        lambda: product(dtype, 64, 96, 128, batch=(4,)),
    ):
        kernels = lower_function(make(), target_for("avx512")).kernels
        assert conversions_in_products(kernels) == []


def test_a_large_matrix_that_is_used_once_is_converted_where_it_is_loaded():
    """A copy in float32 would go to memory and back."""
    kernels = lower_function(product("bf16", 2, 2048, 2048), target_for("avx512")).kernels
    assert conversions_in_products(kernels)
    assert sum(b.size for kernel in kernels for b in kernel.writes if b.space == "arena") < 2048 * 2048


@pytest.mark.parametrize("dtype", HALF)
def test_images_that_many_panels_read_are_converted_once(dtype):
    """Where lanes run along channels, elements of an image are broadcast."""
    function = forward(dtype, 4, 128, 256, 29, 3, 2)
    ((plan,), _) = planned(function, target_for("avx512"))
    assert isinstance(plan, ChannelLanesPlan)
    assert conversions_in_products(lower_function(function, target_for("avx512")).kernels) == []
    arrays = numbers(function)
    check(compile(function, options=OPTIONS)(*arrays), lambda kind: forward(kind, 4, 128, 256, 29, 3, 2), arrays)


@pytest.mark.parametrize("dtype", HALF)
def test_rows_are_converted_and_transposed_in_vectors(dtype):
    """Where k is contiguous in the right operand, squares are packed by shuffles rather than by gathers."""
    kernels = lower_function(product(dtype, 64, 96, 128, transpose_b=True), target_for("avx512")).kernels
    loops = [s for kernel in kernels for s in walk(kernel.body) if isinstance(s, For)]
    assert any(match_transpose(loop) is not None for loop in loops)


@pytest.mark.parametrize("dtype", HALF)
def test_sums_and_panels_are_float32(dtype):
    """Only operands and results have 16 bits."""
    for function in (product(dtype, 33, 700, 50), convolution(dtype, *CONVOLUTIONS["rows of seven"])):
        for kernel in lower_function(function, target_for("avx2")).kernels:
            stored = {b for s in walk(kernel.body) if isinstance(s, Store) for b, _, _ in s.targets}
            assert {b.dtype for b in stored if b.space in ("register", "scratch")} <= {F32}


# Bits


def bits(results):
    results = results if isinstance(results, list | tuple) else [results]
    return [np.asarray(result).tobytes() for result in results]


SAME = {
    "product": lambda dtype: product(dtype, 64, 200, 48, transpose_b=True),
    "vector": lambda dtype: product(dtype, 300, 128, 1, transpose_b=True),
    "split-K": lambda dtype: weight_gradient(dtype, 64, 16, 32, 9, 5),
    "winograd": lambda dtype: convolution(dtype, *CONVOLUTIONS["winograd"]),
    "stride 2": lambda dtype: convolution(dtype, *CONVOLUTIONS["winograd at stride 2"]),
}


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("case", SAME)
def test_results_are_the_same_bits_at_all_widths_on_any_number_of_threads(case, dtype):
    function = SAME[case](dtype)
    arrays = numbers(function)
    want = None
    for level in FUSED:
        for threads in (1, 3):
            got = bits(compile(function, level, CompileOptions(threads=threads))(*arrays))
            want = want or got
            assert got == want, (level, threads)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("case", ["product", "vector", "winograd"])
def test_results_are_the_same_bits_on_aarch64(case, dtype):
    function = SAME[case](dtype)
    arrays = numbers(function)
    want = bits(compile(function, FUSED[0], OPTIONS)(*arrays))
    assert bits(run(function, target_for("neon"), *arrays)) == want


# Networks


def mlp(dtype, batch=64):
    """A classifier whose parameters have 16 bits."""
    x = param("x", (batch, 20), dtype)
    sizes = (20, 48, 32, 3)
    h, params = x, []
    for n, (before, after) in enumerate(pairwise(sizes)):
        w, b = param(f"w{n}", (before, after), dtype), param(f"b{n}", (after,), dtype)
        params += [w, b]
        h = ops.linear(ops.relu(h) if n else h, w, b)
    return IRModule((Function("backbone", (x, *params), (h,)),), {"param_num": len(params), "state_num": 0})


def step_of(dtype):
    model = mlp(dtype)
    (logits,) = model["backbone"].results
    types = logits.type, TensorType((64,), "i64")
    return SetupTrainer(losses.CrossEntropyLoss(), optim.SGD(0.1), types)(model)


def small_network(dtype):
    """Convolutions, a pool and a linear layer, with the gradients of all parameters."""
    x, w0 = param("x", (4, 3, 12, 12), dtype), param("w0", (16, 3, 3, 3), dtype)
    w1, w2 = param("w1", (32, 16, 3, 3), dtype), param("w2", (32 * 9, 10), dtype)
    h = ops.relu(ops.conv2d(x, w0, padding=1))
    h = ops.relu(ops.conv2d(h, w1, stride=2, padding=1))
    h = ops.reshape(ops.max_pool2d(h, 2), (4, 32 * 9))
    loss = ops.sum(ops.square(ops.matmul(h, w2)))
    return gradient(Function("loss", (x, w0, w1, w2), (loss,)), ("w0", "w1", "w2"))


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(
    "make", [lambda dtype: step_of(dtype)["step"], small_network], ids=["a step of an MLP", "convolutions"]
)
def test_every_product_of_a_network_runs_on_the_engine(make, dtype):
    plans, products = planned(make(dtype))
    assert len(plans) == products == len(planned(make("f32"))[0]) > 3


def test_an_mlp_trains_in_bfloat16():
    trainer = Trainer(step_of("bf16"), seed=0)
    trainer.init_parameters()
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        x = rng.standard_normal((64, 20)).astype(ml_dtypes.bfloat16)
        found.append(float(trainer.update(x, x[:, :3].astype("f4").argmax(axis=1))))
    assert np.mean(found[-20:]) < 0.5 * np.mean(found[:5])


@pytest.mark.parametrize("dtype", HALF)
def test_parts_of_a_tensor_and_constants_are_converted(dtype):
    """Only what is read is: rows 40 to 104 of 300, in which the operand starts behind the first element."""
    weights = np.random.default_rng(1).standard_normal((96, 80)).astype("f4").astype(DTYPES[dtype])

    def make(kind):
        x = param("x", (300, 96), kind)
        return Function(
            "f", (x,), (ops.matmul(ops.slice_axis(x, 0, 40, 104), ops.constant(weights.astype(DTYPES[kind]))),)
        )

    function = make(dtype)
    kernels = lower_function(function, target_for("avx512")).kernels
    assert {b.size for kernel in kernels for b in kernel.writes if b.space == "arena"} == {64 * 96, 96 * 80}
    arrays = numbers(function)
    check(compile(function, options=OPTIONS)(*arrays), make, arrays)
