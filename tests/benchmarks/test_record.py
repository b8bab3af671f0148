"""`benchmarks/record.py`: entries replace each other, results belong to a commit, and differences stay readable."""

import json
import subprocess

import pytest

from benchmarks import record


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository of one commit in place of this one."""
    for name in ("src/a.py", "benchmarks/results.json", "docs/page.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "c"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setattr(record, "ROOT", tmp_path)
    return tmp_path


# ---- one entry at a time


def test_an_entry_replaces_its_own_place_only(tmp_path):
    path = tmp_path / "results.json"
    record.store(path, ("steps", "mlp", "1"), {"a": 1})
    record.store(path, ("steps", "mlp", "2"), {"a": 2})
    record.store(path, ("where", "mlp"), {"b": 1})
    record.store(path, ("steps", "mlp", "1"), {"c": [0.5]})
    assert record.load(path) == {"steps": {"mlp": {"1": {"c": [0.5]}, "2": {"a": 2}}}, "where": {"mlp": {"b": 1}}}
    assert [one.name for one in tmp_path.iterdir()] == ["results.json"]


def test_the_newest_entry_of_each_kind_of_cpu_is_kept(tmp_path):
    path = tmp_path / "results.json"

    def stored(cpu, rate):
        record.store(path, ("steps", "mlp", "1"), {"run": {"machine": {"llvm_cpu": cpu}}, "rate": rate})
        found = record.load(path)
        others = found.get("other_cpus", {})
        return found["steps"]["mlp"]["1"]["rate"], {
            cpu: one["steps"]["mlp"]["1"]["rate"] for cpu, one in others.items()
        }

    assert stored("znver5", 1) == (1, {})
    assert stored("cascadelake", 2) == (2, {"znver5": 1})
    assert stored("cascadelake", 3) == (3, {"znver5": 1})
    assert stored("znver5", 4) == (4, {"cascadelake": 3})


def test_a_file_that_is_not_there_is_empty(tmp_path):
    assert record.load(tmp_path / "none.json") == {}


def test_lists_of_numbers_and_what_fits_are_on_one_line():
    value = {"rounds": [1.5] * 100, "cells": [{"label": "x" * 70, "a": 1}, {"label": "y" * 70, "b": None}], "µ": True}
    text = record.dump(value)
    assert json.loads(text) == value
    assert text.splitlines() == [
        "{",
        ' "rounds": [' + ", ".join(["1.5"] * 100) + "],",
        ' "cells": [',
        '  {"label": "' + "x" * 70 + '", "a": 1},',
        '  {"label": "' + "y" * 70 + '", "b": null}',
        " ],",
        ' "µ": true',
        "}",
    ]


# ---- where results come from


def test_provenance_names_the_commit_and_leaves_paths_out(checkout):
    arguments = ["--workloads", "mlp", "--python", "torch=/home/me/python", "--json=out.json", "--rounds", "5"]
    run = record.provenance("run.py", arguments, {"rounds": 5})
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True)
    assert head.stdout.startswith(run["commit"])
    assert len(run["commit"]) == 12
    assert (run["dirty"], run["settings"]) == (False, {"rounds": 5})
    assert run["command"] == "python benchmarks/run.py --workloads mlp --rounds 5"
    assert run["machine"]["vector_bits"] % 32 == 0


@pytest.mark.parametrize("name", ["benchmarks/results.json", "docs/page.md"])
def test_results_and_pages_may_differ_from_the_commit(checkout, name):
    (checkout / name).write_text("2\n")
    record.check_clean(checkout / "out.json", False)
    assert record.provenance("run.py", [], {})["dirty"] is False


@pytest.mark.parametrize("name", ["src/a.py", "src/new.py", "benchmarks/peer.py"])
def test_sources_may_not_unless_asked_for(checkout, name):
    (checkout / name).write_text("2\n")
    with pytest.raises(record.DirtyError, match=rf"results belong to a commit, but {name} changed; .* --allow-dirty"):
        record.check_clean(checkout / "out.json", False)
    record.check_clean(checkout / "out.json", True)
    record.check_clean(None, False)
    assert record.provenance("run.py", [], {})["dirty"] is True


def test_without_a_repository_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "ROOT", tmp_path)
    record.check_clean(tmp_path / "out.json", False)
    assert record.provenance("run.py", [], {})["commit"] is None
