"""A profile as one HTML page: it needs no network, no server, and to be read not even its script."""

import json
import re
from collections.abc import Iterator

from adjoint.ir.printer import value_names
from adjoint.profiling.arena import arena_svg
from adjoint.profiling.drawing import graph_svg
from adjoint.profiling.markup import amount, clipped, duration, micros, part_class, percent, rate, tag, words
from adjoint.profiling.roofline import roofline_svg
from adjoint.profiling.step import Row, StepProfile
from adjoint.profiling.style import SCRIPT, STYLE

__all__ = ["page_text"]

#: Operators of a kernel that its row shows.
_OPERATORS = 6

#: Kernels up to which the strip keeps them apart.
_APART = 80

#: Head of each column of the table, whether it holds words, and what it is (the tooltip).
_COLUMNS = (
    ("#", False, "place in the step"),
    ("kernel", True, "its name"),
    ("part", True, "of the step"),
    ("µs", False, "mean of the middle half of the runs"),
    ("share", False, "of the time of all kernels"),
    ("GFLOP/s", False, "floating-point operations"),
    ("GB/s", False, "bytes read and written, each once"),
    ("op/byte", False, "operations a byte"),
    ("roofline", False, "share of what the machine allows at so many operations a byte"),
    ("computes", True, "operators of the graph"),
)


def page_text(profile: StepProfile) -> str:
    """The page."""
    data = json.dumps(profile.as_dict())
    # Inside a script element nothing is escaped but what could end it.
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    body = tag(
        "main",
        *_head(profile),
        *_time(profile),
        *_section("Kernels", _ABOUT_KERNELS, _table(profile), ""),
        *_section("Roofline", _ABOUT_ROOFLINE, roofline_svg(profile.rows, profile.peaks), "wide"),
        *_section("Graph", _ABOUT_GRAPH, graph_svg(profile.rows, profile.edges), "graph"),
        *_section("Memory", _about_memory(profile), _arena(profile), "wide"),
        _program(profile),
    )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
            tag("title", words(f"{profile.title} · adjoint profile")),
            f"<style>\n{STYLE}\n</style></head>",
            "<body>",
            body,
            '<div id="tip" hidden></div>',
            f'<script type="application/json" id="profile">{data}</script>',
            f"<script>\n{SCRIPT}\n</script>",
            "</body></html>",
            "",
        ]
    )


_ABOUT_KERNELS = (
    "One row is one kernel of the compiled step. Click a head to sort; point at a kernel anywhere on this page to find "
    "it everywhere else."
)
_ABOUT_ROOFLINE = (
    "Each kernel under what this machine allows, both measured by adjoint. The area of a dot is its share of the "
    "time. A dot at the flat roof is bound by arithmetic, one at a slope by that level of memory; one far below both "
    "is where there is something to win, if it is large."
)
_ABOUT_GRAPH = (
    "Kernels that read what others wrote. The redder a box, the more time it takes; a line is the thicker the more "
    "bytes go over it. Lines from left to right are activations kept for the backward pass."
)


def _about_memory(profile: StepProfile) -> str:
    memory = profile.memory
    excess = memory.arena / memory.arena_bound - 1 if memory.arena_bound else 0.0
    least = "which no plan can go below" if excess <= 0 else f"{percent(excess)} above the least possible (dashed)"
    return (
        f"Everything between inputs and results lives in one arena of {amount(memory.arena)}, {least}. A rectangle is "
        "a buffer: its height is its size, its place is its address, from the first kernel that uses it to the last. "
        f"Beside it the threads need {amount(memory.scratch)} of scratch memory of their own, and the step "
        f"{amount(memory.donated)} of parameters and states, updated in place, and "
        f"{amount(memory.arguments + memory.results)} of inputs and results."
    )


def _section(title: str, about: str, content: str, kind: str) -> Iterator[str]:
    yield tag("h2", words(title))
    yield tag("p", words(about))
    yield tag("div", content, class_=f"card {kind}".strip())


def _head(profile: StepProfile) -> Iterator[str]:
    peaks = profile.peaks
    count = "one thread" if profile.threads == 1 else f"{profile.threads} threads"
    runs = "one run" if profile.runs == 1 else f"{profile.runs} runs"
    about = (
        f"{peaks.cpu}, {peaks.vector_bits}-bit vectors, {count}, {runs}; "
        f"the machine was at {percent(profile.pace)} of its peak meanwhile."
    )
    yield tag("div", "adjoint profile", class_="brand")
    yield tag("h1", words(profile.title))
    yield tag("p", words(about))
    yield tag("div", *(_tile(value, what) for value, what in _tiles(profile)), class_="tiles")


def _tile(value: str, what: str) -> str:
    return tag("div", tag("b", words(value), class_="number"), tag("span", words(what)), class_="tile")


def _tiles(profile: StepProfile) -> Iterator[tuple[str, str]]:
    if profile.threads == 1:
        yield duration(profile.nanoseconds), "a step"
    else:
        yield duration(profile.wall), f"a step, {duration(profile.waiting)} of it waiting"
    yield f"{rate(profile.gflops)} GFLOP/s", f"of {rate(profile.peaks.gflops)} at most"
    yield percent(profile.attained), "of the roofline"
    yield amount(profile.memory.working), "of working memory"
    yield f"{len(profile.rows)}", "kernels"


def _time(profile: StepProfile) -> Iterator[str]:
    """The step as a strip of kernels in order, and its parts."""
    pieces = []
    for k, row in enumerate(profile.rows):
        label = clipped(row.kernel.name, row.share * 1100 - 10, 12)
        pieces.append(
            tag("i", words(label), class_=part_class(row.part), style=f"flex-grow:{row.share:.5f}", data_k=k)
        )  # fmt: skip
    yield tag("div", *pieces, class_="strip" if len(pieces) <= _APART else "strip close")
    totals = []
    for total in profile.totals:
        kernels = "1 kernel" if total.kernels == 1 else f"{total.kernels} kernels"
        rest = tag("span", words(f" {duration(total.nanoseconds)} in {kernels}"))
        totals.append(
            tag("li", tag("b", words(f"{total.part} {percent(total.share)}")), rest, class_=part_class(total.part))
        )  # fmt: skip
    yield tag("ul", *totals, class_="legend")


def _table(profile: StepProfile) -> str:
    heads = []
    for name, is_words, what in _COLUMNS:
        heads.append(
            tag(
                "th", tag("button", words(name), type="button", title=what), scope="col",
                class_=None if is_words else "n", data_kind="words" if is_words else None,
                aria_sort="descending" if name == "µs" else None,
            )
        )  # fmt: skip
    order = sorted(range(len(profile.rows)), key=lambda k: -profile.rows[k].nanoseconds)
    most = max((row.share for row in profile.rows), default=0.0) or 1.0
    rows = [_row(k, profile.rows[k], most) for k in order]
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))


def _row(k: int, row: Row, most: float) -> str:
    def number(text: str, value: float, bar: str = "") -> str:
        return tag("td", bar, tag("span", words(text), class_="v"), class_="n", data_v=f"{value:.6g}")

    def word(text: str, class_: str | None = None) -> str:
        return tag("td", words(text), class_=class_, data_v=text)

    return tag(
        "tr",
        number(f"{k}", k),
        word(row.kernel.name),
        tag("td", tag("span", words(row.part), class_=f"part {part_class(row.part)}"), data_v=row.part),
        number(micros(row.nanoseconds), row.nanoseconds),
        number(percent(row.share), row.share, _bar(row.share / most, part_class(row.part))),
        number(rate(row.gflops), row.gflops),
        number(rate(row.gbytes), row.gbytes),
        number(rate(row.intensity), row.intensity),
        number(percent(row.attained), row.attained, _bar(min(row.attained, 1.0))),
        _computes(row),
        data_k=k,
    )


def _computes(row: Row) -> str:
    """The operators, each once; all of them and the values' names where one points."""
    once = list(dict.fromkeys(row.operators))
    text = ", ".join(once[:_OPERATORS]) + (f" and {len(once) - _OPERATORS} more" if len(once) > _OPERATORS else "")
    whole = ", ".join(f"{o} {n.removeprefix('%')}" for n, o in zip(row.kernel.values, row.operators, strict=True))
    return tag("td", words(text), class_="wrap", data_v=text, title=whole)


def _bar(share: float, class_: str = "") -> str:
    return tag("span", tag("i", style=f"width:{100 * share:.1f}%"), class_=f"bar {class_}".strip())


def _arena(profile: StepProfile) -> str:
    memory = profile.memory
    if not profile.blocks:
        return tag("p", "This step keeps nothing between its kernels.")
    return arena_svg(profile.rows, profile.blocks, memory.arena, memory.arena_bound)


def _program(profile: StepProfile) -> str:
    """The graph line by line, with the kernel that computes each."""
    kernel_of = {name: k for k, row in reversed(list(enumerate(profile.rows))) for name in row.kernel.values}
    names = set(value_names(profile.step).values())
    lines = []
    for line in str(profile.step).splitlines():
        found = re.match(r"  (%(?:\"[^\"]*\"|[^\s:]+)): ", line)
        k = kernel_of.get(found[1]) if found is not None and found[1] in names else None
        if k is None:
            lines.append(tag("div", tag("span"), words(line), class_="spot" if found else None))
            continue
        row = profile.rows[k]
        margin = tag("span", words(row.kernel.name), class_=part_class(row.part))
        lines.append(tag("div", margin, words(line), data_k=k))
    about = (
        "What the kernels compute, after simplification. At the left, the kernel of each value; a grey one has no "
        "place of its own, it is computed wherever it is read."
    )
    text = tag("div", tag("div", *lines, class_="text"), class_="card")
    return tag("details", tag("summary", "The step, line by line"), tag("p", about), text)
