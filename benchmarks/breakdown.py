"""Where the time goes, as Markdown: the tables of docs/where-time-goes.md from the entries that `where.py` wrote."""

from collections.abc import Mapping, Sequence
from typing import Any

from adjoint.pages.figures import duration, micros, percent, rate
from adjoint.training.parts import PARTS
from benchmarks.report import DISTURBED

__all__ = ["machine_text", "summary_text", "table", "workload_text"]


def table(heads: Sequence[str], left: int, rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first `left` columns are flush left and the others flush right."""
    rule = ["---"] * left + ["--:"] * (len(heads) - left)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


def _time(micro: float) -> str:
    """A time in µs, with the unit that suits it."""
    return duration(1e3 * micro)


def _micros(micro: float) -> str:
    return micros(1e3 * micro)


def workload_text(entry: Mapping[str, Any]) -> str:
    """A workload: a line about the step, its hottest kernels, and all of them by operator."""
    hottest, count = entry["hottest"], entry["kernels"]
    share = percent(entry["hottest_share"])
    which = f"the {len(hottest)} longest-running take {share} of that" if count > len(hottest) else "all are below"
    line = (
        f"A step takes {_time(entry['step_us'])}. Its {count} kernels take {_time(entry['kernels_us'])} together "
        f"({rate(entry['gflops'])} GFLOP/s); {which}. At the machine's peaks they would take at least "
        f"{_time(entry['least_us'])}: {percent(entry['attained'])}."
    )
    heads = ("kernel", "computes", "part", "µs", "share", "least µs", "GFLOP/s", "GB/s", "of the peak", "bound by")
    rows = [
        (
            f"`{kernel['name']}`",
            kernel["computes"],
            kernel["part"],
            _micros(kernel["us"]),
            percent(kernel["share"]),
            _micros(kernel["least_us"]),
            rate(kernel["gflops"]),
            rate(kernel["gbytes"]),
            percent(kernel["attained"]),
            kernel["bound_by"],
        )
        for kernel in hottest
    ]
    kinds = f"\n\n{_kinds_table(entry['around'])}" if count > len(hottest) else ""
    return f"{line}\n\n{table(heads, 3, rows)}{kinds}"


def _kinds_table(kinds: Sequence[Mapping[str, Any]]) -> str:
    """Kernels by the operator that each is built around."""
    rows = [
        (
            kind["operator"],
            str(kind["kernels"]),
            _micros(kind["us"]),
            percent(kind["share"]),
            _micros(kind["least_us"]),
            percent(kind["attained"]),
        )
        for kind in kinds
    ]
    return table(("around", "kernels", "µs", "share", "least µs", "of the peak"), 1, rows)


def summary_text(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each workload."""
    parts = [part for part in PARTS if any(part in entry["parts"] for entry in entries.values())]
    heads = ("workload", "step", "kernels", *parts, "least", "least / kernels", "machine at")
    rows = [
        (
            f"`{name}`",
            _time(entry["step_us"]),
            _time(entry["kernels_us"]),
            *(percent(entry["parts"][part]) if part in entry["parts"] else "-" for part in parts),
            _time(entry["least_us"]),
            percent(entry["attained"]),
            percent(entry["peaks"]["pace"]),
        )
        for name, entry in entries.items()
    ]
    return table(heads, 1, rows)


def machine_text(entry: Mapping[str, Any]) -> str:
    """The peaks of the machine on which an entry was measured."""
    peaks, others = entry["peaks"], entry["others"]
    levels = ", ".join(f"{name} {rate(gbytes)}" for name, gbytes in peaks["gbytes"].items())
    doubt = f" Others took {percent(others)} of the core meanwhile: measure again." if others > DISTURBED else ""
    return f"One core computes at most {rate(peaks['gflops'])} GFLOP/s and transfers, in GB/s, {levels}.{doubt}"
