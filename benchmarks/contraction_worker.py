"""The process of one library, in its own interpreter: prepares contractions and runs them on request.

`benchmarks.contractions` starts it as ``python -m benchmarks.contraction_worker REQUEST`` and communicates in lines of
JSON: ``{"case": ..., "arrays": ...}`` prepares a contraction, and ``{"seconds": ...}`` requests a window of calls.
"""

import contextlib
import ctypes
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contraction_cases import Case
from benchmarks.worker import WARM, load_peer, observed, serve, version

__all__ = ["difference", "main", "run_calls"]

#: Approximate time between two readings of the clock, in seconds.
GLANCE_S = 0.001


def run_calls(run: Callable[[], object], seconds: float, glance: int) -> tuple[int, float]:
    """Call a function for a given time, reading the clock every `glance` calls; return the number of calls and the
    time."""
    calls, clock = 0, time.perf_counter
    start = clock()
    while True:
        for _ in repeat(None, glance):
            run()
        calls += glance
        if (elapsed := clock() - start) >= seconds:
            return calls, elapsed


def difference(got: np.ndarray, wanted: np.ndarray) -> float:
    """The maximum difference of two arrays, relative to the maximum of the second."""
    return float(np.max(np.abs(got.astype(np.float64) - wanted))) / float(np.max(np.abs(wanted)))


class _Library:
    """Answers requests for the contraction prepared last."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._peer = load_peer(Path(request["peer"]))
        self._run: Callable[[], object] = lambda: None
        self._glance = 1

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer a request to prepare or run."""
        if "case" in asked:
            return self._prepare(Case.from_dict(asked["case"]), Path(asked["arrays"]))
        run_calls(self._run, asked["seconds"] * WARM, self._glance)
        return observed(lambda: run_calls(self._run, asked["seconds"], self._glance))

    def _prepare(self, case: Case, arrays: Path) -> dict[str, Any]:
        self._run = lambda: None  # the previous contraction goes, with its arrays
        _trim()
        with np.load(arrays) as file:
            left, right, wanted = (file[name] for name in ("left", "right", "wanted"))
        made = self._peer.prepare(case, self._request["mode"], self._request["threads"], left, right)
        if made is None:
            return {"supported": False}
        self._run, result = made
        self._run()
        calls, elapsed = run_calls(self._run, 2 * GLANCE_S, 1)
        self._glance = max(1, round(GLANCE_S * calls / elapsed))
        return {"supported": True, "difference": difference(result(), wanted)}


def _trim() -> None:
    """Give freed memory back to the system, which some contractions need by the gigabyte; glibc only."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _begin(request: dict[str, Any]) -> tuple[dict[str, Any], Callable[[dict[str, Any]], dict[str, Any]]]:
    library = _Library(request)
    return {"version": version(Path(request["peer"]).stem)}, library.answer


def main() -> None:
    """Serve one library, given as JSON on the command line."""
    serve(_begin)


if __name__ == "__main__":
    main()
