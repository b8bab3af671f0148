"""A profile as a single HTML page, which needs neither network nor server, and is readable without its script.

The layout is defined in ``templates``; this module fills them in.
"""

import re
from collections.abc import Iterator

from adjoint.ir.printer import value_names
from adjoint.lazy_dataclass import dataclass
from adjoint.pages.environment import page_environment
from adjoint.profiling.arena import draw_arena
from adjoint.profiling.drawing import draw_graph
from adjoint.profiling.roofline import draw_roofline
from adjoint.profiling.step import Row, StepProfile

__all__ = ["page_text"]

#: Maximum number of kernels that are separated by gaps in the strip.
_APART = 80


@dataclass(frozen=True, slots=True)
class _KernelRow:
    """A row of the table: the kernel, its time relative to the longest, and all of its operators and lines."""

    k: int
    row: Row
    relative: float
    values: str
    lines: str


@dataclass(frozen=True, slots=True)
class _ProgramLine:
    """A line of the step's text: whether it defines a value, the kernel that computes it, and the line of its code."""

    text: str
    is_value: bool
    k: int | None
    line: str


def page_text(profile: StepProfile) -> str:
    """The page's HTML."""
    memory = profile.memory
    return (
        page_environment("adjoint.profiling")
        .get_template("page.html.j2")
        .render(
            profile=profile,
            numbers=profile.as_dict(),
            close=len(profile.rows) > _APART,
            kernels=tuple(_kernels(profile)),
            roofline=draw_roofline(profile.rows, profile.peaks),
            graph=draw_graph(profile.rows, profile.edges),
            excess=memory.arena / memory.arena_bound - 1 if memory.arena_bound else 0.0,
            arena=draw_arena(profile.rows, profile.blocks, memory.arena, memory.arena_bound)
            if profile.blocks
            else None,
            program=tuple(_program(profile)),
        )
    )


def _kernels(profile: StepProfile) -> Iterator[_KernelRow]:
    """The rows of the table, slowest kernel first."""
    most = max((row.share for row in profile.rows), default=0.0) or 1.0
    for k in sorted(range(len(profile.rows)), key=lambda k: -profile.rows[k].nanoseconds):
        row = profile.rows[k]
        values = ", ".join(f"{o} {n.removeprefix('%')}" for n, o in zip(row.kernel.values, row.operators, strict=True))
        lines = "\n".join(dict.fromkeys(filter(None, row.kernel.lines)))
        yield _KernelRow(k, row, row.share / most, values, lines)


def _program(profile: StepProfile) -> Iterator[_ProgramLine]:
    """The graph's lines, each with the kernel that computes its value."""
    kernel_of = {name: k for k, row in reversed(list(enumerate(profile.rows))) for name in row.kernel.values}
    names = {name: value for value, name in value_names(profile.step).items()}
    for line in str(profile.step).splitlines():
        found = re.match(r"  (%(?:\"[^\"]*\"|[^\s:]+)): ", line)
        k = kernel_of.get(found[1]) if found is not None and found[1] in names else None
        where = names[found[1]].line if found is not None and found[1] in names else ""
        yield _ProgramLine(line, found is not None, k, where)
