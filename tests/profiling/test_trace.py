"""Traces: what Perfetto needs of every event, and that they tell what was measured."""

import json
from itertools import pairwise

from adjoint.profiling.trace import trace_events, trace_text


def test_every_event_has_what_the_format_asks_for(profile):
    trace = json.loads(trace_text(profile))
    assert trace["displayTimeUnit"] == "ns"
    for event in trace["traceEvents"]:
        assert event["ph"] in "XMC"
        assert isinstance(event["name"], str)
        assert event["pid"] == 1
        assert event["tid"] in range(profile.threads)
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0


def test_each_thread_has_a_track_with_every_kernel_of_every_step(profile):
    events = trace_events(profile, steps=3)
    for thread in range(profile.threads):
        mine = [e for e in events if e["ph"] == "X" and e["tid"] == thread]
        named = [e for e in events if e["ph"] == "M" and e["tid"] == thread and e["name"] == "thread_name"]
        assert len(named) == 1
        steps = [e for e in mine if e["cat"] == "step"]
        assert [e["name"] for e in steps] == ["step 0", "step 1", "step 2"]
        kernels = [e for e in mine if e["cat"] not in ("step", "wait")]
        expected = [row.kernel.name for row in profile.rows if thread == 0 or row.kernel.parallel]
        assert [e["name"] for e in kernels] == expected * 3
        for step in steps:
            inside = [
                e for e in mine if step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= step["ts"] + step["dur"] + 1e-6
            ]
            assert len(inside) >= len(expected)


def test_events_of_a_track_nest_or_follow_each_other(profile):
    for thread in range(profile.threads):
        mine = [e for e in trace_events(profile) if e["ph"] == "X" and e["tid"] == thread and e["cat"] != "step"]
        for before, after in pairwise(mine):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-6


def test_events_carry_what_the_kernel_is(profile):
    events = [e for e in trace_events(profile, steps=1) if e["tid"] == 0 and e["ph"] == "X"]
    found = {e["name"]: e for e in events}
    for row in profile.rows:
        event = found[row.kernel.name]
        assert event["cat"] == event["args"]["part"] == row.part
        assert (event["args"]["flops"], event["args"]["bytes"]) == (row.kernel.flops, row.kernel.bytes)
        assert event["args"]["operators"] == ", ".join(row.operators)
        assert event["args"]["lines"] == row.kernel.listed_lines()


def test_the_arena_is_a_counter(profile):
    counters = [e for e in trace_events(profile, steps=1) if e["ph"] == "C"]
    assert len(counters) == len(profile.rows)
    assert 0 < max(e["args"]["bytes"] for e in counters) <= profile.memory.arena


def test_no_more_steps_than_were_run(profile):
    names = {e["name"] for e in trace_events(profile, steps=100) if e.get("cat") == "step"}
    assert len(names) == profile.runs
