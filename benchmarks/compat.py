"""Compare programs of other frameworks, with only their imports changed, with adjoint: python benchmarks/compat.py.

Each program of `compat_programs` runs with `adjoint.compat`, as its import lines are changed by `adjoint port`; the
same network runs in adjoint's own words, and, where an interpreter is given that has the framework (``--python
torch=PATH``), the very file in the framework itself. Every run is a process of its own, and they take turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
from rich.console import Console
from rich.table import Table

from adjoint.compat.covered import FRAMEWORKS
from adjoint.compat.porting import port
from benchmarks import record

__all__ = ["Variant", "main", "summary", "variants"]

PROGRAMS = Path(__file__).parent / "compat_programs"

#: Adjoint's own program for each framework; the object door has the names of the first two.
NATIVE = {"oneflow": "", "torch": "", "mindspore": "adjoint_jit", "tensorflow": "adjoint_jit", "tvm": "adjoint_graph"}

#: How far losses may be apart, relatively: sums of 784 f32 terms in another order, after eight steps.
TOLERANCE = 1e-4

#: Most seconds of one process.
LIMIT = 600


@dataclass(frozen=True, slots=True)
class Variant:
    """A program, and the interpreter that runs it.

    Parameters
    ----------
    kind : {"compat", "adjoint", "framework"}
        Which names it uses.
    code : str
        The program.
    python : str
        The interpreter.
    """

    kind: str
    code: str
    python: str


def variants(framework: str, pythons: Mapping[str, str]) -> list[Variant]:
    """The programs to compare for a framework; the framework's own only if there is an interpreter with it."""
    source = (PROGRAMS / f"{framework}.py").read_text()
    ported = port(source)
    if ported.uncovered:
        raise SystemExit(f"{framework}: {ported.uncovered[0].advice}")
    native = NATIVE[framework]
    own = (
        (PROGRAMS / f"{native}.py").read_text()
        if native
        else ported.after.replace("adjoint.compat." + framework, "adjoint")
    )
    found = [Variant("compat", ported.after, sys.executable), Variant("adjoint", own, sys.executable)]
    return found + ([Variant("framework", source, pythons[framework])] if framework in pythons else [])


def measure(variant: Variant, steps: int) -> dict[str, object]:
    """What the program prints."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"  # a file called torch.py would be imported instead of the framework
        path.write_text(variant.code)
        environment = dict(os.environ)
        if variant.kind == "framework":
            environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [variant.python, str(path), str(steps)],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env=environment,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{variant.kind}: {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def summary(framework: str, results: Mapping[str, Sequence[Mapping[str, object]]]) -> tuple[str, ...]:
    """The row of a framework: rates, and the median of the ratios per round; losses that differ end the program."""
    expected = results["adjoint"][0]["losses"]
    for kind, runs in results.items():
        for run in runs:
            if not np.allclose(run["losses"], expected, rtol=TOLERANCE, atol=0):
                raise SystemExit(f"{framework}: losses of {kind} are {run['losses']}, but adjoint's are {expected}")
    rates = {kind: [float(str(run["rate"])) for run in runs] for kind, runs in results.items()}
    row = [framework]
    for kind in ("compat", "adjoint", "framework"):
        row.append(f"{statistics.median(rates[kind]):,.0f}" if kind in rates else "")
    for kind in ("adjoint", "framework"):
        ratios = [a / b for a, b in zip(rates["compat"], rates.get(kind, []), strict=False)]
        row.append(f"{statistics.median(ratios):.2f}" if ratios else "")
    return tuple(row)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Compare programs with adjoint.compat with adjoint's own.")
    known = [name for name in NATIVE if name in FRAMEWORKS]
    parser.add_argument("frameworks", nargs="*", default=known, help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--python", action="append", default=[], metavar="FRAMEWORK=PATH", help="runs the framework")
    parser.add_argument("--steps", type=int, default=2000, help="steps that are timed in each process")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each variant")
    parser.add_argument("--cpus", type=int, default=1, help="number of CPUs that each process may use")
    record.json_options(parser)
    options = parser.parse_args(arguments)
    if unknown := set(options.frameworks) - set(known):
        parser.error(f"no framework {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    try:
        record.check_clean(options.json, options.allow_dirty)
    except record.DirtyError as error:
        parser.error(str(error))
    settings = {"rounds": options.rounds, "steps": options.steps, "threads": options.cpus}
    run = record.provenance("compat.py", sys.argv[1:] if arguments is None else arguments, settings)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cpus])
    pythons = dict(item.split("=", 1) for item in options.python)
    table = Table("framework", "compat steps/s", "adjoint steps/s", "framework steps/s", "of adjoint", "of framework")
    for framework in options.frameworks:
        compared = variants(framework, pythons)
        results: dict[str, list[Mapping[str, object]]] = {each.kind: [] for each in compared}
        for _ in range(options.rounds):
            for each in compared:
                results[each.kind].append(measure(each, options.steps))
        table.add_row(*summary(framework, results))
        if options.json is not None:
            rates = {kind: [run["rate"] for run in runs] for kind, runs in results.items()}
            version = results["framework"][0].get("version") if "framework" in results else None
            record.store(options.json, ("compat", framework), {"run": run, "version": version, "rates": rates})
    Console().print(table)


if __name__ == "__main__":
    main()
