"""What is known of compiled code: its kernels, what they took, the memory it needs."""

from dataclasses import dataclass

__all__ = ["KernelInfo", "KernelTime", "Memory"]


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
