"""Anchors: which parts of addresses are computed before loops, and results of loops that have them."""

import ctypes

import numpy as np
import pytest

from adjoint.codegen.anchors import Anchors, reads_only
from adjoint.codegen.kernels import emit_kernel
from adjoint.codegen.native import compile_native
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


def test_a_nest_of_loops_has_one_anchor_for_all_elements_of_a_tile():
    _, _, _, kernel = filtered()
    lines = text_of(kernel).splitlines()
    (frozen,) = (n for n, line in enumerate(lines) if "freeze ptr" in line)
    # Before the head of the outer loop; the address of the filter does not depend on what is outside.
    assert "getelementptr float, ptr %b1" in lines[frozen - 1]
    assert not any("phi" in line for line in lines[frozen - 3 : frozen])
    assert sum("phi" in line for line in lines[frozen:]) == 2


def test_what_changes_in_the_loop_and_what_is_read_from_memory_are_not_anchored():
    _, x, _, kernel = filtered()
    loop = kernel.body[1]
    assert isinstance(loop, For)
    anchors = Anchors.inside_of(loop)
    assert DOWN in anchors.inside
    assert UNIT not in anchors.inside
    start = Load(Buffer("starts", I32, 3, "external"), as_index(UNIT))
    index = (
        as_index(UNIT) * 100 + as_index(UNIT) // 2 + (as_index(UNIT) + as_index(DOWN)) % 3 + as_index(Dynamic(start, 9))
    )
    assert anchors.fixed(index) == (as_index(UNIT) * 100 + as_index(UNIT) // 2).terms
    ((buffer, terms),) = anchors.wanted(loop)
    assert buffer is x
    assert terms == (as_index(UNIT) * 100).terms


def test_a_loop_that_stores_to_memory_has_none():
    _, _, _, kernel = filtered()
    assert reads_only(kernel.body[1])
    x, out = Buffer("x", F32, 300, "external"), Buffer("out", F32, 300, "external")
    place = as_index(UNIT) * 100 + as_index(DOWN)
    copy = For(DOWN, (Store(((out, place, Load(x, place)),)),))
    assert not reads_only(copy)
    assert "freeze" not in text_of(Kernel("copy", UNIT, (copy,)))
