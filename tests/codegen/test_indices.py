"""Quotients and remainders of indices in machine code, of either sign: floored, as the interpreter has them."""

import ctypes

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.kernels import emit_kernel
from adjoint.codegen.native import compile_native
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import Function, param
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.interpreter import run_kernel
from adjoint.kernel.ir import Buffer, Coordinate, For, Kernel, Store
from adjoint.kernel.verifier import verify_kernel
from adjoint.runtime.library import Library
from adjoint.testing import interpret
from adjoint.transforms.differentiate import gradient

I32, I64 = np.dtype(np.int32), np.dtype(np.int64)


def divides(kind, by, index):
    return index // by if kind == "quotient" else index % by


def native(kernel, out, thread=0, threads=1):
    """Run a kernel with one buffer as machine code; if its units end at run time, the share of a thread."""
    declarations = {}
    text = emit_kernel(kernel, "kernel", host(), declarations).replace("define hidden", "define")
    code = "\n".join([*declarations.values(), text, "attributes #0 = { nounwind }"])
    library = Library(compile_native((code,), host()), ("kernel",))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library["kernel"])
    function(out.ctypes.data, *((0, kernel.unit.extent) if kernel.until is None else (thread, threads)))


@pytest.mark.parametrize("dtype", [I32, I64], ids=str)
@pytest.mark.parametrize("loop", ["serial", "vector"])
@pytest.mark.parametrize("by", [2, 3, 7, 8])
@pytest.mark.parametrize("kind", ["quotient", "remainder"])
def test_of_what_may_be_negative(kind, by, loop, dtype):
    unit, step = Var("u", 13), Var("i", 11)
    out = Buffer("out", dtype, 143, "external")
    divided = divides(kind, by, as_index(unit) - as_index(step) * 5)
    # The other way round, and of what is negative throughout.
    index = divided + divides(kind, by, as_index(step) - 40) * 100
    place = as_index(unit) * 11 + as_index(step)
    kernel = Kernel("k", unit, (For(step, (Store(((out, place, Coordinate(index, dtype)),)),), loop),))
    verify_kernel(kernel)
    want, got = np.zeros(143, dtype), np.zeros(143, dtype)
    run_kernel(kernel, {out: want})
    native(kernel, got)
    np.testing.assert_array_equal(got, want)
    u, i = np.divmod(np.arange(143), 11)
    floored = np.floor_divide if kind == "quotient" else np.remainder
    np.testing.assert_array_equal(got, floored(u - 5 * i, by) + 100 * floored(i - 40, by))


@pytest.mark.parametrize("stride", [2, 3])
def test_gradients_of_overlapping_windows_before_others(stride):
    """The place of an element, less its place in a window, is divided by the stride, wherever it lies."""
    x = param("x", (2, 3, 14, 13))
    pooled = ops.max_pool2d(ops.max_pool2d(x, stride + 1, stride), 2)
    weights = param("weights", pooled.shape)
    function = gradient(Function("f", (x, weights), (ops.sum(ops.multiply(pooled, weights)),)))
    # Whole numbers, so that every sum is exact.
    arrays = [np.random.default_rng(0).permutation(p.type.size).reshape(p.shape).astype("f4") for p in (x, weights)]
    found = compile(function, options=CompileOptions(threads=1, cache=False))(*arrays)
    for got, want in zip(found, interpret(function, *arrays), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("units", [0, 1, 9, 20])
def test_loops_that_end_at_run_time(units):
    """Iterations of a loop decrease with the unit, from 8, to less than none; some units are left out."""
    unit, step = Var("u", 13), Var("i", 11)
    out = Buffer("out", I64, 143, "external")
    place = as_index(unit) * 11 + as_index(step)
    one = Store(((out, place, Coordinate(as_index(1), I64)),))
    loop = For(step, (one,), until=as_index(unit) * -3 + 8)
    kernel = Kernel("k", unit, (loop,), until=as_index(units))
    verify_kernel(kernel)
    want, got = np.zeros(143, I64), np.zeros(143, I64)
    run_kernel(kernel, {out: want})
    native(kernel, got)
    np.testing.assert_array_equal(got, want)
    shared = np.zeros(143, I64)
    for thread in range(3):
        native(kernel, shared, thread, 3)
    np.testing.assert_array_equal(shared, want)
    counts = [min(max(8 - 3 * u, 0), 11) if u < units else 0 for u in range(13)]
    assert got.reshape(13, 11).sum(1).tolist() == counts
