"""`benchmarks/run.py` from end to end with a peer that needs no framework, and what it makes of the numbers."""

import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import record, report, run, worker, workloads
from benchmarks.harness import Cell, Result
from benchmarks.roster import Peer
from tests.benchmarks.test_benchmark_harness import FAKE


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "fake.py").write_text(FAKE)
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    return tmp_path


def measured(folder, peers, *more):
    """Exit status, what was printed, and what was written."""
    with open("/dev/null", "w") as nowhere:
        console = Console(record=True, width=120, file=nowhere)
        status = run.main(
            ["--peer-folder", str(folder), "--python", f"fake={sys.executable}", "--peers", peers, "--threads", "1",
             "--workloads", "linreg", "--rounds", "2", "--seconds", "0.02", "--json", str(folder / "out.json"),
             "--allow-dirty", *more],
            console,
        )  # fmt: skip
    return status, console.export_text(), record.load(folder / "out.json")["steps"]["linreg"]["1"]


def test_a_peer_is_measured_and_its_caches_are_empty_and_then_full(folder):
    status, text, written = measured(folder, "fake:good", "--starts", "2")
    assert status == 0
    assert "linreg, 1 thread" in text
    assert (folder / "log").read_text().split() == ["first", "firstagain"] * 2
    (cell,) = written["cells"]
    assert len(cell["first_loss_cold_s"]) == len(cell["first_loss_cached_s"]) == len(cell["rounds"]) == 2
    assert cell["losses"] == [100 / count for count in range(1, 21)]
    assert cell["steps_per_second"] == np.median(cell["rounds"]) > 1000
    assert cell["peak_bytes"] > 5_000_000
    assert (cell["import_s"], cell["error"], cell["adjoint_is"], cell["losses_compared"]) == (None, None, None, 20)
    assert written["run"]["settings"] == {"rounds": 2, "seconds": 0.02, "starts": 2}
    assert written["run"]["command"].startswith("python benchmarks/run.py --peers fake:good --threads 1 --workloads")


def test_a_run_leaves_the_results_of_others(folder):
    record.store(folder / "out.json", ("steps", "linreg"), {"1": "old", "2": "kept"})
    record.store(folder / "out.json", ("steps", "mlp"), "kept")
    _, _, written = measured(folder, "fake:good")
    assert written["workload"] == "linreg"
    steps = record.load(folder / "out.json")["steps"]
    assert (steps["linreg"]["2"], steps["mlp"]) == ("kept", "kept")


def test_results_of_changed_sources_are_refused_before_anything_is_measured(folder, monkeypatch, capsys):
    monkeypatch.setattr(record, "_changes", lambda: ["src/adjoint/compiler.py"])
    arguments = ["--workloads", "linreg", "--peers", "adjoint", "--json", str(folder / "out.json")]
    with pytest.raises(SystemExit) as stopped:
        run.main(arguments)
    assert stopped.value.code == 2
    assert "src/adjoint/compiler.py changed" in capsys.readouterr().err
    assert not (folder / "out.json").exists()


def test_modes_for_other_workloads_take_no_part(folder):
    (folder / "fake.py").write_text(FAKE + '\nWORKLOADS = {"good": ("lenet",)}\n')
    console = Console(record=True, width=120, file=StringIO())
    python = f"fake={sys.executable}"
    arguments = ["--peer-folder", str(folder), "--python", python, "--peers", "fake:good", "--workloads", "linreg"]
    assert run.main(arguments, console) == 2
    assert "nothing to measure" in console.export_text()


def test_steps_are_compared_with_other_frameworks_and_doors_with_each_other(monkeypatch):
    asked: list[set[str]] = []

    def measured(_args, pairs, _console):
        asked.append({mode for peer, mode in pairs if peer.name == "adjoint"})
        return iter(())

    monkeypatch.setattr(run, "measured", measured)
    monkeypatch.setattr(run.harness, "import_seconds", lambda _: 0.0)
    for section in ("steps", "doors"):
        run.main(["--section", section], Console(file=StringIO()))
    run.main(["--peers", "adjoint"], Console(file=StringIO()))
    assert asked == [{"step"}, {"step", "objects", "jit"}, {"step", "objects", "jit"}]


def test_a_slow_peer_takes_fewer_of_the_first_steps(folder, monkeypatch):
    monkeypatch.setattr(worker, "CHECKING_S", 1e-9)
    workloads.save(workloads.make("linreg"), folder / "arrays.npz")
    request = {"peer": str(folder / "fake.py"), "mode": "wrong", "workload": "linreg", "threads": 1}
    answer, window = worker._start(request | {"arrays": str(folder / "arrays.npz"), "source": "benchmarks.workloads"})
    assert answer["losses"] == [100.0, 50.0]
    assert window({"seconds": 0.01})["steps"] > 0
    console = Console(record=True, width=120, file=StringIO())
    results = [result("slow", [], losses=answer["losses"]), result("fast", [], losses=[1.0] * 20)]
    run._say(results, report.as_json(results, 1, dict.fromkeys(("slow", "fast"))), console)
    assert console.export_text().strip() == "slow is slow: 2 of 20 losses were compared"


def test_peers_that_fail_are_named_and_the_status_says_so(folder):
    status, text, written = measured(folder, "fake")
    assert status == 1
    assert "fake:wrong: LOSSES DIFFER, not measured: loss 3 is 33.43333, that of fake:good 33.33333" in text
    assert "fake:broken: failed: RuntimeError: it rains" in text
    assert "fake:mute: failed: ended with status 3" in text
    assert "fake:dies: failed: frameworks print what they like" in text
    errors = {cell["mode"]: cell["error"] is not None for cell in written["cells"]}
    assert errors == {"good": False, "wrong": True, "broken": True, "mute": True, "dies": True}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workloads", "mlp,vgg"], "workloads are mlp, linreg, lenet, resnet, gpt, bigmlp, got vgg"),
        (["--threads", "0"], "numbers of threads are from 1, got '0'"),
        (["--threads", "two"], "--threads"),
        (["--peers", "caffe"], "got 'caffe'"),
        (["--python", "torch"], "peer=/path/to/python, got 'torch'"),
        (["--python", "torch=/no/such/python"], "got 'torch=/no/such/python'"),
        (["--rounds", "0"], "--rounds and --starts are from 1"),
    ],
)
def test_wrong_options_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        run.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_it_runs_as_a_file():
    file = Path(run.__file__)
    done = subprocess.run([sys.executable, str(file), "--help"], capture_output=True, text=True, check=True, cwd="/")
    assert "--workloads" in done.stdout


# ---- what it makes of the numbers


def result(name, rates, **more):
    return Result(Cell(Peer(name, Path(), ("step",)), "step", "mlp", 2), rates=rates, cores=[1.0], **more)


def test_ratios_are_of_windows_that_follow_each_other():
    ours = result("adjoint", [200.0, 100.0, 330.0])
    slow, fast = result("slow", [50.0, 60.0, 70.0]), result("fast", [100.0, 80.0, 110.0])
    best = report.summary([slow, ours, fast])
    # The machine was slow in the second round; the ratio of the medians would be 2.
    assert (best.label, best.ratio, best.low, best.high) == ("fast", 2.0, 1.25, 3.0)
    assert report.compare(ours, slow).ratio == 4.0
    # A slow peer has fewer rounds, and is compared in those.
    assert report.compare(ours, result("slower", [50.0])).ratio == 4.0
    assert report.summary([ours]) is None
    assert report.summary([slow, fast]) is None


def test_a_cell_that_failed_is_compared_with_nobody():
    ours, other = result("adjoint", [4.0, 4.0]), result("other", [9.0], error="gone")
    assert report.summary([ours, other]) is None
    entry = report.as_json([ours, other], 1, {"adjoint": None, "other": None})
    assert entry["cells"][1]["adjoint_is"] is None
    assert report.best_cell(entry) is None


def test_the_table_has_the_fastest_first_and_failures_last():
    results = [
        result("lost", [], error="it rains"),
        result("torch", [2000.0], cold_s=[20.0], cached_s=[5.0], peak_bytes=300 * 2**20),
        result("adjoint", [8000.0], cold_s=[0.5, 0.4, 0.9], cached_s=[0.2], peak_bytes=100 * 2**20),
        result("tiny", [5.0]),
    ]
    console = Console(width=120)
    with console.capture() as captured:
        imports = {"adjoint": 0.01, "torch": 1.0, "tiny": None, "lost": None}
        console.print(report.table(report.as_json(results, 32_000_000, imports)))
    lines = [line.split() for line in captured.get().splitlines()]
    assert lines[0] == ["mlp,", "2", "threads"]
    rows = {line[0]: line[1:] for line in lines[4:] if line}
    assert list(rows) == ["adjoint", "torch", "tiny", "lost"]
    assert rows["adjoint"] == "125 µs 8,000 256.0 0.01 s 0.50 s 0.20 s 100 MB".split()  # noqa: SIM905
    assert rows["torch"] == "500 µs 2,000 4.00 x 64.0 1.00 s 20.00 s 5.00 s 300 MB".split()  # noqa: SIM905
    assert rows["tiny"][:5] == ["200.0", "ms", "5.00", "1600.00", "x"]
    assert rows["lost"] == ["failed"]


def test_what_others_took_is_averaged():
    given = [result("a", [1.0], others=[0.2, 0.4]), result("b", [1.0], others=[0.6]), result("c", [])]
    assert report.disturbance(given) == pytest.approx(0.4)


# ---- workloads


def test_arrays_come_back_from_a_file_as_they_were(tmp_path):
    for name in workloads.WORKLOADS:
        made = workloads.make(name)
        workloads.save(made, tmp_path / "arrays.npz")
        loaded = workloads.load(name, tmp_path / "arrays.npz")
        assert list(loaded.params) == list(made.params)
        pairs = [*zip(loaded.params.values(), made.params.values(), strict=True)]
        pairs += [(a, b) for one, two in zip(loaded.batches, made.batches, strict=True) for a, b in zip(one, two)]  # noqa: B905
        assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs)


def test_the_mlp_is_that_of_the_tutorial():
    w = workloads.make("mlp")
    assert {name: a.shape for name, a in w.params.items()} == {
        "w0": (784, 128), "b0": (128,), "w1": (128, 128), "b1": (128,), "w2": (128, 10), "b2": (10,)
    }  # fmt: skip
    assert (w.loss, w.opt, len(w.batches)) == ("ce_sum", {"kind": "sgd", "lr": 0.01, "wd": 0.01}, 8)
    assert all(x.shape == (64, 784) and x.dtype == np.float32 and y.max() < 10 for x, y in w.batches)
    first, second, third = (2 * 64 * a * b for a, b in ((784, 128), (128, 128), (128, 10)))
    assert w.flops == 2 * first + 3 * second + 3 * third
    assert w.linear == {"w0", "w1", "w2"}


def test_linear_regression_has_the_solution_two_and_three():
    w = workloads.make("linreg")
    for x, y in w.batches:
        assert (x.shape, y.shape) == ((4, 2), (4, 1))
        np.testing.assert_allclose(np.linalg.lstsq(x, y, rcond=None)[0].ravel(), [2, 3], rtol=1e-5)
    assert w.flops == 32
