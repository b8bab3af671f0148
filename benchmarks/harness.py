"""Cells: processes that run the peers, interleaved, and the measurements of them."""

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Self

from benchmarks.roster import OURS, Peer

__all__ = [
    "ROOT",
    "SETTLE_S",
    "TOLERANCE",
    "Cell",
    "CellError",
    "Process",
    "Result",
    "Session",
    "Worker",
    "check_losses",
    "groups",
    "import_seconds",
    "measure",
    "pinned",
]

ROOT = Path(__file__).resolve().parent.parent

#: Environment variables that set the number of threads of libraries.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

#: Maximum relative difference of losses.
TOLERANCE = 1e-4

#: Seconds to wait before each window, because threads of the previous peer may still spin.
SETTLE_S = 0.25

#: Number of steps per second below which a peer takes part only in the first rounds, and the number of these.
SLOW, SLOW_ROUNDS = 0.1, 3


class CellError(Exception):
    """A cell could not be measured; the message is the last line of its output."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The configuration that one process measures; `source` is the module whose `load` makes the workload."""

    peer: Peer
    mode: str
    workload: str
    threads: int
    source: str = "benchmarks.workloads"

    @property
    def label(self) -> str:
        """``peer:mode``, or the peer alone if it has only one mode."""
        return self.peer.name if len(self.peer.modes) == 1 else f"{self.peer.name}:{self.mode}"

    @property
    def caches(self) -> tuple[str, ...]:
        """The cache variables that apply to this mode."""
        return self.peer.caches if self.mode in self.peer.cached_modes else ()


@dataclass(slots=True)
class Result:
    """The measurements of a cell.

    Attributes
    ----------
    cell : Cell
        The cell.
    cold_s : list of float
        Seconds from importing the peer to its first loss, in fresh processes with an empty compile cache.
    cached_s : list of float
        The same with the cache that a previous process has filled; empty if the mode has no cache.
    losses : list of float
        Losses of the first steps.
    rates : list of float
        Steps per second in each round.
    cores, others : list of float
        Cores' worth of CPU time used in each round by the process, and by others on its cores.
    peak_bytes : int
        Maximum memory of the process.
    version : str
        Version of the framework.
    error : str or None
        Why there is no result.
    differs : bool
        Whether the reason is that its losses differ from the others'.
    """

    cell: Cell
    cold_s: list[float] = field(default_factory=list)
    cached_s: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    peak_bytes: int = 0
    version: str = ""
    error: str | None = None
    differs: bool = False

    def add(self, window: Mapping[str, Any]) -> None:
        """Add a window."""
        self.rates.append(window["steps"] / window["seconds"])
        self.cores.append(window["cores"])
        self.others.append(window["others"])
        self.peak_bytes = max(self.peak_bytes, window["peak_bytes"])


@contextlib.contextmanager
def pinned(threads: int, group: int = 0) -> Iterator[None]:
    """Start processes on as many cores as threads within this context; on all if affinity is not supported.

    Group 0 is the last cores, because the first serves most interrupts, group 1 those in front of them, and so on.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    cores = sorted(before, reverse=True)
    os.sched_setaffinity(0, cores[group * threads : (group + 1) * threads] or cores[:threads])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def groups(threads: int) -> int:
    """How many groups of cores there are, at least 1: processes of different ones do not share a core."""
    return max(1, len(os.sched_getaffinity(0)) // threads) if hasattr(os, "sched_getaffinity") else 1


def environment(threads: int, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a cell: CPU only, at most one thread per core, and with Python's bytecode cache."""
    counts = dict.fromkeys(THREAD_VARIABLES, str(threads))
    here = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**here, **counts, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", **extra}


class Process:
    """A process that receives requests and sends answers as lines of JSON.

    Parameters
    ----------
    command : sequence of str
        The command that starts it, run in the root of the checkout.
    threads : int
        Number of cores that it is pinned to, and number of threads that libraries should use.
    extra : mapping of str to str
        Further environment variables.
    limit : float
        Time limit for an answer, in seconds.
    group : int, default 0
        Which cores, as for `pinned`.
    """

    def __init__(
        self, command: Sequence[str], threads: int, extra: Mapping[str, str], limit: float, group: int = 0
    ) -> None:
        self._limit = limit
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        with pinned(threads, group):
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(threads, extra),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )

    def answer(self) -> dict[str, Any]:
        """Read the next answer.

        Raises
        ------
        CellError
            If the process has exited or does not answer in time.
        """
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], self._limit)[0]:
            raise CellError(f"no answer within {self._limit:g} s")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise CellError(said[-1][:300] if said else f"ended with status {self._process.returncode}")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, **message: Any) -> dict[str, Any]:
        """Send a request and return the answer; raises like `answer`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


class Worker(Process):
    """A process that runs a cell; see `benchmarks.worker`.

    Parameters
    ----------
    cell : Cell
        The cell to run.
    arrays : Path
        File with the workload's arrays.
    extra, limit, group
        As for `Process`.
    """

    def __init__(self, cell: Cell, arrays: Path, extra: Mapping[str, str], limit: float, group: int = 0) -> None:
        request: dict[str, Any] = {"peer": str(cell.peer.path), "mode": cell.mode, "workload": cell.workload}
        request |= {"threads": cell.threads, "arrays": str(arrays), "source": cell.source}
        assert cell.peer.python is not None  # `choose` rejects others
        command = [cell.peer.python, "-m", "benchmarks.worker", json.dumps(request)]
        super().__init__(command, cell.threads, extra, limit, group)

    def window(self, seconds: float) -> dict[str, Any]:
        """Run steps for a given time; raises like `answer`."""
        return self.ask(seconds=seconds)


def check_losses(results: Sequence[Result], tolerance: float = TOLERANCE) -> None:
    """Set the error of each result whose losses agree with those of no other framework.

    If there is only one peer, its modes are compared with each other. One that agrees suffices: where a network is
    chaotic, rounding sends some frameworks one way and some another. The losses of adjoint must be those of a peer; a
    single mode of a single peer is not held to adjoint. A peer that is too slow for all steps has fewer losses, and
    others are not held to it.
    """
    found = [r for r in results if r.losses]
    peers = [r for r in found if r.cell.peer.name != OURS]
    ours = [r for r in found if r.cell.peer.name == OURS]
    most = max((len(r.losses) for r in peers), default=0)
    complete = [r for r in peers if len(r.losses) == most]
    for result in found:
        others = [r for r in complete if r.cell.peer.name != result.cell.peer.name]
        others = others or [r for r in complete if r is not result]
        if not others:
            continue
        if result.cell.peer.name != OURS:
            others += ours
        differences = [_difference(result, other, tolerance) for other in others]
        if all(differences):
            result.error, result.differs = differences[0], True


def _difference(result: Result, reference: Result, tolerance: float) -> str | None:
    """The first loss that differs from the reference's, in words.

    Losses agree within `tolerance`, or the tolerance of a peer if that is greater, relative to the loss, or to a tenth
    of the greatest loss before it: batches differ, and the rounding errors of a network do not shrink where it happens
    to predict a batch well.
    """
    allowed = (r.cell.peer.tolerances.get(r.cell.workload, 0.0) for r in (result, reference))
    most = max(tolerance, *allowed)
    greatest = accumulate(map(abs, reference.losses), max)
    losses = zip(result.losses, reference.losses, greatest, strict=False)
    for step, (ours, theirs, so_far) in enumerate(losses, 1):
        if not abs(ours - theirs) <= most * max(abs(theirs), so_far / 10):  # also true for NaN
            return f"loss {step} is {ours:.7g}, that of {reference.cell.label} {theirs:.7g}"
    return None


class Session:
    """The processes of cells that are measured together; use it in a ``with`` statement, which ends them.

    Parameters
    ----------
    cells : sequence of Cell
        Cells of one workload and one number of threads.
    arrays : Path
        File with the workload's arrays.
    limit : float
        Time limit for an answer, in seconds.
    group : int, default 0
        The cores that the processes run on, as for `pinned`.

    Attributes
    ----------
    results : list of Result
        Of each cell what is known so far. A cell that failed has an `error`.
    """

    def __init__(self, cells: Sequence[Cell], arrays: Path, limit: float, group: int = 0) -> None:
        self.results = [Result(cell) for cell in cells]
        self._arrays, self._limit, self._group = arrays, limit, group
        self._workers: dict[int, Worker] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="adjoint-benchmark-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for worker in self._workers.values():
            worker.close()
        self._folder.cleanup()

    def start(self, starts: int) -> Iterator[list[Result]]:
        """Start the cells one after another; yields after each.

        Each is started `starts` times with empty compile caches, and as often with full ones; the last process stays.
        With 0 starts it is started once, and the time of its first step is not kept.
        """
        for number, result in enumerate(self.results):
            try:
                self._workers[number] = self._begin(result, starts)
            except CellError as error:
                result.error = str(error)
            yield self.results

    def run(self, rounds: int, seconds: float, tolerance: float) -> Iterator[list[Result]]:
        """Compare the losses and measure in turn; yields after each round."""
        check_losses(self.results, tolerance)
        for turn in range(rounds):
            for number, result in enumerate(self.results):
                if result.error is None and (turn < SLOW_ROUNDS or result.rates[-1] >= SLOW):
                    _round(result, self._workers[number], seconds)
            yield self.results

    def _begin(self, result: Result, starts: int) -> Worker:
        """The process of a cell, after the starts that are timed."""
        worker: Worker | None = None
        for caches, times in self._caches_and_times(result, starts):
            if worker is not None:
                worker.close()
            worker = Worker(result.cell, self._arrays, caches, self._limit, self._group)
            try:
                answer = worker.answer()
            except BaseException:
                worker.close()
                raise
            times.append(float(answer["import_s"] + answer["first_step_s"]))
        assert worker is not None  # there is at least one start
        result.losses, result.version = answer["losses"], answer["version"]
        return worker

    def _caches_and_times(self, result: Result, starts: int) -> Iterator[tuple[dict[str, str], list[float]]]:
        """The compile caches of each start, and the list that gets its time."""
        for _ in range(max(1, starts)):
            caches = {name: tempfile.mkdtemp(dir=self._folder.name) for name in result.cell.caches}
            yield caches, result.cold_s if starts else []
            if caches and starts:
                yield caches, result.cached_s


def measure(
    cells: Sequence[Cell],
    arrays: Path,
    rounds: int,
    seconds: float,
    starts: int = 1,
    limit: float = 600.0,
    tolerance: float = TOLERANCE,
) -> Iterator[list[Result]]:
    """Measure cells, interleaved: A B C, A B C, ... . A cell with steps of more than ten seconds has at most three
    rounds.

    Each cell is one process. All are started first, one after another, and then wait. In each round each of them runs
    for one window while the others sleep, so that drift of the machine's speed affects all of them alike.

    Parameters
    ----------
    cells, arrays, limit
        As for `Session`.
    rounds : int
        Number of windows per cell.
    seconds : float
        Length of a window.
    starts : int, default 1
        Number of fresh processes whose first step is timed.
    tolerance : float, default 1e-4
        Maximum relative difference of losses.

    Yields
    ------
    list of Result
        The same list after each start and after each round, with more results each time. A cell that fails has an
        `error`, and one whose losses differ is not measured.
    """
    with Session(cells, arrays, limit) as session:
        yield from session.start(starts)
        yield from session.run(rounds, seconds, tolerance)


def _round(result: Result, worker: Worker, seconds: float) -> None:
    """Measure one window of one cell."""
    time.sleep(SETTLE_S)
    try:
        found = worker.window(seconds)
    except CellError as error:
        result.error = str(error)
        return
    result.add(found)


def import_seconds(peer: Peer, times: int = 3) -> float | None:
    """Time in seconds to import a peer in a fresh process, the minimum of several; None if it fails."""
    code = f"import time; start = time.perf_counter(); import {peer.name}; print(time.perf_counter() - start)"
    assert peer.python is not None  # `choose` rejects others
    found = []
    for _ in range(times):
        command, env = [peer.python, "-c", code], environment(1, {})
        with pinned(1):
            done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return None
        found.append(float(done.stdout.split()[-1]))
    return min(found)
