"""Fit constants of the cost models to measured schedules: ``python benchmarks/fit_costs.py FILE``.

See docs/benchmarks.md. The files are those that ``regret.py --json`` has written. For altered constants, the cost
models choose a schedule for every contraction again, whose measured time is known, so nothing is measured. A coordinate
search changes one constant after the other by factors as long as the regret of every second contraction falls; the
others check the result. What it prints is a proposal: constants are changed by hand, in `adjoint.costs`, with where
they come from.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: import the package that contains it
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from rich import box
from rich.console import Console
from rich.table import Table

from adjoint import costs
from adjoint.codegen.targets import host_target
from adjoint.lower.contractions.tile_cost import forget_tiles
from benchmarks.regret import Measurable, contractions

__all__ = ["CONSTANTS", "Known", "coordinate_search", "main"]

#: The constants of `adjoint.costs` that choose among the schedules of a GEMM.
CONSTANTS = (
    "EXPOSED_TRANSFERS",
    "EXPOSED_RUNS",
    "EXPOSED_ROWS",
    "FAR_ROW_CYCLES",
    "PAGE_CYCLES",
    "WALK_CYCLES",
    "TILE_CYCLES",
    "EDGE_COST",
    "SHORTLIST",
    "PACKING_CYCLES",
    "PANEL_TRANSPOSE_CYCLES",
    "GATHER_CYCLES",
    "STORE_CYCLES",
    "MIN_PACKED_DEPTH",
)
#: Factors by which a constant is changed.
FACTORS = (0.5, 0.8, 1.25, 2.0)
#: Ratio of regrets below which a change counts: smaller ones are within what measurements repeat to.
LEAST_GAIN = 0.9995


@dataclass(frozen=True, slots=True)
class Known:
    """A contraction, and the measured times of its schedules by name."""

    contraction: Measurable
    nanoseconds: Mapping[str, float]
    first: str

    def regret(self) -> float:
        """The time of the schedule that the models prefer now over the least; of the first one if it is not known."""
        chosen = self.contraction.estimated()
        return self.nanoseconds.get(chosen, self.nanoseconds[self.first]) / min(self.nanoseconds.values())


def known(path: Path) -> list[Known]:
    """The contractions of a file."""
    content = json.loads(path.read_text())
    tried = {one["name"]: one["tried"] for one in content["contractions"]}
    made = []
    for family in content["families"]:
        for one in contractions(family, content["count"], content["seed"], host_target()):
            if one.name in tried:
                times = {plan["name"]: plan["nanoseconds"] for plan in tried[one.name]}
                made.append(Known(one, times, next(iter(times))))
    return made


def regret(found: Sequence[Known], values: Mapping[str, float]) -> float:
    """The geometric mean of the regrets for these values of constants."""
    before = {name: getattr(costs, name) for name in values}
    try:
        for name, value in values.items():
            setattr(costs, name, value)
        forget_tiles()
        return statistics.geometric_mean(one.regret() for one in found)
    finally:
        for name, value in before.items():
            setattr(costs, name, value)
        forget_tiles()


def coordinate_search(
    cost: Callable[[Mapping[str, float]], float], start: Mapping[str, float], rounds: int
) -> tuple[dict[str, float], float]:
    """The best values found by changing one at a time by a factor, and their cost."""
    best, least = dict(start), cost(start)
    for _ in range(rounds):
        before = least
        for name in start:
            changed = [{**best, name: _scaled(best[name], factor)} for factor in FACTORS]
            found, values = min((cost(values), number) for number, values in enumerate(changed))
            if found < LEAST_GAIN * least:
                best, least = changed[values], found
        if least == before:
            break
    return best, least


def _scaled(value: float, factor: float) -> float:
    """A multiple of a constant, a whole number if that is what it is."""
    return round(value * factor) if isinstance(value, int) else value * factor


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    made = argparse.ArgumentParser(description="Fit constants of the cost models to measured schedules.")
    made.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what regret.py --json has written")
    made.add_argument("--constants", default=",".join(CONSTANTS), help="comma-separated names in adjoint.costs")
    made.add_argument("--rounds", type=int, default=2, help="times that all are changed (default: %(default)s)")
    return made


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Search and print."""
    options = parser()
    args = options.parse_args(arguments)
    console = console or Console(width=None if sys.stdout.isatty() else 150)
    names = args.constants.split(",")
    if unknown := [name for name in names if not isinstance(getattr(costs, name, None), int | float)]:
        options.error(f"adjoint.costs has no number named {', '.join(unknown)}")
    found = [one for path in args.files for one in known(path)]
    if len(found) < 2:
        options.error("the files hold fewer than two contractions of this version")
    fitted, checked = found[::2], found[1::2]
    start = {name: getattr(costs, name) for name in names}
    best, after = coordinate_search(lambda values: regret(fitted, values), start, args.rounds)
    table = Table(title="better constants", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("constant", "now", "better"):
        table.add_column(heading, justify="left" if heading == "constant" else "right")
    for name in names:
        if best[name] != start[name]:
            table.add_row(name, f"{start[name]:g}", f"{best[name]:g}")
    console.print(table)
    console.print(f"{len(fitted)} contractions that they are fitted to: {regret(fitted, start):.4f} to {after:.4f}")
    console.print(f"{len(checked)} others: {regret(checked, start):.4f} to {regret(checked, best):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
