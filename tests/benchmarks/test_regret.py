"""The comparison of estimated with measured schedules: what is measured, printed and written."""

import io
import json

import pytest
from rich.console import Console

from adjoint.codegen.targets import host_target
from adjoint.tuning import Tried
from benchmarks import random_networks, regret
from benchmarks.regret import Regret


def run(tmp_path, *arguments):
    out = io.StringIO()
    status = regret.main([*arguments, "--json", str(tmp_path / "found.json")], Console(file=out, width=150))
    return status, out.getvalue(), json.loads((tmp_path / "found.json").read_text())


def test_the_regret_is_the_time_of_the_estimated_schedule_over_the_least():
    one = Regret("a product", 100, (Tried("gemm 4x4x1", 30.0), Tried("gemm 8x3x1", 20.0), Tried("split_k", 25.0)))
    assert one.ratio == 1.5
    assert one.best.name == "gemm 8x3x1"
    assert Regret("another", 100, (Tried("gemm 4x4x1", 30.0),)).ratio == 1.0


def test_schedules_of_random_products_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("adjoint.tuning.measure._RUNS", (1,))
    monkeypatch.setattr(regret, "LEAST_FLOPS", 10**4)
    status, text, written = run(tmp_path, "--count", "3", "--seed", "8", "--tiles", "1")
    assert status == 0
    assert written["contractions"]
    for one in written["contractions"]:
        assert one["name"] in text.replace("\n", "")
        assert len(one["tried"]) > 1
        assert all(tried["nanoseconds"] > 0 for tried in one["tried"])
    assert f"{len(written['contractions'])} contractions: geometric mean" in text


def test_contractions_of_a_network_are_measured_in_its_step(monkeypatch):
    monkeypatch.setattr("adjoint.tuning.measure._RUNS", (1,))
    monkeypatch.setattr(random_networks, "draw", lambda count, _: ["mlp batch=64 sizes=100,64,10 opt=adam"] * count)
    monkeypatch.setattr(regret, "LEAST_FLOPS", 7 * 10**5)
    found = list(regret.contractions("networks", 1, 0, host_target()))
    assert all(one.name.startswith("mlp batch=64 sizes=100,64,10 opt=adam: float32 m") for one in found)
    measured = list(regret.measure(found, host_target(), 1))
    assert [one.tried[0].name for one in measured] == [one.estimated() for one in found]
    assert all(name.startswith("gemm") for one in measured for name in (tried.name for tried in one.tried))


def test_families_without_schedules_are_refused(capsys):
    with pytest.raises(SystemExit):
        regret.main(["--families", "attention"])
    assert "families are products, convolutions, networks, workloads, got attention" in capsys.readouterr().err
