"""Measure a step kernel by kernel and compare it with the machine's limits: the data of tables, traces and pages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adjoint.compiler import CompileOptions, compiled_graph, host
from adjoint.compiler import compile as compile_module
from adjoint.errors import InvalidValueError, plural
from adjoint.ir import Function, IRModule
from adjoint.kernel.program import Program
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.pipeline import lower_function
from adjoint.profiling.excess import NOISE, Work, changes, excess_notes, excess_reason, raised_peaks
from adjoint.profiling.inputs import described_state, random_arrays, trained_arrays
from adjoint.profiling.machine import Level, Peaks, keep_peaks, machine_peaks
from adjoint.profiling.places import Block, Edge, blocks_of, edges_of
from adjoint.profiling.probes import multiply_adds
from adjoint.profiling.table import profile_table
from adjoint.runtime.accounting import StepAccount, step_nanoseconds
from adjoint.runtime.bound import aligned_together
from adjoint.runtime.executable import Entry
from adjoint.runtime.report import WARM_UP_RUNS, Clocks, KernelInfo, Memory
from adjoint.training.parts import PARTS, NamedValues, part_of, value_parts
from adjoint.version import __version__

__all__ = ["Row", "StepProfile", "Total", "profile_module"]

#: Seconds to measure the machine's current speed, before and after the runs.
_GLANCE = 0.004


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel and its measurements.

    Parameters
    ----------
    kernel : KernelInfo
        The kernel.
    part : str
        Part of the step, one of `adjoint.training.parts.PARTS`.
    nanoseconds : float
        The interquartile mean of the runs; with several threads, the slowest counts.
    share : float
        Fraction of the time of all kernels.
    least : float
        Minimum time in nanoseconds at the machine's peaks; see `Peaks.nanoseconds`.
    level : Level
        The level of memory that takes longest for the kernel's bytes.
    excess : str
        Why the kernel is above the roofline, as a clause; empty if it is not.
    """

    kernel: KernelInfo
    part: str
    nanoseconds: float
    share: float
    least: float
    level: Level
    excess: str = ""

    @property
    def operators(self) -> tuple[str, ...]:
        """The operator of each of ``kernel.values``."""
        return self.kernel.operators

    @property
    def gflops(self) -> float:
        """Billions of operations per second."""
        return self.kernel.flops / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def gbytes(self) -> float:
        """Billions of bytes per second."""
        return self.kernel.bytes / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.kernel.flops / self.kernel.bytes if self.kernel.bytes else 0.0

    @property
    def attained(self) -> float:
        """Fraction of the roofline that is reached: 1 if the kernel takes the minimum time."""
        return self.least / self.nanoseconds if self.nanoseconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "name": self.kernel.name,
            "part": self.part,
            "microseconds": self.nanoseconds / 1e3,
            "share": self.share,
            "flops": self.kernel.flops,
            "bytes": self.kernel.bytes,
            "gflops": self.gflops,
            "gbytes": self.gbytes,
            "intensity": self.intensity,
            "level": self.level.name,
            "roofline": self.attained,
            "excess": self.excess or None,
            "values": list(self.kernel.values),
            "operators": list(self.operators),
            "lines": list(self.kernel.lines),
            "parallel": self.kernel.parallel,
        }


@dataclass(frozen=True, slots=True)
class Total:
    """The kernels of one part, combined."""

    part: str
    kernels: int
    nanoseconds: float
    share: float

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kernels": self.kernels, "microseconds": self.nanoseconds / 1e3, "share": self.share}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StepProfile:
    """The measurements of a step.

    Parameters
    ----------
    title : str
        Description of what was measured.
    threads, runs : int
        Number of threads and runs.
    rows : tuple of Row
        One row per kernel, in execution order.
    clocks : Clocks
        The times of all runs.
    account : StepAccount
        The time of the step without clocks, and why it is not the sum of its kernels.
    state : str
        What the arrays held.
    peaks : Peaks
        The machine's limits for that many threads.
    raised : str
        The limits that were raised because kernels exceeded them; empty if there are none.
    pace : float
        Multiply-adds per second around the time of the runs, as a fraction of ``peaks``.
    memory : Memory
        The memory that the step needs.
    blocks : tuple of Block
        The arena's buffers, with their locations and lifetimes.
    edges : tuple of Edge
        The dependences between kernels.
    step : Function
        The graph that the kernels compute, after the graph passes.
    """

    title: str
    threads: int
    runs: int
    rows: tuple[Row, ...]
    clocks: Clocks
    account: StepAccount
    state: str
    peaks: Peaks
    raised: str
    pace: float
    memory: Memory
    blocks: tuple[Block, ...]
    edges: tuple[Edge, ...]
    step: Function

    def __repr__(self) -> str:
        kernels, threads = plural(len(self.rows), "kernel"), plural(self.threads, "thread")
        return f"<StepProfile of {self.title}: {kernels}, {self.nanoseconds / 1e3:.1f} us on {threads}>"

    def __str__(self) -> str:
        return profile_table(self)

    @property
    def nanoseconds(self) -> float:
        """Total time of all kernels."""
        return sum(row.nanoseconds for row in self.rows)

    @property
    def wall(self) -> float:
        """Median nanoseconds from the start of the first kernel to the end of the last, including clock reads."""
        return float(np.median(self.clocks.walls()))

    @property
    def waiting(self) -> float:
        """Median nanoseconds that a thread waits for others, averaged over all threads."""
        return float(np.median(self.clocks.waits())) if self.threads > 1 else 0.0

    @property
    def flops(self) -> int:
        """Number of operations of a step."""
        return sum(row.kernel.flops for row in self.rows)

    @property
    def gflops(self) -> float:
        """Billions of operations per second."""
        return self.flops / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def attained(self) -> float:
        """Fraction of the roofline that all kernels together reach."""
        return sum(row.least for row in self.rows) / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on limits that were raised, and on the kernels that are above the roofline all the same."""
        notes = excess_notes([(row.kernel.name, row.attained, row.excess) for row in self.rows if row.excess])
        if self.raised:
            notes.insert(0, f"The stored peaks were too low and have been raised: {self.raised}.")
        return tuple(notes)

    @property
    def totals(self) -> tuple[Total, ...]:
        """The parts of the step that have kernels; the sum of their times is that of all kernels."""
        made = []
        for part in PARTS:
            rows = [row for row in self.rows if row.part == part]
            if rows:
                times = sum(row.nanoseconds for row in rows)
                made.append(Total(part, len(rows), times, sum(row.share for row in rows)))
        return tuple(made)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; times in microseconds."""
        return {
            "adjoint": __version__,
            "title": self.title,
            "threads": self.threads,
            "runs": self.runs,
            "warm_up_runs": WARM_UP_RUNS,
            "state": self.state,
            "machine": {**self.peaks.as_dict(), "pace": self.pace, "raised": self.raised or None},
            "total": {
                "microseconds": self.nanoseconds / 1e3,
                "wall_microseconds": self.wall / 1e3,
                "waiting_microseconds": self.waiting / 1e3,
                **self.account.as_dict(),
                "flops": self.flops,
                "bytes": sum(row.kernel.bytes for row in self.rows),
                "gflops": self.gflops,
                "roofline": self.attained,
            },
            "parts": {total.part: total.as_dict() for total in self.totals},
            "kernels": [row.as_dict() for row in self.rows],
            "memory": {
                "donated": self.memory.donated,
                "arguments": self.memory.arguments,
                "results": self.memory.results,
                "arena": self.memory.arena,
                "arena_bound": self.memory.arena_bound,
                "scratch": self.memory.scratch,
                "blocks": [block.as_dict() for block in self.blocks],
            },
            "edges": [edge.as_dict() for edge in self.edges],
        }


def profile_module(
    module: IRModule,
    title: str = "step",
    options: CompileOptions | None = None,
    runs: int = 50,
    arrays: Mapping[str, np.ndarray] | None = None,
    peaks: Peaks | None = None,
    after: int = 0,
) -> StepProfile:
    """Measure the function ``step`` of a module on copies of its arrays, so that nothing is trained.

    Parameters
    ----------
    module : IRModule
        Created by `SetupTrainer`. For any other module with a ``step``, the parts are not distinguished.
    title : str, default "step"
        Description of what is measured.
    options : CompileOptions, optional
        Compile options and number of threads; default: as for training, all cores available to this process.
    runs : int, default 50
        Number of runs, of which the interquartile mean is used, after three warm-up runs.
    arrays : mapping, optional
        Arrays by name for some or all arguments, of exactly their types; default: `random_arrays`.
    peaks : Peaks, optional
        The machine's limits; default: those of `machine_peaks`, measured once and stored, and raised if a kernel
        exceeds them.
    after : int, default 0
        Number of training steps on the batch before the measurement.

    Raises
    ------
    InvalidValueError
        If `runs` or `after` is too small, or after the steps an array is not finite.
    """
    for name, least, got in (("runs", 1, runs), ("after", 0, after)):
        if got < least:
            raise InvalidValueError(f"profile: {name} is at least {least}, got {got}")
    options = options or CompileOptions()
    target = host()
    entry = compile_module(module, target=target, options=options, entries=("step",))["step"]
    known = peaks or machine_peaks(target, entry.used_threads)
    given = random_arrays(module, entry) | dict(arrays or {})
    if after:
        given = trained_arrays(entry, given, after)
    measured = _run(entry, given, runs, target)
    program = lower_function(module["step"], target, options.memory_budget, threads=entry.threads)
    step = compiled_graph(module["step"], target, options)
    works = _works(program, step, entry.kernels, measured.clocks)
    limits = peaks or _sufficient(known, works, measured.pace, target)
    return StepProfile(
        title=title,
        threads=entry.used_threads,
        runs=runs,
        rows=_rows(module, step, entry.kernels, works, limits),
        clocks=measured.clocks,
        account=measured.account,
        state=described_state(module, tuple(arrays or ()), after),
        peaks=limits,
        raised=changes(known, limits),
        pace=measured.pace / limits.gflops,
        memory=entry.memory,
        blocks=blocks_of(program),
        edges=edges_of(program.kernels),
        step=step,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """The times of the runs, and the machine's billions of operations per second around them."""

    clocks: Clocks
    account: StepAccount
    pace: float


def _run(entry: Entry, given: Mapping[str, np.ndarray], runs: int, target: Target) -> _Measured:
    """Run the step with and without clocks."""
    state = {a.name: given[a.name] for a in entry.arguments if a.donated}
    batch = [given[a.name] for a in entry.arguments if not a.donated]
    resident = aligned_together(state)
    call = entry.bind(resident).call
    probe = multiply_adds(target)
    before = probe.best(_GLANCE, entry.used_threads)
    earlier = step_nanoseconds(call, batch, resident, state, runs)
    clocks = entry.clocks(*batch, resident=state, runs=runs, threads=entry.used_threads)
    later = step_nanoseconds(call, batch, resident, state, runs)
    after = probe.best(_GLANCE, entry.used_threads)
    # Before and after, because the speed of a machine drifts.
    return _Measured(clocks, StepAccount.of(clocks, (earlier + later) / 2), (before + after) / 2e9)


def _sufficient(peaks: Peaks, works: Sequence[Work], pace: float, target: Target) -> Peaks:
    """The peaks, measured again and then raised, if kernels or the multiply-adds of a run exceed them."""
    if pace > (1 + NOISE) * peaks.gflops or any(work.is_above(peaks) and work.is_exact() for work in works):
        peaks = machine_peaks(target, peaks.threads, again=True)
        raised = raised_peaks(replace(peaks, gflops=max(pace, peaks.gflops)), works)
        if raised != peaks:
            peaks = keep_peaks(target, raised)
    return peaks


def _works(program: Program, step: Function, kernels: Sequence[KernelInfo], clocks: Clocks) -> tuple[Work, ...]:
    """What each kernel did, in how long."""
    named = NamedValues.of(step)
    works = []
    for kernel, lowered, nanoseconds in zip(kernels, program.kernels, clocks.typical(), strict=True):
        written = min(sum(buffer.nbytes for buffer in dict.fromkeys(lowered.writes)), kernel.bytes)
        values = named.computed_by(kernel)
        read = kernel.bytes - written
        works.append(Work(kernel.name, values, kernel.flops, read, written, float(nanoseconds)))
    return tuple(works)


def _rows(
    module: IRModule, step: Function, kernels: Sequence[KernelInfo], works: Sequence[Work], peaks: Peaks
) -> tuple[Row, ...]:
    parts = value_parts(module, step)
    total = sum(work.nanoseconds for work in works)
    return tuple(
        Row(
            kernel=kernel,
            part=part_of(work.values, parts),
            nanoseconds=work.nanoseconds,
            share=work.nanoseconds / total if total else 0.0,
            least=peaks.nanoseconds(work.flops, work.read, work.written),
            level=peaks.level(work.read, work.written),
            excess=excess_reason(work, peaks),
        )
        for kernel, work in zip(kernels, works, strict=True)
    )
