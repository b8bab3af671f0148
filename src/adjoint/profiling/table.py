"""A profile as plain text: a line for each kernel, the longest time first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adjoint.pages.figures import duration, micros, percent, rate
from adjoint.training.parts import STEP

if TYPE_CHECKING:  # step.py imports this module
    from adjoint.profiling.step import StepProfile

__all__ = ["profile_table"]


def profile_table(profile: "StepProfile") -> str:
    """The kernels of a profile with their times, what they compute, and the lines of code of that."""
    has_parts = any(row.part != STEP for row in profile.rows)
    head = ["kernel", *["part"] * has_parts, "µs", "share", "GFLOP/s", "roofline", "computes", "line"]
    rows = [
        [
            row.kernel.name,
            *[row.part] * has_parts,
            micros(row.nanoseconds),
            percent(row.share),
            rate(row.gflops),
            percent(row.attained),
            row.kernel.listed_operators(),
            row.kernel.listed_lines(),
        ]
        for row in sorted(profile.rows, key=lambda row: -row.nanoseconds)
    ]
    numbers = {name for name in head if name in ("µs", "share", "GFLOP/s", "roofline")}
    lines = _aligned([head, *rows], [name in numbers for name in head])
    lines.insert(1, "-" * max(map(len, lines)))
    threads = "one thread" if profile.threads == 1 else f"{profile.threads} threads"
    return "\n".join([*lines, f"{profile.title}: {duration(profile.nanoseconds)} in all kernels on {threads}"])


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(right))]
    made = []
    for row in rows:
        cells = [
            cell.rjust(width) if to_the_right else cell.ljust(width)
            for cell, width, to_the_right in zip(row, widths, right, strict=True)
        ]
        made.append("  ".join(cells).rstrip())
    return made
