"""`benchmarks/where.py`: what it measures of a step, and the tables that are made of it."""

import re

import pytest
from rich.console import Console

from adjoint.training.parts import PARTS, STEP
from benchmarks import breakdown, record, where


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    """The entries of two workloads, measured one after the other."""
    path = tmp_path_factory.mktemp("results") / "results.json"
    for name in ("mlp", "linreg"):
        with open("/dev/null", "w") as nowhere:
            arguments = ["--workloads", name, "--runs", "4", "--seconds", "0.005", "--json", str(path), "--allow-dirty"]
            assert where.main(arguments, Console(file=nowhere)) == 0
    return record.load(path)["where"]


def rows(text, first):
    """Cells of the table whose first head is `first`, by head."""
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {first} |"))
    heads = [cell.strip() for cell in lines[start].strip("|").split("|")]
    table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append(dict(zip(heads, (cell.strip() for cell in line.strip("|").split("|")), strict=True)))
    return table


def test_the_hottest_kernels_come_first_and_shares_are_of_all(entries):
    text = breakdown.workload_text(entries["mlp"])
    kernels = rows(text, "kernel")
    times = [float(row["µs"]) for row in kernels]
    assert len(kernels) == where.HOTTEST
    assert times == sorted(times, reverse=True)
    product = next(row for row in kernels if row["part"] == "forward" and row["computes"].startswith("matmul"))
    # The first layer: 64x784 @ 784x128, beside what is fused behind it.
    assert float(product["µs"]) * float(product["GFLOP/s"]) * 1e3 == pytest.approx(2 * 64 * 784 * 128, rel=0.03)
    assert product["bound by"] == "multiply-adds"
    kinds = rows(text, "around")
    assert kinds[0]["around"] == "matmul"
    assert float(kinds[0]["µs"].replace(",", "")) >= times[0]


def test_the_summary_has_a_row_a_workload_whose_parts_are_shares(entries):
    found = {row["workload"]: row for row in rows(breakdown.summary_text(entries), "workload")}
    assert list(found) == ["`mlp`", "`linreg`"]
    # linreg's kernels take less than a clock can tell, so that shares of them may be 0.
    mlp = found["`mlp`"]
    shares = {part: float(mlp[part].rstrip("%")) for part in PARTS if part != STEP and part in mlp}
    assert sum(shares.values()) == pytest.approx(100, abs=2)
    assert min(shares["forward"], shares["backward+update"]) > 5
    assert re.fullmatch(r"[\d.]+ (µs|ms)", found["`mlp`"]["step"])


def test_entries_say_what_they_were_measured_on(entries):
    text = breakdown.machine_text(entries["mlp"])
    assert re.match(r"One core computes at most [\d.]+ GFLOP/s and transfers, in GB/s, L1 [\d.]+.* memory [\d.]+", text)
    assert entries["mlp"]["run"]["command"].startswith("python benchmarks/where.py --workloads mlp --runs 4")
    assert entries["mlp"]["run"]["settings"] == entries["linreg"]["run"]["settings"] == {"runs": 4, "seconds": 0.005}


def test_a_disturbed_measurement_says_so(entries):
    quiet = {**entries["mlp"], "others": 0.05}
    assert "measure again" not in breakdown.machine_text(quiet)
    assert "Others took 25% of the core" in breakdown.machine_text({**quiet, "others": 0.25})


def test_the_least_time_is_that_of_operations_or_bytes():
    measured = where.measure("linreg", 2, 0.001)
    peaks = measured.profile.peaks
    nearest = peaks.levels[0]
    kernels = [row.kernel for row in measured.profile.rows]
    assert measured.least == pytest.approx(sum(max(k.flops / peaks.gflops, k.bytes / nearest.gbytes) for k in kernels))
    assert {where.limit_of(row, peaks) for row in measured.profile.rows} <= {"multiply-adds", nearest.name}
    assert 10 < measured.step < 1e6


def test_results_of_changed_sources_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record, "_changes", lambda: ["src/a.py"])
    with pytest.raises(SystemExit) as stopped:
        where.main(["--json", str(tmp_path / "out.json")])
    assert stopped.value.code == 2
    assert "src/a.py changed" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--runs", "0"], ["--seconds", "0"]])
def test_wrong_options_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        where.main(arguments)
    assert stopped.value.code == 2
    assert "--runs is from 1" in capsys.readouterr().err
