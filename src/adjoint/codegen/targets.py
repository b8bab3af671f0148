"""Targets by name: this machine, detected at run time, and a table of CPUs."""

from collections.abc import Set
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from adjoint.codegen.cores import core_of, recognize
from adjoint.codegen.host import host_caches
from adjoint.errors import CompileError
from adjoint.kernel.target import Cache, Target, architecture, available_cores

__all__ = ["TARGETS", "host_target", "target_for", "vectors_of"]

#: Vector registers implied by CPU features, by architecture: (feature, bytes, number of registers), best first. The
#: empty feature is the architecture's baseline.
_VECTORS = {
    "x86_64": (("avx512f", 64, 32), ("avx2", 32, 16), ("avx", 32, 16), ("", 16, 16)),
    "aarch64": (("", 16, 32),),
    "riscv64": (("zvl512b", 64, 32), ("zvl256b", 32, 32), ("v", 16, 32)),
}
#: Size in bytes and number of registers without vectors: they hold single floats.
_SCALAR = 4, 32


def _caches(l1_kib: int, l1_ways: int, l2_kib: int, l2_ways: int, l2_shared: bool = False) -> tuple[Cache, ...]:
    return Cache(1, l1_kib << 10, l1_ways), Cache(2, l2_kib << 10, l2_ways, l2_shared)


#: Targets by name: LLVM's architecture, CPU and features; size in bytes and number of vector registers; caches; other
#: facts. The levels of x86-64 have the caches of typical CPUs of their time: Ice Lake and later, Zen 2 and 3, Nehalem.
#: NEON is the AArch64 baseline, with instructions scheduled for a Cortex-A57, because for "generic" LLVM schedules for
#: an in-order core, which spills in more loops. Caches, latencies and throughputs of Arm CPUs are from Arm's Technical
#: Reference Manuals and Software Optimization Guides of the Cortex-A57, A72 and A76. RVA22 is a RISC-V profile; the V
#: extension guarantees vectors of at least 128 bits.
_NAMED: dict[str, tuple[str, str, str, int, int, tuple[Cache, ...], dict[str, Any]]] = {
    "avx512": ("x86_64", "x86-64-v4", "", 64, 32, _caches(48, 12, 1024, 16), {}),
    "avx2": ("x86_64", "x86-64-v3", "", 32, 16, _caches(32, 8, 512, 8), {}),
    "sse2": ("x86_64", "x86-64", "", 16, 16, _caches(32, 8, 256, 8), {}),
    "neon": ("aarch64", "cortex-a57", "-aes,-crc,-perfmon,-sha2", 16, 32, _caches(32, 2, 512, 16, True), {}),
    "cortex-a72": (
        "aarch64", "cortex-a72", "", 16, 32, _caches(32, 2, 1024, 16, True),
        {"fma_latency": 7, "load_units": 1, "l2_bytes_per_cycle": 8.0, "memory_gbytes": 4.0},
    ),
    "cortex-a76": (
        "aarch64", "cortex-a76", "", 16, 32, _caches(64, 4, 512, 8),
        {"l2_bytes_per_cycle": 16.0, "memory_gbytes": 8.0},
    ),
    "rvv": ("riscv64", "generic-rv64", "+rva22u64,+v", 16, 32, _caches(32, 8, 512, 8), {}),
}  # fmt: skip

#: The names that `target_for` knows.
TARGETS = ("host", *_NAMED)


@cache
def host_target() -> Target:
    """The machine that this process runs on.

    Its features are those that the machine reports, whatever CPU LLVM takes it for (`recognize`).
    """
    features = llvm.get_host_cpu_features()
    enabled = {name for name, on in features.items() if on}
    triple = llvm.get_process_triple()
    cpu = recognize(architecture(triple), llvm.get_host_cpu_name(), enabled)
    core = core_of(cpu)
    width, registers = vectors_of(triple, enabled)
    facts: dict[str, Any] = {**core.facts, **({"caches": caches} if (caches := host_caches()) else {})}
    return Target(
        triple, cpu, features.flatten(), width, registers, available_cores(),
        fma_units=core.fmas(width), fma_latency=core.fma_latency, load_units=core.loads(width),
        datapath_bytes=core.fma_bytes, **facts,
    )  # fmt: skip


def vectors_of(triple: str, enabled: Set[str]) -> tuple[int, int]:
    """Size in bytes and number of the vector registers of a CPU with these features."""
    for feature, width, registers in _VECTORS.get(architecture(triple), ()):
        if not feature or feature in enabled:
            return width, registers
    return _SCALAR


def target_for(name: str) -> Target:
    """A target by name.

    Parameters
    ----------
    name : str
        ``"host"``; a level of x86-64, ``"avx512"``, ``"avx2"`` or ``"sse2"``; on AArch64 ``"neon"``, the baseline,
        ``"cortex-a72"`` or ``"cortex-a76"``; ``"rvv"``, a RISC-V CPU of the profile RVA22 with 128-bit vectors. Targets
        of this machine's architecture use its operating system and number of cores, others Linux and one core.

    Raises
    ------
    CompileError
        If the name is unknown.
    """
    host = host_target()
    if name == "host":
        return host
    if name not in _NAMED:
        raise CompileError(f"target must be one of {', '.join(TARGETS)}, got {name!r}")
    family, cpu, features, width, registers, caches, facts = _NAMED[name]
    here = family == host.architecture
    triple, cores = (host.triple, host.cores) if here else (f"{family}-unknown-linux-gnu", 1)
    return Target(triple, cpu, features, width, registers, cores, caches, **facts)
