"""Extensions: which ones a target lists, and that the compiler uses those that it says it uses."""

from dataclasses import replace

import pytest

from adjoint import ops
from adjoint.codegen.extensions import extensions_of, features_of
from adjoint.codegen.targets import host_target
from adjoint.compiler import CompileOptions, compile
from adjoint.ir import Function, param

#: Instructions that multiply or add numbers of 16 bits: AVX512-BF16, AVX512-FP16, AMX.
NARROW = ("dpbf16", "vaddph", "vmulph", "tdpbf16", "tdpfp16")


def test_present_extensions_are_those_of_the_features():
    features = "+avx2,+fma,+f16c,-avx512f,+amx-tile"
    target = replace(host_target(), triple="x86_64-unknown-linux-gnu", features=features)
    assert features_of(target) == {"avx2", "fma", "f16c", "amx-tile"}
    found = {one.name: present for one, present in extensions_of(target).items()}
    assert [name for name, present in found.items() if present] == ["AVX2", "FMA", "F16C", "AMX-TILE"]
    assert extensions_of(replace(target, triple="wasm32-unknown-unknown")) == {}


@pytest.mark.skipif(not host_target().converts_half, reason="this CPU does not convert float16")
@pytest.mark.skipif(host_target().architecture != "x86_64", reason="looks for instructions of x86-64")
def test_numbers_of_16_bits_are_converted_and_multiplied_as_f32():
    used = {one.name for one, _ in extensions_of(host_target()).items() if one.use}
    assert used.isdisjoint({"AVX512-FP16", "AVX512-BF16", "AMX-BF16", "AMX-FP16"})
    for dtype, conversion in (("f16", "vcvtph2ps"), ("bf16", "vpslld")):
        x, w = param("x", (32, 32), dtype), param("w", (32, 32), dtype)
        made = compile(Function("product", (x, w), (ops.matmul(x, w),)), options=CompileOptions(cache=False))
        text = made["product"].text("asm")
        assert conversion in text
        assert not any(instruction in text for instruction in NARROW)
