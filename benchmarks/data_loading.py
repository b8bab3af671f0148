"""Rows per second of data loaders: python benchmarks/data_loading.py --python torch=/path/to/bin/python.

Peers are PyTorch, tf.data (tensorflow) and grain.

Batches of 1 to 512 shuffled rows of arrays, and of 64 images from 10,000 small files, with 0 to 2 worker processes.
Each library runs in an interpreter of its own, one after the other, and the best of several rounds counts. The files
are in the system's cache.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
from rich.console import Console
from rich.table import Table

__all__ = ["main", "measure", "write_files"]

#: This library, and those that it is compared with.
OURS, PEERS = "adjoint", ("torch", "tensorflow", "grain")

_WORKER = Path(__file__).resolve().parent / "loading_worker.py"


def write_files(folder: Path, count: int) -> None:
    """Write `count` images of 32x32 pixels in three colours, one to a file."""
    images = np.random.default_rng(0).integers(0, 256, (count, 3 * 32 * 32), np.uint8)
    for number, image in enumerate(images):
        (folder / f"{number:06}.bin").write_bytes(image.tobytes())


def measure(pythons: dict[str, str], files: int, rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Rows per second by library and case.

    Parameters
    ----------
    pythons : dict of str to str
        The interpreter of each library.
    files : int
        How many files there are.
    rounds : int
        How often each case is measured.
    seconds : float
        How long, at most.
    """
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), files)
        for name, python in pythons.items():
            command = [python, str(_WORKER), name, folder, str(rounds), str(seconds)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=600)
            found[name] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", action="append", default=[], metavar="PEER=PATH",
        help=f"the interpreter of a peer, of {', '.join(PEERS)}; default: this one has torch",
    )  # fmt: skip
    parser.add_argument("--files", type=int, default=10_000, help="number of files (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the best counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="most seconds of a round (default: %(default)s)")
    given = parser.parse_args(arguments)
    peers = dict(one.split("=", 1) for one in given.python or [f"torch={sys.executable}"])
    if unknown := [name for name in peers if name not in PEERS]:
        parser.error(f"peers are {', '.join(PEERS)}, got {', '.join(unknown)}")
    found = measure({OURS: sys.executable, **peers}, given.files, given.rounds, given.seconds)
    table = Table("", f"{OURS}, rows/s", *(f"{name}, ratio" for name in peers))
    for case, rate in found[OURS].items():
        table.add_row(case, f"{rate:,.0f}", *(f"{rate / found[name][case]:.2f}" for name in peers))
    Console().print(table)


if __name__ == "__main__":
    main()
