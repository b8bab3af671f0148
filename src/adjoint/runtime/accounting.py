"""The account of a step: what it takes without clocks, what its kernels take, and where the difference goes."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.lazy_dataclass import dataclass
from adjoint.runtime.report import Clocks

__all__ = ["StepAccount", "step_nanoseconds"]

#: Minimum nanoseconds of calls that are timed together, so that reading Python's clock does not count.
_TOGETHER = 100_000


@dataclass(frozen=True, slots=True)
class StepAccount:
    """Where the time of a step goes, in nanoseconds: ``kernels + slower + between + entry`` is ``step``.

    Parameters
    ----------
    threads : int
        Number of threads.
    step : float
        Time of a step called from Python, by code that reads no clocks.
    kernels : float
        Sum of the kernels' times, each on its slowest thread: means without the slowest and fastest quarter of the
        runs.
    slower : float
        How much longer the kernels of a median run take. In each run, other programs interrupt other kernels, so that
        no kernel's time shows it.
    between : float
        What passes from the start of the first kernel to the end of the last in addition to that. With several
        threads, they wait for each other at barriers, and it is negative if kernels of different threads overlap more
        than they wait.
    entry : float
        The rest: the call from Python, the checks of its arguments, and waking the threads. It includes whatever
        differs between the runs with and without clocks, and can therefore be negative.
    clocks : float
        What reading the clock around every kernel adds to the runs in which kernels are timed; not part of `step`.
    """

    threads: int
    step: float
    kernels: float
    slower: float
    between: float
    entry: float
    clocks: float

    @classmethod
    def of(cls, clocks: Clocks, step: float) -> "StepAccount":
        """The account of a step that takes `step` nanoseconds without clocks."""
        _, threads, count, _ = clocks.nanoseconds.shape
        kernels = float(clocks.typical().sum())
        lasting = (clocks.nanoseconds[..., 1] - clocks.nanoseconds[..., 0]).max(axis=1).sum(axis=1)
        run = max(float(np.median(lasting)) - clocks.reading() * count, 0.0)
        # Two readings per kernel; half of the first and half of the last are outside.
        reading = clocks.reading() * max(2 * count - 1, 0)
        inside = max(float(np.median(clocks.walls())) - reading, 0.0)
        return cls(threads, step, kernels, run - kernels, inside - run, step - inside, reading)

    def lines(self) -> tuple[tuple[str, float], ...]:
        """What the step consists of, and the step: descriptions and nanoseconds."""
        several = self.threads > 1
        return (
            ("kernels, each on its slowest thread" if several else "kernels", self.kernels),
            ("interruptions: kernels slower than usual", self.slower),
            ("waiting for threads, less overlap of kernels" if several else "between kernels", self.between),
            ("call, checks, waking threads; other differences" if several else "call, checks; other differences",
             self.entry),
            ("step, without clocks", self.step),
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; times in microseconds."""
        return {
            "step_microseconds": self.step / 1e3,
            "kernels_microseconds": self.kernels / 1e3,
            "slower_microseconds": self.slower / 1e3,
            "between_microseconds": self.between / 1e3,
            "entry_microseconds": self.entry / 1e3,
            "clocks_microseconds": self.clocks / 1e3,
        }


def step_nanoseconds(
    call: Callable[..., Any],
    arrays: Sequence[Any],
    resident: Mapping[str, np.ndarray],
    state: Mapping[str, np.ndarray],
    runs: int,
) -> float:
    """Median time of a call in nanoseconds, without clocks inside it.

    Parameters
    ----------
    call : callable
        A bound step.
    arrays : sequence of array_like
        Its arguments.
    resident, state : mapping
        The arrays that it updates, and the values that they have before every measurement, so that no number of calls
        trains beyond what one measurement does.
    runs : int
        Number of measurements. Very short calls are timed together.
    """
    samples = []
    count = 1
    for run in range(runs + 1):
        for name, array in resident.items():
            array[...] = state[name]
        call(*arrays)
        start = time.perf_counter_ns()
        for _ in range(count):
            call(*arrays)
        elapsed = time.perf_counter_ns() - start
        if run == 0:
            count = max(1, _TOGETHER // max(elapsed, 100))
        else:
            samples.append(elapsed / count)
    return float(np.median(samples))
