"""Profile the step of every workload: python benchmarks/where.py. See docs/where-time-goes.md."""

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

if not __package__:  # run as a file: what is imported is the package that the file lies in
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
from rich.console import Console

from adjoint.compiler import CompileOptions
from adjoint.profiling import Peaks, StepProfile, profile_module
from adjoint.profiling.step import Row
from adjoint.training.layout import StepLayout
from benchmarks import breakdown, record, report, workloads
from benchmarks.run import PEER_FOLDER, workload_names
from benchmarks.worker import load_peer, observed, run_window

__all__ = ["HOTTEST", "Measured", "as_json", "limit_of", "main", "measure"]

#: Kernels of a workload's table.
HOTTEST = 10

#: Operators of the table by operator.
KINDS = 6

#: Windows in which whole steps are timed, and their seconds.
_WINDOWS, _SECONDS = 5, 0.2


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


def limit_of(row: Row, peaks: Peaks) -> str:
    """What bounds a kernel from below: multiply-adds, or the level of memory that its bytes come from."""
    if row.kernel.flops / peaks.gflops >= row.least:
        return "multiply-adds"
    return row.level.name


def as_json(measured: Measured) -> dict[str, Any]:
    """Plain data for JSON: the step, its hottest kernels, and all of them by part and by operator; times in µs."""
    profile = measured.profile
    return {
        "others": measured.others,
        "peaks": {
            "gflops": profile.peaks.gflops,
            "gbytes": {level.name: level.gbytes for level in profile.peaks.levels},
            "pace": profile.pace,
        },
        "step_us": measured.step / 1e3,
        "kernels": len(profile.rows),
        "kernels_us": profile.nanoseconds / 1e3,
        "gflops": profile.gflops,
        "least_us": measured.least / 1e3,
        "attained": profile.attained,
        "parts": {total.part: total.share for total in profile.totals},
        "hottest_share": sum(row.share for row in measured.hottest),
        "hottest": [_kernel(row, profile.peaks) for row in measured.hottest],
        "around": _kinds(profile),
    }


def _kernel(row: Row, peaks: Peaks) -> dict[str, Any]:
    return {
        "name": row.kernel.name,
        "computes": _operators(row),
        "part": row.part,
        "us": row.nanoseconds / 1e3,
        "share": row.share,
        "least_us": row.least / 1e3,
        "gflops": row.gflops,
        "gbytes": row.gbytes,
        "attained": row.attained,
        "bound_by": limit_of(row, peaks),
    }


def _kinds(profile: StepProfile) -> list[dict[str, Any]]:
    """Kernels by the operator that each is built around, which is the first that it computes."""
    kinds: dict[str, list[Row]] = {}
    for row in profile.rows:
        kinds.setdefault(row.operators[0], []).append(row)
    made = []
    for name, those in sorted(kinds.items(), key=lambda kind: -sum(row.nanoseconds for row in kind[1]))[:KINDS]:
        time, least = sum(row.nanoseconds for row in those), sum(row.least for row in those)
        made.append(
            {
                "operator": name,
                "kernels": len(those),
                "us": time / 1e3,
                "share": sum(row.share for row in those),
                "least_us": least / 1e3,
                "attained": least / time if time else 0.0,
            }
        )
    return made


def _operators(row: Row, most: int = 4) -> str:
    """Its operators, each once; of many the first and how many more there are."""
    names = list(dict.fromkeys(row.operators))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Measure, print and write; returns the exit status."""
    options = argparse.ArgumentParser(description="Profile the step of every workload, kernel by kernel.")
    options.add_argument(
        "--workloads", type=workload_names, default=list(workloads.WORKLOADS),
        help=f"of {','.join(workloads.WORKLOADS)}; default: all",
    )  # fmt: skip
    options.add_argument("--runs", type=int, default=50, help="runs of each profile (default: 50)")
    options.add_argument("--seconds", type=float, default=_SECONDS, help="of the windows of steps (default: 0.2)")
    record.json_options(options)
    args = options.parse_args(arguments)
    console = console or Console()
    if args.runs < 1 or args.seconds <= 0:
        options.error("--runs is from 1, --seconds above 0")
    try:
        record.check_clean(args.json, args.allow_dirty)
    except record.DirtyError as error:
        options.error(str(error))
    settings = {"runs": args.runs, "seconds": args.seconds}
    run = record.provenance("where.py", sys.argv[1:] if arguments is None else arguments, settings)
    for name in args.workloads:
        with console.status(name):
            entry = {"run": run, **as_json(measure(name, args.runs, args.seconds))}
        console.print(f"{name}\n\n{breakdown.workload_text(entry)}\n", markup=False, highlight=False, soft_wrap=True)
        if entry["others"] > report.DISTURBED:
            console.print("not quiet: others used the core while this was measured; measure again", style="yellow")
        if args.json is not None:
            record.store(args.json, ("where", name), entry)
    return 0


if __name__ == "__main__":
    sys.exit(main())
