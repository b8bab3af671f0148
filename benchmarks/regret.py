"""Compare estimated schedules with measured ones: python benchmarks/regret.py. See docs/benchmarks.md.

For random contractions, and for those of networks with the caches as the step leaves them, every schedule that is worth
measuring is timed. The regret of a contraction is the time of the schedule that the cost models prefer over that of the
fastest one: 1 if they chose well. What lies behind a high regret belongs in the cost models, whose constants are in
`adjoint.costs`; ``fit_costs.py`` evaluates others with the times that ``--json`` keeps.
"""

import argparse
import json
import secrets
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adjoint.codegen.targets import host_target
from adjoint.ir import Function
from adjoint.ir.printer import value_names
from adjoint.kernel.program import Program
from adjoint.kernel.target import Target
from adjoint.lower.context import Context
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.schedules import PlannedContraction, plan_contraction, same_sums, schedules
from adjoint.lower.fusion.groups import Group
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes, lower_function
from adjoint.tuning import Tried, contractions_by_work, try_schedules
from benchmarks import random_cases, random_networks, report, workloads
from benchmarks.contraction_peers.adjoint import function_of
from benchmarks.peers.adjoint import module_of

__all__ = ["FAMILIES", "Measurable", "Regret", "contractions", "main", "measure"]

#: Families of one contraction each, and those of steps: random networks, and the workloads of the benchmarks.
ALONE, STEPS = ("products", "convolutions"), ("networks", "workloads")
FAMILIES = (*ALONE, *STEPS)

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


@dataclass(frozen=True, slots=True)
class Measurable:
    """A contraction whose schedules can be measured.

    Parameters
    ----------
    name : str
        The case, or the network and the signature.
    flops : int
        Its operations.
    context, group, contraction
        What `adjoint.lower.program.contractions_of` returns of it.
    step : Function or None
        The step that it is part of.
    """

    name: str
    flops: int
    context: Context
    group: Group
    contraction: Contraction
    step: Function | None

    def estimated(self) -> str:
        """The schedule that the cost models prefer, as they are now."""
        return str(plan_contraction(self.context, self.group, self.contraction, {}).plan)


def contractions(family: str, count: int, seed: int, target: Target) -> Iterator[Measurable]:
    """The contractions of a family, the same ones for the same seed: of `count` cases, or of `count` networks."""
    if family in ALONE:
        for case in random_cases.draw(family, count, seed):
            if case.flops >= LEAST_FLOPS:
                function, _ = function_of(case)
                planned = list(_planned(after_graph_passes(function), target))
                for context, group, made in planned:
                    # A gradient at stride 2 consists of several.
                    name = case.name if len(planned) == 1 else f"{case.name}: {made.signature}"
                    yield Measurable(name, case.flops // len(planned), context, group, made.contraction, None)
        return
    networks = family == "networks"
    for name in random_networks.draw(count, seed) if networks else workloads.WORKLOADS:
        step = after_graph_passes(module_of((random_networks if networks else workloads).make(name))["step"])
        for context, group, made in _planned(step, target):
            c = made.contraction
            flops = 2 * c.batches * c.rows * c.columns * c.depth
            if flops >= LEAST_FLOPS:
                yield Measurable(f"{name}: {made.signature}", flops, context, group, c, step)


def _planned(function: Function, target: Target) -> Iterator[tuple[Context, Group, PlannedContraction]]:
    context, planned = contractions_of(function, target, value_names(function))
    for group, made in contractions_by_work(planned):
        yield context, group, made


def measure(found: Iterable[Measurable], target: Target, tiles: int) -> Iterator[Regret]:
    """Measure all schedules of every contraction, on one thread, with `tiles` register tiles of each form.

    Those of a step are the ones that tuning may choose, which give the same bits.
    """
    steps: dict[Function, Program] = {}
    for one in found:
        plans = schedules(one.context, one.group, one.contraction, tiles)
        step = None
        if one.step is not None:
            plans = same_sums(plans)
            if one.step not in steps:
                steps = {one.step: lower_function(one.step, target)}
            step = steps[one.step]
        if len(plans) > 1:
            yield Regret(one.name, one.flops, try_schedules(one.context, one.group, plans, step))


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
    made.add_argument("--count", type=int, default=60, help="cases or networks of each (default: %(default)s)")
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
        with console.status(family) as status:
            for one in measure(contractions(family, args.count, seed, host_target()), host_target(), args.tiles):
                found.append(one)
                status.update(f"{family}, {len(found)} measured")
    if found:
        console.print(_table(found, args.worst))
        console.print(_summary(found), highlight=False)
    if args.json is not None:
        about: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "machine": report.machine()}
        about |= {"families": families, "count": args.count, "seed": seed}
        args.json.write_text(json.dumps({**about, "contractions": [asdict(one) for one in found]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
