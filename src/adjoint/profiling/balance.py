"""How evenly a step would share its work among many threads, without a machine that has so many cores.

Each kernel takes the time that planning estimates for it (`adjoint.costs.nanoseconds`), all of its units take equally
long, and each thread executes the units that compiled code would give it (`adjoint.kernel.program.share_of`). Between
two barriers, the thread with the most work decides. Waiting itself, caches that threads share and the bandwidth of
memory are left out: what remains is how well units divide.
"""

from dataclasses import replace
from typing import Any

from adjoint import costs
from adjoint.compiler import host
from adjoint.errors import InvalidValueError
from adjoint.ir import IRModule
from adjoint.kernel.ir import Kernel
from adjoint.kernel.program import Program, share_of
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.pipeline import lower_function

__all__ = ["KernelBalance", "StepBalance", "balance_of", "simulate_threads"]


@dataclass(frozen=True, slots=True)
class KernelBalance:
    """How a kernel is shared.

    Parameters
    ----------
    name : str
        Its name.
    values : tuple of str
        Names of the graph values that it computes.
    parallel : bool
        Whether threads share it.
    nanoseconds : float
        Estimated time on one thread.
    shares : tuple of int
        Units of each thread.
    """

    name: str
    values: tuple[str, ...]
    parallel: bool
    nanoseconds: float
    shares: tuple[int, ...]

    @property
    def units(self) -> int:
        """Units of all threads."""
        return sum(self.shares)

    @property
    def busiest(self) -> int:
        """Units of the thread with the most."""
        return max(self.shares)

    @property
    def balance(self) -> float:
        """Mean share divided by the largest: 1 where all threads have equally much to do."""
        return self.units / (len(self.shares) * self.busiest) if self.units else 1.0

    def time_of(self, thread: int) -> float:
        """Estimated nanoseconds of a thread's share."""
        return self.nanoseconds * self.shares[thread] / self.units if self.units else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "name": self.name,
            "values": list(self.values),
            "parallel": self.parallel,
            "microseconds": self.nanoseconds / 1e3,
            "units": self.units,
            "shares": list(self.shares),
            "busiest": self.busiest,
            "balance": self.balance,
        }


@dataclass(frozen=True, slots=True)
class StepBalance:
    """How a step is shared.

    Parameters
    ----------
    threads : int
        Number of threads.
    kernels : tuple of KernelBalance
        The kernels, in the order in which they run.
    intervals : tuple of range
        Positions of the kernels that run without a barrier in between.
    """

    threads: int
    kernels: tuple[KernelBalance, ...]
    intervals: tuple[range, ...]

    @property
    def work(self) -> float:
        """Estimated nanoseconds of all kernels on one thread."""
        return sum(kernel.nanoseconds for kernel in self.kernels)

    @property
    def span(self) -> float:
        """Estimated nanoseconds of the step: in each interval between barriers, those of the busiest thread."""
        return sum(
            max(sum(self.kernels[position].time_of(thread) for position in interval) for thread in range(self.threads))
            for interval in self.intervals
        )

    @property
    def efficiency(self) -> float:
        """Work divided by the time of all threads: 1 where none has to wait."""
        return self.work / (self.threads * self.span) if self.span else 1.0

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; times in microseconds."""
        return {
            "threads": self.threads,
            "work_microseconds": self.work / 1e3,
            "span_microseconds": self.span / 1e3,
            "efficiency": self.efficiency,
            "kernels": [kernel.as_dict() for kernel in self.kernels],
        }


def balance_of(program: Program, threads: int, target: Target = costs.MODEL) -> StepBalance:
    """How a program for a target shares its work among so many threads."""
    if threads < 1:
        raise InvalidValueError(f"threads must be at least 1, got {threads}")
    kernels = tuple(_balance(kernel, threads, target) for kernel in program.kernels)
    return StepBalance(threads, kernels, tuple(program.intervals))


def simulate_threads(module: IRModule, threads: int, target: Target | None = None) -> StepBalance:
    """How the function ``step`` of a module would share its work, compiled for a machine with that many cores.

    Nothing is run, and only the program is made: no native code.

    Parameters
    ----------
    module : IRModule
        A module with a ``step``, such as `SetupTrainer` makes.
    threads : int
        Threads and cores.
    target : Target, optional
        The CPU but for its cores; default: that of this machine.
    """
    if threads < 1:
        raise InvalidValueError(f"threads must be at least 1, got {threads}")
    target = replace(target or host(), cores=threads)
    return balance_of(lower_function(module["step"], target), threads, target)


def _balance(kernel: Kernel, threads: int, target: Target) -> KernelBalance:
    shares = tuple(len(share_of(kernel, thread, threads)) for thread in range(threads))
    estimate = costs.nanoseconds(kernel.flops, kernel.bytes, target)
    return KernelBalance(kernel.name, kernel.values, kernel.parallel, estimate, shares)
