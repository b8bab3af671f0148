"""A profile as a trace for Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing).

The format is the JSON object form of the "Trace Event Format": complete events (``ph`` "X") with start and duration in
microseconds, one track per thread; metadata events name the tracks, counter events show the arena's use.
"""

import json
from collections.abc import Iterator
from typing import Any

from adjoint.profiling.places import live_bytes
from adjoint.profiling.step import StepProfile

__all__ = ["trace_events", "trace_text"]

#: Number of steps in a trace.
_STEPS = 5

#: Shortest wait that is shown, in nanoseconds; a shorter one is the time for reading the clock.
_WAIT = 100

_PROCESS = 1


def trace_events(profile: StepProfile, steps: int = _STEPS) -> list[dict[str, Any]]:
    """The events of the last `steps` runs of a profile.

    Parameters
    ----------
    profile : StepProfile
        The profile.
    steps : int, default 5
        Number of runs; all if there were fewer.
    """
    clock = profile.clocks.nanoseconds[-steps:]
    events = list(_tracks(profile))
    if not clock.size:
        return events
    origin = int(clock.min())
    for number, run in enumerate(clock):
        for thread, times in enumerate(run):
            events.append(_event(f"step {number}", "step", thread, (times.min(), times.max()), origin, {}))
            events.extend(_kernels(profile, thread, times, origin))
        events.extend(_memory(profile, run, origin))
    return events


def trace_text(profile: StepProfile, steps: int = _STEPS) -> str:
    """The trace as the content of a JSON file; arguments as for `trace_events`."""
    about = {"title": profile.title, "cpu": profile.peaks.cpu, "threads": profile.threads}
    whole = {"displayTimeUnit": "ns", "otherData": about, "traceEvents": trace_events(profile, steps)}
    return json.dumps(whole) + "\n"


def _tracks(profile: StepProfile) -> Iterator[dict[str, Any]]:
    """The names of the process and its threads."""
    yield {"ph": "M", "pid": _PROCESS, "tid": 0, "name": "process_name", "args": {"name": f"adjoint {profile.title}"}}
    for thread in range(profile.threads):
        name = {"name": f"thread {thread}"}
        yield {"ph": "M", "pid": _PROCESS, "tid": thread, "name": "thread_name", "args": name}
        yield {"ph": "M", "pid": _PROCESS, "tid": thread, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _kernels(profile: StepProfile, thread: int, times: Any, origin: int) -> Iterator[dict[str, Any]]:
    """The kernels of one run on one thread, and the waits between them."""
    ended = None
    for row, (start, end) in zip(profile.rows, times, strict=True):
        if profile.threads > 1 and ended is not None and start - ended >= _WAIT:
            yield _event("wait", "wait", thread, (ended, start), origin, {})
        ended = end
        if thread and not row.kernel.parallel:
            continue
        about = {
            "part": row.part,
            "values": ", ".join(name.removeprefix("%") for name in row.kernel.values),
            "operators": ", ".join(row.operators),
            "lines": row.kernel.listed_lines(),
            "flops": row.kernel.flops,
            "bytes": row.kernel.bytes,
        }
        yield _event(row.kernel.name, row.part, thread, (start, end), origin, about)


def _memory(profile: StepProfile, run: Any, origin: int) -> Iterator[dict[str, Any]]:
    """The arena's use while each kernel runs."""
    for live, kernel in zip(live_bytes(profile.blocks, len(profile.rows)), run[0], strict=True):
        at = (int(kernel[0]) - origin) / 1e3
        yield {"ph": "C", "pid": _PROCESS, "tid": 0, "name": "arena in use", "ts": at, "args": {"bytes": live}}


def _event(
    name: str, category: str, thread: int, span: tuple[Any, Any], origin: int, args: dict[str, Any]
) -> dict[str, Any]:
    start, end = (int(moment) for moment in span)
    return {
        "ph": "X",
        "pid": _PROCESS,
        "tid": thread,
        "name": name,
        "cat": category,
        "ts": (start - origin) / 1e3,
        "dur": (end - start) / 1e3,
        "args": args,
    }
