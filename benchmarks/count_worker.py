"""The process of one commit: builds a workload's step with that commit's adjoint and counts its instructions.

`benchmarks.compare` starts it as ``python -m benchmarks.count_worker REQUEST`` with the commit's sources in the path;
it answers with one line of JSON.
"""

import gc
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.counters.base import Counter, NoCounterError
from benchmarks.worker import load_peer, serve

__all__ = ["main"]

#: Functions of a step; the names of kernels are reported without their prefix, which differs between commits.
STEP = re.compile(r"(?:adjoint\.)?(?:step[_.])?(?:kernel[_.])?(step|step[_.]check|(?<=kernel[_.]).+?)(?:\.units)?")


def _counter(name: str) -> Counter:
    if name == "blocks":
        native = importlib.import_module("adjoint.codegen.native").NativeCode
        made: Counter = importlib.import_module("benchmarks.counters.blocks").BlockCounter(native, STEP)
    elif name == "perf":
        made = importlib.import_module("benchmarks.counters.perf").PerfCounter()
    else:
        made = importlib.import_module("benchmarks.counters.valgrind").ValgrindCounter()
    return made


def _counted(request: dict[str, Any]) -> dict[str, Any]:
    """Instructions per step: those of 2 N steps minus those of N, so that startup and shutdown are excluded."""
    adjoint = importlib.import_module("adjoint")
    source = Path(request["source"])
    if not Path(str(adjoint.__file__)).is_relative_to(source):
        raise RuntimeError(f"adjoint came from {adjoint.__file__}, not from {source}")
    counter = _counter(request["counter"])
    peer = load_peer(source / "benchmarks" / "peers" / "adjoint.py")
    workload = importlib.import_module("benchmarks.workloads").make(request["workload"])
    batches = [tuple(a.astype(peer.INT) if a.dtype.kind == "i" else a for a in pair) for pair in workload.batches]
    step, read = peer.build(workload, peer.MODES[0], 1)
    steps: int = request["steps"]

    def run(count: int) -> Callable[[], None]:
        def steps_in_turn() -> None:
            for number in range(count):
                read(step(*batches[number % len(batches)]))

        return steps_in_turn

    run(1)()
    gc.collect()
    gc.disable()
    once, twice = counter.count(run(steps)), counter.count(run(2 * steps))
    total, functions = once.per_step(twice, steps)
    return {"instructions": total, "functions": functions}


def _begin(request: dict[str, Any]) -> tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]:
    try:
        return _counted(request), lambda _: {}
    except NoCounterError as error:
        sys.exit(str(error))


def main() -> None:
    """Count one workload, given as JSON on the command line."""
    serve(_begin)


if __name__ == "__main__":
    main()
