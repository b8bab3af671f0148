"""Two-stage reductions, which start in the epilogue of a convolution: the same sums as on their own."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import Function, apply, param
from adjoint.kernel.printer import print_kernel
from adjoint.ops.centred import CentredSquares
from adjoint.pipeline import lower_function
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph
from tests.hardware import shared_among_levels

OPTIONS = CompileOptions(cache=False, threads=2)
SMALLEST = (3, 16, 8, 10)
#: Images, channels, channels of the result, rows and columns: whole vectors, shorter ones, rows of tiles that are cut.
SHAPES = [
    (4, 16, 16, 32),
    (4, 16, 24, 28),
    (4, 32, 32, 14),
    (6, 16, 40, 8),
    SMALLEST,
]


def block(images, channels, filters, size, offset=0.0):
    """Two convolutions with batch normalisation between them, and a loss."""
    x, w = param("x", (images, channels, size, size)), param("w", (filters, channels, 3, 3))
    scale, shift, mean, var = (param(name, (filters,)) for name in ("scale", "shift", "mean", "var"))
    again, ct = param("again", (filters, filters, 3, 3)), param("ct", (images, filters, size, size))
    made = ops.add(ops.conv2d(x, w, padding=1), offset)
    y, new_mean, new_var = ops.batch_norm(made, mean, var, scale, shift)
    result = ops.conv2d(ops.relu(y), again, padding=1)
    loss = ops.sum(ops.multiply(ops.multiply(result, result), ct))
    forward = Function("block", (x, w, scale, shift, mean, var, again, ct), (loss, new_mean, new_var))
    return gradient(forward, ("w", "scale", "shift"))


def arrays_of(function, seed=0):
    rng = np.random.default_rng(seed)
    return [np.abs(rng.standard_normal(p.shape)).astype(p.dtype) - 0.4 * (len(p.shape) > 1) for p in function.params]


def kernels_that_add_parts(function):
    return [k for k in lower_function(function, host()).kernels if any(b.name.endswith("_parts") for b in k.reads)]


@pytest.mark.parametrize(
    ("shape", "level"),
    [pytest.param(*pair, marks=[pytest.mark.blas] * (pair[0] == SMALLEST)) for pair in shared_among_levels(SHAPES)],
)
def test_statistics_and_their_gradients_agree_with_the_reference(level, shape):
    function = block(*shape)
    arrays = arrays_of(function)
    agrees_with_graph(compile(function, level, OPTIONS)["block_adjoint"](*arrays), function, *arrays)


@pytest.mark.parametrize("shape", SHAPES[-2:])
def test_statistics_far_from_0_agree_with_the_reference(shape):
    function = block(*shape, offset=300.0)
    arrays = arrays_of(function)
    agrees_with_graph(compile(function, options=OPTIONS)["block_adjoint"](*arrays), function, *arrays)


def test_nothing_else_reads_all_of_a_convolution_for_them():
    kernels = lower_function(block(8, 16, 16, 32), host()).kernels
    sums = [k for k in kernels if any(b.size == 16 for b in k.writes)]
    # The mean and the squares of distances from it, then what the scale and what the shift gets.
    assert len(sums) == 3
    assert all(any(b.name.endswith("_parts") for b in k.reads) for k in sums)
    assert not any(b.size == 8 * 16 * 32 * 32 for k in sums for b in k.reads)


@pytest.mark.parametrize("threads", [2, 3])
def test_numbers_are_the_same_bits_for_any_number_of_threads(threads):
    function = block(8, 16, 24, 14)
    arrays = arrays_of(function)
    one, several = (compile(function, options=CompileOptions(threads=n))["block_adjoint"] for n in (1, threads))
    for got, want in zip(several(*arrays), one(*arrays), strict=True):
        np.testing.assert_array_equal(got, want)


def squares(images=8, channels=16, filters=16, size=14):
    """The sum of squares of distances from the mean, of what a convolution makes and something is added to."""
    x, w = param("x", (images, channels, size, size)), param("w", (filters, channels, 3, 3))
    more = param("more", (filters, 1, 1))
    made = ops.add(ops.conv2d(x, w, padding=1), more)
    mean = ops.mean(made, (0, 2, 3))
    return Function("squares", (x, w, more), (made, mean, apply(CentredSquares((0, 2, 3)), made, mean)))


def test_squares_far_from_zero_keep_their_digits():
    """A mean of thirty thousand and distances of one: as a difference of squares nothing would be left."""
    function = squares()
    (both,) = kernels_that_add_parts(function)
    assert {b.name for b in both.reads} == {"sum_3_parts", "centred_squares_7_parts", "result1"}
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(p.shape).astype(np.float32) for p in function.params]
    arrays[1] /= 12
    arrays[2] = np.full_like(arrays[2], 3e4)
    made, _, found = compile(function, options=OPTIONS)["squares"](*arrays)
    exact = np.asarray(made, np.float64)
    want = np.square(exact - exact.mean((0, 2, 3), keepdims=True)).sum((0, 2, 3))
    single = np.square(made).sum((0, 2, 3)) - made.mean((0, 2, 3)) ** 2 * made[:, 0].size
    np.testing.assert_allclose(found, want, rtol=1e-4)
    assert np.abs(single / want - 1).max() > 1


def test_a_first_number_far_from_all_others_costs_no_digits():
    function = squares()
    arrays = [np.zeros(p.shape, np.float32) for p in function.params]
    arrays[0][:, 0] = np.random.default_rng(2).standard_normal((8, 14, 14))
    arrays[0][0, 0, 0, 0] = 1e4
    arrays[1][:, 0, 1, 1] = 1
    made, _, found = compile(function, options=OPTIONS)["squares"](*arrays)
    exact = np.asarray(made, np.float64)
    np.testing.assert_allclose(found, np.square(exact - exact.mean((0, 2, 3), keepdims=True)).sum((0, 2, 3)), rtol=1e-5)


def test_squares_of_a_constant_are_none():
    function = squares()
    arrays = [np.zeros(p.shape, np.float32) for p in function.params]
    arrays[2] += np.float32(0.1)
    _, mean, found = compile(function, options=OPTIONS)["squares"](*arrays)
    np.testing.assert_allclose(mean, 0.1, rtol=1e-6)
    assert (found >= 0).all()
    assert (found < 1e-9).all()


def test_what_is_not_a_number_stays_so():
    function = squares()
    arrays = arrays_of(function)
    arrays[0][3, 2, 5, 5] = np.nan
    _, mean, found = compile(function, options=OPTIONS)["squares"](*arrays)
    assert np.isnan(mean).all()
    assert np.isnan(found).all()


@pytest.mark.parametrize(
    ("what", "of"),
    [
        ("each image", lambda y: ops.sum(y, (1, 2, 3))),
        ("each row", lambda y: ops.sum(y, (0, 3))),
        ("the whole", ops.sum),
        ("extremes", lambda y: ops.max(y, (0, 2, 3))),
        (
            "what lies beside",
            lambda y: ops.sum(ops.multiply(ops.slice_axis(y, 2, 1, 14), ops.slice_axis(y, 2, 0, 13)), (0, 2, 3)),
        ),
    ],
)
def test_other_sums_have_kernels_of_their_own(what, of):
    x, w = param("x", (8, 16, 14, 14)), param("w", (16, 16, 3, 3))
    made = ops.conv2d(x, w, padding=1)
    function = Function("f", (x, w), (made, of(made)))
    assert not kernels_that_add_parts(function), what
    arrays = arrays_of(function)
    agrees_with_graph(compile(function, options=OPTIONS)["f"](*arrays), function, *arrays, message=what)


def test_the_picture():
    x, w = param("x", (8, 16, 16, 16)), param("w", (16, 16, 3, 3))
    made = ops.conv2d(x, w, padding=1)
    kernels = lower_function(Function("f", (x, w), (made, ops.sum(made, (0, 2, 3)).named("s"))), host()).kernels
    maker, tail = map(print_kernel, kernels[-2:])
    lines = [line.strip() for line in maker.splitlines()]
    assert any(line.startswith("s_0[l] = 0.0") for line in lines)
    assert any(line.startswith("s_0[l] = add(s_0[l], ") for line in lines)
    assert lines[-1].startswith("s_parts[")
    assert lines[-1].endswith("] = s_0[l]")
    assert [line.strip() for line in tail.splitlines()[3:]] == [
        "for u in 0..16 units:",
        "for l in 0..16 vector:",
        "acc[l] = 0.0",
        "for p in 0..16:",
        "for l in 0..16 vector:",
        "acc[l] = add(acc[l], s_parts[u*256 + p*16 + l])",
        "result[0] = across(add, acc[0..16] in 16 lanes)",
        "result1[u] = result[0]",
    ]
