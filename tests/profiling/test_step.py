"""A measured step: its numbers add up, and say what the program says."""

import json

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile, host
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, IRModule, param
from adjoint.pipeline import lower_function
from adjoint.profiling.inputs import random_arrays
from adjoint.profiling.places import live_bytes
from adjoint.profiling.step import profile_module
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


def test_rates_are_the_kernels_work_over_its_time(profile):
    for row in profile.rows:
        one = row.as_dict()
        assert one["gflops"] * one["microseconds"] * 1e3 == pytest.approx(one["flops"] if row.nanoseconds else 0)
        assert one["gbytes"] * one["microseconds"] * 1e3 == pytest.approx(one["bytes"] if row.nanoseconds else 0)
        assert one["intensity"] * one["bytes"] == pytest.approx(one["flops"])
        assert one["roofline"] * row.nanoseconds == pytest.approx(
            max(one["flops"] / 100, one["bytes"] / (50 if one["bytes"] <= 10_000 else 10)) if row.nanoseconds else 0
        )
        assert one["level"] == ("L1" if one["bytes"] <= 10_000 else "memory")
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
    assert len(kernel["values"]) == len(kernel["operators"]) > 0


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


def test_no_runs_are_refused(module):
    with pytest.raises(InvalidValueError, match="runs is at least 1, got 0"):
        profile_module(module, runs=0, peaks=PEAKS)
