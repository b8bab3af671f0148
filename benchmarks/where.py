"""Profile every workload and rewrite the tables of docs/where-time-goes.md: python benchmarks/where.py.

The page says what is measured: a section between the lines ``<!-- where: NAME -->`` and ``<!-- end -->`` is replaced,
where NAME is a workload, ``machine`` (what it was measured on) or ``summary`` (a row a workload). The rest of the page
stays as it is.
"""

import argparse
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

if not __package__:  # run as a file: what is imported is the package that the file lies in
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
from rich.console import Console

from adjoint.compiler import CompileOptions
from adjoint.profiling import Peaks, StepProfile, profile_module
from adjoint.profiling.figures import duration, micros, percent, rate
from adjoint.profiling.parts import PARTS
from adjoint.profiling.step import Row
from adjoint.training.layout import StepLayout
from benchmarks import report, workloads
from benchmarks.harness import ROOT
from benchmarks.run import DISTURBED, PEER_FOLDER
from benchmarks.worker import load_peer, observed, run_window

__all__ = ["Measured", "main", "measure", "rewritten", "sections_of"]

PAGE = ROOT / "docs" / "where-time-goes.md"

_SECTION = re.compile(r"(<!-- where: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

#: Sections that are no workloads.
_MACHINE, _SUMMARY = "machine", "summary"

#: Kernels of a workload's table.
HOTTEST = 10

#: Operators of the table by operator.
KINDS = 6

#: Windows in which whole steps are timed, and their seconds.
_WINDOWS, _SECONDS = 5, 0.2


class PageError(Exception):
    """A page that cannot be rewritten; the message says why."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A workload measured.

    Parameters
    ----------
    profile : StepProfile
        Kernel by kernel.
    step : float
        Nanoseconds of processor time of a whole step, called from Python, without clocks in it: the median of some
        windows.
    others : float
        Cores that others took meanwhile.
    """

    profile: StepProfile
    step: float
    others: float

    @property
    def least(self) -> float:
        """Nanoseconds of the kernels at the machine's peaks, one after the other."""
        return sum(row.least for row in self.profile.rows)

    @property
    def hottest(self) -> list[Row]:
        """The kernels that take longest."""
        return sorted(self.profile.rows, key=lambda row: -row.nanoseconds)[:HOTTEST]


def sections_of(page: str) -> list[str]:
    """Names of the sections of a page, in its order.

    Raises
    ------
    PageError
        Where there are none, or one is unknown or not closed.
    """
    names = [match[2] for match in _SECTION.finditer(page)]
    known = (_MACHINE, _SUMMARY, *workloads.WORKLOADS)
    if unknown := [name for name in names if name not in known]:
        raise PageError(f"sections are {', '.join(known)}, got {', '.join(unknown)}")
    if not names or len(names) != page.count("<!-- where:"):
        raise PageError("a section begins with the line <!-- where: NAME --> and ends with <!-- end -->")
    return names


def rewritten(page: str, sections: Mapping[str, str]) -> str:
    """The page with the text of its sections replaced."""
    return _SECTION.sub(lambda match: f"{match[1]}\n{sections[match[2]]}\n\n{match[3]}", page)


def measure(name: str, runs: int, seconds: float = _SECONDS) -> Measured:
    """Measure a workload's step on one thread, on its own data and initial weights.

    Parameters
    ----------
    name : str
        A key of `workloads.WORKLOADS`.
    runs : int
        Runs of the profile.
    seconds : float, default 0.2
        Length of each of the windows in which whole steps are timed.
    """
    peer, workload = load_peer(PEER_FOLDER / "adjoint.py"), workloads.make(name)
    batches = [(_as_taken(x, peer), _as_taken(y, peer)) for x, y in workload.batches]
    module = peer.module_of(workload)
    arrays = peer.named(workload.params) | peer.named(workload.states)
    arrays |= dict(zip(StepLayout(module).batch, batches[0], strict=True))
    profile = profile_module(module, name, CompileOptions(threads=1), runs, arrays)
    step, read = peer.build(workload, peer.MODES[0], 1)
    steps, elapsed = run_window(step, read, batches, seconds, 1)
    glance = max(1, round(1e-3 * steps / elapsed))  # a look at the clock every millisecond
    windows = [observed(lambda: run_window(step, read, batches, seconds, glance)) for _ in range(_WINDOWS)]
    typical = statistics.median(window["cores"] * window["seconds"] / window["steps"] for window in windows)
    return Measured(profile, typical * 1e9, statistics.fmean(window["others"] for window in windows))


def _as_taken(array: np.ndarray, peer: ModuleType) -> np.ndarray:
    """Labels in the type that adjoint takes them in."""
    return array.astype(peer.INT) if array.dtype.kind == "i" else array


def table(heads: Sequence[str], left: int, rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first `left` columns are flush left and the others flush right."""
    rule = ["---"] * left + ["--:"] * (len(heads) - left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


def limit_of(row: Row, peaks: Peaks) -> str:
    """What bounds a kernel from below: multiply-adds, or the level of memory that its bytes come from."""
    if row.kernel.flops / peaks.gflops >= row.kernel.bytes / row.level.gbytes:
        return "multiply-adds"
    return row.level.name


def workload_text(measured: Measured) -> str:
    """The section of a workload: a line about the step, its hottest kernels, and all of them by operator."""
    profile, hottest = measured.profile, measured.hottest
    share = sum(row.share for row in hottest)
    count = len(profile.rows)
    which = f"the {len(hottest)} hottest take {percent(share)} of that" if count > len(hottest) else "all are below"
    line = (
        f"A step takes {duration(measured.step)}. Its {count} kernels take {duration(profile.nanoseconds)} together "
        f"({rate(profile.gflops)} GFLOP/s); {which}. At the machine's peaks they would take at least "
        f"{duration(measured.least)}: {percent(profile.attained)}."
    )
    heads = ("kernel", "computes", "part", "µs", "share", "least µs", "GFLOP/s", "GB/s", "of the peak", "bound by")
    rows = [
        (
            f"`{row.kernel.name}`",
            _operators(row),
            row.part,
            micros(row.nanoseconds),
            percent(row.share),
            micros(row.least),
            rate(row.gflops),
            rate(row.gbytes),
            percent(row.attained),
            limit_of(row, profile.peaks),
        )
        for row in hottest
    ]
    kinds = f"\n\n{kinds_table(profile)}" if count > len(hottest) else ""
    return f"{line}\n\n{table(heads, 3, rows)}{kinds}"


def kinds_table(profile: StepProfile) -> str:
    """Kernels by the operator that each is built around, which is the first that it computes."""
    kinds: dict[str, list[Row]] = {}
    for row in profile.rows:
        kinds.setdefault(row.operators[0], []).append(row)
    rows = []
    for name, those in sorted(kinds.items(), key=lambda kind: -sum(row.nanoseconds for row in kind[1]))[:KINDS]:
        time, least = sum(row.nanoseconds for row in those), sum(row.least for row in those)
        share, attained = sum(row.share for row in those), least / time if time else 0.0
        rows.append((name, str(len(those)), micros(time), percent(share), micros(least), percent(attained)))
    return table(("around", "kernels", "µs", "share", "least µs", "of the peak"), 1, rows)


def _operators(row: Row, most: int = 4) -> str:
    """Its operators, each once; of many the first and how many more there are."""
    names = list(dict.fromkeys(row.operators))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def summary_text(found: Mapping[str, Measured]) -> str:
    """The section with a row a workload."""
    seen = {total.part for one in found.values() for total in one.profile.totals}
    parts = [part for part in PARTS if part in seen]
    heads = ("workload", "step", "kernels", *parts, "least", "least / kernels", "machine at")
    rows = []
    for name, one in found.items():
        shares = {total.part: total.share for total in one.profile.totals}
        rows.append(
            (
                f"`{name}`",
                duration(one.step),
                duration(one.profile.nanoseconds),
                *(percent(shares[part]) if part in shares else "-" for part in parts),
                duration(one.least),
                percent(one.profile.attained),
                percent(one.profile.pace),
            )
        )
    return table(heads, 1, rows)


def machine_text(peaks: Peaks, others: float) -> str:
    """The section that says what was measured, when and on what."""
    levels = ", ".join(f"{level.name} {rate(level.gbytes)}" for level in peaks.levels)
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=, with changes"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    commit = f" at {done.stdout.strip()}" if done.returncode == 0 else ""
    doubt = f" Others took up to {percent(others)} of the core meanwhile: measure again." if others > DISTURBED else ""
    return (
        f"Measured {datetime.now(UTC).date()}{commit}, one thread of {report.machine()['cpu']} ({peaks.cpu}, vectors "
        f"of {peaks.vector_bits} bits): at most {rate(peaks.gflops)} GFLOP/s, and in GB/s {levels}.{doubt}"
    )


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Measure and rewrite the page; returns the exit status: 2 for a page that has no such sections."""
    options = argparse.ArgumentParser(description="Profile the workloads and rewrite the tables of a page.")
    options.add_argument("--page", type=Path, default=PAGE, help="the page (default: docs/where-time-goes.md)")
    options.add_argument("--runs", type=int, default=50, help="runs of each profile (default: 50)")
    options.add_argument("--seconds", type=float, default=_SECONDS, help="of the windows of steps (default: 0.2)")
    args = options.parse_args(arguments)
    console = console or Console()
    if args.runs < 1 or args.seconds <= 0:
        options.error("--runs is from 1, --seconds above 0")
    try:
        page = args.page.read_text()
        names = sections_of(page)
    except (OSError, PageError) as error:
        console.print(f"{args.page}: {error}", style="bold red", markup=False, highlight=False)
        return 2
    found: dict[str, Measured] = {}
    with console.status("") as status:
        for name in names:
            if name in workloads.WORKLOADS:
                status.update(name)
                found[name] = measure(name, args.runs, args.seconds)
    sections = {name: workload_text(one) for name, one in found.items()}
    others = max((one.others for one in found.values()), default=0.0)
    if found:
        sections[_MACHINE] = machine_text(next(iter(found.values())).profile.peaks, others)
    sections[_SUMMARY] = summary_text(found)
    args.page.write_text(rewritten(page, sections))
    console.print(f"rewritten: {args.page}", highlight=False)
    if others > DISTURBED:
        console.print("the machine was not quiet, and the page says so: measure again", style="yellow")
    return 0


if __name__ == "__main__":
    sys.exit(main())
