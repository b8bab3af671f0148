"""A target: the facts about a CPU that planning and code generation depend on."""

import os
from dataclasses import field, replace
from pathlib import Path

import numpy as np

from adjoint.lazy_dataclass import dataclass

__all__ = ["Cache", "Target", "architecture", "available_cores"]

#: Features of which one says that float16 converts in hardware, by architecture. AArch64 always converts it.
_CONVERTS_HALF = {
    "x86_64": ("+f16c",),
    "riscv64": ("+zfhmin", "+zfh", "+rva22u64", "+rva23u64"),
}
#: Features of which one says that there are fused multiply-adds, by architecture. AArch64 always has them.
_FUSES = {
    "x86_64": ("+fma", "+avx512f"),
    "riscv64": ("+f", "+d", "+rva22u64", "+rva23u64"),
}
#: CPUs that have both and do not list them among their features.
_X86_64_V3 = ("x86-64-v3", "x86-64-v4")
#: Where Linux describes the threads of each core.
_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Cache:
    """A data cache of one core.

    Parameters
    ----------
    level : int
        1 for the nearest.
    nbytes : int
        Its size.
    ways : int
        Its associativity.
    shared : bool, default False
        Whether several cores share it.
    """

    level: int
    nbytes: int
    ways: int
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU.

    Parameters
    ----------
    triple, cpu, features : str
        In LLVM's spelling; ``features`` is comma-separated.
    vector_bytes : int
        Width of a vector register: 64 for AVX-512, 32 for AVX2, 16 for SSE and NEON; for RISC-V's V, the width that
        every CPU of the target has.
    vector_registers : int
        Number of vector registers: 32 for AVX-512, NEON and V, 16 for AVX2 and SSE.
    cores : int, default 1
        Cores that a step may use. Work is divided finely enough for all of them.
    caches : tuple of Cache
        Data caches, nearest first, at least two. The default is a server core of the 2020s.
    line_bytes : int, default 64
        Bytes of a cache line.
    fma_units, fma_latency : int
        Fused multiply-adds of whole vectors that start per cycle, and cycles until a result can be added to.
    load_units : int
        Loads of whole vectors that start per cycle.
    datapath_bytes : int
        Width of the units. A wider vector passes through several, so of narrower vectors more start per cycle.
    split_load_cycles : float
        Cycles that a vector load across two cache lines takes longer than within one.
    scheduler_entries : int
        Instructions on vectors of a thread that wait for their operands at a time; loads behind them do not start.
    l2_bytes_per_cycle : float
        Sustained bandwidth of the second-level cache.
    l3_bytes_per_cycle : float
        Sustained bandwidth of the third-level cache for one core.
    l3_latency : int
        Cycles from the third-level cache to a register; 0 if schedulers hold enough work for them.
    memory_gbytes : float
        Sustained bandwidth of memory for one core, in 10**9 bytes per second.
    """

    triple: str
    cpu: str
    features: str = field(repr=False)  # a page long
    vector_bytes: int
    vector_registers: int
    cores: int = 1
    caches: tuple[Cache, ...] = (Cache(1, 48 << 10, 12), Cache(2, 1 << 20, 16))
    line_bytes: int = 64
    fma_units: int = 2
    fma_latency: int = 4
    load_units: int = 2
    datapath_bytes: int = 64
    split_load_cycles: float = 0.0
    scheduler_entries: int = 0
    l2_bytes_per_cycle: float = 32.0
    l3_bytes_per_cycle: float = 16.0
    l3_latency: int = 0
    memory_gbytes: float = 20.0

    def lanes(self, dtype: np.dtype) -> int:
        """Elements of a vector register."""
        return max(self.vector_bytes // dtype.itemsize, 1)

    def narrowed(self, nbytes: int) -> "Target":
        """The target as code sees it that uses vectors of so many bytes, if more of them start than of whole ones."""
        times = self.vector_bytes // max(nbytes, self.datapath_bytes)
        if times < 2:
            return self
        return replace(self, vector_bytes=nbytes, fma_units=self.fma_units * times, load_units=self.load_units * times)

    @property
    def architecture(self) -> str:
        """The family of CPUs: ``x86_64``, ``aarch64``, ``riscv64``, or another as the triple says."""
        return architecture(self.triple)

    @property
    def converts_half(self) -> bool:
        """Whether float16 converts in hardware; otherwise LLVM would call a library that is not there."""
        return self._has(_CONVERTS_HALF)

    @property
    def fuses_multiply_add(self) -> bool:
        """Whether there are fused multiply-adds; elsewhere products are rounded before they are added."""
        return self._has(_FUSES)

    def _has(self, features: dict[str, tuple[str, ...]]) -> bool:
        if self.architecture == "aarch64" or self.cpu in _X86_64_V3:
            return True
        return not set(features.get(self.architecture, ())).isdisjoint(self.features.split(","))

    @property
    def masks_loads(self) -> bool:
        """Whether a vector load can leave out lanes: with AVX and with RISC-V's vectors, not with SSE and NEON."""
        return self.architecture == "riscv64" or (self.architecture == "x86_64" and self.vector_bytes > 16)

    @property
    def has_scaleb(self) -> bool:
        """Whether an instruction multiplies all lanes of a whole vector by powers of two: ``vscalef`` of AVX-512."""
        return self.architecture == "x86_64" and self.vector_bytes == 64

    @property
    def tile_registers(self) -> int:
        """Vector registers that a product's tile may fill with sums and with what it loads as vectors.

        With all of them full, LLVM spills in the loop: with AVX-512, 15x2 runs at half the speed of 14x2. On AArch64
        an element that is broadcast occupies a vector register too, and LLVM hoists some of these loads: a tile of 6x4
        with four free registers spills.
        """
        return self.vector_registers - (6 if self.architecture == "aarch64" else 1)

    @property
    def l1(self) -> Cache:
        """The first-level data cache."""
        return self.caches[0]

    @property
    def l2(self) -> Cache:
        """The second-level cache."""
        return self.caches[1]

    @property
    def key(self) -> str:
        """Everything that code depends on: part of the compile cache's key."""
        vectors = f"{self.vector_bytes}|{self.vector_registers}|{self.fma_units}|{self.fma_latency}|{self.load_units}"
        vectors += f"|{self.datapath_bytes}|{self.split_load_cycles}|{self.scheduler_entries}"
        rates = f"{self.l2_bytes_per_cycle}|{self.l3_bytes_per_cycle}|{self.l3_latency}|{self.memory_gbytes}"
        memory = f"{self.caches}|{self.line_bytes}|{rates}"
        return f"{self.triple}|{self.cpu}|{self.features}|{vectors}|{memory}|{self.cores}"


def architecture(triple: str) -> str:
    """The architecture in a triple, by one name for each of LLVM's spellings."""
    name = triple.split("-")[0]
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)


def available_cores(cpus: Path = _CPUS) -> int:
    """Cores that this process may use; several hardware threads of one core (SMT) count once.

    Parameters
    ----------
    cpus : Path
        Linux's description of the CPUs; elsewhere every CPU counts.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    mine = os.sched_getaffinity(0)
    cores = set()
    for cpu in mine:
        try:
            cores.add((cpus / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text())
        except OSError:
            cores.add(str(cpu))
    return len(cores)
