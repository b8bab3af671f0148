"""How a CPU is recognized by its features, and what follows for its speed."""

from dataclasses import fields

import llvmlite.binding as llvm
import pytest

from adjoint.codegen import cores
from adjoint.codegen.cores import Core, core_of, recognize
from adjoint.codegen.targets import host_target
from adjoint.kernel.target import Target

V3 = {"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "cx16", "sahf"}
SSE = {"sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "cx16", "popcnt", "sahf"}
HASWELL = V3 | SSE | {"avx", "xsave"}
SKYLAKE = HASWELL | {"adx", "clflushopt", "clwb", *(f"avx512{part}" for part in ("f", "bw", "cd", "dq", "vl"))}
ICE_LAKE = SKYLAKE | {"avx512vnni", "avx512vbmi2", "avx512bitalg", "gfni", "vaes"}
SAPPHIRE_RAPIDS = ICE_LAKE | {"wbnoinvd", "avxvnni", "avx512bf16", "avx512fp16"}
AMX = {"amx-tile", "amx-bf16", "amx-int8"}
ZEN_2 = HASWELL | {"sse4a", "adx", "clflushopt", "clwb", "rdpid"}
ZEN_4 = ZEN_2 | ICE_LAKE | {"avx512bf16"}


@pytest.mark.parametrize(
    ("name", "enabled", "cpu"),
    [
        # A hypervisor passes the features on and gives another model number.
        ("rocketlake", SAPPHIRE_RAPIDS | AMX, "sapphirerapids"),
        ("rocketlake", SAPPHIRE_RAPIDS, "sapphirerapids"),
        ("icelake-server", SAPPHIRE_RAPIDS | AMX | {"amx-fp16"}, "graniterapids"),
        ("skylake-avx512", SKYLAKE | {"avx512vnni"}, "cascadelake"),
        ("nehalem", HASWELL | {"adx"}, "broadwell"),
        ("k8-sse3", ZEN_4, "znver4"),
        ("znver4", ZEN_4 | {"avxvnni"}, "znver5"),
        # It hides features: the name is right.
        ("sapphirerapids", SKYLAKE, "sapphirerapids"),
        ("znver5", ZEN_2, "znver5"),
        # Cores that share their features.
        ("emeraldrapids", SAPPHIRE_RAPIDS | AMX, "emeraldrapids"),
        ("rocketlake", ICE_LAKE, "rocketlake"),
        # A name that says nothing.
        ("generic", SAPPHIRE_RAPIDS, "sapphirerapids"),
        ("x86-64", SKYLAKE, "skylake-avx512"),
        ("", ZEN_2, "znver2"),
        ("x86-64-v3", SSE, "x86-64-v2"),
        ("generic", {"sse2"}, "x86-64"),
        ("generic", (SKYLAKE | {"sse4a"}) - {"adx", "clwb"}, "x86-64-v4"),
        # A name that the tables do not know is left as it is.
        ("knl", HASWELL | {"avx512f", "avx512cd"}, "knl"),
    ],
)
def test_the_newer_of_name_and_features_is_right(name, enabled, cpu):
    assert recognize("x86_64", name, enabled) == cpu


@pytest.mark.parametrize("family", ["aarch64", "riscv64"])
def test_other_architectures_keep_their_names(family):
    assert recognize(family, "generic", {"neon", "v"}) == "generic"


@pytest.mark.parametrize(
    ("cpu", "vector_bytes", "fmas", "loads", "latency"),
    [
        ("sapphirerapids", 64, 2, 2, 4),
        ("sapphirerapids", 32, 2, 2, 4),
        ("alderlake", 32, 2, 3, 4),
        ("znver5", 64, 2, 2, 4),
        ("znver4", 64, 1, 1, 4),
        ("znver4", 32, 2, 2, 4),
        ("znver1", 32, 1, 1, 5),
        ("haswell", 32, 2, 2, 5),
        ("neoverse-v2", 16, 4, 3, 4),
        ("cortex-a72", 16, 2, 1, 7),
        ("unheard-of", 64, 2, 2, 4),
    ],
)
def test_wide_vectors_take_several_units(cpu, vector_bytes, fmas, loads, latency):
    core = core_of(cpu)
    assert (core.fmas(vector_bytes), core.loads(vector_bytes), core.fma_latency) == (fmas, loads, latency)


def test_llvm_knows_every_name(capfd):
    llvm.initialize_all_targets()
    known = {"x86_64": (*cores._INTEL, *cores._AMD, *cores._LEVELS), "aarch64": cores._NAMED[1:]}
    for family, rows in known.items():
        target = llvm.Target.from_triple(f"{family}-unknown-linux-gnu")
        names = [name for core in rows for name in core.names.split()]
        assert len(set(names)) == len(names)
        for name in names:
            target.create_target_machine(cpu=name)
        assert "not a recognized processor" not in capfd.readouterr().err
        target.create_target_machine(cpu="z80")
        assert "not a recognized processor" in capfd.readouterr().err


def test_each_core_is_found_by_its_own_features():
    for vendor in (cores._INTEL, cores._AMD):
        for core in vendor:
            own = {*core.features.split(), *({cores._AMD_ONLY} if vendor is cores._AMD else ())}
            assert recognize("x86_64", "generic", own) == core.cpu


def test_the_host_has_the_units_of_its_core():
    host = host_target()
    core: Core = core_of(host.cpu)
    found = core.fmas(host.vector_bytes), core.fma_latency, core.loads(host.vector_bytes)
    assert (host.fma_units, host.fma_latency, host.load_units) == found
    assert {name: getattr(host, name) for name in core.facts} == dict(core.facts)


def test_facts_of_cores_are_facts_of_targets():
    for core in (*cores._INTEL, *cores._AMD, *cores._LEVELS, *cores._NAMED):
        assert set(core.facts) <= {f.name for f in fields(Target)}
