"""A step measured kernel by kernel, beside what the machine can do: what tables, traces and pages are made from."""

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

#: Seconds to look at the machine's pace, before the runs and after them.
_GLANCE = 0.004


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel, and what it took.

    Parameters
    ----------
    kernel : KernelInfo
        What it is.
    part : str
        Of the step: one of `adjoint.profiling.parts.PARTS`.
    nanoseconds : float
        The mean of the middle half of the runs; of several threads the slowest counts.
    share : float
        Of the time of all kernels.
    operators : tuple of str
        Names of the operators of ``kernel.values``.
    least : float
        Nanoseconds of a machine at its peaks: see `Peaks.nanoseconds`.
    level : Level
        The nearest level of memory that holds the kernel's bytes.
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
        """Billions of operations a second."""
        return self.kernel.flops / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def gbytes(self) -> float:
        """Billions of bytes a second."""
        return self.kernel.bytes / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.kernel.flops / self.kernel.bytes if self.kernel.bytes else 0.0

    @property
    def attained(self) -> float:
        """Share of what the roofline allows: 1 where the kernel takes the least time."""
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
    """Kernels of one part together."""

    part: str
    kernels: int
    nanoseconds: float
    share: float

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"kernels": self.kernels, "microseconds": self.nanoseconds / 1e3, "share": self.share}


@dataclass(frozen=True, slots=True, eq=False)
class StepProfile:
    """A step measured.

    Parameters
    ----------
    title : str
        What was measured, for people.
    threads, runs : int
        How.
    rows : tuple of Row
        A row a kernel, in the order in which they run.
    clocks : Clocks
        Of all runs.
    peaks : Peaks
        Of the machine, for so many threads.
    pace : float
        Multiply-adds a second around the runs, as a share of ``peaks``: 1 on a machine that was at its best.
    memory : Memory
        What the step needs.
    blocks : tuple of Block
        The arena's buffers, with their places and lifetimes.
    edges : tuple of Edge
        Which kernel reads what which kernel writes.
    step : Function
        The graph that the kernels compute, after the passes before lowering.
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
        """Of all kernels."""
        return sum(row.nanoseconds for row in self.rows)

    @property
    def wall(self) -> float:
        """Median nanoseconds from the first kernel's start to the last one's end, reading the clock included."""
        return float(np.median(self.clocks.walls()))

    @property
    def waiting(self) -> float:
        """Median nanoseconds that a thread waits for others, the mean of all threads."""
        return float(np.median(self.clocks.waits())) if self.threads > 1 else 0.0

    @property
    def flops(self) -> int:
        """Operations of a step."""
        return sum(row.kernel.flops for row in self.rows)

    @property
    def gflops(self) -> float:
        """Billions of operations a second."""
        return self.flops / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def attained(self) -> float:
        """Share of what the roofline allows, of all kernels together."""
        return sum(row.least for row in self.rows) / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def totals(self) -> tuple[Total, ...]:
        """The parts of the step that have kernels; their times add up to that of all kernels."""
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
    """Measure the function ``step`` of a module, on copies of its arrays: nothing is trained.

    Parameters
    ----------
    module : IRModule
        Made by `SetupTrainer`. Of any other that has a ``step``, the parts are not told apart.
    title : str, default "step"
        What to call it.
    options : CompileOptions, optional
        How to compile, and the threads to run on; default: one thread, on which kernels are best compared.
    runs : int, default 50
        Runs; the mean of the middle half of them counts.
    arrays : mapping, optional
        Arrays by name for some or all arguments, of exactly their types; default: `random_arrays`.
    peaks : Peaks, optional
        What the machine can do; default: measured, once for all (`machine_peaks`).
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
    """The clocks of some runs, and how many billions of multiply-adds a second the machine made around them."""
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
