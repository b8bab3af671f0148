"""Measure random shapes and networks beside other libraries: python benchmarks/families.py. See docs/benchmarks.md.

Each run draws new cases, unless a seed is given, and prints how the ratios are distributed: adjoint's speed over that
of the fastest peer, case by case.
"""

import argparse
import json
import secrets
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adjoint.codegen.targets import host_target
from adjoint.profiling.machine import Peaks, machine_peaks
from benchmarks import contractions, harness, random_cases, random_networks, report, roster, run

__all__ = ["FAMILIES", "Measured", "distribution", "main", "worst"]

FAMILIES = (*random_cases.DRAWS, "networks")

#: Numbers of cases that give a first picture in some minutes.
COUNTS = {"products": 100, "convolutions": 60, "attention": 30, "networks": 40}

#: Ratios below which the share of cases is printed; cases close to one of them are measured in more rounds.
LIMITS = (1.0, 0.95, 0.85)

#: Networks that get ready at the same time; more would not fit into the memory of a machine with many cores.
MOST_GROUPS = 4

#: Number of cases that are listed.
WORST = 10


@dataclass(frozen=True, slots=True)
class Measured:
    """A case that adjoint and a peer have run.

    Parameters
    ----------
    name : str
        The case.
    ratio : float
        adjoint's speed over that of the fastest peer.
    peer : str
        That peer and its mode.
    gflops : float
        What adjoint reached, in billions of operations per second.
    attainable : float
        What the machine would allow, the roofline, in the same unit.
    """

    name: str
    ratio: float
    peer: str
    gflops: float
    attainable: float


def distribution(found: Sequence[Measured]) -> str:
    """The ratios in one line: geometric mean, quartiles, extremes, and shares below the limits."""
    ratios = [one.ratio for one in found]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    below = ", ".join(f"{sum(r < limit for r in ratios) / len(ratios):.0%} below {limit:g}" for limit in LIMITS)
    return (
        f"{len(ratios)} cases: geometric mean {statistics.geometric_mean(ratios):.2f}, quartiles {low:.2f}, "
        f"{middle:.2f} and {high:.2f}, from {min(ratios):.2f} to {max(ratios):.2f}; {below}"
    )


def worst(found: Sequence[Measured], title: str, count: int) -> Table:
    """The cases with the lowest ratios."""
    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    made.add_column("lowest ratios", overflow="fold")
    for heading in ("adjoint is", "GFLOP/s", "of the roofline"):
        made.add_column(heading, justify="right", no_wrap=True)
    made.add_column("fastest peer", no_wrap=True)
    for one in sorted(found, key=lambda one: one.ratio)[:count]:
        share = one.gflops / one.attainable
        made.add_row(Text(one.name), f"{one.ratio:.2f} x", f"{one.gflops:.1f}", f"{share:.0%}", Text(one.peer))
    return made


def _measured(
    name: str, results: Sequence[harness.Result], flops: float, read: float, written: float, peaks: Peaks
) -> Measured | None:
    """What is printed of a case; None if adjoint or all peers are missing."""
    ratio, best = report.summary(results), report.best_peer(results)
    ours = next((r for r in results if r.cell.peer.name == roster.OURS and r.rates and r.error is None), None)
    if ratio is None or best is None or ours is None:
        return None
    attainable = flops / peaks.nanoseconds(flops, read, written)
    return Measured(name, ratio.ratio, best.cell.label, statistics.median(ours.rates) * flops / 1e9, attainable)


def _contractions(
    args: argparse.Namespace, family: str, seed: int, threads: int, pairs: Any, peaks: Peaks
) -> Iterator[tuple[Measured | None, list[harness.Result]]]:
    cases = random_cases.draw(family, args.count or COUNTS[family], seed)
    for case, results in contractions.measure(cases, pairs, threads, args.rounds, args.seconds, limits=LIMITS):
        read, written = 4 * (prod(case.left) + prod(case.right)), 4 * prod(case.result)
        yield _measured(case.name, results, case.flops, read, written, peaks), results


def _networks(
    args: argparse.Namespace, seed: int, threads: int, pairs: Any, peaks: Peaks
) -> Iterator[tuple[Measured | None, list[harness.Result]]]:
    """Networks get ready side by side, each on cores of its own, and are then measured one after another."""
    remaining = iter(args.names or random_networks.draw(args.count or COUNTS["networks"], seed))
    groups = min(MOST_GROUPS, harness.groups(threads))
    with tempfile.TemporaryDirectory(prefix="adjoint-benchmark-") as folder, ThreadPoolExecutor(groups) as pool:
        while names := list(islice(remaining, groups)):
            with ExitStack() as stack:
                sessions, workloads = [], [random_networks.make(name) for name in names]
                for group, (name, workload) in enumerate(zip(names, workloads, strict=True)):
                    arrays = Path(folder) / f"arrays{group}.npz"
                    random_networks.save(workload, arrays)
                    source = random_networks.__name__
                    cells = [
                        harness.Cell(*pair, name, threads, source) for pair in pairs if pair[0].runs(pair[1], name)
                    ]
                    sessions.append(stack.enter_context(harness.Session(cells, arrays, args.limit, group)))
                list(pool.map(lambda session: list(session.start(0)), sessions))
                for name, workload, session in zip(names, workloads, sessions, strict=True):
                    list(session.run(args.rounds, max(args.seconds, 0.2), workload.tolerance))
                    # Parameters are read for the forward pass, for gradients and for the update, which writes them.
                    held = sum(array.nbytes for array in workload.params.values())
                    yield _measured(name, session.results, workload.flops, 3 * held, held, peaks), session.results


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    made = argparse.ArgumentParser(description="Measure random shapes and networks beside other libraries.")
    made.add_argument("--families", default=",".join(FAMILIES), help="comma-separated (default: %(default)s)")
    made.add_argument("--count", type=int, help=f"cases of each (default: {COUNTS})")
    made.add_argument("--seed", type=int, help="of the cases (default: a new one)")
    made.add_argument("--names", action="append", metavar="NAME", help="measure these networks; drawn ones otherwise")
    made.add_argument("--peers", help="for example adjoint,torch:plain,jax; default: all that are installed")
    made.add_argument("--threads", type=run.thread_numbers, default=[1, 2], help="default: 1,2")
    made.add_argument("--rounds", type=int, default=3, help="number of windows per library (default: 3)")
    made.add_argument("--seconds", type=float, default=0.05, help="length of a window (default: 0.05; networks: 0.2)")
    made.add_argument("--limit", type=float, default=300.0, help="seconds that a peer may take to start (default: 300)")
    made.add_argument("--worst", type=int, default=WORST, help="number of cases listed (default: %(default)s)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write all ratios to this file")
    run.python_option(made)
    made.add_argument(
        "--peer-folder", type=Path, action="append", default=[], metavar="DIR", help="search here first for peers"
    )
    return made


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Measure and print. The exit status is 1 if adjoint failed or computed something else."""
    options = parser()
    args = options.parse_args(arguments)
    console = console or Console(width=None if sys.stdout.isatty() else 130)
    families = args.families.split(",")
    if unknown := [name for name in families if name not in FAMILIES]:
        options.error(f"families are {', '.join(FAMILIES)}, got {', '.join(unknown)}")
    if args.rounds < 1 or args.seconds <= 0 or (args.count is not None and args.count < 1):
        options.error("--rounds and --count are from 1, --seconds above 0")
    seed = secrets.randbelow(10**6) if args.seed is None else args.seed
    console.print(f"seed {seed}, {report.machine()}", markup=False, highlight=False)
    written, failures = [], 0
    for family in families:
        folder = run.PEER_FOLDER if family == "networks" else contractions.PEER_FOLDER
        peers = roster.find_peers([*args.peer_folder, folder], dict(args.python))
        wanted = [name for name in args.peers.split(",") if name.split(":")[0] in peers] if args.peers else None
        pairs = [pair for pair in roster.choose(peers, wanted) if wanted or _is_default(family, *pair)]
        if all(peer.name == roster.OURS for peer, _ in pairs):
            options.error(f"{family}: there must be a peer to compare with; name its interpreter, as in --python "
                          "torch=/path/to/python, or in TORCH_PYTHON")  # fmt: skip
        for threads in args.threads:
            peaks = machine_peaks(host_target(), threads)
            if family == "networks":
                source = _networks(args, seed, threads, pairs, peaks)
            else:
                source = _contractions(args, family, seed, threads, pairs, peaks)
            found, failed = _collect(source, f"{family}, threads: {threads}", console, family == "networks")
            failures += failed
            if found:
                title = f"{family}, {threads} thread{'s' if threads > 1 else ''}"
                console.print(worst(found, title, args.worst))
                console.print(distribution(found), highlight=False)
                console.print()
            written += [
                {"family": family, "threads": threads, "name": one.name, "ratio": one.ratio, "peer": one.peer,
                 "gflops": one.gflops, "attainable_gflops": one.attainable}
                for one in found
            ]  # fmt: skip
    if args.json is not None:
        about = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "machine": report.machine(), "seed": seed}
        args.json.write_text(json.dumps({**about, "cases": written}, indent=1) + "\n")
    return 1 if failures else 0


def _is_default(family: str, peer: roster.Peer, mode: str) -> bool:
    """Whether a mode takes part unless others are asked for: of networks, the fastest modes of each framework."""
    if family != "networks":
        return True
    return (peer.name, mode) in {
        ("adjoint", "step"), ("torch", "eager_fused"), ("torch", "eager_channels_last"), ("torch", "compile"),
        ("torch", "compile_whole"), ("jax", "jit"),
    }  # fmt: skip


def _collect(
    source: Iterator[tuple[Measured | None, list[harness.Result]]], title: str, console: Console, list_all: bool
) -> tuple[list[Measured], int]:
    """The measurements, with a line for each that failed, or for all; and how often adjoint failed."""
    found: list[Measured] = []
    failures, others = 0, list[float]()
    with console.status("") as status:
        for number, (one, results) in enumerate(source, 1):
            status.update(f"{title}, {number} measured")
            for result in results:
                if result.error is not None:
                    ours = result.cell.peer.name == roster.OURS
                    failures += ours
                    text = f"{result.cell.label}: {result.cell.workload}: {result.error}"
                    console.print(text, style="bold red" if ours else "yellow", markup=False, emoji=False)
            others += [share for result in results for share in result.others]
            if one is not None:
                found.append(one)
                if list_all:
                    console.print(f"{one.ratio:.2f} x {one.peer}: {one.name}", markup=False, highlight=False)
    if others and float(np.mean(others)) > report.DISTURBED:
        console.print(f"not quiet: other processes used {np.mean(others):.2f} of these cores meanwhile", style="yellow")
    return found, failures


if __name__ == "__main__":
    sys.exit(main())
