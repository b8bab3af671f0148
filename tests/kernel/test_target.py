"""What a target says of its CPU."""

from dataclasses import replace

import pytest

from adjoint.kernel.target import Target, architecture

X86 = Target("x86_64-unknown-linux-gnu", "x86-64", "", 16, 16)
ARM = Target("aarch64-unknown-linux-gnu", "generic", "", 16, 32)
RISCV = Target("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+d", 4, 32)


@pytest.mark.parametrize(
    ("triple", "name"),
    [
        ("x86_64-pc-windows-msvc", "x86_64"),
        ("amd64-unknown-freebsd", "x86_64"),
        ("aarch64-unknown-linux-gnu", "aarch64"),
        ("arm64-apple-darwin", "aarch64"),
        ("riscv64-unknown-linux-gnu", "riscv64"),
        ("powerpc64le-unknown-linux-gnu", "powerpc64le"),
    ],
)
def test_an_architecture_has_one_name(triple, name):
    assert architecture(triple) == name
    assert replace(X86, triple=triple).architecture == name


@pytest.mark.parametrize(
    ("target", "converts"),
    [
        (X86, False),
        (replace(X86, features="+avx,+f16c"), True),
        (replace(X86, cpu="x86-64-v3"), True),
        (ARM, True),
        (RISCV, False),
        (replace(RISCV, features="+m,+zfhmin"), True),
        (replace(RISCV, features="+rva22u64,+v"), True),
        (replace(X86, triple="powerpc64le-unknown-linux-gnu"), False),
    ],
)
def test_who_converts_float16(target, converts):
    assert target.converts_half == converts


@pytest.mark.parametrize(
    ("target", "masks"), [(X86, False), (replace(X86, vector_bytes=32), True), (ARM, False), (RISCV, True)]
)
def test_who_leaves_lanes_out_of_a_load(target, masks):
    assert target.masks_loads == masks


@pytest.mark.parametrize(
    "change",
    [{"triple": "aarch64"}, {"cpu": "v3"}, {"features": "+avx"}, {"vector_bytes": 32}, {"vector_registers": 8}],
)
def test_code_for_other_targets_has_another_key(change):
    assert replace(X86, **change).key != X86.key
    assert replace(X86, cores=7).key == X86.key
