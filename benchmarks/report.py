"""What measurements say: medians, ratios in turn, a table and JSON."""

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from adjoint.compiler import host
from benchmarks.harness import Result
from benchmarks.roster import OURS
from benchmarks.worker import CHECKED

__all__ = [
    "DISTURBED",
    "HEADINGS",
    "Comparison",
    "as_json",
    "best_cell",
    "best_peer",
    "compare",
    "disturbance",
    "machine",
    "measured_cells",
    "remarks",
    "rows",
    "step_time",
    "summary",
    "table",
    "title",
]

#: Cores that others may take before the numbers are said to be in doubt.
DISTURBED = 0.1

#: Columns of a table of steps.
HEADINGS = ("peer", "step", "steps/s", "adjoint is", "GFLOP/s", "import", "1st loss", "cached", "memory")


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many times as fast as a peer adjoint is.

    Parameters
    ----------
    label : str
        The peer and its mode.
    ratio : float
        Median of the ratios of the rounds: two windows that follow each other are compared, so that a slow minute of
        the machine slows both.
    low, high : float
        The least and the largest of them.
    """

    label: str
    ratio: float
    low: float
    high: float


def _ours(results: Sequence[Result]) -> Result | None:
    return next((r for r in results if r.cell.peer.name == OURS and r.rates and r.error is None), None)


def _measured_peers(results: Sequence[Result]) -> list[Result]:
    return [r for r in results if r.cell.peer.name != OURS and r.rates and r.error is None]


def compare(ours: Result, other: Result) -> Comparison:
    """adjoint's speed over that of another cell, round by round, for as many rounds as both were measured in."""
    ratios = [a / b for a, b in zip(ours.rates, other.rates, strict=False)]
    return Comparison(other.cell.label, statistics.median(ratios), min(ratios), max(ratios))


def best_peer(results: Sequence[Result]) -> Result | None:
    """The fastest cell that is not adjoint's."""
    return max(_measured_peers(results), key=lambda r: statistics.median(r.rates), default=None)


def summary(results: Sequence[Result]) -> Comparison | None:
    """adjoint against the best of its peers, where both were measured."""
    ours, best = _ours(results), best_peer(results)
    return None if ours is None or best is None else compare(ours, best)


def disturbance(results: Sequence[Result]) -> float:
    """Cores that other processes took, on average, while these results were measured."""
    return statistics.fmean([share for r in results for share in r.others] or [0.0])


def _seconds(times: Sequence[float | None]) -> str:
    known = [time for time in times if time is not None]
    return f"{statistics.median(known):.2f} s" if known else "-"


def step_time(rate: float) -> str:
    """Time of a step in the unit that suits it, from steps a second."""
    micro = 1e6 / rate
    return f"{micro:.2f} µs" if micro < 100 else f"{micro:.0f} µs" if micro < 1e4 else f"{micro / 1e3:.1f} ms"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def title(entry: Mapping[str, Any]) -> str:
    """The workload and the number of threads."""
    return f"{entry['workload']}, {_plural(entry['threads'], 'thread')}"


def measured_cells(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells of an entry that have a result, fastest first."""
    good = [cell for cell in entry["cells"] if cell["steps_per_second"] and cell["error"] is None]
    return sorted(good, key=lambda cell: -cell["steps_per_second"])


def rows(entry: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The table of one workload on one number of threads, under `HEADINGS`: fastest first, failures last."""
    made = []
    for cell in measured_cells(entry):
        rate, ratio = cell["steps_per_second"], cell["adjoint_is"]
        made.append(
            (
                cell["label"],
                step_time(rate),
                f"{rate:,.0f}" if rate >= 100 else f"{rate:.2f}",
                "" if ratio is None else f"{ratio['ratio']:.2f} x",
                f"{rate * entry['flops'] / 1e9:.1f}" if entry["flops"] else "-",
                _seconds([cell["import_s"]]),
                _seconds(cell["first_loss_cold_s"]),
                _seconds(cell["first_loss_cached_s"]),
                f"{cell['peak_bytes'] / 2**20:.0f} MB",
            )
        )
    failed = [cell for cell in entry["cells"] if cell["error"] is not None]
    return made + [(cell["label"], "failed", *[""] * (len(HEADINGS) - 2)) for cell in failed]


def best_cell(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fastest cell that is not adjoint's, where adjoint was measured too."""
    return next((cell for cell in measured_cells(entry) if cell["adjoint_is"] is not None), None)


def remarks(entry: Mapping[str, Any]) -> list[str]:
    """The lines under a table: how adjoint compares, who was slow, and whether others used the cores."""
    lines = []
    if (best := best_cell(entry)) is not None:
        ratio = best["adjoint_is"]
        lines.append(
            f"adjoint is {ratio['ratio']:.2f} times as fast as {best['label']}, the best of its peers "
            f"(rounds: {ratio['low']:.2f} to {ratio['high']:.2f})"
        )
    for cell in entry["cells"]:
        if 0 < cell["losses_compared"] < CHECKED:
            lines.append(f"{cell['label']} is slow: {cell['losses_compared']} of {CHECKED} losses were compared")
    others = statistics.fmean([share for cell in entry["cells"] for share in cell["others"] or []] or [0.0])
    if others > DISTURBED:
        lines.append(f"not quiet: others took {others:.2f} of these cores while this was measured")
    return lines


def table(entry: Mapping[str, Any]) -> Table:
    """The results of one workload on one number of threads, for a terminal."""
    made = Table(title=title(entry), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    made.add_column(HEADINGS[0], no_wrap=True)
    for heading in HEADINGS[1:]:
        made.add_column(heading, justify="right", no_wrap=True)
    for label, first, *rest in rows(entry):
        made.add_row(
            Text(label, "bold" if label == OURS else ""), Text(first, "red" if first == "failed" else ""), *rest
        )
    return made


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    target = host()
    return {
        "cpu": names[0].strip() if names else platform.processor(),
        "llvm_cpu": target.cpu,
        "vector_bits": 8 * target.vector_bytes,
        "cores": cores,
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def as_json(results: Sequence[Result], flops: int, imports: Mapping[str, float | None]) -> dict[str, Any]:
    """One workload on one number of threads, with every round.

    Parameters
    ----------
    results : sequence of Result
        As `harness.measure` filled them.
    flops : int
        Of a step.
    imports : mapping of str to float or None
        Seconds to import each peer's framework, where that is possible.
    """
    ours, cells = _ours(results), []
    for result in results:
        good = bool(result.rates) and result.error is None
        found = compare(ours, result) if good and ours is not None and result is not ours else None
        cell = {
            "label": result.cell.label,
            "peer": result.cell.peer.name,
            "mode": result.cell.mode,
            "version": result.version,
            "import_s": imports[result.cell.peer.name],
            "first_loss_cold_s": result.cold_s,
            "first_loss_cached_s": result.cached_s,
            "losses_compared": len(result.losses),
            "losses": result.losses,
            "steps_per_second": statistics.median(result.rates) if result.rates else None,
            "adjoint_is": None if found is None else {"ratio": found.ratio, "low": found.low, "high": found.high},
            "rounds": result.rates,
            "cores": result.cores,
            "others": result.others,
            "peak_bytes": result.peak_bytes,
            "error": result.error,
        }
        cells.append(cell)
    first = results[0].cell
    return {"workload": first.workload, "threads": first.threads, "flops": flops, "cells": cells}
