"""What is known of compiled code: its kernels, what they took, the memory it needs."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Clocks", "KernelInfo", "KernelTime", "Memory"]


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What a kernel is.

    Parameters
    ----------
    name : str
        Its name.
    values : tuple of str
        Names of the graph values that it computes.
    flops, bytes : int
        Floating-point operations and bytes moved, each element counted once.
    units : int
        Pieces of work that threads share.
    parallel : bool
        Whether they do.
    """

    name: str
    values: tuple[str, ...]
    flops: int
    bytes: int
    units: int
    parallel: bool


@dataclass(frozen=True, slots=True)
class KernelTime:
    """How long a kernel took: median nanoseconds of a run."""

    kernel: KernelInfo
    nanoseconds: float

    @property
    def gflops(self) -> float:
        """Floating-point operations a second, in billions."""
        return self.kernel.flops / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def gbytes(self) -> float:
        """Bytes a second, in billions."""
        return self.kernel.bytes / self.nanoseconds if self.nanoseconds else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Clocks:
    """When each thread started and ended its part of each kernel, in each of several runs.

    Parameters
    ----------
    nanoseconds : numpy.ndarray
        i64[runs, threads, kernels, 2], start and end on one clock.
    """

    nanoseconds: np.ndarray

    def busy(self) -> np.ndarray:
        """Nanoseconds in each kernel, i64[runs, threads, kernels].

        Without what reading the clock takes: between a kernel's end and the next one's start lies one reading of
        it, as between a start and an end, and the shortest such gap counts.
        """
        start, end = self.nanoseconds[..., 0], self.nanoseconds[..., 1]
        gaps = start[..., 1:] - end[..., :-1]
        reading = gaps.min() if gaps.size else 0
        made: np.ndarray = np.maximum(end - start - reading, 0)
        return made

    def walls(self) -> np.ndarray:
        """Nanoseconds of each run, from the first start to the last end; i64[runs]."""
        if not self.nanoseconds.size:
            return np.zeros(len(self.nanoseconds), np.int64)
        made: np.ndarray = self.nanoseconds.max(axis=(1, 2, 3)) - self.nanoseconds.min(axis=(1, 2, 3))
        return made


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that an entry point needs.

    Parameters
    ----------
    donated : int
        Arguments that are updated in place: parameters and states.
    arguments : int
        All other arguments.
    results : int
        Results that are not written over an argument.
    arena : int
        Everything between.
    arena_bound : int
        The most bytes of that live at once: no plan needs less.
    """

    donated: int
    arguments: int
    results: int
    arena: int
    arena_bound: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.donated + self.arguments + self.results + self.arena
