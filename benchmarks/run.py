"""Measure adjoint beside its peers: python benchmarks/run.py. See docs/benchmarks.md."""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: what is imported is the package that the file lies in
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from rich.console import Console

from benchmarks import harness, model_zoo, record, report, roster, workloads

__all__ = ["PEER_FOLDER", "main", "python_option", "thread_numbers", "workload_names"]

PEER_FOLDER = Path(__file__).resolve().parent / "peers"


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def thread_numbers(text: str) -> list[int]:
    """Numbers of threads, ``1,2``, as an argument of the command line."""
    numbers = [int(name) for name in _names(text)]
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"numbers of threads are from 1, got {text!r}")
    return numbers


def workload_names(text: str) -> list[str]:
    """Workloads, ``mlp,gpt``, as an argument of the command line."""
    return _known(_names(text), workloads.WORKLOADS)


def _known(names: list[str], known: Iterable[str]) -> list[str]:
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"workloads are {', '.join(known)}, got {', '.join(unknown)}")
    return names


def _python(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not Path(path).exists():
        raise argparse.ArgumentTypeError(f"an interpreter is given as peer=/path/to/python, got {text!r}")
    return name, path


def python_option(options: argparse.ArgumentParser) -> None:
    """Add the option that names interpreters."""
    options.add_argument(
        "--python", type=_python, action="append", default=[], metavar="PEER=PATH", help="a peer's interpreter"
    )


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    made = argparse.ArgumentParser(description="Measure adjoint beside other frameworks.")
    made.add_argument(
        "--workloads", type=_names,
        help=f"of {','.join(workloads.WORKLOADS)}, or of {','.join(model_zoo.WORKLOADS)} in the section networks; "
        "default: all",
    )  # fmt: skip
    made.add_argument("--peers", type=_names, help="such as adjoint,torch:eager,jax; default: all that is installed")
    made.add_argument(
        "--section", default="steps",
        help="where results are recorded: steps, doors, or networks, which measures the examples (default: steps)",
    )  # fmt: skip
    made.add_argument("--threads", type=thread_numbers, default=[1, 2], help="default: 1,2")
    made.add_argument("--rounds", type=int, default=7, help="windows of each peer, in turn (default: 7)")
    made.add_argument("--seconds", type=float, default=0.5, help="length of a window (default: 0.5)")
    made.add_argument("--starts", type=int, default=1, help="fresh processes whose first step is timed (default: 1)")
    made.add_argument("--limit", type=float, default=600.0, help="seconds a peer may take to start (default: 600)")
    record.json_options(made)
    python_option(made)
    made.add_argument(
        "--peer-folder", type=Path, action="append", default=[], metavar="DIR", help="look for peers here first"
    )
    return made


def _source(section: str) -> Any:
    """The module with the workloads of a section."""
    return model_zoo if section == "networks" else workloads


def measured(args: argparse.Namespace, pairs: Sequence[tuple[roster.Peer, str]], console: Console) -> Iterator[Any]:
    """Measure each workload on each number of threads, showing how far that is."""
    source = _source(args.section)
    with tempfile.TemporaryDirectory(prefix="adjoint-benchmark-") as folder:
        for name in args.workloads or source.WORKLOADS:
            workload = source.make(name)
            arrays = Path(folder) / f"{name}.npz"
            source.save(workload, arrays)
            takes_part = [(peer, mode) for peer, mode in pairs if peer.runs(mode, name)]
            for threads in args.threads if takes_part else ():
                cells = [harness.Cell(peer, mode, name, threads, source.__name__) for peer, mode in takes_part]
                results: list[harness.Result] = []
                total = len(cells) + args.rounds
                with console.status("") as status:
                    turns = harness.measure(
                        cells, arrays, args.rounds, args.seconds, args.starts, args.limit, workload.tolerance
                    )
                    for done, results in enumerate(turns, 1):  # noqa: B007
                        status.update(f"{name}, threads: {threads}, {done} of {total} starts and rounds")
                yield workload, results


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Measure, print and write; returns the exit status: 1 where a cell failed, 2 where nothing was measured."""
    options = parser()
    args = options.parse_args(arguments)
    console = console or Console(width=None if sys.stdout.isatty() else 120)
    if args.rounds < 1 or args.starts < 1 or args.seconds <= 0:
        options.error("--rounds and --starts are from 1, --seconds above 0")
    source = _source(args.section)
    folder = model_zoo.PEER_FOLDER if source is model_zoo else PEER_FOLDER
    peers = roster.find_peers([*args.peer_folder, folder], dict(args.python))
    try:
        _known(args.workloads or [], source.WORKLOADS)
        pairs = roster.choose(peers, args.peers)
        if args.peers is None and args.section == "steps":  # the other doors have a section of their own
            pairs = [(peer, mode) for peer, mode in pairs if peer.name != roster.OURS or mode == peer.modes[0]]
        record.check_clean(args.json, args.allow_dirty)
    except (ValueError, argparse.ArgumentTypeError, record.DirtyError) as error:
        options.error(str(error))
    if not args.peers:
        for peer in peers.values():
            if peer.python is None:
                console.print(f"{peer.name} is not installed here; --python {peer.name}=PATH names an interpreter")
    settings = {"rounds": args.rounds, "seconds": args.seconds, "starts": args.starts}
    run = record.provenance("run.py", sys.argv[1:] if arguments is None else arguments, settings)
    imports = {peer.name: harness.import_seconds(peer) for peer in dict.fromkeys(peer for peer, _ in pairs)}
    count = failures = 0
    for workload, results in measured(args, pairs, console):
        count += 1
        entry = report.as_json(results, workload.flops, imports)
        console.print(report.table(entry))
        failures += _say(results, entry, console)
        if args.json is not None:  # after every table: a run that is cut short keeps what it has measured
            record.store(args.json, (args.section, workload.name, str(entry["threads"])), {"run": run, **entry})
    if not count:
        console.print("nothing to measure: these modes take part in none of these workloads", style="bold red")
        return 2
    return 1 if failures else 0


def _say(results: Sequence[harness.Result], entry: Mapping[str, Any], console: Console) -> int:
    """The lines under a table, and what went wrong: how many cells failed."""
    for line in report.remarks(entry):
        console.print(line, style="yellow" if line.startswith("not quiet") else None)
    failed = [r for r in results if r.error is not None]
    for result in failed:
        what = "LOSSES DIFFER, not measured" if result.differs else "failed"
        console.print(f"{result.cell.label}: {what}: {result.error}", style="bold red", markup=False, emoji=False)
    console.print()
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
