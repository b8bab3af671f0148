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

from benchmarks.harness import Result
from benchmarks.roster import OURS

__all__ = ["Comparison", "as_json", "best_peer", "compare", "disturbance", "machine", "summary", "table"]


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


def _step(rate: float) -> str:
    """Time of a step in the unit that suits it."""
    micro = 1e6 / rate
    return f"{micro:.2f} µs" if micro < 100 else f"{micro:.0f} µs" if micro < 1e4 else f"{micro / 1e3:.1f} ms"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def table(results: Sequence[Result], flops: int, imports: Mapping[str, float | None]) -> Table:
    """The results of one workload on one number of threads, fastest first.

    Parameters
    ----------
    results : sequence of Result
        As `harness.measure` filled them.
    flops : int
        Of a step.
    imports : mapping of str to float or None
        Seconds to import each peer's framework, where that is possible.
    """
    cell = results[0].cell
    title = f"{cell.workload}, {_plural(cell.threads, 'thread')}"
    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    made.add_column("peer", no_wrap=True)
    for heading in ("step", "steps/s", "adjoint is", "GFLOP/s", "import", "1st loss", "cached", "memory"):
        made.add_column(heading, justify="right", no_wrap=True)
    ours = _ours(results)
    good = sorted((r for r in results if r.rates and r.error is None), key=lambda r: -statistics.median(r.rates))
    for result in good:
        rate = statistics.median(result.rates)
        ratio = "" if ours is None or result is ours else f"{compare(ours, result).ratio:.2f} x"
        made.add_row(
            Text(result.cell.label, "bold" if result is ours else ""),
            _step(rate),
            f"{rate:,.0f}" if rate >= 100 else f"{rate:.2f}",
            ratio,
            f"{rate * flops / 1e9:.1f}",
            _seconds([imports[result.cell.peer.name]]),
            _seconds(result.cold_s),
            _seconds(result.cached_s),
            f"{result.peak_bytes / 2**20:.0f} MB",
        )
    for result in results:
        if result.error is not None:
            made.add_row(Text(result.cell.label), Text("failed", "red"), *[""] * 8)
    return made


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": names[0].strip() if names else platform.processor(),
        "cores": cores,
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def as_json(results: Sequence[Result], flops: int, imports: Mapping[str, float | None]) -> dict[str, Any]:
    """One workload on one number of threads, with every round."""
    cells = []
    ours = _ours(results)
    for result in results:
        cell: dict[str, Any] = {
            "peer": result.cell.peer.name,
            "mode": result.cell.mode,
            "version": result.version,
            "import_s": imports[result.cell.peer.name],
            "first_loss_cold_s": result.cold_s,
            "first_loss_cached_s": result.cached_s,
            "losses": result.losses,
            "steps_per_second": statistics.median(result.rates) if result.rates else None,
            "rounds": result.rates,
            "cores": result.cores,
            "others": result.others,
            "peak_bytes": result.peak_bytes,
            "error": result.error,
        }
        if ours is not None and result is not ours and result.rates and result.error is None:
            found = compare(ours, result)
            cell["adjoint_is"] = {"ratio": found.ratio, "low": found.low, "high": found.high}
        cells.append(cell)
    best = summary(results)
    first = results[0].cell
    return {
        "workload": first.workload,
        "threads": first.threads,
        "flops": flops,
        "best_peer": None if best is None else best.label,
        "adjoint_over_best_peer": None if best is None else best.ratio,
        "cells": cells,
    }
