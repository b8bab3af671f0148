"""Every vector width gives the same numbers: code for older CPUs runs on newer ones."""

from dataclasses import replace

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.targets import host_target, target_for, vectors_of
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import CompileError
from adjoint.ir import Function, param
from tests.closeness import agrees_with_graph
from tests.hardware import levels

OPTIONS = CompileOptions(cache=False, threads=2)


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
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


@pytest.mark.parametrize("level", levels())
def test_levels_use_their_registers(level):
    x, w = param("x", (64, 64)), param("w", (64, 64))
    text = compile(Function("product", (x, w), (ops.matmul(x, w),)), level, OPTIONS)["product"].text("asm")
    register = {64: "zmm", 32: "ymm", 16: "xmm"}[target_for(level).vector_bytes]
    fused = "vfmadd" if register != "xmm" else "mulps"
    assert any(register in line and fused in line for line in text.splitlines())


def test_unknown_targets_are_refused():
    x = param("x", (2,))
    known = "host, avx512, avx2, sse2, neon, cortex-a72, cortex-a76, rvv"
    with pytest.raises(CompileError, match=f"target must be one of {known}, got 'z80'"):
        compile(Function("f", (x,), (ops.exp(x),)), "z80")


def test_targets_of_another_machine_are_not_run_here():
    x = param("x", (2,))
    far = replace(host_target(), triple="riscv64-unknown-linux-gnu")
    with pytest.raises(CompileError, match=r"the target must match this machine, .*, got riscv64-.*; use host"):
        compile(Function("f", (x,), (ops.exp(x),)), far)


@pytest.mark.parametrize(
    ("triple", "enabled", "vectors"),
    [
        ("x86_64-unknown-linux-gnu", {"sse2", "avx", "avx2", "avx512f"}, (64, 32)),
        ("x86_64-unknown-linux-gnu", {"sse2", "avx", "avx2"}, (32, 16)),
        ("x86_64-unknown-linux-gnu", {"sse2"}, (16, 16)),
        ("aarch64-unknown-linux-gnu", {"neon", "sve"}, (16, 32)),
        ("arm64-apple-darwin", set(), (16, 32)),
        ("riscv64-unknown-linux-gnu", {"v", "zvl128b", "zvl256b"}, (32, 32)),
        ("riscv64-unknown-linux-gnu", {"v"}, (16, 32)),
        ("riscv64-unknown-linux-gnu", {"d"}, (4, 32)),
    ],
)
def test_vector_registers_follow_from_features(triple, enabled, vectors):
    assert vectors_of(triple, enabled) == vectors


def test_float16_is_refused_where_the_cpu_cannot_convert_it():
    x = param("x", (4,), "f16")
    function = Function("f", (x,), (ops.add(x, x),))
    with pytest.raises(
        CompileError, match=r"float16 needs a CPU that converts it \(F16C on x86-64.*\), which x86-64 does not"
    ):
        compile(function, "sse2", OPTIONS)


def test_tiles_may_reach_beyond_what_is_divided():
    """The last tile of 30 columns is shorter, and every second column is read twice."""
    x = param("x", (3, 15))
    wide = ops.reshape(ops.broadcast_to(ops.expand_dims(x, 2), (3, 15, 2)), (3, 30))
    function = Function("f", (x,), (ops.argmax(wide, axis=0), ops.sum(wide, axis=0)))
    array = np.random.default_rng(0).standard_normal((3, 15)).astype("f4")
    agrees_with_graph(compile(function, options=OPTIONS)(array), function, array)
