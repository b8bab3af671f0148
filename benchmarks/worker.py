"""One cell: a process in a peer's own interpreter, which builds a step and runs it when it is told to.

`harness.Worker` starts it as ``python -m benchmarks.worker REQUEST`` and talks to it in lines of JSON: after the
first steps the worker answers with what they took, and then each line ``{"seconds": ...}`` asks for a window of
steps. It ends with its standard input.

Nothing but the standard library is imported here at the top: importing the peer is part of what is measured.
"""

import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["CHECKED", "WARM", "load_peer", "main", "observed", "run_window", "serve", "version"]

#: Steps whose losses are compared between peers, and the seconds after which a slow peer takes no more of them.
CHECKED = 20
CHECKING_S = 60.0

#: Share of a window that is run before the clock starts, to find caches and clock rates as the window will: where a
#: step is no longer than a window.
WARM = 0.2

#: About how many seconds lie between two looks at the clock.
GLANCE_S = 0.005


def load_peer(path: Path) -> ModuleType:
    """The module of a peer's file, under a name that hides no framework."""
    spec = importlib.util.spec_from_file_location(f"benchmark_peer_{path.stem}", path)
    assert spec is not None  # a path that ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and pickle look for it
    spec.loader.exec_module(module)
    return module


def run_window(
    step: Callable[..., Any],
    read: Callable[[Any], float],
    batches: Sequence[tuple[Any, ...]],
    seconds: float,
    glance: int,
) -> tuple[int, float]:
    """Run steps for a time: how many, and how long they took.

    Parameters
    ----------
    step, read : callable
        As `build` of a peer returned them; the loss of every step is read.
    batches : sequence of tuples of numpy.ndarray
        Taken in turn.
    seconds : float
        At least so long.
    glance : int
        Steps between two looks at the clock.
    """
    steps, source, clock = 0, cycle(batches), time.perf_counter
    start = clock()
    while True:
        for batch in islice(source, glance):
            read(step(*batch))
        steps += glance
        if (elapsed := clock() - start) >= seconds:
            return steps, elapsed


def peak_memory() -> int:
    """The most bytes that this process has held.

    `ru_maxrss` starts from what the process that launched this one held, so the kernel's own count is read where
    there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def busy_seconds() -> float | None:
    """Seconds that the cores this process may use have worked for anyone since they started, or None."""
    status = Path("/proc/stat")
    if not status.exists():
        return None
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    rows = (line.split() for line in status.read_text().splitlines())
    # user, nice, system, (idle, waiting,) irq, softirq, and what the hypervisor gave to others.
    ticks = sum(sum(map(int, (*row[1:4], *row[6:9]))) for row in rows if row[0] in mine)
    return ticks / os.sysconf("SC_CLK_TCK")


def observed(window: Callable[[], tuple[int, float]]) -> dict[str, Any]:
    """How many steps a window took and how long, the cores that it and others used meanwhile, and memory."""
    everyone, own = busy_seconds(), time.process_time()
    steps, elapsed = window()
    used = time.process_time() - own
    others = max(0.0, (busy_seconds() or 0.0) - everyone - used) if everyone is not None else 0.0
    return {
        "steps": steps,
        "seconds": elapsed,
        "cores": used / elapsed,
        "others": others / elapsed,
        "peak_bytes": peak_memory(),
    }


def version(name: str) -> str:
    """Version of an installed framework, by the name that it is imported by."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    # This reads what is written of every package, which takes memory: only where the two names differ.
    found = importlib.metadata.packages_distributions().get(name)
    return importlib.metadata.version(found[0]) if found else "unknown"


def _start(request: dict[str, Any]) -> tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]:
    """Build the step and take the first ones: the answer, and what runs a window."""
    path = Path(request["peer"])
    start = time.perf_counter()
    peer = load_peer(path)
    import_s = time.perf_counter() - start
    workload = importlib.import_module(request["source"]).load(request["workload"], Path(request["arrays"]))
    batches = [tuple(a.astype(peer.INT) if a.dtype.kind == "i" else a for a in batch) for batch in workload.batches]
    start = time.perf_counter()
    step, read = peer.build(workload, request["mode"], request["threads"])
    del workload  # the peer has taken in what it needs: initial arrays are not part of its memory
    losses = [float(read(step(*batches[0])))]
    first_step_s = time.perf_counter() - start
    start, spent = time.perf_counter(), 0.0
    while len(losses) < CHECKED and spent < CHECKING_S:
        losses.append(float(read(step(*batches[len(losses) % len(batches)]))))
        spent = time.perf_counter() - start
    step_s = spent / (len(losses) - 1)
    glance = max(1, min(round(GLANCE_S / step_s), 1000))
    answer = {"import_s": import_s, "first_step_s": first_step_s, "losses": losses, "version": version(path.stem)}

    def window(asked: dict[str, Any]) -> dict[str, Any]:
        seconds = asked["seconds"]
        if step_s < seconds:
            run_window(step, read, batches, seconds * WARM, glance)
        return observed(lambda: run_window(step, read, batches, seconds, glance))

    return answer | {"peak_bytes": peak_memory()}, window


def serve(begin: Callable[[dict[str, Any]], tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]]) -> None:
    """Answer the request on the command line, and then each line of standard input, in lines of JSON.

    Parameters
    ----------
    begin : callable
        Takes the request; returns the first answer, and what answers a line.
    """
    # Answers have a descriptor of their own; whatever a framework prints goes where errors go.
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)
        first, answer = begin(json.loads(sys.argv[1]))
        print(json.dumps(first), file=answers)
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), file=answers)
    os._exit(0)  # some frameworks hang or crash in their exit handlers


def main() -> None:
    """Serve windows of one cell, given as JSON on the command line."""
    serve(_start)


if __name__ == "__main__":
    main()
