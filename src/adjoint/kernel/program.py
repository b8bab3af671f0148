"""A `Program`: kernels in order over buffers with known places. What code generation and the runtime take."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.kernel.ir import Buffer, Kernel

__all__ = [
    "ALIGNMENT",
    "Argument",
    "Program",
    "RangeCheck",
    "Result",
    "arena_size",
    "check_symbol",
    "entry_symbol",
    "kernel_symbol",
    "scratch_offsets",
]

#: Characters of a function's name that are in its symbol as they are.
_PLAIN = frozenset(string.ascii_letters + string.digits + "_")

#: Bytes: every buffer of the arena begins at a multiple of a cache line, which is also the widest vector.
ALIGNMENT = 64

#: Bytes: scratch memory of a thread, and every buffer in it, begins at a multiple of this. Two cache lines, because
#: processors fetch them in pairs and threads are to disturb each other in none.
_SCRATCH_ALIGNMENT = 128


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of the entry point.

    Parameters
    ----------
    name : str
        Its name.
    shape : tuple of int
        Its shape.
    dtype : numpy dtype
        Its dtype.
    slot : int
        Place of its address in the table of addresses.
    donated : bool
        Whether the program writes its new value over it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    slot: int
    donated: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """A result of the entry point; its slot is an argument's where it is written over a donated one."""

    shape: tuple[int, ...]
    dtype: np.dtype
    slot: int
    donated: bool = False


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """Elements of an argument must be in ``[low, high)`` or equal `allow`; seen to before anything runs."""

    slot: int
    low: int
    high: int
    allow: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One entry point, lowered.

    Parameters
    ----------
    name : str
        The function's.
    arguments, results : tuple
        Its signature.
    slots : tuple of Buffer
        External buffers: arguments, then results that are not donated.
    kernels : tuple of Kernel
        In the order in which they run.
    barriers : frozenset of int
        Positions of kernels before which threads wait for each other.
    offsets : dict
        Byte offset in the arena of every arena buffer.
    arena_bytes : int
        What the threads share of the arena: the peak, known before anything runs. Behind it lie `scratch_bytes` for
        each thread (`scratch_offsets`).
    arena_bound : int
        The most bytes that are live at once: what no plan can go below.
    literals : dict
        Contents of literal buffers.
    checks : tuple of RangeCheck
        Checks of the arguments.
    """

    name: str
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    slots: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    barriers: frozenset[int]
    offsets: dict[Buffer, int]
    arena_bytes: int
    arena_bound: int
    literals: dict[Buffer, bytes]
    checks: tuple[RangeCheck, ...] = ()

    @property
    def symbol(self) -> str:
        """The linker's name of the entry point."""
        return entry_symbol(self.name)

    @property
    def check_symbol(self) -> str:
        """The linker's name of the function that checks the arguments."""
        return check_symbol(self.name)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of each thread's own part of the arena: what the kernel with the most scratch buffers needs."""
        return max((_end(scratch_offsets(kernel)) for kernel in self.kernels), default=0)

    def working_bytes(self, threads: int) -> int:
        """Bytes of the whole arena on that many threads."""
        return arena_size(self.arena_bytes, self.scratch_bytes, threads)

    def summary(self) -> dict[str, Any]:
        """What the runtime needs, as plain data that goes to the compile cache."""
        return {
            "name": self.name,
            "arguments": [(a.name, list(a.shape), a.dtype.name, a.slot, a.donated) for a in self.arguments],
            "results": [(list(r.shape), r.dtype.name, r.slot, r.donated) for r in self.results],
            "arena_bytes": self.arena_bytes,
            "arena_bound": self.arena_bound,
            "scratch_bytes": self.scratch_bytes,
            "checks": [(c.slot, c.low, c.high, c.allow) for c in self.checks],
            "kernels": [
                {
                    "name": k.name,
                    "values": list(k.values),
                    "flops": k.flops,
                    "bytes": k.bytes,
                    "units": k.unit.extent,
                    "parallel": k.parallel,
                }
                for k in self.kernels
            ],
        }


def entry_symbol(name: str) -> str:
    """The linker's name of a function's entry point: no two names share one, and none is that of another library.

    ASCII letters, digits and underscores stay; any other byte of the name in UTF-8 is written ``$hh``.
    """
    return f"adjoint.{_escaped(name)}"


def check_symbol(name: str) -> str:
    """The linker's name of the function that checks a function's arguments."""
    return f"{entry_symbol(name)}.check"


def kernel_symbol(name: str, kernel: str) -> str:
    """The linker's name of the function of a kernel, by the names of function and kernel."""
    return f"{entry_symbol(name)}.kernel.{_escaped(kernel)}"


def scratch_offsets(kernel: Kernel) -> dict[Buffer, int]:
    """Where the scratch buffers of a kernel lie in its thread's part of the arena, in bytes."""
    offsets, end = {}, 0
    for buffer in kernel.scratch:
        offsets[buffer] = end
        end += _aligned(buffer.nbytes)
    return offsets


def arena_size(shared: int, scratch: int, threads: int) -> int:
    """Bytes of an arena: what threads share of it, then each thread's own part."""
    return _aligned(shared) + threads * scratch if scratch else shared


def _escaped(name: str) -> str:
    return "".join(chr(b) if chr(b) in _PLAIN else f"${b:02x}" for b in name.encode())


def _end(offsets: dict[Buffer, int]) -> int:
    return max((offset + _aligned(buffer.nbytes) for buffer, offset in offsets.items()), default=0)


def _aligned(size: int) -> int:
    return -(-size // _SCRATCH_ALIGNMENT) * _SCRATCH_ALIGNMENT
