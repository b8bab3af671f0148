"""The generated blocks of README and docs, as Markdown, from the file of results; `publish.py` puts them in place."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from adjoint.pages.figures import amount
from benchmarks import breakdown, late, report, roster, serving, workloads
from benchmarks.cpus import cpus_origin, cpus_table
from benchmarks.run import PEER_FOLDER
from benchmarks.wording import TITLES, digits, enumeration, frameworks, peer_name, provenance_text, ratio

__all__ = ["BLOCKS"]

Results = Mapping[str, Any]


# ---- entries of sections


def _steps(results: Results) -> Iterator[dict[str, Any]]:
    """The entries of `run.py`, in the order of `workloads.WORKLOADS` and then of threads."""
    found = results.get("steps", {})
    for name in workloads.WORKLOADS:
        yield from (found[name][threads] for threads in sorted(found.get(name, ()), key=int))


def _where(results: Results) -> dict[str, dict[str, Any]]:
    """The entries of `where.py`, in the order of `workloads.WORKLOADS`."""
    found = results.get("where", {})
    return {name: found[name] for name in workloads.WORKLOADS if name in found}


# ---- complete steps


def steps_origin(results: Results) -> str:
    """When and where the complete steps were measured, and what takes part now but did not yet at that time."""
    entries = {report.title(entry): entry for entry in _steps(results)}
    return "\n\n".join(filter(None, (provenance_text(entries), _missing(entries.values()))))


def _missing(entries: Iterable[Mapping[str, Any]]) -> str:
    """The modes of peers that some entries lack."""
    missing: dict[str, None] = {}
    for entry in entries:
        there = {(cell["peer"], cell["mode"]) for cell in entry["cells"]}
        for peer in roster.find_peers([PEER_FOLDER], {}, {}).values():
            for mode in peer.modes if peer.name != roster.OURS else ():  # whose other modes are in the table of doors
                if peer.runs(mode, entry["workload"]) and (peer.name, mode) not in there:
                    missing[f"`{peer.name}:{mode}`"] = None
    return f"Not measured in every case: {enumeration(list(missing))}." if missing else ""


def steps_tables(results: Results) -> str:
    """A table for each workload and number of threads."""
    texts = []
    for entry in _steps(results):
        rows = [[_bold(cell) if row[0] == roster.OURS else cell for cell in row] for row in report.rows(entry)]
        remarks = "".join(f"\n\n{line}." for line in report.remarks(entry))
        texts.append(f"### {report.title(entry)}\n\n{breakdown.table(report.HEADINGS, 1, rows)}{remarks}")
    return "\n\n".join(texts)


def _bold(cell: str) -> str:
    return f"**{cell}**" if cell else ""


def _factor(value: float) -> str:
    """Two digits of a factor."""
    return f"{value:.1f}" if value < 9.95 else f"{float(f'{value:.2g}'):,.0f}"


def _ours(entry: Mapping[str, Any]) -> dict[str, Any]:
    return next(cell for cell in entry["cells"] if cell["peer"] == roster.OURS)


def summary(results: Results) -> str:
    """The README's table: a row for each workload."""
    found, rows = results.get("steps", {}), []
    for name in (name for name in workloads.WORKLOADS if name in found):
        row = [TITLES[name]]
        for threads in ("1", "2"):
            entry = found[name].get(threads)
            best = report.best_cell(entry) if entry else None
            row.append(digits(_ours(entry)["steps_per_second"]) if entry else "-")
            row.append(f"{ratio(best['adjoint_is']['ratio'])} {peer_name(best)}" if best else "-")
        entry = found[name].get("1")
        row += report.rows({**entry, "cells": [_ours(entry)]})[0][-3:] if entry else ["-"] * 3
        rows.append(row)
    heads = ["workload", "steps/s, 1 thread", "vs. fastest peer", "steps/s, 2 threads", "vs. fastest peer"]
    return breakdown.table([*heads, "first loss", "cached", "memory"], 1, rows)


def doors_origin(results: Results) -> str:
    """When and where the doors were measured."""
    return provenance_text({report.title(entry): entry for entry in _doors(results)})


def _doors(results: Results) -> Iterator[dict[str, Any]]:
    """The entries of ``run.py --section doors``."""
    found = results.get("doors", {})
    for name in workloads.WORKLOADS:
        yield from (found[name][threads] for threads in sorted(found.get(name, ()), key=int))


#: Columns of the table of doors: a heading, the peer and its mode.
DOORS = {
    "graphs": ("adjoint", "step"),
    "`jit`": ("adjoint", "jit"),
    "objects": ("adjoint", "objects"),
    "PyTorch eager": ("torch", "eager"),
    "`torch.compile`": ("torch", "compile"),
    "JAX": ("jax", "jit"),
}


def doors(results: Results) -> str:
    """Steps per second through each door of adjoint, and of peers that are used in the same way."""
    rows = []
    for entry in _doors(results):
        cells = {(cell["peer"], cell["mode"]): cell for cell in report.measured_cells(entry)}
        rates = [cells[key]["steps_per_second"] if key in cells else None for key in DOORS.values()]
        rows.append([TITLES[entry["workload"]], *("-" if rate is None else digits(rate) for rate in rates)])
    return breakdown.table(["steps/s, 1 thread", *DOORS], 1, rows)


def summary_notes(results: Results) -> str:
    """What all tables have in common: who was fastest, how slow the others were, and memory."""
    found = [(entry, best) for entry in _steps(results) if (best := report.best_cell(entry)) is not None]
    fastest = {best["peer"] for _, best in found}
    slower = [c for entry, _ in found for c in report.measured_cells(entry) if c["peer"] not in (*fastest, roster.OURS)]
    text = f"The fastest peer was {' or '.join(frameworks(fastest))} in every case"
    if slower:
        ratios, names = [cell["adjoint_is"]["ratio"] for cell in slower], frameworks(cell["peer"] for cell in slower)
        text += f"; adjoint is {_factor(min(ratios))} to {_factor(max(ratios))} times as fast as {enumeration(names)}"
    least = [
        _ours(entry)["peak_bytes"] <= min(cell["peak_bytes"] for cell in report.measured_cells(entry))
        for entry, _ in found
    ]
    often = "every measurement" if all(least) else f"{sum(least)} of {len(least)} measurements"
    imports = sorted(
        {f"{_ours(entry)['import_s']:.2f} s" for entry, _ in found if _ours(entry)["import_s"] is not None}
    )
    text += f". Its process needs the least memory in {often}"
    return text + (f", and `import adjoint` takes {enumeration(imports)}." if imports else ".")


def limits(results: Results) -> str:
    """What the core's peak leaves for ratios, if it was measured on the same kind of machine; empty otherwise."""
    steps, where = results.get("steps", {}), _where(results)
    mlp, resnet = (steps.get(name, {}).get("1") for name in ("mlp", "resnet"))
    best = report.best_cell(mlp) if mlp else None
    if best is None or not resnet or "mlp" not in where or not _same_cpu([mlp, resnet, where["mlp"]]):
        return "The core's peak was not measured on the machine of these tables."
    peak, ours = where["mlp"]["peaks"]["gflops"], _ours(resnet)["steps_per_second"]
    least, direct = mlp["flops"] / peak / 1e3, resnet["flops"] / peak / 1e6
    attainable = 1e6 / best["steps_per_second"] / least
    return (
        f"The core's peak limits these ratios. At {peak:.0f} GFLOP/s ([where the time goes](where-time-goes.md)), the "
        f"multiply-adds of the MLP take {least:.0f} µs, so no program that computes them all on one core can be more "
        f"than about {attainable:.1f} times as fast as {peer_name(best)}. ResNet-20's convolutions would take "
        f"{direct:.0f} ms as direct sums; with fewer products ([contractions](design/contractions.md)), the whole step "
        f"takes {1e3 / ours:.0f} ms."
    )


def _same_cpu(entries: list[Mapping[str, Any]]) -> bool:
    return len({(e["run"]["machine"]["cpu"], e["run"]["machine"]["llvm_cpu"]) for e in entries}) == 1


# ---- kernels, and programs


def where_machine(results: Results) -> str:
    """When and where the kernels were measured, and the peaks of the machine."""
    entries = {f"`{name}`": entry for name, entry in _where(results).items()}
    return provenance_text(entries, breakdown.machine_text)


def programs(results: Results) -> str:
    """What the compiler makes of each workload."""
    facts = results["programs"]
    rows = [
        (
            f"`{name}`",
            *(f"{one[key]:,}" for key in ("kernels", "distinct", "barriers")),
            *(amount(one[key]) for key in ("arena_bytes", "scratch_bytes", "parameter_bytes")),
        )
        for name, one in facts["workloads"].items()
    ]
    heads = ("workload", "kernels", "distinct", "barriers", "arena", "scratch per thread", "updated in place")
    return f"Target `{facts['target']}`:\n\n{breakdown.table(heads, 1, rows)}"


def coalescing(results: Results) -> str:
    """Kernels before and after small serial ones are fused."""
    facts = results["programs"]
    rows = [
        (f"`{name}`", *(f"{one[key]:,}" for key in ("uncoalesced", "kernels")))
        for name, one in facts["workloads"].items()
    ]
    return breakdown.table(("workload", "kernels before", "after"), 1, rows)


def serving_table(results: Results) -> str:
    """What prediction costs, for each model and number of rows."""
    rows = [cells for name, entry in results["serving"].items() for cells in serving.table_rows(name, entry)]
    return breakdown.table(serving.HEADINGS, 1, rows)


def serving_machine(results: Results) -> str:
    """When and where prediction was measured."""
    return provenance_text({f"`{name}`": entry for name, entry in results["serving"].items()})


# ---- steps late in training


def _late(results: Results) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The entries of `late.py`: workload, optimizer and measurement."""
    found = results.get("late", {})
    for name in (name for name in workloads.WORKLOADS if name in found):
        yield from ((name, optimizer, entry) for optimizer, entry in found[name].items())


def late_origin(results: Results) -> str:
    """When and where steps late in training were measured."""
    return provenance_text({f"{name}, {optimizer}": entry for name, optimizer, entry in _late(results)})


def late_table(results: Results) -> str:
    """Times of steps at the start of training and late."""
    rows = [late.Late(**entry["measured"]).row(name, optimizer) for name, optimizer, entry in _late(results)]
    return breakdown.table(late.HEADINGS, 2, rows)


# ---- programs and models of other frameworks


#: Frameworks as they call themselves, in the order of the table.
PORTED = {"tvm": "TVM", "mindspore": "MindSpore", "oneflow": "OneFlow", "torch": "PyTorch", "tensorflow": "TensorFlow"}


def compat_origin(results: Results) -> str:
    """When and where the programs with changed imports were measured."""
    found = results.get("compat", {})
    return provenance_text({PORTED[name]: found[name] for name in PORTED if name in found})


def compat_table(results: Results) -> str:
    """Steps per second of programs with changed imports, of adjoint's own words, and of the frameworks."""
    rows = []
    for name in (name for name in PORTED if name in results.get("compat", {})):
        rates = results["compat"][name]["rates"]
        row = [PORTED[name], *(digits(statistics.median(rates[kind])) for kind in ("compat", "adjoint"))]
        row.append(f"{_median_ratio(rates['compat'], rates['adjoint']):.2f}")
        theirs = rates.get("framework")
        row.append(digits(statistics.median(theirs)) if theirs else "-")
        row.append(ratio(_median_ratio(rates["compat"], theirs)) if theirs else "-")
        rows.append(row)
    heads = ["program of", "steps/s", "in adjoint's words", "ratio", "in the framework", "vs. the framework"]
    return breakdown.table(heads, 1, rows)


def _median_ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def from_torch_origin(results: Results) -> str:
    """When and where PyTorch's models were measured."""
    found = results.get("from_torch", {})
    entries = {f"{name}, {threads}": one for name, two in found.items() for threads, one in two.items()}
    versions = enumeration(sorted({one["torch"] for one in entries.values()}))
    return f"{provenance_text(entries)} PyTorch {versions}."


def from_torch_table(results: Results) -> str:
    """How the losses of PyTorch's models agree, and the times of their steps."""
    found = {name: one for name, one in results.get("from_torch", {}).items() if "1" in one}
    measured = [threads for threads in ("1", "2") if any(threads in one for one in found.values())]
    rows = []
    for name, by_threads in found.items():
        row = [name, *(f"{by_threads['1'][key]:.0e}" for key in ("loss", "weights"))]
        for threads in measured:
            seconds = by_threads.get(threads, {}).get("seconds")
            row.append(report.step_time(1 / seconds["adjoint"]) if seconds else "-")
            row += [ratio(seconds[kind] / seconds["adjoint"]) if seconds else "-" for kind in ("eager", "compile")]
        rows.append(row)
    heads = ["model", "losses differ by", "weights by"]
    for threads in measured:
        step = f"step, {threads} thread{'s' if threads != '1' else ''}"
        heads += [step, "vs. eager", "vs. `torch.compile`"]
    return breakdown.table(heads, 1, rows)


def _workload_block(name: str) -> Callable[[Results], str]:
    return lambda results: breakdown.workload_text(results["where"][name])


#: Every block by name.
BLOCKS: dict[str, Callable[[Results], str]] = {
    "steps/origin": steps_origin,
    "steps/tables": steps_tables,
    "steps/limits": limits,
    "doors/origin": doors_origin,
    "doors/table": doors,
    "summary/table": summary,
    "summary/notes": summary_notes,
    "cpus/origin": cpus_origin,
    "cpus/table": cpus_table,
    "compat/origin": compat_origin,
    "compat/table": compat_table,
    "from_torch/origin": from_torch_origin,
    "from_torch/table": from_torch_table,
    "late/origin": late_origin,
    "late/table": late_table,
    "programs": programs,
    "programs/coalescing": coalescing,
    "serving/machine": serving_machine,
    "serving/table": serving_table,
    "where/machine": where_machine,
    "where/summary": lambda results: breakdown.summary_text(_where(results)),
    **{f"where/{name}": _workload_block(name) for name in workloads.WORKLOADS},
}
