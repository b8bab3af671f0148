"""Winograd for windows of two to ten rows: the algorithm in exact arithmetic, plans, and numerical results."""

from dataclasses import replace
from fractions import Fraction
from itertools import product as pairs

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.codegen.targets import target_for
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import Function, apply, param
from adjoint.ir.printer import value_names
from adjoint.kernel.index import as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Load, postorder
from adjoint.lower.contractions.gemm_plan import GemmPlan
from adjoint.lower.contractions.schedules import schedules
from adjoint.lower.program import contractions_of
from adjoint.lower.winograd.algorithm import algorithm, matrix_times, transposed
from adjoint.lower.winograd.plan import WinogradPlan, plan_winograd
from adjoint.lower.winograd.weight_gradient_plan import WinogradGradientPlan
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import lower_function
from adjoint.transforms.differentiate import gradient
from adjoint.transforms.polyphase import polyphase
from adjoint.transforms.simplify import simplify
from adjoint.tuning import Measured, Tuning
from tests.closeness import agrees_with_graph
from tests.hardware import needs, shared_among_levels
from tests.lower.contractions.test_contractions import product


def times(matrix, vector):
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize(
    ("extent", "taps", "stride"),
    [
        *((n, 2, 1) for n in (2, 3, 4, 7)),
        *((n, 3, 1) for n in (2, 4, 7, 14)),
        *((n, 4, 1) for n in (2, 3, 7)),
        *((n, taps, 1) for taps in (5, 6, 7, 8, 9, 10) for n in (2, 3, 4)),
        *((n, taps, 2) for taps in (3, 4, 5, 6, 7, 8, 9, 10) for n in (2, 3, 4, 14)),
    ],
)
def test_the_algorithm_is_exact_and_saves_products(extent, taps, stride):
    """Both sums are linear in each factor: all pairs of unit vectors show that they are right."""
    by = algorithm(extent, taps, stride)
    assert by.taps == taps
    rows = by.lines(by.outputs)
    assert rows == (by.outputs - 1) * stride + taps <= by.products < by.outputs * taps
    units = [[Fraction(i == n) for i in range(rows)] for n in range(rows)]
    for row, tap in pairs(range(rows), range(taps)):
        u, v = times(by.weight, units[tap][:taps]), times(by.data, units[row])
        results = times(by.result, [a * b for a, b in zip(u, v, strict=True)])
        assert results == [Fraction(h * stride + tap == row) for h in range(by.outputs)]
    for row, out in pairs(range(rows), range(by.outputs)):
        v, d = times(by.data, units[row]), times(transposed(by.result), units[out][: by.outputs])
        gradient = times(transposed(by.weight), [a * b for a, b in zip(v, d, strict=True)])
        assert gradient == [Fraction(out * stride + tap == row) for tap in range(taps)]


@pytest.mark.parametrize(
    ("taps", "stride", "extent", "outputs"),
    [
        *((3, 1, *sizes) for sizes in ((2, 2), (3, 3), (4, 4), (5, 3), (6, 3), (7, 4), (9, 3), (14, 4), (56, 4))),
        *((4, 1, *sizes) for sizes in ((2, 2), (3, 3), (4, 2), (5, 3), (14, 3))),
        *((5, 1, *sizes) for sizes in ((2, 2), (3, 3), (6, 2), (7, 4), (14, 2), (16, 4))),
        *((7, 1, *sizes) for sizes in ((2, 2), (3, 3), (4, 2), (9, 3), (56, 3))),
        *((3, 2, *sizes) for sizes in ((2, 2), (3, 3), (4, 4), (7, 4), (14, 2), (16, 4))),
        *((5, 2, *sizes) for sizes in ((2, 2), (3, 3), (4, 4), (6, 3), (7, 4), (16, 4))),
        *((7, 2, *sizes) for sizes in ((2, 2), (3, 3), (4, 2), (112, 3))),
        *((2, 1, *sizes) for sizes in ((2, 2), (3, 3), (4, 4), (7, 4), (14, 3), (16, 4), (56, 4))),
    ],
)
def test_the_algorithm_with_the_fewest_products_is_taken(taps, stride, extent, outputs):
    """Where several take as many, the one that rounds least."""
    assert algorithm(extent, taps, stride).outputs == outputs


@pytest.mark.parametrize(
    ("extent", "taps", "stride"),
    [(0, 3, 1), (1, 3, 1), (0, 2, 1), (1, 2, 1), (1, 5, 1), (8, 1, 1), (8, 11, 1), (1, 7, 1), (8, 1, 2), (8, 2, 2),
     (8, 11, 2), (8, 3, 3), (1, 3, 2), (1, 5, 2)],
)  # fmt: skip
def test_no_algorithm_where_sums_of_their_own_take_no_more(extent, taps, stride):
    assert algorithm(extent, taps, stride) is None


@pytest.mark.parametrize(
    ("outputs", "taps", "stride"),
    [(2, 2, 1), (3, 2, 1), (4, 2, 1), (2, 3, 1), (3, 3, 1), (4, 3, 1), (3, 4, 1), (2, 5, 1), (4, 5, 1), (3, 7, 1),
     (3, 3, 2), (4, 3, 2), (4, 4, 2), (4, 5, 2), (3, 7, 2)],
)  # fmt: skip
@pytest.mark.parametrize("name", ["data", "weight", "result"])
@pytest.mark.parametrize("turned", [False, True])
def test_shared_parts_add_up_to_the_product_with_the_matrix(outputs, taps, stride, name, turned):
    matrix = getattr(algorithm(outputs, taps, stride), name)
    matrix = transposed(matrix) if turned else matrix
    memory = Buffer("x", np.dtype(np.float64), len(matrix[0]), "arena")
    terms = [Load(memory, as_index(n)) for n in range(memory.size)]
    made = matrix_times(matrix, terms)
    numbers = np.random.default_rng(0).standard_normal(memory.size)
    scalars = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "fma": lambda a, b, c: a * b + c}
    values = {}
    for expr in postorder(made):
        if isinstance(expr, Apply):
            values[id(expr)] = scalars[expr.function](*(values[id(o)] for o in expr.operands))
        else:
            values[id(expr)] = expr.value if isinstance(expr, Const) else numbers[expr.index.constant]
    want = np.array([[float(a) for a in row] for row in matrix]) @ numbers
    np.testing.assert_allclose([values[id(e)] for e in made], want, rtol=1e-12, atol=1e-12)


def convolution(images, channels, out, size, window=(3, 3), groups=1, stride=1, epilogue=False):
    """Of images that are padded already, to results of a size."""
    strides = (stride, stride) if isinstance(stride, int) else stride
    rows, columns = ((n - 1) * step + taps for n, step, taps in zip(size, strides, window, strict=True))
    x, w = param("x", (images, channels, rows, columns)), param("w", (out, channels // groups, *window))
    y = ops.conv2d(x, w, groups=groups, stride=strides)
    if not epilogue:
        return Function("f", (x, w), (y,))
    r = param("r", y.shape)
    return Function("f", (x, w, r), (ops.relu(ops.add(y, r)), ops.multiply(y, r)))


def weight_gradient(images, channels, out, size, window=(3, 3)):
    x = param("x", (images, channels, size[0] + window[0] - 1, size[1] + window[1] - 1))
    ct = param("ct", (images, out, *size))
    op = Conv2dWeightGradient((1, 1), (0, 0), (1, 1), 1, window)
    return Function("f", (x, ct), (apply(op, x, ct),))


@pytest.mark.parametrize("out", range(386, 398))
def test_images_are_not_transformed_for_every_few_channels(out):
    """Where few numbers divide the blocks of channels, each would be a group, though images keep threads busy."""
    function = convolution(6, 160, out, (24, 24))
    target = replace(target_for("avx512"), cores=2)
    (made,) = contractions_of(simplify(function), target, value_names(function))[1].values()
    assert isinstance(made.plan, WinogradPlan)
    assert made.plan.units >= costs.least_units(target)
    assert made.plan.units <= 2 * costs.units(target)


def test_units_walk_what_they_would_read_again():
    """Large weights stay for all images; where the second-level cache holds them, images stay for all groups."""
    target = replace(target_for("avx512"), cores=2)
    for function, stay in (
        (convolution(4, 413, 279, (8, 8)), True),
        (convolution(2, 300, 320, (8, 8), groups=2), True),
        (convolution(1, 64, 64, (32, 32)), False),
    ):
        (made,) = contractions_of(simplify(function), target, value_names(function))[1].values()
        assert isinstance(made.plan, WinogradPlan)
        assert made.plan.groups > 1
        assert made.plan.weights_stay is stay


CASES = {
    "rows of two vectors": lambda: convolution(3, 16, 20, (8, 32)),
    "rows of one vector, images together": lambda: convolution(32, 8, 9, (4, 16)),
    "half vectors, rows together": lambda: convolution(32, 16, 16, (8, 8)),
    "rows that fill no vectors": lambda: convolution(2, 16, 17, (12, 28)),
    "two results at a time": lambda: convolution(2, 9, 5, (6, 14)),
    "rows behind the image": lambda: convolution(2, 9, 5, (14, 14)),
    "one row behind the image, several images": lambda: convolution(24, 8, 20, (7, 7), epilogue=True),
    "one row of three": lambda: convolution(2, 9, 5, (5, 14)),
    "narrow images": lambda: convolution(20, 16, 3, (4, 5)),
    "windows of two columns": lambda: convolution(2, 16, 16, (8, 16), (3, 2)),
    "windows of five columns": lambda: convolution(2, 6, 16, (8, 20), (3, 5)),
    "windows of two rows": lambda: convolution(3, 16, 20, (8, 20), (2, 2)),
    "windows of two rows, three results at a time": lambda: convolution(3, 16, 20, (14, 14), (2, 3)),
    "windows of two rows, rows behind the image": lambda: convolution(8, 16, 20, (7, 7), (2, 2)),
    "windows of five rows": lambda: convolution(3, 8, 20, (9, 20), (5, 5)),
    "windows of five rows, four results at a time": lambda: convolution(3, 8, 20, (8, 20), (5, 5)),
    "windows of seven rows": lambda: convolution(2, 5, 20, (11, 20), (7, 7), epilogue=True),
    "windows of five rows, images together": lambda: convolution(16, 8, 9, (4, 8), (5, 2), epilogue=True),
    "windows of one column": lambda: convolution(3, 16, 20, (8, 28), (3, 1), epilogue=True),
    "windows of two rows and one column": lambda: convolution(8, 17, 20, (7, 7), (2, 1)),
    "stride 2": lambda: convolution(3, 16, 20, (8, 28), stride=2, epilogue=True),
    "stride 2, rows together": lambda: convolution(16, 16, 20, (8, 8), stride=2),
    "stride 2, rows behind the image": lambda: convolution(4, 8, 20, (7, 7), stride=2, epilogue=True),
    "stride 2, two results at a time": lambda: convolution(4, 8, 20, (2, 14), stride=2),
    "stride 2 of windows of two columns": lambda: convolution(3, 9, 20, (12, 16), (3, 2), stride=2),
    "stride 2 of windows of one column": lambda: convolution(3, 17, 20, (12, 16), (3, 1), stride=2),
    "stride 2 of rows alone": lambda: convolution(3, 16, 20, (12, 16), stride=(2, 1)),
    "stride 2 of columns alone": lambda: convolution(3, 16, 20, (12, 16), stride=(1, 2)),
    "stride 2 of windows of five rows": lambda: convolution(3, 6, 20, (8, 20), (5, 5), stride=2, epilogue=True),
    "stride 2 of windows of four rows": lambda: convolution(3, 6, 20, (7, 20), (4, 3), stride=2),
    "stride 2 of windows of seven rows": lambda: convolution(2, 4, 20, (12, 20), (7, 7), stride=2, epilogue=True),
    "windows of four rows": lambda: convolution(2, 9, 20, (10, 20), (4, 4)),
    "three results at a time": lambda: convolution(2, 9, 20, (9, 20)),
    "groups": lambda: convolution(2, 24, 12, (8, 16), groups=2),
    "an epilogue of two results": lambda: convolution(4, 16, 18, (8, 16), epilogue=True),
    "weights that stay for all images": lambda: convolution(4, 413, 279, (8, 8), epilogue=True),
    "weights of two groups that stay": lambda: convolution(2, 300, 320, (8, 8), groups=2),
    "weights": lambda: weight_gradient(5, 12, 16, (8, 16)),
    "weights of many channels": lambda: weight_gradient(8, 16, 64, (4, 8)),
    "weights, two results at a time": lambda: weight_gradient(4, 6, 32, (6, 14)),
    "weights of windows of two columns": lambda: weight_gradient(4, 16, 16, (8, 9), (3, 2)),
    "weights of windows of two rows": lambda: weight_gradient(4, 16, 32, (7, 14), (2, 2)),
    "weights, rows behind the image": lambda: weight_gradient(4, 6, 32, (7, 14)),
    "weights of windows of five rows": lambda: weight_gradient(4, 4, 32, (8, 14), (5, 5)),
    "weights of windows of seven rows": lambda: weight_gradient(2, 3, 20, (9, 14), (7, 7)),
    "weights of channels that fill no panels": lambda: weight_gradient(4, 6, 42, (8, 14)),
    "weights of fewer channels than lanes": lambda: weight_gradient(4, 7, 11, (8, 14)),
    "weights of channels that fill no panels, one image": lambda: weight_gradient(1, 7, 90, (16, 20)),
    "weights, one image": lambda: weight_gradient(1, 7, 16, (16, 20)),
}


def reference(function, *arrays):
    """In float64, sum by sum."""
    x, other, *rest = (a.astype(np.float64) for a in arrays)
    (value, *_) = function.results
    op = value.op if not rest else value.inputs[0].inputs[0].op
    made = op.reference(x, other)
    return [made] if not rest else [np.maximum(made + rest[0], 0), made * rest[0]]


@pytest.mark.parametrize(("case", "level"), shared_among_levels(CASES))
def test_what_comes_out_is_the_sum(tmp_path, case, level):
    function = CASES[case]()
    arrays = [np.random.default_rng(n).standard_normal(p.shape).astype("f4") for n, p in enumerate(function.params)]
    target = host() if level == "host" else target_for(level)
    context, planned = contractions_of(simplify(function), target, value_names(function))
    ((group, made),) = planned.items()
    assert "winograd" in map(str, schedules(context, group, made.contraction))
    Tuning.of(target, tmp_path).write({made.signature: Measured("winograd", 1.0, "winograd", 1.0)})
    results = [compile(function, level, CompileOptions(threads=threads), tune=tmp_path)(*arrays) for threads in (1, 3)]
    several = len(function.results) > 1
    agrees_with_graph(results[0], function, *arrays)
    for one, three in zip(*(r if several else [r] for r in results), strict=True):
        assert one.tobytes() == three.tobytes()


def test_narrow_vectors_give_the_same_bits():
    """Of a gradient with few channels, where more vectors of half the width start, as on Zen 4."""
    needs("avx512")
    function = weight_gradient(4, 32, 24, (28, 28))
    halves = replace(target_for("avx512"), fma_units=1, load_units=1, datapath_bytes=32)
    (made,) = contractions_of(simplify(function), halves, value_names(function))[1].values()
    assert isinstance(made.plan, WinogradGradientPlan)
    assert made.plan.lanes == 8
    arrays = [np.random.default_rng(n).standard_normal(p.shape).astype("f4") for n, p in enumerate(function.params)]
    wide, narrow = (compile(function, target)(*arrays) for target in ("avx512", halves))
    assert wide.tobytes() == narrow.tobytes()


def form_of(function):
    (made,) = contractions_of(function, host(), value_names(function))[1].values()
    return str(made.plan)


def test_convolutions_of_some_channels_run_so():
    if host().vector_bytes < 32:
        pytest.skip("narrow vectors leave other forms ahead")
    assert form_of(convolution(64, 16, 16, (32, 32))) == "winograd"
    assert form_of(convolution(8, 64, 64, (56, 56))) == "winograd"
    assert form_of(convolution(8, 64, 64, (32, 32), (5, 5))) == "winograd"
    assert form_of(convolution(64, 32, 64, (8, 8), stride=2)) == "winograd"
    assert form_of(weight_gradient(64, 32, 32, (16, 16))) == "winograd"
    assert form_of(weight_gradient(64, 42, 90, (16, 16))) == "winograd"


def test_gradients_of_weights_are_no_convolutions_with_windows_of_whole_images():
    """Both are possible where images have few rows."""
    for function in (weight_gradient(64, 64, 64, (8, 8)), weight_gradient(64, 64, 64, (8, 8), (2, 2))):
        ((_, made),) = contractions_of(simplify(function), host(), value_names(function))[1].items()
        assert plan_winograd(host(), made.contraction) is not None
        assert not isinstance(made.plan, WinogradPlan)


def test_phases_of_a_gradient_at_stride_two_run_so():
    """Those with two rows of the window."""
    if host().vector_bytes < 32:
        pytest.skip("narrow vectors leave other forms ahead")
    x, w = param("x", (8, 64, 56, 56)), param("w", (128, 64, 3, 3))
    y = ops.conv2d(x, w, stride=2, padding=1)
    ct = param("ct", y.shape)
    made = gradient(Function("f", (x, w, ct), (ops.sum(ops.multiply(y, ct)),)), ("x",))
    function = simplify(polyphase(Function("f", made.params, made.results[1:])))
    planned = contractions_of(function, host(), value_names(function))[1].values()
    found = [str(made.plan) for made in planned]
    assert len(found) == 4
    assert found.count("winograd") == 2


def test_other_contractions_do_not():
    assert form_of(convolution(8, 1, 16, (32, 32))) != "winograd"
    assert form_of(convolution(8, 16, 16, (1, 32))) != "winograd"
    assert form_of(convolution(8, 16, 16, (32, 32), (11, 11))) != "winograd"
    assert form_of(convolution(8, 64, 64, (32, 32), (1, 1))) != "winograd"


@pytest.mark.parametrize("name", ["host", "avx512", "avx2"])
def test_units_are_enough_for_threads(name):
    target = replace(target_for(name), cores=8)
    for function in (
        convolution(64, 64, 64, (8, 8)),
        weight_gradient(64, 64, 64, (8, 8)),
        convolution(2, 64, 64, (8, 8)),
    ):
        assert max(k.unit.extent for k in lower_function(function, target).kernels) >= target.cores


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(convolution(8, 64, 64, (56, 56)), id="images"),
        pytest.param(convolution(1, 4096, 32, (8, 8)), id="many channels"),
        pytest.param(convolution(1, 16, 16, (4, 40000)), id="long rows"),
        pytest.param(weight_gradient(64, 64, 64, (8, 8)), id="weights"),
        pytest.param(weight_gradient(1, 4096, 32, (8, 8)), id="weights of many channels"),
        pytest.param(weight_gradient(1, 16, 16, (4, 40000)), id="weights of long rows"),
        pytest.param(product(300_000, 1100, 2048), id="a product of many rows"),
    ],
)
def test_scratch_memory_fits_a_stack(function):
    for kernel in lower_function(function, host()).kernels:
        assert sum(b.nbytes for b in scratch_of(kernel)) <= 5 * 1024 * 1024


def scratch_of(kernel):
    found = {}

    def visit(body):
        for s in body:
            for buffer, _, _ in getattr(s, "targets", ()):
                if buffer.space == "scratch":
                    found[buffer] = None
            for inner in ("body", "then", "other"):
                visit(getattr(s, inner, ()))

    visit(kernel.body)
    return found


@pytest.mark.parametrize(
    ("window", "stride"),
    [
        ((3, 3), 1),
        ((2, 2), 1),
        ((2, 1), 1),
        ((4, 4), 1),
        ((5, 5), 1),
        ((7, 7), 1),
        ((3, 3), 2),
        ((5, 5), 2),
        ((7, 7), 2),
    ],
    ids=str,
)
def test_rounding_is_that_of_direct_sums(tmp_path, window, stride):
    """Within twice of it: 64 channels, beside the form that sums directly."""
    function = convolution(2, 64, 32, (16, 16), window, stride=stride)
    x, w = (np.random.default_rng(n).standard_normal(p.shape).astype("f4") for n, p in enumerate(function.params))
    (want,) = reference(function, x, w)
    context, planned = contractions_of(function, host(), value_names(function))
    ((group, planned_contraction),) = planned.items()
    plans = schedules(context, group, planned_contraction.contraction)
    direct = str(next(plan for plan in plans if isinstance(plan, GemmPlan)))
    errors = {}
    for form in ("winograd", direct):
        Tuning.of(host(), tmp_path).write({planned_contraction.signature: Measured(form, 1.0, form, 1.0)})
        made = compile(function, options=CompileOptions(cache=False), tune=tmp_path)(x, w)
        errors[form] = np.sqrt(np.mean((made - want) ** 2))
    assert 0 < errors["winograd"] < 2 * errors[direct]
