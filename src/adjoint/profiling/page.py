"""A profile as one HTML page: it needs no network, no server, and to be read not even its script.

What it looks like stands in ``templates``; here is what they are filled with.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adjoint.ir.printer import value_names
from adjoint.profiling import figures
from adjoint.profiling.arena import draw_arena
from adjoint.profiling.drawing import draw_graph
from adjoint.profiling.roofline import draw_roofline
from adjoint.profiling.step import Row, StepProfile

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["page_text"]

#: Operators of a kernel that its row shows.
_OPERATORS = 6

#: Kernels up to which the strip keeps them apart.
_APART = 80

#: Figures that templates may write, as filters.
_FILTERS = ("amount", "clipped", "duration", "micros", "part_class", "percent", "pixels", "rate")


@dataclass(frozen=True, slots=True)
class _KernelRow:
    """A row of the table: the kernel, its time beside the longest, its operators in short and with all values."""

    k: int
    row: Row
    relative: float
    computes: str
    values: str


@dataclass(frozen=True, slots=True)
class _ProgramLine:
    """A line of the step's text: whether it makes a value, and the kernel that computes that in its own place."""

    text: str
    is_value: bool
    k: int | None


def page_text(profile: StepProfile) -> str:
    """The page."""
    memory = profile.memory
    return (
        _environment()
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


def _environment() -> "Environment":
    """The templates, in which everything is escaped and nothing may be missing."""
    # It takes a while to load, and only this page needs it.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=PackageLoader("adjoint.profiling"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {name: getattr(figures, name) for name in _FILTERS}
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return environment


def _kernels(profile: StepProfile) -> Iterator[_KernelRow]:
    """The table's rows, the kernel that takes most first."""
    most = max((row.share for row in profile.rows), default=0.0) or 1.0
    for k in sorted(range(len(profile.rows)), key=lambda k: -profile.rows[k].nanoseconds):
        row = profile.rows[k]
        once = list(dict.fromkeys(row.operators))
        more = f" and {len(once) - _OPERATORS} more" if len(once) > _OPERATORS else ""
        values = ", ".join(f"{o} {n.removeprefix('%')}" for n, o in zip(row.kernel.values, row.operators, strict=True))
        yield _KernelRow(k, row, row.share / most, ", ".join(once[:_OPERATORS]) + more, values)


def _program(profile: StepProfile) -> Iterator[_ProgramLine]:
    """The graph line by line, with the kernel that computes each."""
    kernel_of = {name: k for k, row in reversed(list(enumerate(profile.rows))) for name in row.kernel.values}
    names = set(value_names(profile.step).values())
    for line in str(profile.step).splitlines():
        found = re.match(r"  (%(?:\"[^\"]*\"|[^\s:]+)): ", line)
        k = kernel_of.get(found[1]) if found is not None and found[1] in names else None
        yield _ProgramLine(line, found is not None, k)
