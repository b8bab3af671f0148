"""`benchmarks/where.py`: a page's sections are rewritten with what was measured, and nothing else of it changes."""

import re

import pytest
from rich.console import Console

from adjoint.profiling.parts import PARTS, STEP
from benchmarks import where, workloads

PAGE = """\
# Words

before
<!-- where: machine -->
old
<!-- end -->
<!-- where: summary -->
<!-- end -->
between

<!-- where: mlp -->

| old | table |
<!-- end -->
<!-- where: linreg -->
<!-- end -->
after
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page after two runs: the second finds what the first wrote."""
    path = tmp_path_factory.mktemp("page") / "page.md"
    path.write_text(PAGE)
    for _ in range(2):
        with open("/dev/null", "w") as nowhere:
            arguments = ["--page", str(path), "--runs", "4", "--seconds", "0.005"]
            assert where.main(arguments, Console(file=nowhere)) == 0
    return path.read_text()


def section(page, name):
    return re.search(rf"<!-- where: {name} -->\n(.*?)<!-- end -->", page, re.DOTALL)[1]


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


def test_the_rest_of_the_page_stays(page):
    blank = re.compile(r"(<!-- where: \w+ -->\n).*?(<!-- end -->)", re.DOTALL)
    assert blank.sub(r"\1\2", page) == blank.sub(r"\1\2", PAGE)
    assert "old" not in page


def test_the_hottest_kernels_come_first_and_shares_are_of_all(page):
    kernels = rows(section(page, "mlp"), "kernel")
    times = [float(row["µs"]) for row in kernels]
    assert len(kernels) == where.HOTTEST
    assert times == sorted(times, reverse=True)
    product = next(row for row in kernels if row["part"] == "forward" and row["computes"].startswith("matmul"))
    # The first layer: 64x784 @ 784x128, beside what is fused behind it.
    assert float(product["µs"]) * float(product["GFLOP/s"]) * 1e3 == pytest.approx(2 * 64 * 784 * 128, rel=0.03)
    assert product["bound by"] == "multiply-adds"
    kinds = rows(section(page, "mlp"), "around")
    assert kinds[0]["around"] == "matmul"
    assert float(kinds[0]["µs"].replace(",", "")) >= times[0]


def test_the_summary_has_a_row_a_workload_whose_parts_are_shares(page):
    found = {row["workload"]: row for row in rows(section(page, "summary"), "workload")}
    assert list(found) == ["`mlp`", "`linreg`"]
    # linreg's kernels take less than a clock can tell, so that shares of them may be 0.
    mlp = found["`mlp`"]
    shares = {part: float(mlp[part].rstrip("%")) for part in PARTS if part != STEP and part in mlp}
    assert sum(shares.values()) == pytest.approx(100, abs=2)
    assert min(shares["forward"], shares["backward+update"]) > 5
    assert re.fullmatch(r"[\d.]+ (µs|ms)", found["`mlp`"]["step"])


def test_the_machine_is_named_with_its_peaks(page):
    assert re.search(r"one thread of .*at most \d+ GFLOP/s, and in GB/s L1 \d+.* memory \d+", section(page, "machine"))


def test_the_least_time_is_that_of_operations_or_bytes():
    measured = where.measure("linreg", 2, 0.001)
    peaks = measured.profile.peaks
    nearest = peaks.levels[0]
    kernels = [row.kernel for row in measured.profile.rows]
    assert measured.least == pytest.approx(sum(max(k.flops / peaks.gflops, k.bytes / nearest.gbytes) for k in kernels))
    assert {where.limit_of(row, peaks) for row in measured.profile.rows} <= {"multiply-adds", nearest.name}
    assert 10 < measured.step < 1e6


def test_the_page_of_the_documentation_has_every_section():
    assert sorted(where.sections_of(where.PAGE.read_text())) == sorted([*workloads.WORKLOADS, "machine", "summary"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("words", "a section begins with the line"),
        ("<!-- where: mlp -->\n", "a section begins with the line"),
        ("<!-- where: vgg -->\n<!-- end -->\n", "got vgg"),
    ],
)
def test_a_page_without_sections_is_refused_and_left(tmp_path, capsys, text, message):
    path = tmp_path / "page.md"
    path.write_text(text)
    assert where.main(["--page", str(path)], Console(width=200)) == 2
    assert message in capsys.readouterr().out
    assert path.read_text() == text


@pytest.mark.parametrize("arguments", [["--runs", "0"], ["--seconds", "0"]])
def test_wrong_options_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        where.main(arguments)
    assert stopped.value.code == 2
    assert "--runs is from 1" in capsys.readouterr().err
