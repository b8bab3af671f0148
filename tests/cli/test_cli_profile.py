"""``adjoint profile`` and ``adjoint doctor --measure``: what they print, what they write, what they refuse."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from adjoint.cli import main
from adjoint.compiler import host
from adjoint.kernel.target import available_cores
from adjoint.profiling.machine import keep_peaks
from tests.cli.helpers import refusal
from tests.profiling.steps import PEAKS

FULL = Path("/dev/full")


@pytest.fixture(autouse=True)
def _peaks(monkeypatch):
    """The machine is not measured: these tests are of what is said about it."""
    monkeypatch.setattr("adjoint.profiling.step.machine_peaks", lambda *_, **__: PEAKS)
    monkeypatch.setattr("adjoint.profiling.step.keep_peaks", lambda _, peaks: peaks)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_all_files_are_written(capsys, tmp_path, threads):
    files = {name: tmp_path / f"mlp.{name}" for name in ("html", "trace", "json")}
    words = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    assert main(["profile", "mlp", "--batch-size", "8", "--runs", "3", "--threads", threads, *words]) == 0
    out = capsys.readouterr().out
    data = json.loads(files["json"].read_text())
    assert data["title"] == "mlp · batch 8 · sgd"
    assert data["threads"] == int(threads)
    assert all(part in out for part in data["parts"])
    assert all(kernel["name"] in out for kernel in data["kernels"])
    assert ("waiting" in out) == (threads == "2")
    assert "<title>mlp · batch 8 · sgd · adjoint profile</title>" in files["html"].read_text()
    assert json.loads(files["trace"].read_text())["traceEvents"]


def test_wide_terminals_are_told_what_kernels_compute(capsys, monkeypatch):
    for columns, told in (("80", False), ("160", True)):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["profile", "linreg", "--runs", "2"]) == 0
        out = capsys.readouterr().out
        assert ("computes" in out) is told
        assert ("models.py:" in out) is told
        assert max(len(line) for line in out.splitlines()) <= int(columns)


def test_a_file_of_graph_text_is_named_by_its_stem(capsys, tmp_path):
    path = tmp_path / "model.txt"
    assert main(["show", "linreg", "--stage", "graph"]) == 0
    path.write_text(capsys.readouterr().out)
    numbers = tmp_path / "numbers.json"
    assert (
        main(["profile", str(path), "--loss", "mse", "--optimizer", "adam", "--runs", "2", "--json", str(numbers)]) == 0
    )
    assert json.loads(numbers.read_text())["title"] == "model · mse · adam"


@pytest.mark.parametrize("option", ["--html", "--trace", "--json"])
def test_files_that_cannot_be_made_are_refused_before_anything_is_measured(capsys, tmp_path, option):
    missing = tmp_path / "missing" / "file"
    assert refusal(capsys, "profile", "mlp", option, str(missing)) == (
        f"{option} {missing}: the folder {missing.parent} does not exist; create it first"
    )
    assert refusal(capsys, "profile", "mlp", option, str(tmp_path)) == (
        f"{option} {tmp_path} is a directory; choose a file"
    )


@pytest.mark.skipif(not FULL.exists(), reason="this system has no disk that is always full")
@pytest.mark.parametrize("option", ["--html", "--trace", "--json"])
def test_a_file_that_cannot_be_written_is_refused_after_the_table(capsys, option):
    assert main(["profile", "linreg", "--runs", "1", option, str(FULL)]) == 2
    captured = capsys.readouterr()
    assert captured.err == "adjoint: /dev/full cannot be written (No space left on device); choose another file\n"
    assert "roofline" in captured.out


@pytest.mark.parametrize("words", [["--runs", "0"], ["--threads", "0"], ["--batch-size", "0"]])
def test_numbers_below_one_are_refused(capsys, words):
    assert "is not in the range x>=1" in refusal(capsys, "profile", "mlp", *words)


def test_doctor_measures_where_it_is_asked_to(capsys, monkeypatch, tmp_path):
    asked = []

    def measure(_, threads, again):
        asked.append((threads, again))
        return PEAKS

    monkeypatch.setattr("adjoint.cli.doctor.machine_peaks", measure)
    monkeypatch.setattr("adjoint.cli.doctor.available_cores", lambda: 3)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path))
    assert main(["doctor"]) == 0
    assert asked == []
    assert capsys.readouterr().out.count("not measured yet; --measure does it, as does adjoint profile") == 2
    assert main(["doctor", "--measure"]) == 0
    assert asked == [(1, True), (3, True)]
    out = capsys.readouterr().out
    for row in ("multiply-adds in registers 100 GFLOP/s", "bandwidth of L1 50 GB/s", "bandwidth of memory 10 GB/s"):
        assert len(re.findall(row.replace(" ", r"[ │]+"), out)) == 2


def test_doctor_shows_the_stored_peaks_and_where_they_were_measured(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    keep_peaks(host(), replace(PEAKS, machine="shannon", date="1948-07-01"))
    assert main(["doctor"]) == 0
    assert "on shannon, 1948-07-01" in capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)["peaks, 1 thread"]
    assert stored["multiply-adds in registers"] == PEAKS.gflops
    assert stored["measured"] == {"machine": "shannon", "date": "1948-07-01"}


def test_what_is_measured_and_why_the_kernels_are_not_the_step_is_printed(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    numbers, page = tmp_path / "numbers.json", tmp_path / "page.html"
    assert main(["profile", "mlp", "--runs", "2", "--after", "3", "--json", str(numbers), "--html", str(page)]) == 0
    out, data, text = capsys.readouterr().out, json.loads(numbers.read_text()), page.read_text()
    assert data["threads"] == available_cores()
    assert "before, 3 training steps were made on this batch" in data["state"]
    for printed in (" ".join(out.split()), text):
        assert data["state"] in printed
        assert all(name in printed for name in ("call, checks", "step, without clocks"))
        excesses = [kernel["excess"] for kernel in data["kernels"] if kernel["excess"]]
        assert all(f" of the roofline, {excess}." in printed for excess in excesses)
    assert any(kernel["roofline"] > 1 for kernel in data["kernels"]), "the made-up machine is slower than any"
    assert {"step_microseconds", "kernels_microseconds", "entry_microseconds"} <= data["total"].keys()


def test_threads_are_simulated_without_running_anything(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("adjoint.cli.profile.profile_module", None)
    numbers = tmp_path / "balance.json"
    assert main(["profile", "mlp", "--simulate-threads", "64", "--json", str(numbers)]) == 0
    out, data = capsys.readouterr().out, json.loads(numbers.read_text())
    assert data["threads"] == 64
    assert all(kernel["name"] in out for kernel in data["kernels"])
    assert all(len(kernel["shares"]) == 64 for kernel in data["kernels"])
    assert f"a parallel efficiency of {data['efficiency']:.0%}" in out.replace("\n", " ")


@pytest.mark.parametrize("option", ["--html", "--trace"])
def test_simulations_have_no_measurements_to_show(capsys, tmp_path, option):
    words = ["--simulate-threads", "64", option, str(tmp_path / "file")]
    assert refusal(capsys, "profile", "mlp", *words) == (
        "--html and --trace show measurements, --simulate-threads makes none; leave one out"
    )
