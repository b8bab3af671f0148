"""Compare a step late in training with the same step at the start: python benchmarks/late.py.

If a gradient stays 0 (for a border pixel that is always black, or a unit that is never active), momentum and Adam's
moments decay by a constant factor per step. After a few hundred steps they are subnormal numbers, and stay so, because
the smallest one times 0.9 rounds to itself. Many CPUs compute a hundred times slower with these.

Each workload is trained with momentum and with Adam, on batches in which half of the input features are 0. Windows of
three trainers are interleaved: *early* is at the start of training; *late* has the state after long training, with
subnormal numbers wherever there is no gradient; *gradual* has that state too, and is compiled with
``flush_subnormals=False``.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import ModuleType

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
from rich.console import Console
from rich.table import Table

from adjoint import CompileOptions, Trainer
from benchmarks import workloads
from benchmarks.run import PEER_FOLDER, workload_names
from benchmarks.worker import load_peer, run_window
from benchmarks.workload import Workload

__all__ = ["Late", "main", "measure", "without_half_of_the_features"]

OPTIMIZERS = {
    "momentum": {"kind": "sgd", "lr": 1e-3, "momentum": 0.9},
    "adam": {"kind": "adam", "lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8},
}

#: Number of steps after which elements whose state is still 0 count as elements without a gradient.
_FIRST_STEPS = 10

#: Their state after long training: a few units of float32's smallest subnormal number, 1.4e-45.
_LEFT_OVER = np.float32(7e-45)


class Late:
    """The measurements: seconds per step in each window, by trainer.

    Parameters
    ----------
    seconds : dict of str to list of float
        For ``early``, ``late`` and ``gradual``.
    share : float
        Fraction of the optimizer's state that is subnormal in ``late``.
    """

    def __init__(self, seconds: dict[str, list[float]], share: float) -> None:
        self.seconds, self.share = seconds, share

    def ratio(self, name: str) -> float:
        """Ratio of a trainer's time per step to that of ``early``: the median over the windows."""
        pairs = zip(self.seconds[name], self.seconds["early"], strict=True)
        return statistics.median(one / other for one, other in pairs)


def without_half_of_the_features(workload: Workload) -> Workload:
    """The workload with every second input feature set to 0; token ids are unchanged."""

    def dimmed(x: np.ndarray) -> np.ndarray:
        return x if x.dtype.kind == "i" else x * (np.arange(x.shape[-1]) % 2).astype(x.dtype)

    return replace(workload, batches=[(dimmed(x), y) for x, y in workload.batches])


def measure(workload: Workload, optimizer: str, threads: int, rounds: int, seconds: float) -> Late:
    """Measure one workload with one optimizer."""
    peer = load_peer(PEER_FOLDER / "adjoint.py")
    made = without_half_of_the_features(replace(workload, opt=OPTIMIZERS[optimizer]))
    batches = [tuple(a.astype(peer.INT) if a.dtype.kind == "i" else a for a in pair) for pair in made.batches]
    trainers = {
        name: _trainer(peer, made, CompileOptions(threads=threads, flush_subnormals=name != "gradual"))
        for name in ("early", "late", "gradual")
    }
    for trainer in trainers.values():
        for batch, _ in zip(cycle(batches), range(_FIRST_STEPS), strict=False):
            trainer.update(*batch)
    shares = [_age(trainers[name]) for name in ("late", "gradual")]
    found: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(rounds):
        for name, trainer in trainers.items():
            steps, elapsed = run_window(trainer.update, float, batches, seconds, 1)
            found[name].append(elapsed / steps)
    return Late(found, shares[0])


def _trainer(peer: ModuleType, workload: Workload, options: CompileOptions) -> Trainer:
    trainer = Trainer(peer.module_of(workload), options=options)
    trainer.load_params(peer.named(workload.params))
    trainer.load_states(peer.named(workload.states))
    return trainer


def _age(trainer: Trainer) -> float:
    """Replace zeros in the optimizer's state by subnormal numbers, and return the fraction replaced."""
    state = trainer.export_optimizer_state()
    aged = {name: np.where(array == 0, _LEFT_OVER, array) if array.ndim else array for name, array in state.items()}
    trainer.load_optimizer_state(aged)
    zeros = sum(int((array == 0).sum()) for array in state.values() if array.ndim)
    return zeros / max(1, sum(array.size for array in state.values()))


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Measure and print a table. The exit status is 1 if a late step takes longer than `--at-most` allows."""
    options = argparse.ArgumentParser(description="Measure steps late in training beside those at the start.")
    options.add_argument("--workloads", type=workload_names, default=list(workloads.WORKLOADS), help="default: all")
    options.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    options.add_argument("--rounds", type=int, default=7, help="number of windows per trainer (default: 7)")
    options.add_argument("--seconds", type=float, default=0.3, help="length of a window (default: 0.3)")
    options.add_argument("--at-most", type=float, help="maximum ratio of late to early; exit with status 1 above it")
    args = options.parse_args(arguments)
    if args.rounds < 1 or args.seconds <= 0:
        options.error("--rounds must be at least 1 and --seconds above 0")
    console = console or Console()
    table = Table("workload", "optimizer", *(f"{name}, µs" for name in ("early", "late", "gradual")))
    for name in ("subnormal state", "late / early", "gradual / early"):
        table.add_column(name, justify="right")
    worst = 0.0
    for name in args.workloads:
        for optimizer in OPTIMIZERS:
            found = measure(workloads.make(name), optimizer, args.threads, args.rounds, args.seconds)
            times = (f"{statistics.median(found.seconds[n]) * 1e6:,.1f}" for n in ("early", "late", "gradual"))
            ratios = (f"{found.ratio(n):.2f}" for n in ("late", "gradual"))
            table.add_row(name, optimizer, *times, f"{found.share:.0%}", *ratios)
            worst = max(worst, found.ratio("late"))
    console.print(table)
    return int(args.at_most is not None and worst > args.at_most)


if __name__ == "__main__":
    sys.exit(main())
