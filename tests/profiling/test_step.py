"""A measured step: its numbers add up, and say what the program says."""

import json
from pathlib import Path

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile, host
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, IRModule, param
from adjoint.kernel.target import available_cores
from adjoint.pipeline import lower_function
from adjoint.profiling import step as measured_step
from adjoint.profiling.inputs import described_state, random_arrays, trained_arrays
from adjoint.profiling.places import live_bytes
from adjoint.profiling.step import profile_module
from adjoint.runtime.accounting import StepAccount
from adjoint.runtime.report import Clocks
from adjoint.training import Trainer
from tests.profiling.steps import PEAKS


def test_parts_add_up_to_all_kernels(profile):
    data = profile.as_dict()
    total = data["total"]["microseconds"]
    assert total > 0
    for things in (data["parts"].values(), data["kernels"]):
        assert sum(one["microseconds"] for one in things) == pytest.approx(total)
        assert sum(one["share"] for one in things) == pytest.approx(1)
    assert sum(part["kernels"] for part in data["parts"].values()) == len(data["kernels"])
    assert list(data["parts"]) == ["forward", "backward", "backward+update"]


def test_the_profile_has_a_short_text(profile):
    threads = "1 thread" if profile.threads == 1 else "2 threads"
    kernels, micros = len(profile.rows), profile.nanoseconds / 1e3
    assert repr(profile) == f"<StepProfile of {profile.title}: {kernels} kernels, {micros:.1f} us on {threads}>"


def test_rates_are_the_kernels_work_over_its_time(profile):
    for row in profile.rows:
        one = row.as_dict()
        assert one["gflops"] * one["microseconds"] * 1e3 == pytest.approx(one["flops"] if row.nanoseconds else 0)
        assert one["gbytes"] * one["microseconds"] * 1e3 == pytest.approx(one["bytes"] if row.nanoseconds else 0)
        assert one["intensity"] * one["bytes"] == pytest.approx(one["flops"])
        far = one["roofline"] * row.nanoseconds
        # At least what neither the reads nor the writes that are in the cache save, at most what both do.
        near = max(one["flops"] / 100, one["bytes"] / 50) if row.nanoseconds else 0
        low, high = (max(near, (one["bytes"] - held) / 10) if row.nanoseconds else 0 for held in (20_000, 10_000))
        assert low * (1 - 1e-9) <= far <= high * (1 + 1e-9)
        assert one["level"] == "L1" or one["bytes"] > 10_000
        assert (one["excess"] is None) == (one["roofline"] <= 1)
    flops = sum(row.kernel.flops for row in profile.rows)
    # Each weight is in one product forward and one for its gradient, all but the first in one for their input's.
    products = 2 * 64 * (2 * (256 * 128 + 128 * 128 + 128 * 10) + 128 * 128 + 128 * 10)
    assert products < flops < 1.2 * products


def test_the_numbers_are_plain_json(profile):
    data = profile.as_dict()
    assert json.loads(json.dumps(data))["kernels"] == data["kernels"]
    assert data["threads"] == profile.threads
    assert {"cpu", "gflops", "levels", "pace"} <= data["machine"].keys()
    kernel = data["kernels"][0]
    assert len(kernel["values"]) == len(kernel["operators"]) == len(kernel["lines"]) > 0
    lines = {line for kernel in data["kernels"] for line in kernel["lines"]}
    files = {Path(line.rpartition(":")[0]).name for line in lines}
    assert files == {"models.py", "cross_entropy.py", "direction.py"}


def test_rows_are_the_kernels_of_the_compiled_step(profile, module):
    entry = compile(module, options=CompileOptions(threads=profile.threads), entries=("step",))["step"]
    assert [row.kernel for row in profile.rows] == list(entry.kernels)
    assert profile.memory == entry.memory


def test_waiting_is_for_several_threads(profile):
    assert (profile.waiting == 0) if profile.threads == 1 else (profile.waiting >= 0)
    assert profile.wall > 0


def test_buffers_that_live_at_once_lie_apart(profile):
    blocks = profile.blocks
    assert blocks
    for i, a in enumerate(blocks):
        assert 0 <= a.offset < a.offset + a.nbytes <= profile.memory.arena
        assert 0 <= a.first <= a.last < len(profile.rows)
        for b in blocks[i + 1 :]:
            together = a.first <= b.last and b.first <= a.last
            assert not (together and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes)
    live = live_bytes(blocks, len(profile.rows))
    assert max(live) <= profile.memory.arena_bound
    at = live.index(max(live))
    assert live[at] == sum(b.nbytes for b in blocks if b.first <= at <= b.last)


def test_edges_are_who_reads_what_who_wrote(profile, module):
    kernels = lower_function(module["step"], host()).kernels
    seen = {(e.source, e.target): e for e in profile.edges}
    for target, kernel in enumerate(kernels):
        for source, writer in enumerate(kernels[:target]):
            shared = [b for b in kernel.reads if b in writer.writes]
            assert bool(shared) == ((source, target) in seen)
            if shared:
                assert seen[source, target].nbytes == sum(b.nbytes for b in shared)


def test_random_arrays_start_training_within_the_checks(module):
    entry = compile(module, options=CompileOptions(threads=1), entries=("step",))["step"]
    arrays = random_arrays(module, entry)
    assert list(arrays) == [a.name for a in entry.arguments]
    for argument in entry.arguments:
        assert arrays[argument.name].shape == argument.shape
        assert arrays[argument.name].dtype == argument.dtype
    assert set(np.unique(arrays["targets"])) <= set(range(10))
    assert len(np.unique(arrays["targets"])) > 5
    assert arrays["lr"] == np.float32(0.01)
    assert not arrays["b0"].any()
    assert arrays["w0"].std() > 0


def test_any_module_with_a_step_is_measured_and_nothing_is_trained():
    x, w, i = param("x", (512, 1)), param("w", (512, 1)), param("i", (4,), "i64")
    step = Function("step", (x, i, w), (ops.sum(ops.take(x, i)), ops.add(w, x)), {"donate": (("w", 1),)})
    w_given = np.ones((512, 1), np.float32)
    profile = profile_module(IRModule((step,)), runs=1, arrays={"w": w_given}, peaks=PEAKS)
    assert [total.part for total in profile.totals] == ["step"]
    assert (w_given == 1).all()


def test_the_account_adds_up_to_the_step(profile):
    account = profile.account
    assert account.step > 0
    assert account.kernels == pytest.approx(profile.nanoseconds)
    assert account.kernels + account.slower + account.between + account.entry == pytest.approx(account.step)
    total = profile.as_dict()["total"]
    named = (f"{part}_microseconds" for part in ("kernels", "slower", "between", "entry"))
    assert sum(total[name] for name in named) == pytest.approx(total["step_microseconds"])


def test_the_state_says_what_was_measured(module, profile):
    assert profile.as_dict()["warm_up_runs"] == 3
    assert profile.state == (
        "Parameters, states and optimizer state have their initial values, and the batch is random. 3 runs warm up "
        "the caches; every run is a training step on the same batch."
    )
    assert described_state(module, ("x",), 1) == (
        "Parameters, states and optimizer state have their initial values, and the batch is random, except x, which "
        "the caller gave; before, 1 training step was made on this batch. 3 runs warm up the caches; every run is a "
        "training step on the same batch."
    )


def test_a_later_state_is_that_of_training(module):
    """By a trainer, which calls the same step with the same arrays."""
    options = CompileOptions(threads=1)
    entry = compile(module, options=options, entries=("step",))["step"]
    start = random_arrays(module, entry)
    trainer = Trainer(module, options=options)
    trainer.load_params({name: start[name] for name in trainer.export_params()})
    for _ in range(5):
        trainer.update(start["x"], start["targets"])
    later = trained_arrays(entry, start, 5)
    for name, array in trainer.export_params().items():
        np.testing.assert_array_equal(later[name], array)
        assert not np.array_equal(start[name], array)
    profile = profile_module(module, options=options, runs=1, peaks=PEAKS, after=5)
    assert "before, 5 training steps were made on this batch" in profile.state


def test_a_state_that_diverged_is_refused():
    x, w = param("x", (8,)), param("w", (8,))
    step = Function("step", (x, w), (ops.sum(x), ops.multiply(w, ops.multiply(w, 1e30))), {"donate": (("w", 1),)})
    with pytest.raises(
        InvalidValueError,
        match="profile: after 3 training steps on one batch w must be finite, got NaN or infinity; take fewer steps",
    ):
        profile_module(IRModule((step,)), runs=1, peaks=PEAKS, arrays={"w": np.ones(8, "f4")}, after=3)


def test_as_many_threads_as_in_training_are_the_default(module):
    assert profile_module(module, runs=1, peaks=PEAKS).threads == available_cores()


def test_a_step_whose_kernels_are_not_shared_runs_on_one_thread():
    x, w = param("x", (8,)), param("w", (8,))
    step = Function("step", (x, w), (ops.sum(x), ops.multiply(w, 0.5)), {"donate": (("w", 1),)})
    profile = profile_module(IRModule((step,)), options=CompileOptions(threads=2), runs=1, peaks=PEAKS)
    assert profile.threads == 1


@pytest.fixture
def stored(monkeypatch):
    """Peaks far below those of this machine, and what is done to those that are stored."""
    kept = []

    def measure(_target, _threads, again=False):
        if again:
            kept.append("measured")
        return PEAKS

    def keep(_, peaks):
        kept.append(peaks)
        return peaks

    monkeypatch.setattr(measured_step, "machine_peaks", measure)
    monkeypatch.setattr(measured_step, "keep_peaks", keep)
    return kept


@pytest.mark.parametrize(("times", "raised"), [(1.2, True), (3.0, False)])
def test_exceeded_peaks_are_measured_again_and_raised_where_that_is_plausible(stored, monkeypatch, times, raised):
    """With clocks made up: the only kernel that is long enough to count takes its least time divided by `times`."""
    x, w = param("x", (1_000_000,)), param("w", (1_000_000,))
    step = Function("step", (x, w), (ops.add(x, w),))
    least = PEAKS.nanoseconds(1e6, 8e6, 4e6)
    clocks = Clocks(np.array([[[[0, least / times]]]]))
    account = StepAccount.of(clocks, least)
    monkeypatch.setattr(measured_step, "_run", lambda *_: measured_step._Measured(clocks, account, 100.0))
    profile = profile_module(IRModule((step,)), options=CompileOptions(threads=1), runs=1)
    (row,) = profile.rows
    assert stored[0] == "measured"
    if raised:
        assert row.attained == pytest.approx(1.0)
        assert stored[1:] == [profile.peaks]
        assert profile.notes == ("The stored peaks were too low and have been raised: memory 10.0 to 12.0 GB/s.",)
    else:
        assert stored[1:] == []
        assert row.attained == pytest.approx(times)
        assert profile.notes == (
            f"{row.kernel.name} is at 300% of the roofline, because the peak is too low; adjoint doctor --measure "
            "measures it again.",
        )
    assert json.loads(json.dumps(profile.as_dict()))["machine"]["raised"] == (profile.raised or None)


def test_no_runs_are_refused(module):
    with pytest.raises(InvalidValueError, match="runs is at least 1, got 0"):
        profile_module(module, runs=0, peaks=PEAKS)
    with pytest.raises(InvalidValueError, match="after is at least 0, got -1"):
        profile_module(module, after=-1, peaks=PEAKS)
