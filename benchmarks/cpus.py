"""The blocks of results by kind of CPU: the newest ones of each kind side by side."""

from collections.abc import Mapping
from typing import Any

from benchmarks import breakdown, report, roster, workloads
from benchmarks.record import OTHERS, kind
from benchmarks.wording import TITLES, digits, provenance_text, ratio

__all__ = ["cpus_origin", "cpus_table"]

Results = Mapping[str, Any]

#: Kinds of CPUs as their vendors call them; others keep LLVM's name.
CPUS = {
    "skylake-avx512": "Intel Skylake",
    "cascadelake": "Intel Cascade Lake",
    "icelake-server": "Intel Ice Lake",
    "sapphirerapids": "Intel Sapphire Rapids",
    "emeraldrapids": "Intel Emerald Rapids",
    "graniterapids": "Intel Granite Rapids",
    "znver2": "AMD Zen 2",
    "znver3": "AMD Zen 3",
    "znver4": "AMD Zen 4",
    "znver5": "AMD Zen 5",
}


def _steps(results: Results) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The steps on one thread, by kind of CPU, that of the newest results first, and workload."""
    current = results.get("steps", {})
    others = {cpu: sections.get("steps", {}) for cpu, sections in results.get(OTHERS, {}).items()}
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for section in (current, *others.values()):
        for name in (name for name in workloads.WORKLOADS if "1" in section.get(name, ())):
            found.setdefault(kind(section[name]["1"]) or "", {})[name] = section[name]["1"]
    return dict(
        sorted(found.items(), key=lambda item: max(one["run"]["time"] for one in item[1].values()), reverse=True)
    )


def cpus_origin(results: Results) -> str:
    """When and where the steps were measured on each kind of CPU."""
    entries = {
        f"{CPUS.get(cpu, cpu)}, {name}": entry
        for cpu, found in _steps(results).items()
        for name, entry in found.items()
    }
    return provenance_text(entries)


def cpus_table(results: Results) -> str:
    """Steps per second on one thread, and the ratio to the fastest peer there: a column for each kind of CPU."""
    found = _steps(results)
    rows = [
        [TITLES[name], *(_cell(by_name.get(name)) for by_name in found.values())]
        for name in workloads.WORKLOADS
        if any(name in by_name for by_name in found.values())
    ]
    return breakdown.table(["steps/s, 1 thread", *(CPUS.get(cpu, cpu) for cpu in found)], 1, rows)


def _cell(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "-"
    ours = next((cell for cell in report.measured_cells(entry) if cell["peer"] == roster.OURS), None)
    best = report.best_cell(entry)
    rate = digits(ours["steps_per_second"]) if ours else "-"
    return f"{rate} ({ratio(best['adjoint_is']['ratio'])})" if best else rate
