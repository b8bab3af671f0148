"""Every vector width gives the same numbers: code for older CPUs runs on newer ones."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.native import host_target, target_for
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import CompileError
from adjoint.ir import Function, param
from adjoint.testing import interpret

OPTIONS = CompileOptions(cache=False, threads=2)
WIDTHS = {"avx512": 64, "avx2": 32, "sse2": 16}


def levels():
    """The levels that this machine can run."""
    host = host_target()
    if not host.triple.startswith("x86_64"):
        return ["host"]
    return [name for name, width in WIDTHS.items() if width <= host.vector_bytes]


def block():
    """Products with every transposition, reductions along both kinds of axes, masked edges, a gather."""
    x, w, ids = param("x", (13, 37)), param("w", (37, 29)), param("ids", (13,), "i32")
    h = ops.gelu(ops.matmul(x, w))
    rows = ops.softmax(h)
    back = ops.matmul(rows, w, transpose_b=True)
    cross = ops.matmul(x, back, transpose_a=True)
    picked = ops.take(w, ops.check_range(ids, 0, 37))
    return Function(
        "block",
        (x, w, ids),
        (rows, back, cross, ops.sum(back, axis=0), ops.max(cross), ops.argmax(h, axis=1), picked),
    )


@pytest.mark.parametrize("level", levels())
def test_levels_agree_with_the_reference(level):
    rng = np.random.default_rng(3)
    arrays = (
        rng.standard_normal((13, 37)).astype("f4"),
        rng.standard_normal((37, 29)).astype("f4"),
        rng.integers(0, 37, 13).astype("i4"),
    )
    function = block()
    expected = interpret(function, *arrays)
    for got, want in zip(compile(function, level, OPTIONS)(*arrays), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("level", levels())
def test_levels_use_their_registers(level):
    x, w = param("x", (64, 64)), param("w", (64, 64))
    text = compile(Function("product", (x, w), (ops.matmul(x, w),)), level, OPTIONS)["product"].text("asm")
    register = {64: "zmm", 32: "ymm", 16: "xmm"}[target_for(level).vector_bytes]
    fused = "vfmadd" if register != "xmm" else "mulps"
    assert any(register in line and fused in line for line in text.splitlines())


def test_unknown_targets_are_refused():
    x = param("x", (2,))
    with pytest.raises(CompileError, match="target must be one of host, avx512, avx2, sse2, got 'z80'"):
        compile(Function("f", (x,), (ops.exp(x),)), "z80")


def test_float16_is_refused_where_the_cpu_cannot_convert_it():
    x = param("x", (4,), "f16")
    function = Function("f", (x,), (ops.add(x, x),))
    with pytest.raises(CompileError, match=r"float16 needs a CPU that converts it \(F16C\), which x86-64 does not"):
        compile(function, "sse2", OPTIONS)


def test_tiles_may_reach_beyond_what_is_divided():
    """The last tile of 30 columns is shorter, and every second column is read twice."""
    x = param("x", (3, 15))
    wide = ops.reshape(ops.broadcast_to(ops.expand_dims(x, 2), (3, 15, 2)), (3, 30))
    function = Function("f", (x,), (ops.argmax(wide, axis=0), ops.sum(wide, axis=0)))
    array = np.random.default_rng(0).standard_normal((3, 15)).astype("f4")
    for got, want in zip(compile(function, options=OPTIONS)(array), interpret(function, array), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
