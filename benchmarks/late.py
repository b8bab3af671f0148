"""Compare a step late in training with the same step at the start: python benchmarks/late.py.

If a gradient stays 0 (for a border pixel that is always black, or a unit that is never active), momentum and Adam's
moments decay by a constant factor per step. After a few hundred steps they are subnormal numbers, and stay so, because
the smallest one times 0.9 rounds to itself. Many CPUs compute a hundred times slower with these.

Each workload is trained with momentum and with Adam, on batches in which half of the input features are 0. Windows of
three trainers take turns: *early* is at the start of training; *late* has the state after 10,000 steps; *gradual* has
that state too, and is compiled with ``flush_subnormals=False``.

The steps are really taken as long as `--patience` allows, which it does for small networks. What the rest of them would
change is set: a step computes the same operations on any numbers, so its time depends on the state only by the
subnormal numbers in it. These are where the state is still 0 because there was no gradient, had there been one before
the 10,000 steps: momentum falls from 1 to the smallest number in 1,000 steps.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from types import ModuleType

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
from rich.console import Console
from rich.table import Table

from adjoint import CompileOptions, Trainer
from benchmarks import record, workloads
from benchmarks.run import PEER_FOLDER, workload_names
from benchmarks.worker import WARM, load_peer, run_window
from benchmarks.workload import Workload

__all__ = ["HEADINGS", "Late", "main", "measure", "without_half_of_the_features"]

OPTIMIZERS = {
    "momentum": {"kind": "sgd", "lr": 1e-3, "momentum": 0.9},
    "adam": {"kind": "adam", "lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8},
}

#: Columns of the table.
HEADINGS = (
    "workload", "optimizer", "early", "late", "gradual", "steps taken", "subnormal", "late / early", "gradual / early"
)  # fmt: skip

#: Steps of a trainer before it is measured, after which elements whose state is still 0 have no gradient: *early*.
FIRST_STEPS = 10

#: Steps behind the other trainers.
LATE_STEPS = 10_000

#: Steps between two looks at the clock while these are taken.
_GLANCE = 8

#: The state of elements without a gradient after long training: a few units of float32's smallest subnormal number,
#: 1.4e-45.
_LEFT_OVER = np.float32(7e-45)


@dataclass(frozen=True, slots=True)
class Late:
    """The measurements.

    Parameters
    ----------
    seconds : dict of str to list of float
        Seconds per step in each window, by trainer: ``early``, ``late`` and ``gradual``.
    share : float
        Fraction of the optimizer's state that is subnormal in ``gradual`` when its windows begin.
    steps : int
        Steps that ``late`` has really taken.
    """

    seconds: dict[str, list[float]]
    share: float
    steps: int

    def ratio(self, name: str) -> float:
        """Ratio of a trainer's time per step to that of ``early``: the median over the windows."""
        pairs = zip(self.seconds[name], self.seconds["early"], strict=True)
        return statistics.median(one / other for one, other in pairs)

    def row(self, workload: str, optimizer: str) -> tuple[str, ...]:
        """The row of the table, as text under `HEADINGS`."""
        times = (_micro(statistics.median(self.seconds[name])) for name in ("early", "late", "gradual"))
        ratios = (f"{self.ratio(name):.2f}" for name in ("late", "gradual"))
        return workload, optimizer, *times, f"{self.steps:,}", f"{self.share:.0%}", *ratios


def _micro(seconds: float) -> str:
    """A time in microseconds, with two decimals if it is short."""
    return f"{seconds * 1e6:,.0f} µs" if seconds >= 1e-4 else f"{seconds * 1e6:.2f} µs"


def without_half_of_the_features(workload: Workload) -> Workload:
    """The workload with every second input feature set to 0; token ids are unchanged."""

    def dimmed(x: np.ndarray) -> np.ndarray:
        return x if x.dtype.kind == "i" else x * (np.arange(x.shape[-1]) % 2).astype(x.dtype)

    return replace(workload, batches=[(dimmed(x), y) for x, y in workload.batches])


def measure(
    workload: Workload, optimizer: str, threads: int, rounds: int, seconds: float, patience: float = 0.0
) -> Late:
    """Measure one workload with one optimizer; `patience` is the most seconds of training before the measurement."""
    peer = load_peer(PEER_FOLDER / "adjoint.py")
    made = without_half_of_the_features(replace(workload, opt=OPTIMIZERS[optimizer]))
    batches = [tuple(a.astype(peer.INT) if a.dtype.kind == "i" else a for a in pair) for pair in made.batches]
    trainers = {
        name: _trainer(peer, made, CompileOptions(threads=threads, flush_subnormals=name != "gradual"))
        for name in ("early", "late", "gradual")
    }
    taken = {name: _train(one, batches, patience if name != "early" else 0.0) for name, one in trainers.items()}
    for name in ("late", "gradual"):
        _age(trainers[name])
    found: dict[str, list[float]] = {name: [] for name in trainers}
    share = _subnormal(trainers["gradual"])
    for turn in range(rounds):
        # Each trainer comes first in some rounds, and each window starts warm.
        names = [*trainers][turn % len(trainers) :] + [*trainers][: turn % len(trainers)]
        for name in names:
            run_window(trainers[name].update, float, batches, seconds * WARM, 1)
            steps, elapsed = run_window(trainers[name].update, float, batches, seconds, 1)
            found[name].append(elapsed / steps)
    return Late(found, share, taken["late"])


def _trainer(peer: ModuleType, workload: Workload, options: CompileOptions) -> Trainer:
    trainer = Trainer(peer.module_of(workload), options=options)
    trainer.load_params(peer.named(workload.params))
    trainer.load_states(peer.named(workload.states))
    return trainer


def _train(trainer: Trainer, batches: Sequence[tuple[np.ndarray, ...]], patience: float) -> int:
    """Take the first steps, and then more until there are `LATE_STEPS` or patience ends; returns how many."""
    source, steps = cycle(batches), FIRST_STEPS
    for batch in islice(source, FIRST_STEPS):
        trainer.update(*batch)
    end = time.perf_counter() + patience
    while steps < LATE_STEPS and time.perf_counter() < end:
        for batch in islice(source, min(_GLANCE, LATE_STEPS - steps)):
            trainer.update(*batch)
            steps += 1
    return steps


def _age(trainer: Trainer) -> None:
    """Replace zeros in the optimizer's state by the subnormal numbers to which earlier gradients would have decayed."""
    state = trainer.export_optimizer_state()
    aged = {name: np.where(array == 0, _LEFT_OVER, array) if array.ndim else array for name, array in state.items()}
    trainer.load_optimizer_state(aged)


def _subnormal(trainer: Trainer) -> float:
    """The fraction of the optimizer's state that is subnormal."""
    arrays = [array for array in trainer.export_optimizer_state().values() if array.ndim]
    tiny = np.finfo(np.float32).smallest_normal
    count = sum(int(((array != 0) & (abs(array) < tiny)).sum()) for array in arrays)
    return count / max(1, sum(array.size for array in arrays))


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Measure and print a table. The exit status is 1 if a late step takes longer than `--at-most` allows."""
    options = argparse.ArgumentParser(description="Measure steps late in training beside those at the start.")
    options.add_argument("--workloads", type=workload_names, default=list(workloads.WORKLOADS), help="default: all")
    options.add_argument("--threads", type=int, default=1, help="number of threads (default: 1)")
    options.add_argument("--rounds", type=int, default=7, help="number of windows per trainer (default: 7)")
    options.add_argument("--seconds", type=float, default=0.3, help="length of a window (default: 0.3)")
    options.add_argument(
        "--patience", type=float, default=60.0, help="seconds of training before a late state is set (default: 60)"
    )
    options.add_argument("--at-most", type=float, help="maximum ratio of late to early; exit with status 1 above it")
    record.json_options(options)
    args = options.parse_args(arguments)
    if args.rounds < 1 or args.seconds <= 0 or args.patience < 0:
        options.error("--rounds must be at least 1, --seconds above 0 and --patience at least 0")
    try:
        record.check_clean(args.json, args.allow_dirty)
    except record.DirtyError as error:
        options.error(str(error))
    settings = {name: getattr(args, name) for name in ("threads", "rounds", "seconds", "patience")}
    run = record.provenance("late.py", sys.argv[1:] if arguments is None else arguments, settings)
    table = Table(*HEADINGS[:2])
    for heading in HEADINGS[2:]:
        table.add_column(heading, justify="right")
    worst = 0.0
    for name in args.workloads:
        for optimizer in OPTIMIZERS:
            found = measure(workloads.make(name), optimizer, args.threads, args.rounds, args.seconds, args.patience)
            table.add_row(*found.row(name, optimizer))
            worst = max(worst, found.ratio("late"))
            if args.json is not None:
                record.store(args.json, ("late", name, optimizer), {"run": run, "measured": asdict(found)})
    (console or Console(width=None if sys.stdout.isatty() else 130)).print(table)
    return int(args.at_most is not None and worst > args.at_most)


if __name__ == "__main__":
    sys.exit(main())
