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
    """How long a kernel took: nanoseconds, the mean of the middle half of the runs."""

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

    def typical(self) -> np.ndarray:
        """Nanoseconds of each kernel, f64[kernels]: the mean of the middle half of the runs.

        A median would be a multiple of the clock's tick, which is longer than a small kernel. Of several threads the
        slowest counts. What reading the clock takes is not in it.
        """
        start, end = self.nanoseconds[..., 0], self.nanoseconds[..., 1]
        made: np.ndarray = np.maximum(_middle((end - start).max(axis=1)) - self.reading(), 0.0)
        return made

    def reading(self) -> float:
        """Nanoseconds that reading the clock takes.

        Between a kernel's end and the next one's start lies one reading, as between a start and an end; the gap
        that is shortest on the whole has no wait in it.
        """
        start, end = self.nanoseconds[..., 0], self.nanoseconds[..., 1]
        gaps = (start[..., 1:] - end[..., :-1]).min(axis=1)
        return float(_middle(gaps).min()) if gaps.size else 0.0

    def waits(self) -> np.ndarray:
        """Nanoseconds of each run that a thread spends between kernels, the mean of the threads; f64[runs]."""
        start, end = self.nanoseconds[..., 0], self.nanoseconds[..., 1]
        kernels = start.shape[2]
        inside = self.walls()[:, None] - (end - start).sum(axis=2) - max(kernels - 1, 0) * self.reading()
        made: np.ndarray = np.maximum(inside, 0.0).mean(axis=1)
        return made

    def walls(self) -> np.ndarray:
        """Nanoseconds of each run, from the first start to the last end; i64[runs]."""
        if not self.nanoseconds.size:
            return np.zeros(len(self.nanoseconds), np.int64)
        made: np.ndarray = self.nanoseconds.max(axis=(1, 2, 3)) - self.nanoseconds.min(axis=(1, 2, 3))
        return made


def _middle(samples: np.ndarray) -> np.ndarray:
    """The mean along the first axis of what lies between the quartiles."""
    count = len(samples)
    quarter = count // 4
    made: np.ndarray = np.sort(samples, axis=0)[quarter : count - quarter].mean(axis=0)
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
        Everything between, as far as threads share it.
    arena_bound : int
        The most bytes of that live at once: no plan needs less.
    scratch : int
        What the threads have to themselves, of all of them together.
    """

    donated: int
    arguments: int
    results: int
    arena: int
    arena_bound: int
    scratch: int

    @property
    def working(self) -> int:
        """The memory that is needed while a step runs and not between steps: arena and scratch."""
        return self.arena + self.scratch

    @property
    def total(self) -> int:
        """All of it."""
        return self.donated + self.arguments + self.results + self.working
