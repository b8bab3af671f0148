"""The harness with peers that need no framework: who takes part, in which order, and what is refused."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

from benchmarks import harness, roster, worker
from benchmarks.harness import Cell, CellError, Result
from benchmarks.roster import Peer

FAKE = """
import os
from pathlib import Path

MODES = ("good", "wrong", "broken", "mute", "dies")
INT = "int32"
CACHES = ("FAKE_CACHE",)
CACHED_MODES = ("good",)


def build(w, mode, threads):
    if mode == "broken":
        raise RuntimeError("it rains")
    if mode == "mute":
        os._exit(3)
    print("frameworks print what they like")
    if mode == "good":
        seen = Path(os.environ["FAKE_CACHE"], "seen")
        seen.write_text(seen.read_text() + "again" if seen.exists() else "first")
        Path(os.environ["FAKE_LOG"]).open("a").write(seen.read_text() + " ")
    count = 0

    def step(x, y):
        nonlocal count
        assert x.dtype == "float32"
        count += 1
        if mode == "dies" and count > 20:
            os._exit(3)
        return 100 / count + (0.1 if mode == "wrong" and count == 3 else 0)

    return step, float
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "fake.py").write_text(FAKE)
    (tmp_path / "notes.py").write_text("WORDS = 'no peer: it has no modes'\n")
    return tmp_path


def peer(name, modes=("step",), python="python"):
    return Peer(name, None, modes, python=python)


# ---- who takes part


def test_peers_are_found_without_running_their_files(folder):
    (folder / "fragile.py").write_text("MODES = ('a',)\nTOLERANCES = {'mlp': 0.5}\nraise SystemExit('ran')\n")
    (folder / "adjoint.py").write_text("MODES = ('step',)\n")
    peers = roster.find_peers([folder], {}, {})
    assert list(peers) == ["adjoint", "fake", "fragile"]
    assert peers["fake"].modes == ("good", "wrong", "broken", "mute", "dies")
    assert (peers["fake"].tolerances, peers["fragile"].tolerances) == ({}, {"mlp": 0.5})
    assert Cell(peers["fake"], "good", "mlp", 1).caches == ("FAKE_CACHE",)
    assert Cell(peers["fake"], "dies", "mlp", 1).caches == ()


def test_the_first_folder_wins(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "fake.py").write_text("MODES = ('mine',)\n")
    assert roster.find_peers([other, folder], {}, {})["fake"].modes == ("mine",)
    assert roster.find_peers([folder, other], {}, {})["fake"].modes[0] == "good"


def test_an_interpreter_comes_from_the_option_then_the_environment_then_is_this_one(folder):
    (folder / "numpy.py").write_text("MODES = ('a',)\n")
    given = roster.find_peers([folder], {"fake": "/option"}, {"FAKE_PYTHON": "/variable", "NUMPY_PYTHON": "/other"})
    assert (given["fake"].python, given["numpy"].python) == ("/option", "/other")
    found = roster.find_peers([folder], {}, {})
    assert (found["fake"].python, found["numpy"].python) == (None, sys.executable)


def test_peers_and_modes_are_chosen_by_name():
    peers = {"a": peer("a"), "b": peer("b", ("x", "y")), "c": peer("c", python=None)}
    label = [f"{p.name}:{mode}" for p, mode in roster.choose(peers, None)]
    assert label == ["a:step", "b:x", "b:y"]
    chosen = roster.choose(peers, ["b:y", "a", "b"])
    assert [(p.name, mode) for p, mode in chosen] == [("b", "y"), ("a", "step"), ("b", "x")]
    assert [Cell(p, mode, "mlp", 1).label for p, mode in chosen] == ["b:y", "a", "b:x"]


def test_a_mode_may_be_for_some_workloads_only(folder):
    (folder / "fragile.py").write_text("MODES = ('a', 'b')\nWORKLOADS = {'b': ('lenet', 'resnet')}\n")
    found = roster.find_peers([folder], {}, {})["fragile"]
    assert [found.runs(mode, name) for mode in "ab" for name in ("mlp", "lenet")] == [True, True, False, True]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("d", "peers are a, b, got 'd'"),
        ("a:fast", "modes of a are step, got 'fast'"),
        ("b", "b is not installed here; name its interpreter with --python b=/path/to/python"),
    ],
)
def test_what_cannot_be_chosen_is_refused(wanted, message):
    with pytest.raises(ValueError, match=message):
        roster.choose({"a": peer("a"), "b": peer("b", python=None)}, [wanted])


# ---- in which order


class Puppet:
    """A worker that writes down what happens to it."""

    log: list = []  # noqa: RUF012
    losses: dict = {}  # noqa: RUF012
    breaks: dict = {}  # noqa: RUF012
    takes: dict = {}  # noqa: RUF012

    def __init__(self, cell, *_):
        self.name = cell.label
        self.log.append(f"start {self.name}")

    def answer(self):
        if self.breaks.get(self.name) == "start":
            raise CellError("no start")
        losses = self.losses.get(self.name, [3.0, 2.0])
        return {"import_s": 1.0, "first_step_s": 0.5, "losses": losses, "version": "7"}

    def window(self, seconds):
        self.log.append(f"{self.name} {seconds}")
        if self.breaks.get(self.name) == "window":
            raise CellError("no window")
        seconds = self.takes.get(self.name, 2.0)
        return {"steps": 10, "seconds": seconds, "cores": 1.0, "others": 0.25, "peak_bytes": 1000}

    def close(self):
        self.log.append(f"end {self.name}")


@pytest.fixture
def puppets(monkeypatch):
    made = type("Puppets", (Puppet,), {"log": [], "losses": {}, "breaks": {}, "takes": {}})
    monkeypatch.setattr(harness, "Worker", made)
    monkeypatch.setattr(harness, "SETTLE_S", 0)
    return made


def run(names, rounds=2, starts=1):
    cells = [Cell(peer(name), "step", "mlp", 1) for name in names]
    *_, results = harness.measure(cells, None, rounds, 0.5, starts)
    return results


def test_all_are_started_and_then_take_turns(puppets):
    results = run(["a", "b", "c"])
    assert puppets.log == [
        "start a", "start b", "start c", "a 0.5", "b 0.5", "c 0.5", "a 0.5", "b 0.5", "c 0.5",
        "end a", "end b", "end c",
    ]  # fmt: skip
    assert [r.rates for r in results] == [[5.0, 5.0]] * 3
    assert (results[0].cold_s, results[0].cached_s, results[0].others) == ([1.5], [], [0.25, 0.25])
    assert (results[0].peak_bytes, results[0].version, results[0].error) == (1000, "7", None)


def test_a_very_slow_peer_takes_part_in_the_first_rounds_only(puppets):
    puppets.takes = {"slow": 101.0, "b": 99.0}
    assert [len(r.rates) for r in run(["a", "slow", "b"], rounds=5)] == [5, 3, 5]


def test_first_steps_are_timed_in_as_many_processes_as_asked(puppets):
    results = run(["a"], rounds=1, starts=3)
    assert puppets.log == ["start a", "end a", "start a", "end a", "start a", "a 0.5", "end a"]
    assert results[0].cold_s == [1.5] * 3


def test_a_start_that_is_not_timed_happens_once(puppets):
    results = run(["a"], rounds=1, starts=0)
    assert puppets.log == ["start a", "a 0.5", "end a"]
    assert (results[0].cold_s, results[0].losses) == ([], [3.0, 2.0])


def test_a_peer_that_fails_leaves_the_others_alone(puppets):
    puppets.breaks = {"a": "start", "b": "window"}
    results = run(["a", "b", "c"])
    assert puppets.log == ["start a", "end a", "start b", "start c", "b 0.5", "c 0.5", "c 0.5", "end b", "end c"]
    assert [r.error for r in results] == ["no start", "no window", None]


def test_a_peer_whose_losses_differ_is_not_measured(puppets):
    puppets.losses = {"c": [3.0, 2.1]}
    results = run(["a", "b", "c"], rounds=1)
    assert puppets.log == ["start a", "start b", "start c", "a 0.5", "b 0.5", "end a", "end b", "end c"]
    assert (results[2].differs, results[2].error) == (True, "loss 2 is 2.1, that of a 2")


def test_processes_end_where_measuring_is_given_up(puppets):
    turns = harness.measure([Cell(peer(name), "step", "mlp", 1) for name in "ab"], None, 5, 0.5)
    for _ in range(3):
        next(turns)
    turns.close()
    assert puppets.log[-2:] == ["end a", "end b"]


# ---- which losses agree


def losses_of(**given):
    results = [Result(Cell(peer(name), "step", "mlp", 1), losses=losses) for name, losses in given.items()]
    harness.check_losses(results)
    return {r.cell.label: r.error for r in results}


def test_losses_agree_to_a_ten_thousandth():
    found = losses_of(adjoint=[100.009, 50.0], torch=[100.0, 50.0], jax=[100.0, 50.0055])
    assert found == {"adjoint": None, "torch": None, "jax": "loss 2 is 50.0055, that of torch 50"}


def test_what_differs_from_the_others_is_adjoint_even_where_it_comes_first():
    assert losses_of(adjoint=[5.0], torch=[4.0])["adjoint"] == "loss 1 is 5, that of torch 4"


def test_what_no_other_framework_has_is_wrong():
    found = losses_of(jax=[5.0], torch=[4.0], adjoint=[4.0])
    assert found == {"jax": "loss 1 is 5, that of torch 4", "torch": None, "adjoint": None}
    found = losses_of(jax=[4.0], torch=[4.0], adjoint=[5.0])
    assert found == {"jax": None, "torch": None, "adjoint": "loss 1 is 5, that of jax 4"}
    assert None not in losses_of(jax=[3.0], torch=[4.0], adjoint=[5.0]).values()


def test_two_modes_of_one_framework_do_not_make_each_other_right():
    modes = [Result(Cell(peer("torch"), mode, "mlp", 1), losses=[5.0]) for mode in ("eager", "compile")]
    results = [*modes, *(Result(Cell(peer(name), "step", "mlp", 1), losses=[4.0]) for name in ("jax", "adjoint"))]
    harness.check_losses(results)
    assert [r.differs for r in results] == [True, True, False, False]


def test_where_frameworks_go_two_ways_one_that_agrees_suffices():
    modes = [Result(Cell(peer("torch"), mode, "mlp", 1), losses=[loss]) for mode, loss in (("a", 4.0), ("b", 5.0))]
    others = [
        Result(Cell(peer(name), "step", "mlp", 1), losses=[loss]) for name, loss in (("jax", 4.0), ("adjoint", 5.0))
    ]
    harness.check_losses([*modes, *others])
    assert [r.error for r in [*modes, *others]] == [None] * 4


def test_a_loss_that_is_not_a_number_differs():
    assert losses_of(torch=[1.0], adjoint=[float("nan")])["adjoint"] == "loss 1 is nan, that of torch 1"


def test_a_fit_that_is_perfect_but_for_rounding_agrees():
    assert losses_of(torch=[1000.0, 1e-12], adjoint=[1000.0, 3e-12])["adjoint"] is None


def test_small_losses_agree_to_what_the_greatest_before_allows():
    assert losses_of(torch=[2.0, 10.0, 0.1], adjoint=[2.0, 10.0, 0.10009])["adjoint"] is None
    assert losses_of(torch=[2.0, 10.0, 0.1], adjoint=[2.0, 10.0, 0.10011])["adjoint"].startswith("loss 3 is 0.10011")
    assert losses_of(torch=[0.1, 10.0], adjoint=[0.10002, 10.0])["adjoint"] is not None


def test_a_slow_peer_has_fewer_losses_and_is_not_what_others_are_held_to():
    assert losses_of(slow=[3.0], torch=[3.0, 2.0], adjoint=[3.0, 2.1])["adjoint"] == "loss 2 is 2.1, that of torch 2"
    assert losses_of(slow=[4.0], torch=[3.0, 2.0])["slow"] == "loss 1 is 4, that of torch 3"


def test_a_peer_whose_formulas_are_others_says_by_how_much_it_may_differ():
    cells = [Cell(Peer(name, None, ("step",), tolerances={"mlp": 0.01}), "step", "mlp", 1) for name in "bc"]
    cells.insert(0, Cell(peer("a"), "step", "mlp", 1))
    results = [Result(cell, losses=[loss]) for cell, loss in zip(cells, (1.0, 1.009, 1.02), strict=True)]
    harness.check_losses(results)
    assert [r.error for r in results] == [None, None, "loss 1 is 1.02, that of a 1"]


def test_adjoint_alone_has_nothing_to_differ_from():
    assert losses_of(adjoint=[1.0]) == {"adjoint": None}


def test_the_only_peer_is_not_held_to_adjoint():
    assert losses_of(adjoint=[1.0], torch=[2.0]) == {"adjoint": "loss 1 is 1, that of torch 2", "torch": None}


# ---- one process


def test_a_window_lasts_as_long_as_asked_and_reads_every_loss(monkeypatch):
    now, seen = [0.0], []

    def step(x, y):
        now[0] += 0.25
        return x + y

    monkeypatch.setattr(worker.time, "perf_counter", lambda: now[0])
    assert worker.run_window(step, seen.append, [(1, 2), (3, 4), (5, 6)], 2.0, 4) == (8, 2.0)
    assert seen == [3, 7, 11, 3, 7, 11, 3, 7]
    assert worker.run_window(step, seen.append, [(1, 2)], 2.1, 4) == (12, 3.0)


def test_versions_are_found_by_the_name_that_is_imported():
    assert worker.version("PIL") == importlib.metadata.version("pillow")
    assert worker.version("nobody_wrote_this") == "unknown"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_a_process_gets_as_many_cores_as_threads():
    before = os.sched_getaffinity(0)
    with harness.pinned(1):
        code = "import os; print(len(os.sched_getaffinity(0)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_groups_do_not_share_cores(monkeypatch):
    chosen = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: chosen.append(sorted(cores)))
    assert [harness.groups(threads) for threads in (1, 2, 3, 8)] == [5, 2, 1, 1]
    for group in range(3):
        with harness.pinned(2, group):
            pass
    assert chosen[::2] == [[3, 4], [1, 2], [0]]


def test_peak_memory_counts_what_was_held_and_let_go():
    before = worker.peak_memory()
    bytearray(b"x" * (before + 30_000_000))
    assert worker.peak_memory() >= before + 30_000_000


def test_cells_keep_the_python_that_they_compile(monkeypatch):
    """Their first loss is that of an installed program, whatever is set where the benchmark runs."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in harness.environment(1, {})
    assert harness.environment(2, {"CACHE": "here"})["CACHE"] == "here"
