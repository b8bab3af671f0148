"""Kernels above the roofline: peaks that were measured too low are raised, and any other excess has its reason.

No kernel is faster than the machine. One that seems to be shows that a peak is too low, that the operations or bytes it
is credited with are more than it needs, or that it is as short as the clock's noise.
"""

from collections.abc import Sequence

from adjoint.ir import Value
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Elementwise
from adjoint.ops.contract import MatMul
from adjoint.ops.convert import After
from adjoint.ops.convolution import Conv2d, Conv2dWeightGradient
from adjoint.ops.create import Constant, Full, Iota
from adjoint.ops.shape import BroadcastTo, Reduction
from adjoint.ops.views import Permute, Reshape
from adjoint.pages.figures import percent, rate
from adjoint.profiling.machine import Peaks

__all__ = ["NOISE", "Work", "changes", "excess_notes", "excess_reason", "raised_peaks"]

#: Fraction above a peak, and nanoseconds below the least time, that are the clock's noise: its tick, the cost of
#: reading it, and the frequency of the core, which changes by a few percent.
NOISE, NOISE_NANOSECONDS = 0.05, 100.0

#: Ratio to a measured peak above which a kernel's bytes are in doubt rather than the peak.
_PLAUSIBLE = 1.5

#: Most kernels that a note names.
_NAMED = 5

#: Operators whose kernels read all of their operands and compute what they are credited with.
_EXACT = (Elementwise, Reduction, MatMul, BroadcastTo, Reshape, Permute, After, Full, Iota, Constant)


@dataclass(frozen=True, slots=True)
class Work:
    """What a kernel did in its time.

    Parameters
    ----------
    name : str
        Its name.
    values : tuple of Value
        What it computes.
    flops, read, written : int
        The operations and bytes that it is credited with.
    nanoseconds : float
        Its time.
    """

    name: str
    values: tuple[Value, ...]
    flops: int
    read: int
    written: int
    nanoseconds: float

    def attained(self, peaks: Peaks) -> float:
        """Fraction of the roofline that it reaches."""
        least = peaks.nanoseconds(self.flops, self.read, self.written)
        return least / self.nanoseconds if self.nanoseconds else 0.0

    def is_exact(self) -> bool:
        """Whether it needs all operations and bytes that it is credited with."""
        return all(isinstance(value.op, _EXACT) for value in self.values)

    def is_above(self, peaks: Peaks) -> bool:
        """Whether it exceeds the roofline by more than noise."""
        least = peaks.nanoseconds(self.flops, self.read, self.written)
        return least > (1 + NOISE) * self.nanoseconds and least > self.nanoseconds + NOISE_NANOSECONDS


def raised_peaks(peaks: Peaks, works: Sequence[Work]) -> Peaks:
    """The peaks with those raised that kernels exceeded which need everything they are credited with.

    A kernel whose time is too short for the clock, which is 0 then, says nothing about them.
    """
    raised = peaks
    for work in works:
        if work.nanoseconds > 0 and work.is_above(peaks) and work.is_exact() and work.attained(peaks) <= _PLAUSIBLE:
            raised = raised.reaching(work.flops, work.read, work.written, work.nanoseconds)
    return raised


def excess_reason(work: Work, peaks: Peaks) -> str:
    """Why a kernel is above the roofline; empty if it is not."""
    if work.attained(peaks) <= 1.0:
        return ""
    if not work.is_above(peaks):
        return "which is within the noise of the clock"
    if work.flops / peaks.gflops > work.nanoseconds:
        if any(isinstance(value.op, Conv2d | Conv2dWeightGradient) for value in work.values):
            return "because a convolution can take fewer products than the sums it is credited with"
        return "because of operations that it is credited with and does not need, or a peak that is too low"
    if not work.is_exact():
        return "because all bytes of its operands are credited, of which it need not read all"
    return "because the peak is too low; adjoint doctor --measure measures it again"


def excess_notes(excesses: Sequence[tuple[str, float, str]]) -> list[str]:
    """A sentence for each reason, with the kernels that have it.

    Parameters
    ----------
    excesses : sequence of (str, float, str)
        Name, fraction of the roofline, and reason of each kernel that is above it.
    """
    notes = []
    for reason in dict.fromkeys(reason for _, _, reason in excesses):
        named = [(attained, name) for name, attained, other in excesses if other == reason]
        names = [name for _, name in sorted(named, reverse=True)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        verb = "are" if len(names) > 1 else "is"
        most = f"{'up to ' if len(names) > 1 else ''}{percent(max(named)[0])}"
        notes.append(f"{', '.join(names[:_NAMED])}{more} {verb} at {most} of the roofline, {reason}.")
    return notes


def changes(before: Peaks, after: Peaks) -> str:
    """The peaks that differ, for people: ``L2 108 to 154 GB/s``; empty if none does."""
    said = [
        f"{old.name} {rate(old.gbytes)} to {rate(new.gbytes)} GB/s"
        for old, new in zip(before.levels, after.levels, strict=True)
        if new.gbytes > old.gbytes
    ]
    if after.gflops > before.gflops:
        said.insert(0, f"multiply-adds {rate(before.gflops)} to {rate(after.gflops)} GFLOP/s")
    return ", ".join(said)
