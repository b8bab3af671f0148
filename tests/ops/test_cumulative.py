"""Running sums, products and extremes, and linear recurrences: edge cases, kernels, derivatives of second order."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile, host
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, param
from adjoint.testing import check_gradients
from tests.hardware import missing
from tests.ops.running import gradient, run

X = np.array([[2.0, 0.0, -1.0, 3.0], [1.0, 4.0, 0.5, 0.0]])


def test_exclusive_and_reverse_are_those_of_tensorflow():
    """tf.cumsum([a, b, c], exclusive=True) is [0, a, a + b], with reverse=True [b + c, c, 0] (its documentation)."""
    x = np.array([2.0, 3.0, 5.0])
    assert run(lambda v: ops.cumsum(v, 0, exclusive=True), x).tolist() == [0, 2, 5]
    assert run(lambda v: ops.cumsum(v, 0, reverse=True), x).tolist() == [10, 8, 5]
    assert run(lambda v: ops.cumsum(v, 0, exclusive=True, reverse=True), x).tolist() == [8, 5, 0]
    assert run(lambda v: ops.cumprod(v, 0, exclusive=True), x).tolist() == [1, 2, 6]
    assert run(lambda v: v.cumprod(-1, exclusive=True, reverse=True), x).tolist() == [15, 5, 1]


def test_extremes_have_the_positions_of_pytorch():
    """torch.cummax(torch.tensor([1., 3., 3., nan, 5.]), 0), torch.cummin of the same without NaN: the last of ties."""
    values, places = ops.cummax(param("x", (5,), "f64"), 0)
    x = np.array([1, 3, 3, np.nan, 5])
    assert run(lambda v: ops.cummax(v, 0)[1], x).tolist() == [0, 1, 2, 3, 3]
    assert values.dtype == np.float64
    assert places.dtype == np.int64
    y = np.array([3, -1, 4, -1], np.int32)
    assert run(lambda v: ops.cummin(v, 0)[0], y).tolist() == [3, -1, -1, -1]
    assert run(lambda v: ops.cummin(v, 0)[1], y).tolist() == [0, 1, 1, 3]
    assert run(lambda v: ops.cummax(v, 0, reverse=True)[1], y).tolist() == [2, 2, 2, 3]
    ties = np.array([1.0, 3.0, 3.0, 2.0])
    assert gradient(lambda v: ops.cummax(v, 0)[0] * np.array([1.0, 10, 100, 1000]), ties).tolist() == [1, 10, 1100, 0]


def test_gradients_of_products_are_right_where_elements_are_zero():
    for zeros in ([0.0, 2.0, 3.0], [2.0, 0.0, 3.0], [0.0, 0.0, 3.0]):
        a, b, c = zeros
        assert gradient(lambda v: ops.cumprod(v, 0), np.array(zeros)).tolist() == [1 + b + b * c, a + a * c, a * b]


def test_second_derivatives_of_what_the_samples_leave_out():
    check_gradients(
        lambda v, w: [ops.logcumsumexp(v * w, 1), ops.linear_recurrence(w, ops.square(v), 0, reverse=True)],
        [X, np.flip(X) + 0.3],
    )


def test_logcumsumexp_neither_overflows_nor_gives_nan():
    """torch.logcumsumexp of the same."""
    x = np.array([-np.inf, -np.inf, -200, 800, 800, -np.inf])
    found = run(lambda v: ops.logcumsumexp(v, 0), x)
    np.testing.assert_allclose(found, [-np.inf, -np.inf, -200, 800, 800 + np.log(2), 800 + np.log(2)])
    assert gradient(lambda v: ops.logcumsumexp(v, 0)[4], x).round(12).tolist() == [0, 0, 0, 0.5, 0.5, 0]


def test_axes_are_checked():
    with pytest.raises(InvalidValueError, match="cumsum: axis 2 is out of range for rank 2; use -2 to 1"):
        ops.cumsum(param("x", (2, 3)), 2)


def test_bits_are_the_same_for_any_number_of_threads_and_width_of_vectors():
    """Rows and columns, with remainders; the order of additions is that of the elements."""
    rng = np.random.default_rng(0)
    shapes = [((37, 19), 1), ((37, 19), 0), ((3, 5, 2), 1), ((1, 40), 1)]
    params = [param(f"x{n}", shape, "f32") for n, (shape, _) in enumerate(shapes)]
    results = [ops.cumsum(p, axis, reverse=axis == 0) for p, (_, axis) in zip(params, shapes, strict=True)]
    function = Function("f", tuple(params), tuple(results))
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape, _ in shapes]
    levels = [level for level in ("avx512", "avx2") if host().architecture == "x86_64" and not missing(level)]
    for level in levels or ["host"]:
        for threads in (1, 3):
            made = compile(function, level, CompileOptions(threads=threads))(*arrays)
            for found, x, (_, axis) in zip(made, arrays, shapes, strict=True):
                ordered = x[::-1] if axis == 0 else x
                wanted = np.cumsum(ordered, axis, dtype=np.float32)
                assert found.tobytes() == np.ascontiguousarray(wanted[::-1] if axis == 0 else wanted).tobytes()


def test_a_scan_with_what_it_reads_and_what_reads_it_is_one_kernel():
    x = param("x", (64, 32), "f32")
    program = compile(Function("f", (x,), (ops.exp(ops.cumsum(ops.square(x), 0)) + 1.0,)))
    assert len(program.kernels) == 1
