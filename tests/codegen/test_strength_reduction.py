"""Pointers that loops advance: which ones there are, and results of loops that have them."""

import ctypes
import re

import numpy as np
import pytest

from adjoint.codegen.kernels import emit_kernel
from adjoint.codegen.native import compile_native
from adjoint.codegen.strength_reduction import Nest, reads_only
from adjoint.compiler import host
from adjoint.kernel.index import Dynamic, Var, as_index
from adjoint.kernel.interpreter import run_kernel
from adjoint.kernel.ir import Apply, Buffer, Const, For, Kernel, Load, Store
from adjoint.kernel.verifier import verify_kernel
from adjoint.runtime.library import Library

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)
ROWS, LANES = 13, 8
UNIT, DOWN, ACROSS = Var("u", 3), Var("k1", 4), Var("k2", 5)


def filtered(rows=ROWS, unrolled=False):
    """The kernel of a correlation of three images with filters of 4x5, in a register tile: ``out, x, w, kernel``."""
    i, lane = Var("i", rows), Var("l", LANES)
    x = Buffer("x", F32, 3 * 100, "external")
    w = Buffer("w", F32, 4 * 5 * LANES, "external")
    out = Buffer("out", F32, 3 * rows * LANES, "external")
    acc = Buffer("acc", F32, rows * LANES, "register")
    spot = as_index(i) * LANES + as_index(lane)
    pixel = Load(x, as_index(UNIT) * 100 + as_index(DOWN) * 20 + as_index(ACROSS) + as_index(i))
    weight = Load(w, as_index(DOWN) * 40 + as_index(ACROSS) * LANES + as_index(lane))

    def tile(store):
        return For(i, (For(lane, (Store((store,)),), "vector"),), "unroll")

    clear = tile((acc, spot, Const(0.0, F32)))
    product = tile((acc, spot, Apply("fma", (pixel, weight, Load(acc, spot)), F32)))
    put = tile((out, as_index(UNIT) * (rows * LANES) + spot, Load(acc, spot)))
    steps = For(DOWN, (For(ACROSS, (product,), "unroll" if unrolled else "serial"),))
    return out, x, w, Kernel("k", UNIT, (clear, steps, put))


def text_of(kernel):
    return emit_kernel(kernel, "kernel", host(), {})


def native(kernel, *arrays):
    declarations = {}
    text = emit_kernel(kernel, "kernel", host(), declarations).replace("define hidden", "define")
    code = "\n".join([*declarations.values(), text, "attributes #0 = { nounwind }"])
    library = Library(compile_native((code,), host()), ("kernel",))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays), ctypes.c_int64, ctypes.c_int64)
    function(library["kernel"])(*(a.ctypes.data for a in arrays), 0, kernel.unit.extent)


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize("rows", [1, ROWS])
def test_results_are_those_of_the_interpreter(rows, unrolled):
    out, x, w, kernel = filtered(rows, unrolled)
    verify_kernel(kernel)
    rng = np.random.default_rng(rows)
    # Whole numbers, so that every sum is exact.
    given = {buffer: rng.integers(-9, 10, buffer.size).astype(F32) for buffer in (x, w)}
    want, got = np.zeros(out.size, F32), np.zeros(out.size, F32)
    run_kernel(kernel, {out: want, **given})
    native(kernel, got, given[x], given[w])
    np.testing.assert_array_equal(got, want)


def test_each_loop_of_a_nest_advances_one_pointer_for_all_elements_of_an_operand():
    _, _, _, kernel = filtered()
    text = text_of(kernel)
    pointers = re.findall(r"(%v\d+) = phi ptr \[ (\S+), %before\d+ \], \[ (%v\d+), %latch\d+ \]", text)
    (x, start, _), (w, begin, _), *inner = pointers
    assert begin == "%b2"
    assert re.search(rf"{start} = getelementptr inbounds float, ptr %b1, i64 %v\d+", text)
    # The inner loop starts where the outer one is.
    assert [first for _, first, _ in inner] == [x, w]
    steps = {following: re.search(rf"{following} = .*\(ptr (%v\d+)\)", text)[1] for _, _, following in pointers}
    strides = [
        int(re.search(rf"{steps[following]} = getelementptr float, ptr {name}, i64 (\d+)", text)[1])
        for name, _, following in pointers
    ]
    assert strides == [20, 40, 1, LANES]
    # All elements of the tile are at constant distances from the pointer of the inner loop.
    (pixels, _, _), _ = inner
    read = re.findall(rf"getelementptr float, ptr {pixels}, i64 (\d+)\n", text)
    assert sorted(set(map(int, read))) == list(range(1, ROWS))


def test_what_changes_in_the_loop_and_what_is_read_from_memory_are_not_fixed():
    _, x, w, kernel = filtered()
    loop = kernel.body[1]
    assert isinstance(loop, For)
    nest = Nest.around(loop)
    assert DOWN in nest.inside
    assert UNIT not in nest.inside
    start = Load(Buffer("starts", I32, 3, "external"), as_index(UNIT))
    index = (
        as_index(UNIT) * 100 + as_index(UNIT) // 2 + (as_index(UNIT) + as_index(DOWN)) % 3 + as_index(Dynamic(start, 9))
    )
    assert nest.fixed(index) == (as_index(UNIT) * 100 + as_index(UNIT) // 2).terms
    assert list(nest.read(loop)) == [(x, (as_index(UNIT) * 100).terms)]
    advanced = (as_index(UNIT) * 100 + as_index(DOWN) * 20).terms
    assert list(nest.advanced(loop)) == [(x, advanced, 20), (w, (as_index(DOWN) * 40).terms, 40)]


def test_a_pointer_advances_by_a_constant_only():
    x, acc = Buffer("x", F32, 300, "external"), Buffer("acc", F32, 1, "register")
    place = as_index(UNIT) * 100 + as_index(DOWN) + as_index(DOWN) // 2
    loop = For(DOWN, (Store(((acc, as_index(0), Load(x, place)),)),))
    assert reads_only(loop)
    assert list(Nest.around(loop).advanced(loop)) == []
    assert "phi ptr" not in text_of(Kernel("some", UNIT, (loop,)))


def test_a_loop_that_stores_to_memory_has_none():
    _, _, _, kernel = filtered()
    assert reads_only(kernel.body[1])
    x, out = Buffer("x", F32, 300, "external"), Buffer("out", F32, 300, "external")
    place = as_index(UNIT) * 100 + as_index(DOWN)
    copy = For(DOWN, (Store(((out, place, Load(x, place)),)),))
    assert not reads_only(copy)
    assert "phi ptr" not in text_of(Kernel("copy", UNIT, (copy,)))
