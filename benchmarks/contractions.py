"""Compare single contractions with NumPy and PyTorch: python benchmarks/contractions.py. See docs/benchmarks.md."""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adjoint.ir import DTYPES
from benchmarks import report, roster
from benchmarks.contraction_cases import CASES, Case, expected, operands
from benchmarks.harness import SETTLE_S, Cell, CellError, Process, Result
from benchmarks.report import DISTURBED
from benchmarks.run import python_option, thread_numbers

__all__ = ["main", "measure", "table"]

PEER_FOLDER = Path(__file__).resolve().parent / "contraction_peers"

#: Maximum difference from NumPy's result, relative to the maximum of that: for 16 bits, rounding of the result too.
TOLERANCES = {"f32": 1e-4, "bf16": 1e-4 + 2**-8, "f16": 1e-4 + 2**-11}

#: Settings of the C library's allocator to keep freed memory for reuse, so that libraries that return new arrays need
#: not map new pages in every call.
ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}

#: How many times as many rounds a case has where those of the usual number lie on both sides of a limit.
MORE_ROUNDS = 4

#: Pause in seconds before each window with one thread. With several threads it is longer, because those of the previous
#: library may still spin.
PAUSE_S = 0.01


class _Library(Process):
    """A process that runs contractions with one library; see `benchmarks.contraction_worker`.

    If it has exited or does not answer in time, `lost` contains the reason, and it gets no further requests; `measure`
    starts another process for the next contraction.
    """

    def __init__(self, peer: roster.Peer, mode: str, threads: int, limit: float) -> None:
        self.peer, self.mode, self.threads = peer, mode, threads
        self.version = ""
        self.lost: str | None = None
        request = {"peer": str(peer.path), "mode": mode, "threads": threads}
        assert peer.python is not None  # `choose` rejects others
        command = [peer.python, "-m", "benchmarks.contraction_worker", json.dumps(request)]
        super().__init__(command, threads, ALLOCATOR, limit)

    def begin(self) -> None:
        """Wait until it has started."""
        self.version = self._unless_lost(self.answer).get("version", "")

    def prepare(self, case: Case, arrays: Path) -> Result | None:
        """An empty result for a contraction, or one with an error; None if the library does not support it."""
        answer = self._unless_lost(lambda: self.ask(case=case.as_dict(), arrays=str(arrays)))
        result = Result(Cell(self.peer, self.mode, case.name, self.threads), version=self.version, error=self.lost)
        if self.lost is not None:
            return result
        if not answer["supported"]:
            return None
        if not answer["difference"] <= TOLERANCES[case.dtype]:  # also true for NaN
            result.differs = True
            result.error = f"its result differs from NumPy's by {answer['difference']:.2g} times the largest element"
        return result

    def window(self, result: Result, seconds: float) -> None:
        """Measure one window and add it to a result."""
        time.sleep(PAUSE_S if self.threads == 1 else SETTLE_S)
        answer = self._unless_lost(lambda: self.ask(seconds=seconds))
        result.error = self.lost
        if self.lost is None:
            result.add(answer)

    def _unless_lost(self, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if self.lost is None:
            try:
                return ask()
            except CellError as error:
                self.lost = str(error)
        return {}


def measure(
    cases: Sequence[Case],
    pairs: Sequence[tuple[roster.Peer, str]],
    threads: int,
    rounds: int,
    seconds: float,
    limit: float = 120.0,
    limits: Sequence[float] = (),
) -> Iterator[tuple[Case, list[Result]]]:
    """Measure each contraction with each library, interleaved: A B C, A B C, ... .

    Parameters
    ----------
    cases : sequence of Case
        The contractions.
    pairs : sequence of (Peer, str)
        Libraries and their modes; each is one process for all cases.
    threads : int
        Number of threads of each, and of cores that it is pinned to.
    rounds : int
        Number of windows per library and case.
    seconds : float
        Length of a window.
    limit : float, default 120.0
        Time limit for an answer, in seconds.
    limits : sequence of float, default ()
        Ratios that matter: a case with rounds on both sides of one of them is measured in `MORE_ROUNDS` times as many.

    Yields
    ------
    (Case, list of Result)
        One result per library that supports the case; if it fails or its result is wrong, with an `error`.
    """
    with contextlib.ExitStack() as stack:
        arrays = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="adjoint-contractions-"))) / "arrays.npz"

        def started(peer: roster.Peer, mode: str) -> _Library:
            return stack.enter_context(contextlib.closing(_Library(peer, mode, threads, limit)))

        libraries = [started(*pair) for pair in pairs]
        for library in libraries:
            library.begin()
        for case in cases:
            for number, library in enumerate(libraries):
                if library.lost is not None:
                    library.close()
                    libraries[number] = started(library.peer, library.mode)
                    libraries[number].begin()
            left, right = (x.astype(DTYPES[case.dtype]).astype(np.float32) for x in operands(case))
            np.savez(arrays, left=left, right=right, wanted=expected(case, left, right))
            prepared = [(library, library.prepare(case, arrays)) for library in libraries]
            found = [(library, result) for library, result in prepared if result is not None]
            _windows(found, rounds, seconds)
            results = [result for _, result in found]
            if (ratio := report.summary(results)) is not None and any(ratio.low < x <= ratio.high for x in limits):
                _windows(found, (MORE_ROUNDS - 1) * rounds, seconds)
            yield case, results


def _windows(found: Sequence[tuple[_Library, Result]], rounds: int, seconds: float) -> None:
    """Measure so many windows of each library that has not failed, in turn."""
    for _ in range(rounds):
        for library, result in found:
            if result.error is None:
                library.window(result, seconds)


def gflops(case: Case, result: Result) -> float:
    """Billions of operations per second: the median of the rounds."""
    return statistics.median(result.rates) * case.flops / 1e9


def table(found: Sequence[tuple[Case, Sequence[Result]]], threads: int) -> Table:
    """One row per contraction, with adjoint and the fastest of the others."""
    made = Table(
        title=f"single contractions, {threads} thread{'s' if threads > 1 else ''}",
        title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
    )  # fmt: skip
    made.add_column("contraction", no_wrap=True)
    for heading in ("adjoint GFLOP/s", "best peer GFLOP/s"):
        made.add_column(heading, justify="right")
    made.add_column("which", no_wrap=True)
    for heading in ("adjoint is", "rounds"):
        made.add_column(heading, justify="right", no_wrap=True)
    for case, results in found:
        ours = next((r for r in results if r.cell.peer.name == roster.OURS), None)
        best, ratio = report.best_peer(results), report.summary(results)
        made.add_row(
            Text(case.name),
            f"{gflops(case, ours):.1f}" if ours is not None and ours.rates and ours.error is None else "-",
            f"{gflops(case, best):.1f}" if best is not None else "-",
            Text(best.cell.label if best is not None else "-"),
            f"{ratio.ratio:.2f} x" if ratio is not None else "-",
            f"{ratio.low:.2f}-{ratio.high:.2f}" if ratio is not None else "-",
        )
    return made


def summary(found: Sequence[tuple[Case, Sequence[Result]]]) -> str | None:
    """One line that summarizes all of them."""
    ratios = {case.name: ratio.ratio for case, results in found if (ratio := report.summary(results)) is not None}
    if not ratios:
        return None
    least = min(ratios, key=lambda name: ratios[name])
    faster = sum(ratio >= 1 for ratio in ratios.values())
    mean = statistics.geometric_mean(ratios.values())
    return (
        f"adjoint is {mean:.2f} times as fast as the fastest peer in the geometric mean, at least as fast in "
        f"{faster} of {len(ratios)}, and {ratios[least]:.2f} times as fast in the worst case, {least}"
    )


def as_json(case: Case, results: Sequence[Result]) -> dict[str, Any]:
    """The results of one contraction with one number of threads, including every round."""
    best, ratio = report.best_peer(results), report.summary(results)
    libraries = [
        {
            "peer": r.cell.peer.name,
            "mode": r.cell.mode,
            "version": r.version,
            "gflops": gflops(case, r) if r.rates else None,
            "calls_per_second": r.rates,
            "others": r.others,
            "error": r.error,
        }
        for r in results
    ]
    return {
        **case.as_dict(),
        "threads": results[0].cell.threads,
        "best_peer": None if best is None else best.cell.label,
        "adjoint_over_best_peer": None if ratio is None else ratio.ratio,
        "libraries": libraries,
    }


def _dtypes(text: str) -> list[str]:
    """Comma-separated names of dtypes."""
    names = text.split(",")
    if not set(names) <= set(TOLERANCES):
        raise argparse.ArgumentTypeError(f"dtypes are {', '.join(TOLERANCES)}, not {text!r}")
    return names


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    made = argparse.ArgumentParser(description="Measure single contractions beside other libraries.")
    made.add_argument("--only", default="*", metavar="PATTERN", help="names to measure, for example 'cifar*weight'")
    made.add_argument("--peers", help="for example adjoint,numpy,torch:plain; default: all that are installed")
    made.add_argument("--dtypes", type=_dtypes, default=["f32"], help="of f32, bf16 and f16 (default: f32)")
    made.add_argument("--threads", type=thread_numbers, default=[1, 2], help="default: 1,2")
    made.add_argument("--rounds", type=int, default=5, help="number of windows per library (default: 5)")
    made.add_argument("--seconds", type=float, default=0.1, help="length of a window in seconds (default: 0.1)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write all results to this file")
    made.add_argument("--list", action="store_true", help="print the names without measuring")
    python_option(made)
    made.add_argument(
        "--peer-folder", type=Path, action="append", default=[], metavar="DIR", help="search here first for peers"
    )
    return made


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Measure, print and write. The exit status is 1 if a library failed or computed a wrong result."""
    options = parser()
    args = options.parse_args(arguments)
    console = console or Console(width=None if sys.stdout.isatty() else 110)
    # The pattern may match anywhere in a name: "64x784" finds "64x784 @ 784x128".
    cases = [case.with_dtype(dtype) for case in CASES if fnmatch(case.name, f"*{args.only}*") for dtype in args.dtypes]
    if not cases:
        options.error(f"no contraction is called {args.only!r}; --list prints their names")
    if args.list:
        console.print("\n".join(case.name for case in cases), markup=False, highlight=False)
        return 0
    if args.rounds < 1 or args.seconds <= 0:
        options.error("--rounds is from 1, --seconds above 0")
    peers = roster.find_peers([*args.peer_folder, PEER_FOLDER], dict(args.python))
    try:
        pairs = roster.choose(peers, args.peers.split(",") if args.peers else None)
    except ValueError as error:
        options.error(str(error))
    if not args.peers:
        for peer in peers.values():
            if peer.python is None:
                console.print(f"{peer.name} is not installed here; --python {peer.name}=PATH names an interpreter")
    written, failures = [], 0
    for threads in args.threads:
        found = []
        with console.status("") as status:
            for case, results in measure(cases, pairs, threads, args.rounds, args.seconds):
                found.append((case, results))
                status.update(f"threads: {threads}, {len(found)} of {len(cases)} contractions")
        console.print(table(found, threads))
        failures += _say(found, console)
        written += [as_json(case, results) for case, results in found if results]
    if args.json is not None:
        settings = {"rounds": args.rounds, "seconds": args.seconds}
        about = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "machine": report.machine()}
        args.json.write_text(json.dumps({**about, "settings": settings, "contractions": written}, indent=1) + "\n")
    return 1 if failures else 0


def _say(found: Sequence[tuple[Case, Sequence[Result]]], console: Console) -> int:
    """Print the lines below a table, and return the number of missing results."""
    if (line := summary(found)) is not None:
        console.print(line)
    if (others := report.disturbance([r for _, results in found for r in results])) > DISTURBED:
        console.print(f"not quiet: other processes used {others:.2f} of these cores meanwhile", style="yellow")
    failed = [(case, r) for case, results in found for r in results if r.error is not None]
    for case, result in failed:
        what = "WRONG, not measured" if result.differs else "failed"
        text = f"{result.cell.label}: {case.name}: {what}: {result.error}"
        console.print(text, style="bold red", markup=False, emoji=False)
    console.print()
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
