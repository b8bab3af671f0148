"""What kernels need to know of the machine that they will run on."""

import os
from dataclasses import dataclass

import numpy as np

__all__ = ["Target", "architecture", "available_cores"]

#: Features of which one says that float16 converts in hardware, by architecture. AArch64 always converts it.
_CONVERTS_HALF = {
    "x86_64": ("+f16c",),
    "riscv64": ("+zfhmin", "+zfh", "+rva22u64", "+rva23u64"),
}
#: CPUs that convert it and do not say so in their features.
_CONVERTING = ("x86-64-v3", "x86-64-v4")


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU.

    Parameters
    ----------
    triple, cpu, features : str
        As LLVM spells them; ``features`` is comma-separated.
    vector_bytes : int
        Width of a vector register: 64 for AVX-512, 32 for AVX2, 16 for SSE and NEON; for RISC-V's V, what every CPU
        of the target has.
    vector_registers : int
        How many there are: 32 for AVX-512, NEON and V, 16 for AVX2 and SSE.
    cores : int
        Cores that a step may use by default.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    cores: int = 1

    def lanes(self, dtype: np.dtype) -> int:
        """Elements of a vector register."""
        return max(self.vector_bytes // dtype.itemsize, 1)

    @property
    def architecture(self) -> str:
        """What family of CPUs it is of: ``x86_64``, ``aarch64``, ``riscv64``, or another as the triple says."""
        return architecture(self.triple)

    @property
    def converts_half(self) -> bool:
        """Whether float16 converts in hardware; where not, LLVM would call a library that is not there."""
        if self.architecture == "aarch64" or self.cpu in _CONVERTING:
            return True
        return not set(_CONVERTS_HALF.get(self.architecture, ())).isdisjoint(self.features.split(","))

    @property
    def masks_loads(self) -> bool:
        """Whether a load of a vector can leave out lanes: with AVX and with RISC-V's vectors, not with SSE and NEON."""
        return self.architecture == "riscv64" or (self.architecture == "x86_64" and self.vector_bytes > 16)

    @property
    def tile_registers(self) -> int:
        """Vector registers that a product's tile may fill with sums and what it reads as vectors.

        With all of them full, LLVM spills in the loop: with AVX-512, 15x2 runs at half the speed of 14x2. On AArch64
        an element that meets all lanes is in a vector register too, and LLVM reads some of them ahead.
        """
        return self.vector_registers - (4 if self.architecture == "aarch64" else 1)

    @property
    def key(self) -> str:
        """What code depends on: part of the compile cache's key."""
        return f"{self.triple}|{self.cpu}|{self.features}|{self.vector_bytes}|{self.vector_registers}"


def architecture(triple: str) -> str:
    """The architecture in a triple, by the one name that LLVM's spellings of it share here."""
    name = triple.split("-")[0]
    return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
