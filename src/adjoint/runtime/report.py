"""Information about compiled code: its kernels, their times, and the memory it needs."""

from collections.abc import Iterable

import numpy as np

from adjoint.errors import listed, plural, short_line
from adjoint.lazy_dataclass import dataclass

__all__ = ["WARM_UP_RUNS", "Clocks", "KernelInfo", "KernelTime", "Memory"]

#: Runs before those that are measured, after which caches hold what fits in them.
WARM_UP_RUNS = 3


@dataclass(frozen=True, slots=True, repr=False)
class KernelInfo:
    """Description of a kernel.

    Parameters
    ----------
    name : str
        Name of the kernel.
    values : tuple of str
        Names of the graph values that it computes.
    flops, bytes : int
        Floating-point operations and bytes moved, each element counted once.
    units : int
        Number of work items.
    parallel : bool
        Whether threads share them.
    operators, lines : tuple of str
        For each of `values`, the name of the operator that computes it in the compiled graph, and the line of code that
        it comes from, ``file:line`` or "". The line of a gradient is that of the value that it is the gradient of.
    """

    name: str
    values: tuple[str, ...]
    flops: int
    bytes: int
    units: int
    parallel: bool
    operators: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def __repr__(self) -> str:
        threads = f"{plural(self.units, 'unit')} {'on all threads' if self.parallel else 'on one thread'}"
        cost = f"{plural(self.flops, 'flop')}, {plural(self.bytes, 'byte')}"
        return f"<KernelInfo {self.name}: {listed(self.values)}; {cost}, {threads}>"

    def listed_operators(self, most: int = 6) -> str:
        """The distinct operators in text, in order, and how many there are beyond `most`."""
        return _listed(self.operators, most)

    def listed_lines(self, most: int = 4) -> str:
        """The distinct known lines in text, without folders, and how many there are beyond `most`."""
        return _listed(map(short_line, filter(None, self.lines)), most)


def _listed(words: Iterable[str], most: int) -> str:
    once = list(dict.fromkeys(words))
    more = f" and {len(once) - most} more" if len(once) > most else ""
    return ", ".join(once[:most]) + more


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The time of a kernel in nanoseconds: the interquartile mean of the runs."""

    kernel: KernelInfo
    nanoseconds: float

    @property
    def gflops(self) -> float:
        """Billions of floating-point operations per second."""
        return self.kernel.flops / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def gbytes(self) -> float:
        """Billions of bytes per second."""
        return self.kernel.bytes / self.nanoseconds if self.nanoseconds else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Clocks:
    """Start and end times of each thread's part of each kernel, for several runs.

    Parameters
    ----------
    nanoseconds : numpy.ndarray
        i64[runs, threads, kernels, 2], start and end on the same clock.
    """

    nanoseconds: np.ndarray

    def typical(self) -> np.ndarray:
        """Nanoseconds per kernel, f64[kernels]: the interquartile mean of the runs.

        A median would be a multiple of the clock's tick, which is longer than a small kernel takes. With several
        threads, the slowest counts. The time of reading the clock is subtracted.
        """
        start, end = self.nanoseconds[..., 0], self.nanoseconds[..., 1]
        made: np.ndarray = np.maximum(_middle((end - start).max(axis=1)) - self.reading(), 0.0)
        return made

    def reading(self) -> float:
        """Nanoseconds needed to read the clock.

        Between the end of a kernel and the start of the next there is one reading, as between start and end. The
        shortest gap on average contains no waiting. Kernels in loops start with the run, before the end of what
        precedes them: such gaps do not count.
        """
        start, end = self.nanoseconds[..., 0], self.nanoseconds[..., 1]
        gaps = (start[..., 1:] - end[..., :-1]).min(axis=1)
        typical = _middle(gaps)
        return float(typical.min(initial=np.inf, where=typical >= 0)) if (typical >= 0).any() else 0.0

    def waits(self) -> np.ndarray:
        """Nanoseconds per run that a thread spends between kernels, averaged over threads; f64[runs]."""
        start, end = self.nanoseconds[..., 0], self.nanoseconds[..., 1]
        kernels = start.shape[2]
        inside = self.walls()[:, None] - (end - start).sum(axis=2) - max(kernels - 1, 0) * self.reading()
        made: np.ndarray = np.maximum(inside, 0.0).mean(axis=1)
        return made

    def walls(self) -> np.ndarray:
        """Nanoseconds per run, from the first start to the last end; i64[runs]."""
        if not self.nanoseconds.size:
            return np.zeros(len(self.nanoseconds), np.int64)
        made: np.ndarray = self.nanoseconds.max(axis=(1, 2, 3)) - self.nanoseconds.min(axis=(1, 2, 3))
        return made


def _middle(samples: np.ndarray) -> np.ndarray:
    """The interquartile mean along the first axis."""
    count = len(samples)
    quarter = count // 4
    made: np.ndarray = np.sort(samples, axis=0)[quarter : count - quarter].mean(axis=0)
    return made


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of memory that an entry point needs.

    Parameters
    ----------
    donated : int
        Arguments updated in place: parameters and states.
    arguments : int
        All other arguments.
    results : int
        Results that do not share memory with an argument.
    arena : int
        Intermediate values, shared by the threads.
    arena_bound : int
        The maximum number of bytes of them that are live at once, a lower bound for any plan.
    scratch : int
        Thread-private memory, of all threads together.
    """

    donated: int
    arguments: int
    results: int
    arena: int
    arena_bound: int
    scratch: int

    @property
    def working(self) -> int:
        """The memory needed while a step runs but not between steps: arena and scratch."""
        return self.arena + self.scratch

    @property
    def total(self) -> int:
        """The sum of all."""
        return self.donated + self.arguments + self.results + self.working
