"""What kernels need to know of the machine that they will run on."""

import os
from dataclasses import dataclass

import numpy as np

__all__ = ["Target", "available_cores"]


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU.

    Parameters
    ----------
    triple, cpu, features : str
        As LLVM spells them; ``features`` is comma-separated.
    vector_bytes : int
        Width of a vector register: 64 for AVX-512, 32 for AVX2, 16 for SSE and NEON.
    vector_registers : int
        How many there are: 32 for AVX-512 and NEON, 16 for AVX2 and SSE.
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
    def converts_half(self) -> bool:
        """Whether float16 converts in hardware; where not, LLVM would call a library that is not there."""
        if not self.triple.startswith(("x86_64", "i386", "i686")):
            return True
        return self.cpu in ("x86-64-v3", "x86-64-v4") or "+f16c" in self.features.split(",")

    @property
    def key(self) -> str:
        """What code depends on: part of the compile cache's key."""
        return f"{self.triple}|{self.cpu}|{self.features}|{self.vector_bytes}"


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
