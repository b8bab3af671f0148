"""What a target says of its CPU."""

import os
from dataclasses import fields, replace

import pytest

from adjoint.kernel.target import Cache, Target, architecture, available_cores

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
    [
        {"triple": "aarch64"},
        {"cpu": "v3"},
        {"features": "+avx"},
        {"vector_bytes": 32},
        {"vector_registers": 8},
        {"cores": 7},
        {"caches": (Cache(1, 32 << 10, 8), Cache(2, 1 << 20, 16))},
        {"line_bytes": 128},
        {"fma_units": 1},
        {"fma_latency": 5},
        {"load_units": 3},
        {"datapath_bytes": 32},
        {"split_load_cycles": 1.0},
        {"scheduler_entries": 64},
        {"l2_bytes_per_cycle": 64.0},
        {"l3_bytes_per_cycle": 8.0},
        {"l3_latency": 50},
        {"memory_gbytes": 100.0},
    ],
)
def test_code_for_other_targets_has_another_key(change):
    assert replace(X86, **change).key != X86.key


def test_every_fact_is_in_the_key():
    """The test above changes every field."""
    (mark,) = (m for m in test_code_for_other_targets_has_another_key.pytestmark if m.name == "parametrize")
    assert {name for change in mark.args[1] for name in change} == {f.name for f in fields(Target)}


def test_narrow_vectors_start_more_often_where_units_are_narrow():
    zen4 = replace(X86, vector_bytes=64, fma_units=1, load_units=1, datapath_bytes=32)
    half = zen4.narrowed(32)
    assert (half.vector_bytes, half.fma_units, half.load_units) == (32, 2, 2)
    assert (zen4.narrowed(16).vector_bytes, zen4.narrowed(16).fma_units) == (16, 2)
    assert zen4.narrowed(64) is zen4
    wide = replace(zen4, fma_units=2, load_units=2, datapath_bytes=64)
    assert wide.narrowed(32) is wide


@pytest.mark.parametrize(
    ("target", "fuses"),
    [
        (X86, False),
        (replace(X86, features="+avx"), False),
        (replace(X86, features="+avx2,+fma"), True),
        (replace(X86, cpu="x86-64-v3"), True),
        (ARM, True),
        (RISCV, True),
        (replace(RISCV, features="+m"), False),
    ],
)
def test_who_has_fused_multiply_adds(target, fuses):
    assert target.fuses_multiply_add == fuses


def test_threads_of_a_core_count_once(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 6}, raising=False)
    for cpu, siblings in {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}.items():
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings)
    # Two cores with two threads each, and a CPU that the system does not describe.
    assert available_cores(tmp_path) == 3
