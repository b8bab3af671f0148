"""Compare estimated schedules with measured ones: python benchmarks/regret.py. See docs/benchmarks.md.

For random contractions, every schedule that tuning would try is measured. The regret of a contraction is the time of
the schedule that the cost models prefer over that of the fastest one: 1 if they chose well. What lies behind a high
regret belongs into the cost models, whose constants are in `adjoint.costs`.
"""

import argparse
import json
import secrets
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adjoint.codegen.targets import host_target
from adjoint.ir.printer import value_names
from adjoint.kernel.target import Target
from adjoint.lower.program import contractions_of
from adjoint.tuning import Tried, try_schedules
from benchmarks import random_cases, report
from benchmarks.contraction_cases import Case
from benchmarks.contraction_peers.adjoint import function_of

__all__ = ["FAMILIES", "Regret", "main", "measure"]

#: Families whose cases are one contraction each.
FAMILIES = ("products", "convolutions")

#: Operations from which a contraction is measured: shorter ones take about as long as the call.
LEAST_FLOPS = 10**6

#: Regrets above which the share of contractions is printed.
LIMITS = (1.05, 1.1, 1.25)


@dataclass(frozen=True, slots=True)
class Regret:
    """A contraction whose schedules were measured, the estimated one first.

    Parameters
    ----------
    name : str
        The case.
    flops : int
        Its operations.
    tried : tuple of Tried
        Schedules and their times.
    """

    name: str
    flops: int
    tried: tuple[Tried, ...]

    @property
    def best(self) -> Tried:
        """The fastest schedule."""
        return min(self.tried, key=lambda one: one.nanoseconds)

    @property
    def ratio(self) -> float:
        """How many times longer the estimated schedule takes than the fastest."""
        return self.tried[0].nanoseconds / self.best.nanoseconds


def measure(cases: Sequence[Case], target: Target, tiles: int) -> Iterator[Regret]:
    """Measure all schedules of every contraction, on one thread, with `tiles` register tiles of each form."""
    for case in cases:
        function, _ = function_of(case)
        context, planned = contractions_of(function, target, value_names(function))
        for group, made in planned.items():
            yield Regret(case.name, case.flops, try_schedules(context, group, made.contraction, tiles))


def _table(found: Sequence[Regret], count: int) -> Table:
    """The contractions with the highest regrets."""
    made = Table(title="highest regrets", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("contraction", "estimated", "fastest"):
        made.add_column(heading, overflow="fold")
    for heading in ("regret", "GFLOP/s", "of the fastest"):
        made.add_column(heading, justify="right", no_wrap=True)
    for one in sorted(found, key=lambda one: -one.ratio)[:count]:
        rates = (f"{one.flops / tried.nanoseconds:.1f}" for tried in (one.tried[0], one.best))
        made.add_row(Text(one.name), one.tried[0].name, one.best.name, f"{one.ratio:.2f}", *rates)
    return made


def _summary(found: Sequence[Regret]) -> str:
    """The regrets in one line."""
    ratios = [one.ratio for one in found]
    above = ", ".join(f"{sum(r > limit for r in ratios) / len(ratios):.0%} above {limit:g}" for limit in LIMITS)
    return f"{len(ratios)} contractions: geometric mean {statistics.geometric_mean(ratios):.3f}; {above}"


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    made = argparse.ArgumentParser(description="Compare estimated schedules with measured ones.")
    made.add_argument("--families", default="products", help=f"comma-separated, of {', '.join(FAMILIES)}")
    made.add_argument("--count", type=int, default=60, help="cases of each (default: %(default)s)")
    made.add_argument("--seed", type=int, help="of the cases (default: a new one)")
    made.add_argument("--tiles", type=int, default=2, help="register tiles of each form (default: %(default)s)")
    made.add_argument("--worst", type=int, default=12, help="number of cases listed (default: %(default)s)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write all times to this file")
    return made


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Measure and print."""
    options = parser()
    args = options.parse_args(arguments)
    console = console or Console(width=None if sys.stdout.isatty() else 150)
    families = args.families.split(",")
    if unknown := [name for name in families if name not in FAMILIES]:
        options.error(f"families are {', '.join(FAMILIES)}, got {', '.join(unknown)}")
    if min(args.count, args.tiles) < 1:
        options.error("--count and --tiles are from 1")
    seed = secrets.randbelow(10**6) if args.seed is None else args.seed
    console.print(f"seed {seed}, {report.machine()}", markup=False, highlight=False)
    found: list[Regret] = []
    for family in families:
        cases = [case for case in random_cases.draw(family, args.count, seed) if case.flops >= LEAST_FLOPS]
        with console.status(family) as status:
            for one in measure(cases, host_target(), args.tiles):
                found.append(one)
                status.update(f"{family}, {len(found)} measured")
    if found:
        console.print(_table(found, args.worst))
        console.print(_summary(found), highlight=False)
    if args.json is not None:
        about = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "machine": report.machine(), "seed": seed}
        args.json.write_text(json.dumps({**about, "contractions": [asdict(one) for one in found]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
