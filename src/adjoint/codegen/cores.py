"""Kinds of CPU cores: how they are recognized by their features, and what their vendors say of their speed.

A virtual machine often reports a model number that LLVM does not know, or that of another CPU, together with the
features of the real one. LLVM then names an older core, whose instruction latencies it schedules for. A hypervisor can
hide features but not add any, so of the core that LLVM names and the one that the features belong to, the newer is
right.
"""

from collections.abc import Mapping, Set
from dataclasses import field

from adjoint.lazy_dataclass import dataclass

__all__ = ["Core", "core_of", "recognize"]


@dataclass(frozen=True, slots=True)
class Core:
    """A kind of core.

    Parameters
    ----------
    names : str
        LLVM's names of CPUs that have it; the first is chosen if the core is recognized by its features.
    features : str
        LLVM's names of the features that it is recognized by: it has all of them, and no core below it in `CORES` does.
        Empty if it is known by its name only.
    fma_units, fma_bytes : int
        Fused multiply-adds that start per cycle, and the width of the unit that executes one. A wider vector takes
        several units, or one for several cycles.
    fma_latency : int
        Cycles until the sum of a multiply-add can be added to.
    load_units, load_bytes : int
        Vector loads that start per cycle, and the bytes of each; a wider vector takes several.
    facts : mapping
        Other facts of `adjoint.kernel.target.Target`, by their names there.
    """

    names: str
    features: str = ""
    fma_units: int = 2
    fma_bytes: int = 64
    fma_latency: int = 4
    load_units: int = 2
    load_bytes: int = 64
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def cpu(self) -> str:
        """LLVM's name of the CPU whose instruction latencies code is scheduled for."""
        return self.names.split()[0]

    def fmas(self, vector_bytes: int) -> int:
        """Fused multiply-adds of whole vectors that start per cycle, at least 1."""
        return _per_cycle(self.fma_units, self.fma_bytes, vector_bytes)

    def loads(self, vector_bytes: int) -> int:
        """Loads of whole vectors that start per cycle, at least 1."""
        return _per_cycle(self.load_units, self.load_bytes, vector_bytes)


def _per_cycle(units: int, unit_bytes: int, vector_bytes: int) -> int:
    return max(1, units * min(unit_bytes, vector_bytes) // vector_bytes)


#: Features of x86-64-v3 (psABI), and those of x86-64-v4 beyond it. The first AVX-512 server, Skylake, has just these.
_V3 = "avx2 bmi bmi2 f16c fma lzcnt movbe"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
#: What Ice Lake, and every Intel core with AVX-512 after it, has beyond those.
_ICE_LAKE = f"{_V4} avx512vnni avx512vbmi2 avx512bitalg gfni vaes"

#: Intel's servers with a mesh, since Skylake. A thread counts on half of the scheduler's 97 entries (WikiChip,
#: "Skylake"). The third-level cache of Skylake is 77 cycles away (AnandTech, "The Intel Skylake-X review", 2017).
#: Measured on Cascade Lake at 2.3 GHz in 2026-11: 58 cycles, 25 GB/s from that cache and 12 from memory, and 0.7 cycles
#: more for a load across two lines. Later servers are assumed to be alike.
_MESH = {
    "split_load_cycles": 0.7,
    "scheduler_entries": 48,
    "l3_bytes_per_cycle": 10.0,
    "l3_latency": 70,
    "memory_gbytes": 12.0,
}

#: Cores of x86-64 by vendor, newest first, servers before clients of the same generation. Names and features are those
#: of LLVM (llvm/lib/TargetParser/X86TargetParser.cpp). Features that hypervisors often hide, such as AMX, are required
#: only where nothing else tells cores apart. Units and latencies:
#:
#: - Intel: "64 and IA-32 Architectures Optimization Reference Manual" (248966), chapter 2: two 512-bit multiply-adds
#:   per cycle. Client cores with AVX-512 join two 256-bit units to one, and servers of the first generations were sold
#:   with one, too (Xeon Silver and Bronze). They count as two: no feature tells them from servers of which a hypervisor
#:   hides some, a tile that keeps two units busy does so with one, and plans for one were up to 15 % slower on two
#:   (Zen 5).
#: - AMD: "Software Optimization Guide" for the families 17h (55723, 56305), 19h (56665, 57647) and 1Ah (58455): units
#:   of 128 bits in Zen 1, of 256 bits in Zen 2 to 4, of 512 bits in Zen 5.
#: - Latencies other than 4: Agner Fog, "Instruction tables", 2022.
_INTEL = (
    Core("graniterapids graniterapids-d", f"{_ICE_LAKE} avx512fp16 amx-fp16", facts=_MESH),
    Core("sapphirerapids emeraldrapids", f"{_ICE_LAKE} avx512bf16 avx512fp16", facts=_MESH),
    Core("icelake-server", f"{_ICE_LAKE} wbnoinvd", facts=_MESH),
    Core("tigerlake", f"{_ICE_LAKE} avx512vp2intersect"),
    Core("icelake-client rocketlake", _ICE_LAKE),
    Core("cooperlake", f"{_V4} avx512vnni avx512bf16", facts=_MESH),
    Core("cascadelake", f"{_V4} avx512vnni", facts=_MESH),
    Core("skylake-avx512", _V4, facts=_MESH),
    Core("arrowlake arrowlake-s lunarlake", f"{_V3} avxvnni avxvnniint8", fma_bytes=32, load_units=3, load_bytes=32),
    Core("alderlake raptorlake meteorlake", f"{_V3} avxvnni", fma_bytes=32, load_units=3, load_bytes=32),
    Core("skylake", f"{_V3} adx clflushopt", fma_bytes=32, load_bytes=32),
    Core("broadwell", f"{_V3} adx", fma_bytes=32, fma_latency=5, load_bytes=32),
    Core("haswell", _V3, fma_bytes=32, fma_latency=5, load_bytes=32),
)
_AMD = (
    Core("znver5", f"{_ICE_LAKE} avx512bf16 avxvnni"),
    Core("znver4", f"{_ICE_LAKE} avx512bf16", fma_bytes=32, load_bytes=32),
    Core("znver3", f"{_V3} clwb vaes", fma_bytes=32, load_bytes=32),
    Core("znver2", f"{_V3} clwb", fma_bytes=32, fma_latency=5, load_bytes=32),
    Core("znver1", f"{_V3} adx", fma_bytes=16, fma_latency=5, load_bytes=16),
)
#: The levels of x86-64 (psABI), for what is none of these cores, and with them older CPUs that hypervisors present.
_LEVELS = (
    Core("x86-64-v4", _V4),
    Core("x86-64-v3", _V3),
    Core("x86-64-v2 nehalem westmere sandybridge ivybridge", "cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3"),
    Core("x86-64 nocona core2 penryn k8 k8-sse3 athlon64 amdfam10"),
)
#: Names of LLVM's that say nothing of the core.
_GENERIC = ("", "generic", *(level.cpu for level in _LEVELS))
#: A feature of all AMD cores since 2007 and of no other vendor's.
_AMD_ONLY = "sse4a"

#: Cores that are known by their names only. Those of AArch64, of whose vectors 128 bits are used, are from Arm's
#: Software Optimization Guides and the "Apple Silicon CPU Optimization Guide". The E-cores of Sierra Forest have the
#: features of Arrow Lake and units of 128 bits.
_NAMED = (
    Core("sierraforest grandridge gracemont", fma_bytes=16, load_bytes=16),
    Core("cortex-a57", fma_latency=10),
    Core("cortex-a72", fma_latency=7, load_units=1),
    Core("neoverse-v1 neoverse-v2 neoverse-v3", fma_units=4, fma_bytes=16, load_units=3, load_bytes=16),
    Core("apple-m1 apple-m2 apple-m3 apple-m4", fma_units=4, fma_bytes=16, load_units=3, load_bytes=16),
)


def core_of(cpu: str) -> Core:
    """The core with a name of LLVM's; one with the usual units and latency if it is not in the tables."""
    rows = (*_INTEL, *_AMD, *_LEVELS, *_NAMED)
    return next((core for core in rows if cpu in core.names.split()), Core(cpu))


def recognize(family: str, name: str, enabled: Set[str]) -> str:
    """LLVM's name of the CPU to schedule for.

    Parameters
    ----------
    family : str
        The architecture. Only x86-64 has names that features can contradict.
    name : str
        The CPU as LLVM names it.
    enabled : set of str
        The features that the machine reports.

    Returns
    -------
    str
        The given name if it is that of a core at least as new as the one with these features, or of a core that the
        tables do not know; otherwise the name of the core with these features. A generic name gives way to any core.
    """
    if family != "x86_64":
        return name
    cores: tuple[Core, ...] = (*(_AMD if _AMD_ONLY in enabled else _INTEL), *_LEVELS)
    found = next(core for core in cores if enabled >= set(core.features.split()))
    named = core_of(name)
    if name in _GENERIC or (named in cores and cores.index(found) < cores.index(named)):
        return found.cpu
    return name
