"""CPUs that tests plan for, and vector widths that they run code of.

What this CPU lacks is skipped, and the summary of a run says so.
"""

from collections import Counter
from dataclasses import replace

import pytest

from adjoint.codegen.cores import core_of
from adjoint.codegen.targets import host_target, target_for
from adjoint.kernel.target import Cache, Target

__all__ = ["AVX2", "AVX512", "KINDS", "SSE2", "levels", "needs", "pytest_terminal_summary", "shared_among_levels"]

#: Bytes of a vector at each level of x86-64.
WIDTHS = {"avx512": 64, "avx2": 32, "sse2": 16}
_REASON = "this CPU has no level "


def missing(level):
    """Whether this CPU cannot run code of a level."""
    host = host_target()
    return not host.triple.startswith("x86_64") or WIDTHS[level] > host.vector_bytes


def needs(level):
    """Skip what follows in a test where this CPU cannot run code of a level."""
    if missing(level):
        pytest.skip(_REASON + level)


def levels():
    """Every level to parametrize a test with, skipped where this CPU lacks it; on other machines only their own."""
    if not host_target().triple.startswith("x86_64"):
        return ["host"]
    return [pytest.param(n, marks=pytest.mark.skip(reason=_REASON + n)) if missing(n) else n for n in WIDTHS]


def shared_among_levels(cases):
    """Pairs of a case and a level: every case at the widest level that this CPU has, and at one of the narrower ones.

    For tests of many cases whose plans depend on the width, but which need not all meet at every level.
    """
    if not host_target().triple.startswith("x86_64"):
        return [(case, "host") for case in cases]
    widest, *narrower = (level for level in WIDTHS if not missing(level))
    return [(case, level) for n, case in enumerate(cases) for level in (widest, *narrower[n % 2 :][:1])]


def pytest_terminal_summary(terminalreporter):
    """One line that says what was not run, where something was not."""
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()) if report.longrepr]
    counts = Counter(reason.split(_REASON)[1] for reason in reasons if _REASON in reason)
    if counts:
        parts = ", ".join(f"{level} ({counts[level]} tests)" for level in WIDTHS if level in counts)
        terminalreporter.write_line(f"hardware levels not run on this CPU: {parts}")


AVX512 = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32)
AVX2 = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16)
SSE2 = Target("x86_64-unknown-linux-gnu", "x86-64", "", 16, 16)

#: The caches of a Cascade Lake with 26 cores.
MESH_CACHES = (Cache(1, 32 << 10, 8), Cache(2, 1 << 20, 16), Cache(3, 36608 << 10, 11, shared=True))

#: Kinds of CPUs: vectors as wide as the units, with a slow third-level cache, twice as wide as the units, and of fewer
#: and smaller registers.
KINDS = {
    "avx512": AVX512,
    "avx512 on a mesh": replace(AVX512, **core_of("cascadelake").facts, caches=MESH_CACHES),
    "avx512 on units of 256 bits": replace(AVX512, fma_units=1, load_units=1, datapath_bytes=32, cores=8),
    "avx2": AVX2,
    "sse2": SSE2,
    "neon": target_for("neon"),
    "scalar": Target("riscv64-unknown-linux-gnu", "generic-rv64", "", 4, 32),
}
