"""The file of published results, ``benchmarks/results.json``: how it is read and written, and what may enter it.

It has four sections. ``steps`` holds an entry for each workload and number of threads (`run.py`), ``where`` one for
each workload (`where.py`), ``serving`` one for each model (`serving.py`), and ``programs`` what the compiler makes of
each workload (`publish.py`). An entry of the first three carries its own ``run``: time, commit, machine, settings and
command. So a run of one workload replaces the entries of that workload, and a table whose entries come from different
machines can say so.
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

__all__ = ["RESULTS", "DirtyError", "check_clean", "dump", "json_options", "load", "provenance", "store"]

RESULTS = ROOT / "benchmarks" / "results.json"

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


def store(path: Path, keys: Sequence[str], entry: Any) -> None:
    """Replace one entry of a file of results, and leave the others as they are.

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
    place = contents
    for key in keys[:-1]:
        place = place.setdefault(key, {})
    place[keys[-1]] = entry
    # A run that is interrupted here leaves the file as it was.
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(dump(contents) + "\n")
    Path(file.name).chmod(0o644)
    os.replace(file.name, path)


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
