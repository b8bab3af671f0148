"""`benchmarks/serving.py`: what its process measures, and how it is shown."""

import json

from adjoint.ir import verify
from benchmarks import serving


def test_a_process_is_measured_cold_and_with_the_code_cached(tmp_path):
    path = tmp_path / "results.json"
    words = ["--models", "mlp", "--rows", "1", "--windows", "2", "--seconds", "0.001", "--repeats", "1"]
    assert serving.main([*words, "--json", str(path), "--allow-dirty"]) == 0
    entry = json.loads(path.read_text())["serving"]["mlp"]
    assert entry["run"]["settings"] == {"windows": 2, "seconds": 0.001, "repeats": 1}
    (found,) = entry["rows"].values()
    # 784 x 128 multiply-adds take microseconds; Python, NumPy and the compiler take memory and time.
    assert 1e-7 < found["call_s"] < 1e-2 < min(found["cached_s"], found["cold_s"])
    assert 2e7 < found["memory_bytes"] < found["cold_peak_bytes"]


def test_the_least_of_several_measurements_counts():
    def measured(call, memory):
        one = {"first": 10 * call, "call": call, "arena": 0, "memory": memory, "peak": 2 * memory}
        return {"cold": one, "cached": {**one, "first": 5 * call, "call": call / 2}}

    assert serving.best([measured(2.0, 100), measured(3.0, 90)]) == {
        "call_s": 1.0, "cold_s": 20.0, "cached_s": 10.0, "memory_bytes": 90, "cold_peak_bytes": 180, "arena_bytes": 0,
    }  # fmt: skip


def test_rows_of_the_table():
    one = {"call_s": 12.34e-6, "cold_s": 0.5, "cached_s": 0.25, "memory_bytes": 80e6, "cold_peak_bytes": 1e8}
    assert serving.table_rows("mlp", {"rows": {"64": one}}) == [
        ("mlp", "64", "12.3 µs", "0.50 s", "0.25 s", "80 MB", "100 MB")
    ]


def test_the_cnn_is_a_valid_graph_of_that_many_rows():
    model = serving.cnn(8)
    verify(model)
    assert str(model["backbone"].results[0].type) == "f32[8,10]"
