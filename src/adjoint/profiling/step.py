"""Measure a step kernel by kernel and compare it with the machine's limits: the data of tables, traces and pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from adjoint.compiler import CompileOptions, host
from adjoint.compiler import compile as compile_module
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, IRModule
from adjoint.ir.printer import value_names
from adjoint.kernel.target import Target
from adjoint.pipeline import lower_function
from adjoint.profiling.inputs import random_arrays
from adjoint.profiling.machine import Level, Peaks, machine_peaks
from adjoint.profiling.parts import PARTS, after_passes, part_of, value_parts
from adjoint.profiling.places import Block, Edge, blocks_of, edges_of
from adjoint.profiling.probes import multiply_adds
from adjoint.runtime.executable import Entry
from adjoint.runtime.report import Clocks, KernelInfo, Memory
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
        Part of the step, one of `adjoint.profiling.parts.PARTS`.
    nanoseconds : float
        The interquartile mean of the runs; with several threads, the slowest counts.
    share : float
        Fraction of the time of all kernels.
    operators : tuple of str
        Operator names of ``kernel.values``.
    least : float
        Minimum time in nanoseconds at the machine's peaks; see `Peaks.nanoseconds`.
    level : Level
        The fastest level of memory that can hold the kernel's bytes.
    """

    kernel: KernelInfo
    part: str
    nanoseconds: float
    share: float
    operators: tuple[str, ...]
    least: float
    level: Level

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
            "values": list(self.kernel.values),
            "operators": list(self.operators),
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


@dataclass(frozen=True, slots=True, eq=False)
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
    peaks : Peaks
        The machine's limits for that many threads.
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
    peaks: Peaks
    pace: float
    memory: Memory
    blocks: tuple[Block, ...]
    edges: tuple[Edge, ...]
    step: Function

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
            "machine": {**self.peaks.as_dict(), "pace": self.pace},
            "total": {
                "microseconds": self.nanoseconds / 1e3,
                "wall_microseconds": self.wall / 1e3,
                "waiting_microseconds": self.waiting / 1e3,
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
) -> StepProfile:
    """Measure the function ``step`` of a module on copies of its arrays, so that nothing is trained.

    Parameters
    ----------
    module : IRModule
        Created by `SetupTrainer`. For any other module with a ``step``, the parts are not distinguished.
    title : str, default "step"
        Description of what is measured.
    options : CompileOptions, optional
        Compile options and number of threads; default: one thread, which is best for comparing kernels.
    runs : int, default 50
        Number of runs, of which the interquartile mean is used.
    arrays : mapping, optional
        Arrays by name for some or all arguments, of exactly their types; default: `random_arrays`.
    peaks : Peaks, optional
        The machine's limits; default: those of `machine_peaks`, measured once and stored.
    """
    if runs < 1:
        raise InvalidValueError(f"profile: runs is at least 1, got {runs}")
    options = options or CompileOptions(threads=1)
    target = host()
    entry = compile_module(module, target=target, options=options, entries=("step",))["step"]
    peaks = peaks or machine_peaks(target, entry.threads)
    given = random_arrays(module, entry) | dict(arrays or {})
    clocks, pace = _run(entry, given, runs, target)
    program = lower_function(module["step"], target, options.memory_budget)
    step = after_passes(module["step"])
    return StepProfile(
        title=title,
        threads=entry.threads,
        runs=runs,
        rows=_rows(module, step, entry.kernels, clocks, peaks),
        clocks=clocks,
        peaks=peaks,
        pace=pace / peaks.gflops,
        memory=entry.memory,
        blocks=blocks_of(program),
        edges=edges_of(program.kernels),
        step=step,
    )


def _run(entry: Entry, given: Mapping[str, np.ndarray], runs: int, target: Target) -> tuple[Clocks, float]:
    """Run the step; return its times, and the machine's billions of multiply-adds per second around the runs."""
    resident = {a.name: given[a.name] for a in entry.arguments if a.donated}
    batch = [given[a.name] for a in entry.arguments if not a.donated]
    probe = multiply_adds(target)
    before = probe.best(_GLANCE, entry.threads)
    clocks = entry.clocks(*batch, resident=resident, runs=runs, threads=entry.threads)
    after = probe.best(_GLANCE, entry.threads)
    return clocks, (before + after) / 2e9


def _rows(
    module: IRModule, step: Function, kernels: Sequence[KernelInfo], clocks: Clocks, peaks: Peaks
) -> tuple[Row, ...]:
    times = clocks.typical()
    parts = value_parts(module, step)
    named = {name: value for value, name in value_names(step).items()}
    rows = []
    for kernel, nanoseconds in zip(kernels, times, strict=True):
        values = [named[name] for name in kernel.values]
        rows.append(
            Row(
                kernel=kernel,
                part=part_of(values, parts),
                nanoseconds=float(nanoseconds),
                share=0.0,
                operators=tuple(value.op.name for value in values),
                least=peaks.nanoseconds(kernel.flops, kernel.bytes),
                level=peaks.level(kernel.bytes),
            )
        )
    total = sum(row.nanoseconds for row in rows)
    return tuple(replace(row, share=row.nanoseconds / total if total else 0.0) for row in rows)
