"""What a CPU cannot run is skipped and told, never left out in silence."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from adjoint.codegen.targets import host_target
from tests import hardware

NARROW = replace(host_target(), triple="x86_64-unknown-linux-gnu", vector_bytes=32)


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(hardware, "host_target", lambda: NARROW)


def test_levels_that_are_missing_are_parameters_that_are_skipped():
    first, *others = hardware.levels()
    assert others == ["avx2", "sse2"]
    assert first.values == ("avx512",)
    assert [mark.kwargs for mark in first.marks] == [{"reason": "this CPU has no level avx512"}]
    hardware.needs("avx2")
    with pytest.raises(pytest.skip.Exception, match="this CPU has no level avx512"):
        hardware.needs("avx512")


def test_the_summary_counts_them_in_one_line():
    reports = [SimpleNamespace(longrepr=("f.py", 1, f"Skipped: {reason}")) for reason in
               ("this CPU has no level avx512", "no dataset", "this CPU has no level avx512")]  # fmt: skip
    lines = []
    hardware.pytest_terminal_summary(SimpleNamespace(stats={"skipped": reports}, write_line=lines.append))
    assert lines == ["hardware levels not run on this CPU: avx512 (2 tests)"]
    hardware.pytest_terminal_summary(SimpleNamespace(stats={}, write_line=lines.append))
    assert len(lines) == 1
