"""A `Program`: kernels in order over buffers with known places. What code generation and the runtime take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.kernel.ir import Buffer, Kernel

__all__ = ["Argument", "Program", "RangeCheck", "Result"]


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
        Size of the arena: the peak, known before anything runs.
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

    def summary(self) -> dict[str, Any]:
        """What the runtime needs, as plain data that goes to the compile cache."""
        return {
            "name": self.name,
            "arguments": [(a.name, list(a.shape), a.dtype.name, a.slot, a.donated) for a in self.arguments],
            "results": [(list(r.shape), r.dtype.name, r.slot, r.donated) for r in self.results],
            "arena_bytes": self.arena_bytes,
            "arena_bound": self.arena_bound,
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
