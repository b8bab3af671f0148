"""A `Program`: an ordered list of kernels over buffers with known locations; the input of codegen and the runtime."""

from __future__ import annotations

import string
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.regions import Region
from adjoint.lazy_dataclass import dataclass

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
    "share_of",
]

#: Characters of a function's name that appear unchanged in its symbol.
_PLAIN = frozenset(string.ascii_letters + string.digits + "_")

#: Alignment in bytes of buffers in the arena: a cache line, which is also the size of the widest vector.
ALIGNMENT = 64

#: Alignment in bytes of a thread's scratch memory and of every buffer in it. Two cache lines, because processors
#: prefetch lines in pairs, and threads must not share either (false sharing).
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
        Index of its address in the table of addresses.
    donated : bool
        Whether the program overwrites it with its new value.
    together : int
        Number of rows, along the first axis, that the program reads together if it is told that fewer are present: it
        reads none after them if their number is a multiple of it. 0 if it reads all.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    slot: int
    donated: bool = False
    together: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """A result of the entry point; if it overwrites a donated argument, it has the argument's slot."""

    shape: tuple[int, ...]
    dtype: np.dtype
    slot: int
    donated: bool = False


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """Elements of an argument must be in ``[low, high)`` or equal to `allow`; checked before anything runs.

    Parameters
    ----------
    slot : int
        Slot of the argument.
    low, high : int
        The minimum, and one more than the maximum. Floats are truncated first, as by a cast; NaN is 0.
    allow : int or None
        One additional allowed value.
    start : int
        Row-major position of the first element that is checked.
    axes : tuple of (int, int)
        Number of positions and the distance between them along each axis of the elements that are checked, outermost
        first: ``((size, 1),)`` for a whole argument.
    """

    slot: int
    low: int
    high: int
    allow: int | None
    start: int
    axes: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """Number of elements that are checked."""
        return prod(count for count, _ in self.axes)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A lowered function.

    Parameters
    ----------
    name : str
        Name of the function.
    arguments, results : tuple
        Signature of the entry point.
    slots : tuple of Buffer
        External buffers: the arguments, then the results that are not donated.
    kernels : tuple of Kernel
        In execution order.
    barriers : frozenset of int
        Indices of kernels that are preceded by a barrier.
    offsets : dict
        Byte offset in the arena for every arena buffer.
    arena_bytes : int
        Size of the shared part of the arena, planned at compile time. It is followed by `scratch_bytes` per thread
        (`scratch_offsets`).
    arena_bound : int
        Maximum number of bytes that are live at once, a lower bound for any memory plan.
    literals : dict
        Contents of the literal buffers.
    checks : tuple of RangeCheck
        Checks of arguments.
    regions : tuple of Region
        Loops and branches, outer before inner ones.
    claimed : frozenset of int
        Indices of kernels whose units threads claim: long ones, behind a barrier.
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
    regions: tuple[Region, ...] = ()
    claimed: frozenset[int] = frozenset()

    @property
    def waits(self) -> bool:
        """Whether threads wait for each other: at barriers, and before they read the test of a region."""
        return bool(self.barriers) or any(region.test is not None for region in self.regions)

    @property
    def symbol(self) -> str:
        """The symbol of the entry point."""
        return entry_symbol(self.name)

    @property
    def check_symbol(self) -> str:
        """The symbol of the function that checks the arguments."""
        return check_symbol(self.name)

    @property
    def intervals(self) -> Iterator[range]:
        """Positions of kernels that run without a barrier in between."""
        cuts = sorted({0, len(self.kernels), *self.barriers})
        return (range(start, end) for start, end in pairwise(cuts))

    @property
    def scratch_bytes(self) -> int:
        """Size of each thread's part of the arena, determined by the kernel with the most scratch memory."""
        return self._kernel_scratch_bytes + _aligned(4 * len(self.claimed))

    @property
    def _kernel_scratch_bytes(self) -> int:
        return max((_end(scratch_offsets(kernel)) for kernel in self.kernels), default=0)

    @property
    def claim_offsets(self) -> dict[int, int]:
        """Offsets in a thread's part of the arena of its claims, by the position of the kernel (`codegen.claims`)."""
        start = self._kernel_scratch_bytes
        return {position: start + 4 * number for number, position in enumerate(sorted(self.claimed))}

    def working_bytes(self, threads: int) -> int:
        """Size of the whole arena for that many threads."""
        return arena_size(self.arena_bytes, self.scratch_bytes, threads)

    def summary(self) -> dict[str, Any]:
        """The information for the runtime, as plain data that can be stored in the compile cache."""
        return {
            "name": self.name,
            "arguments": [(a.name, list(a.shape), a.dtype.name, a.slot, a.donated, a.together) for a in self.arguments],
            "results": [(list(r.shape), r.dtype.name, r.slot, r.donated) for r in self.results],
            "arena_bytes": self.arena_bytes,
            "arena_bound": self.arena_bound,
            "scratch_bytes": self.scratch_bytes,
            "checks": [(c.slot, c.low, c.high, c.allow, c.start, c.axes) for c in self.checks],
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
    """The symbol of a function's entry point, distinct for distinct names and from those of other libraries.

    ASCII letters, digits and underscores are unchanged; any other byte of the name in UTF-8 becomes ``$hh``.
    """
    return f"adjoint.{_escaped(name)}"


def check_symbol(name: str) -> str:
    """The symbol of the function that checks a function's arguments."""
    return f"{entry_symbol(name)}.check"


def kernel_symbol(name: str, kernel: str) -> str:
    """The symbol of a kernel's function, given the names of the function and the kernel."""
    return f"{entry_symbol(name)}.kernel.{_escaped(kernel)}"


def share_of(kernel: Kernel, thread: int, threads: int) -> range:
    """The units of a kernel that one of several threads executes: contiguous, and as equal as units allow.

    Generated code computes the same (`adjoint.codegen.module`), of fewer units if the kernel's end at run time.
    """
    units = kernel.unit.extent
    if kernel.parallel:
        return range(thread * units // threads, (thread + 1) * units // threads)
    return range(units if thread == 0 else 0)


def scratch_offsets(kernel: Kernel) -> dict[Buffer, int]:
    """Byte offsets of a kernel's scratch buffers in a thread's part of the arena."""
    offsets, end = {}, 0
    for buffer in kernel.scratch:
        offsets[buffer] = end
        end += _aligned(buffer.nbytes)
    return offsets


def arena_size(shared: int, scratch: int, threads: int) -> int:
    """Size of an arena: the shared part, then each thread's part."""
    return _aligned(shared) + threads * scratch if scratch else shared


def _escaped(name: str) -> str:
    return "".join(chr(b) if chr(b) in _PLAIN else f"${b:02x}" for b in name.encode())


def _end(offsets: dict[Buffer, int]) -> int:
    return max((offset + _aligned(buffer.nbytes) for buffer, offset in offsets.items()), default=0)


def _aligned(size: int) -> int:
    return -(-size // _SCRATCH_ALIGNMENT) * _SCRATCH_ALIGNMENT
