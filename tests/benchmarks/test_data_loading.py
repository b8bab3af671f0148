"""`benchmarks/data_loading.py`: what its process measures, and the table of ratios."""

import json
import sys

from benchmarks import data_loading, loading_worker


def test_a_process_measures_all_cases(tmp_path, monkeypatch, capsys):
    data_loading.write_files(tmp_path, 200)
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [3072] * 200
    monkeypatch.setattr(sys, "argv", ["loading_worker.py", "adjoint", str(tmp_path), "1", "0.001"])
    monkeypatch.setattr(loading_worker, "_ROWS", 1200)
    loading_worker.main()
    found = json.loads(capsys.readouterr().out)
    sizes, workers = (1, 8, 64, 512), (0, 1, 2)
    assert list(found) == [f"arrays, {n} a batch" for n in sizes] + [f"files, {n} workers" for n in workers]
    assert all(100 < rate < 1e10 for rate in found.values())


def test_the_table_has_ratios(monkeypatch, capsys):
    asked = []

    def measured(pythons, *settings):
        asked.append((pythons, settings))
        return {"adjoint": {"files": 3000.0}, "torch": {"files": 2000.0}}

    monkeypatch.setattr(data_loading, "measure", measured)
    data_loading.main(["--python", "torch=/there/python", "--rounds", "2"])
    assert asked == [({"adjoint": sys.executable, "torch": "/there/python"}, (10_000, 2, 2.0))]
    assert "1.50" in capsys.readouterr().out
