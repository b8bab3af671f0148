"""Compare the instruction counts of a step in two commits: python benchmarks/compare.py A B. See docs/benchmarks.md.

Instruction counts are independent of the load of the machine, so they show changes of 0.1% where times vary by 20% from
run to run.
"""

import argparse
import contextlib
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks import workloads
from benchmarks.counters.base import NoCounterError
from benchmarks.counters.perf import PerfCounter
from benchmarks.counters.valgrind import command as under_valgrind
from benchmarks.harness import ROOT, CellError, Process
from benchmarks.run import workload_names

__all__ = ["Comparison", "checkout", "compare", "main"]

#: Instruction counters by name.
COUNTERS = ("blocks", "perf", "valgrind")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Instruction counts of a workload's step in both commits.

    Parameters
    ----------
    workload : str
        Name of the workload.
    counts : tuple of float
        Instructions per step in the first and the second commit; empty if counting failed.
    functions : tuple of mapping
        Instructions per kernel, if the counter supports it.
    error : str or None
        Why counting failed.
    """

    workload: str
    counts: tuple[float, ...] = ()
    functions: tuple[Mapping[str, float], ...] = ()
    error: str | None = None

    @property
    def ratio(self) -> float:
        """Ratio of the second commit's instructions to the first's."""
        before, after = self.counts
        return after / before

    def changed(self, most: int) -> list[tuple[str, float | None, float | None]]:
        """Kernels whose counts changed most, with both counts; None if a commit has no kernel of that name."""
        if not self.functions:
            return []
        before, after = self.functions
        names = dict.fromkeys((*before, *after))
        moved = [n for n in names if before.get(n, 0.0) != after.get(n, 0.0)]
        moved.sort(key=lambda n: -abs(after.get(n, 0.0) - before.get(n, 0.0)))
        return [(name, before.get(name), after.get(name)) for name in moved[:most]]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found: dict[str, Any] = {"workload": self.workload, "error": self.error}
        if self.counts:
            found |= {"instructions": list(self.counts), "ratio": self.ratio, "kernels": list(self.functions)}
        return found


@contextlib.contextmanager
def checkout(commit: str, repository: Path) -> Iterator[Path]:
    """A directory with the files of a commit: a temporary worktree, or the repository itself for ``.``."""
    if commit == ".":
        yield repository
        return
    with tempfile.TemporaryDirectory(prefix="adjoint-compare-") as folder:
        tree = Path(folder) / "tree"
        _git(repository, "worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            yield tree
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))


def _git(repository: Path, *words: str) -> str:
    """The output of git.

    Raises
    ------
    CellError
        If it fails, with the last line of its output.
    """
    done = subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CellError((done.stderr.strip().splitlines() or ["git failed"])[-1])
    return done.stdout.strip()


def count(tree: Path, workload: str, counter: str, steps: int, limit: float) -> dict[str, Any]:
    """Count the instructions of a workload's step, compiled by the adjoint in a directory.

    Raises
    ------
    CellError
        If that commit cannot build or run it.
    NoCounterError
        If the counter does not work here.
    """
    request = {"source": str(tree), "counter": counter, "workload": workload, "steps": steps}
    command = [sys.executable, "-m", "benchmarks.count_worker", json.dumps(request)]
    with tempfile.TemporaryDirectory(prefix="adjoint-compare-") as folder:
        extra = {"PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0", "ADJOINT_CACHE": f"{folder}/cache"}
        if counter == "valgrind":
            command, more = under_valgrind(command, Path(folder))
            extra |= more
        process = Process(command, 1, extra, limit)
        try:
            return process.answer()
        finally:
            process.close()


def compare(
    trees: Sequence[Path], names: Sequence[str], counter: str, steps: int, limit: float
) -> Iterator[Comparison]:
    """Compare the commits for each workload.

    Parameters
    ----------
    trees : sequence of Path
        Directories with the files of the two commits.
    names : sequence of str
        Names of workloads.
    counter : str
        One of `COUNTERS`.
    steps : int
        N: the count of N steps is subtracted from that of 2 N.
    limit : float
        Time limit of a process in seconds.
    """
    for name in names:
        try:
            found = [count(tree, name, counter, steps, limit) for tree in trees]
        except CellError as error:
            yield Comparison(name, error=str(error))
            continue
        functions = tuple(one["functions"] for one in found)
        yield Comparison(name, tuple(one["instructions"] for one in found), functions if all(functions) else ())


def choose_counter(wanted: str) -> str:
    """Choose a counter; ``auto`` means `blocks` on x86-64 and `perf` elsewhere.

    Raises
    ------
    NoCounterError
        If it does not work on this machine.
    """
    if wanted == "auto":
        wanted = "blocks" if platform.machine() in ("x86_64", "AMD64") else "perf"
    if wanted == "perf":
        PerfCounter()
    elif wanted == "valgrind":
        under_valgrind([], Path())
    return wanted


def table(found: Sequence[Comparison], kernels: int) -> Table:
    """One row per workload, followed by the kernels that changed most."""
    made = Table(box=box.SIMPLE_HEAD)
    made.add_column("workload", no_wrap=True)
    for heading in ("before", "after", "ratio"):
        made.add_column(heading, justify="right", no_wrap=True)
    for one in found:
        if not one.counts:
            made.add_row(Text(one.workload), "", "", Text("failed", "red"))
            continue
        made.add_row(Text(one.workload, "bold"), *(f"{c:,.0f}" for c in one.counts), f"{one.ratio:.4f}")
        for name, before, after in one.changed(kernels):
            cells = ["-" if c is None else f"{c:,.0f}" for c in (before, after)]
            ratio = f"{after / before:.3f}" if before and after else "-"
            made.add_row(Text(f"  {name}", "dim"), *(Text(cell, "dim") for cell in (*cells, ratio)))
    return made


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    made = argparse.ArgumentParser(description="Compare two commits by the instructions that a step executes.")
    made.add_argument("commits", nargs=2, metavar="COMMIT", help="a git revision, or . for the working tree")
    made.add_argument(
        "--workloads", type=workload_names, default=list(workloads.WORKLOADS),
        help=f"from {','.join(workloads.WORKLOADS)}; default: all",
    )  # fmt: skip
    made.add_argument("--counter", choices=("auto", *COUNTERS), default="auto", help="counter (default: auto)")
    made.add_argument("--steps", type=int, default=2, help="N: subtract N steps from 2 N (default: 2)")
    made.add_argument("--kernels", type=int, default=5, help="number of kernels shown per workload (default: 5)")
    made.add_argument("--at-most", type=float, metavar="RATIO", help="exit with status 1 if a ratio exceeds this")
    made.add_argument("--limit", type=float, default=600.0, help="time limit of a process in seconds (default: 600)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write all results to this file")
    made.add_argument("--repository", type=Path, default=ROOT, metavar="DIR", help=argparse.SUPPRESS)
    return made


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Count, print and write. The exit status is 1 if a step failed or grew too much, 2 if the counter does not
    work."""
    options = parser()
    args = options.parse_args(arguments)
    console = console or Console(width=None if sys.stdout.isatty() else 110)
    if args.steps < 1 or args.kernels < 0:
        options.error("--steps is from 1, --kernels from 0")
    try:
        counter = choose_counter(args.counter)
        with contextlib.ExitStack() as stack:
            trees = [stack.enter_context(checkout(commit, args.repository)) for commit in args.commits]
            with console.status("") as status:
                found: list[Comparison] = []
                for one in compare(trees, args.workloads, counter, args.steps, args.limit):
                    found.append(one)
                    status.update(f"{len(found)} of {len(args.workloads)} workloads")
    except (NoCounterError, CellError) as error:
        console.print(str(error), style="bold red", markup=False, highlight=False)
        return 2
    console.print(f"instructions per step on one thread, counted by {counter}: {' and '.join(args.commits)}")
    console.print(table(found, args.kernels))
    if args.json is not None:
        data = {"commits": args.commits, "counter": counter, "workloads": [one.as_dict() for one in found]}
        args.json.write_text(json.dumps(data, indent=1) + "\n")
    failed = [one for one in found if one.error is not None]
    for one in failed:
        console.print(f"{one.workload}: {one.error}", style="bold red", markup=False, highlight=False)
    grown = [one for one in found if one.counts and args.at_most is not None and one.ratio > args.at_most]
    for one in grown:
        console.print(f"{one.workload} grew to {one.ratio:.4f} times its old count", style="bold red", highlight=False)
    return 1 if failed or grown else 0


if __name__ == "__main__":
    sys.exit(main())
