"""The file of published results, ``benchmarks/results.json``: how it is read and written, and what may enter it.

Of its sections, ``steps`` and ``doors`` hold an entry for each workload and number of threads (`run.py`), ``where`` one
for each workload (`where.py`), ``serving`` one for each model (`serving.py`), ``compat`` one for each framework
(`compat.py`), ``late`` one for each workload and optimizer (`late.py`), ``from_torch`` one for each model and number of
threads (`from_torch.py`), and ``programs`` what the compiler makes of each workload (`publish.py`). An entry of all but
the last carries its own ``run``: time, commit, machine, settings and command. So a run of one workload replaces the
entries of that workload, and a table whose entries come from different machines can say so.

An entry that one of another kind of CPU replaces is kept: ``other_cpus`` holds the newest entries of each other kind,
by LLVM's name of the CPU, in the same sections.
"""

import argparse
import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.harness import ROOT

__all__ = [
    "OTHERS",
    "RESULTS",
    "DirtyError",
    "check_clean",
    "dump",
    "json_options",
    "kind",
    "load",
    "provenance",
    "store",
]

RESULTS = ROOT / "benchmarks" / "results.json"

#: The section of entries of other kinds of CPUs.
OTHERS = "other_cpus"

#: What a measurement depends on, as git pathspecs. The results themselves change from one run to the next.
_SOURCES = ("src", "benchmarks", "pyproject.toml", ":(exclude)benchmarks/results.json")

#: Options of a command that differ between users and say nothing about the measurement.
_LOCAL = ("--python", "--json", "--peer-folder")

#: Columns of the file: a value that fits is written on one line.
_WIDTH = 120


class DirtyError(Exception):
    """Results of sources that no commit holds; the message names the changed files."""


def _git(*words: str) -> str | None:
    """What git prints, without the line break at the end; None where this is no checkout."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.rstrip() if done.returncode == 0 else None


def _changes() -> list[str] | None:
    """Changed and untracked files that a measurement may depend on; None where this is no checkout."""
    status = _git("status", "--porcelain", "--", *_SOURCES)
    return None if status is None else [line[3:] for line in status.splitlines()]


def json_options(options: argparse.ArgumentParser) -> None:
    """Add the options that name a file of results."""
    options.add_argument("--json", type=Path, metavar="FILE", help="replace what was measured in this file of results")
    options.add_argument("--allow-dirty", action="store_true", help="write results of sources that no commit holds")


def check_clean(path: Path | None, allow_dirty: bool) -> None:
    """Refuse to record results of sources that no commit holds.

    Parameters
    ----------
    path : Path or None
        The file of results; None where none are recorded.
    allow_dirty : bool
        Whether to record them all the same; `provenance` then says so.

    Raises
    ------
    DirtyError
        With the changed files.
    """
    changed = _changes() if path is not None and not allow_dirty else None
    if changed:
        names = ", ".join(changed[:3]) + (", ..." if len(changed) > 3 else "")
        raise DirtyError(f"results belong to a commit, but {names} changed; commit first, or pass --allow-dirty")


def provenance(script: str, arguments: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Where an entry comes from.

    Parameters
    ----------
    script : str
        The command's file name in ``benchmarks/``.
    arguments : sequence of str
        Its arguments; paths of interpreters and files are left out of the command that is recorded.
    settings : mapping
        What was measured how: rounds, seconds and the like.
    """
    words, rest = [], iter(arguments)
    for word in rest:
        if word in _LOCAL:
            next(rest, None)
        elif word.partition("=")[0] not in _LOCAL:
            words.append(word)
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "dirty": bool(_changes()),
        "command": shlex.join(["python", f"benchmarks/{script}", *words]),
        "machine": report.machine(),
        "settings": dict(settings),
    }


def load(path: Path = RESULTS) -> dict[str, Any]:
    """The contents of a file of results; empty where there is none."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def kind(entry: Any) -> str | None:
    """The kind of CPU that an entry was measured on, by LLVM's name; None for what is not a measurement."""
    run = entry.get("run") if isinstance(entry, dict) else None
    return str(run["machine"]["llvm_cpu"]) if run else None


def store(path: Path, keys: Sequence[str], entry: Any) -> None:
    """Replace one entry of a file of results, and leave the others as they are.

    An entry of another kind of CPU moves to `OTHERS`, where an older one of the new entry's kind is removed.

    Parameters
    ----------
    path : Path
        The file; it is made where it does not exist.
    keys : sequence of str
        The place of the entry, such as ``("steps", "mlp", "1")``.
    entry : object
        Plain data.
    """
    contents = load(path)
    place = _place(contents, keys)
    replaced, cpu = place.get(keys[-1]), kind(entry)
    place[keys[-1]] = entry
    if cpu is not None:
        if kind(replaced) not in (None, cpu):
            others = (OTHERS, str(kind(replaced)), *keys)
            _place(contents, others)[keys[-1]] = replaced
        if cpu in contents.get(OTHERS, {}):
            _place(contents, (OTHERS, cpu, *keys)).pop(keys[-1], None)
            contents[OTHERS] = _filled(contents[OTHERS])
    # A run that is interrupted here leaves the file as it was.
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(dump(contents) + "\n")
    Path(file.name).chmod(0o644)
    os.replace(file.name, path)


def _place(contents: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The dictionary that holds an entry; it is made where it does not exist."""
    for key in keys[:-1]:
        contents = contents.setdefault(key, {})
    return contents


def _filled(section: dict[str, Any]) -> dict[str, Any]:
    """A section without empty dictionaries, down to its entries."""
    made = {key: one if kind(one) or not isinstance(one, dict) else _filled(one) for key, one in section.items()}
    return {key: one for key, one in made.items() if one != {}}


def dump(value: Any, indent: int = 0) -> str:
    """JSON in which lists of numbers, and all that fits, are on one line: differences stay readable."""
    flat = json.dumps(value, ensure_ascii=False)
    numbers = isinstance(value, list) and not any(isinstance(one, dict | list) for one in value)
    if not isinstance(value, dict | list) or not value or numbers or indent + len(flat) <= _WIDTH:
        return flat
    inside = indent + 1
    if isinstance(value, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {dump(one, inside)}" for key, one in value.items()]
    else:
        parts = [dump(one, inside) for one in value]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    space = " " * inside
    return f"{opened}\n{space}" + f",\n{space}".join(parts) + f"\n{' ' * indent}{closed}"
