"""Autotuning: measure contractions with every promising schedule, and store the best on disk.

The file is JSON, one per CPU, which can be read, copied to other machines of the same kind, or deleted::

    {"cpu": "znver5, 64-byte vectors",
     "contractions": {"float32 m16:144,0 n32:0,1 ...": {"form": "8x2x1", "microseconds": 1283.1,
                                                        "estimated": "14x2x1", "estimated_microseconds": 1442.0}}}
"""

import ctypes
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from adjoint import costs
from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import compile_native
from adjoint.errors import CacheError, InvalidValueError
from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.program import Program
from adjoint.kernel.target import Target
from adjoint.lower.context import Context
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.schedules import PlannedContraction, contraction_kernels, schedules
from adjoint.lower.expand import expand_math
from adjoint.lower.fusion.groups import Group
from adjoint.lower.schedule.memory import plan_arena
from adjoint.paths import write_whole
from adjoint.runtime.bound import aligned
from adjoint.runtime.library import Library

__all__ = ["Measured", "Tried", "Tuning", "measure_contractions", "try_schedules"]

#: Minimum number of floating-point operations of a contraction that is measured.
_WORTH_MEASURING = 200_000
#: Number of rounds in which the forms of a contraction are timed alternately, and nanoseconds per form and round.
_ROUNDS, _NANOSECONDS = 5, 2_000_000
#: Ratio to the least time from which a form is not timed again.
_HOPELESS = 1.5
#: Maximum ratio of times at which a form is preferred to the estimated one.
_SAVES = 0.97


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurement of a contraction.

    Parameters
    ----------
    form : str
        The best form (`adjoint.lower.contractions.schedules`).
    microseconds : float
        Its time on one thread.
    estimated : str
        The form that would be chosen without measuring.
    estimated_microseconds : float
        Its time.
    """

    form: str
    microseconds: float
    estimated: str
    estimated_microseconds: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """The stored measurements for one kind of CPU.

    Parameters
    ----------
    path : Path
        The file, created when there are measurements to store.
    cpu : str
        The CPU of the measurements.
    """

    path: Path
    cpu: str

    @classmethod
    def of(cls, target: Target, directory: Path) -> "Tuning":
        """The file of a target's CPU in a directory."""
        name, width = target.cpu, target.vector_bytes
        return cls(directory / f"{name}-{width}.json", f"{name}, {width}-byte vectors")

    def digest(self) -> str:
        """A digest of the file, part of the cache key of code that depends on it."""
        try:
            return hashlib.sha256(self.path.read_bytes()).hexdigest()
        except OSError:
            return ""

    def read(self) -> dict[str, Measured]:
        """Measurements by signature; empty if there is no file.

        Raises
        ------
        InvalidValueError
            If the file does not contain measurements of this CPU.
        """
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise CacheError(f"measurements cannot be read from {self.path} ({error}); make it readable") from error
        try:
            content = json.loads(text)
            found = {name: Measured(**fields) for name, fields in content["contractions"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"{self.path} is not a file of measured contractions: {error}; delete it"
            raise InvalidValueError(message) from error
        if content.get("cpu") != self.cpu:
            raise InvalidValueError(
                f"{self.path} holds measurements of {content.get('cpu')}, but this CPU is {self.cpu}; delete it"
            )
        return found

    def write(self, found: Mapping[str, Measured]) -> None:
        """Add measurements to the file."""
        merged = {**self.read(), **found}
        content = {"cpu": self.cpu, "contractions": {name: asdict(m) for name, m in sorted(merged.items())}}
        write_whole(self.path, (json.dumps(content, indent=1) + "\n").encode())


def measure_contractions(
    context: Context, planned: Mapping[Group, PlannedContraction], known: Mapping[str, Any]
) -> dict[str, Measured]:
    """Measure the contractions of a function that are not known yet, on one thread.

    Parameters
    ----------
    context, planned
        What `adjoint.lower.program.contractions_of` returns.
    known : mapping
        Signatures that need not be measured.
    """
    found: dict[str, Measured] = {}
    for group, made in planned.items():
        c, name = made.contraction, made.signature
        new = name not in known and name not in found
        if new and 2 * c.batches * c.rows * c.columns * c.depth >= _WORTH_MEASURING:
            found[name] = _measure(context, group, c)
    return found


@dataclass(frozen=True, slots=True)
class Tried:
    """A schedule and the least time that it took on one thread."""

    name: str
    nanoseconds: float


def try_schedules(
    context: Context, group: Group, c: Contraction, most: int = costs.TILE_CANDIDATES
) -> tuple[Tried, ...]:
    """Measure the schedules of a contraction in turn, the estimated one first.

    Parameters
    ----------
    context, group, c
        What `adjoint.lower.program.contractions_of` returns of it.
    most : int
        Register tiles of each form.
    """
    plans = schedules(context, group, c, most)
    memory: dict[Buffer, np.ndarray] = {}
    candidates = [_Candidate(context, contraction_kernels(context, group, plan), memory) for plan in plans]
    times = [candidate.nanoseconds() for candidate in candidates]
    for _ in range(_ROUNDS - 1):
        near = _HOPELESS * min(times)
        for number, candidate in enumerate(candidates):
            if times[number] <= near or number == 0:
                times[number] = min(times[number], candidate.nanoseconds())
    return tuple(Tried(str(plan), least) for plan, least in zip(plans, times, strict=True))


def _measure(context: Context, group: Group, c: Contraction) -> Measured:
    estimated, *others = try_schedules(context, group, c)
    best = min(others, key=lambda one: one.nanoseconds, default=estimated)
    if best.nanoseconds > _SAVES * estimated.nanoseconds:
        best = estimated
    microseconds = (round(one.nanoseconds / 1e3, 1) for one in (best, estimated))
    return Measured(best.name, next(microseconds), estimated.name, next(microseconds))


class _Candidate:
    """The kernels of one form of a contraction, compiled; all its forms share buffers outside the arena."""

    def __init__(self, context: Context, kernels: list[Kernel], memory: dict[Buffer, np.ndarray]) -> None:
        program = _alone(context, [replace(k, parallel=False) for k in kernels])
        objects = compile_native(emit_modules(program, context.target), context.target)
        self._library = Library(objects, (program.symbol,))
        for buffer in program.slots:
            if buffer not in memory:
                memory[buffer] = _filled(buffer.size, buffer.dtype)
        self._memory = [memory[b] for b in program.slots]
        self._arena = _filled(-(-program.working_bytes(1) // 4), np.dtype(np.float32))
        self._slots = (ctypes.c_void_p * max(len(self._memory), 1))(*(a.ctypes.data for a in self._memory))
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
        )
        self._function = kind(self._library[program.symbol])
        self._runs = 1
        self._runs = max(1, min(1000, int(_NANOSECONDS / max(min(self.nanoseconds() for _ in range(3)), 1.0))))

    def nanoseconds(self) -> float:
        """The average time of a run."""
        start = time.perf_counter_ns()
        for _ in range(self._runs):
            self._function(self._slots, self._arena.ctypes.data, 0, 1, None)
        return (time.perf_counter_ns() - start) / self._runs


def _filled(size: int, dtype: np.dtype) -> np.ndarray:
    """Ordinary numbers: neither zeros nor subnormals."""
    array = aligned((max(size, 1),), dtype)
    if dtype.kind == "f" or dtype.name == "bfloat16":
        array.fill(0.5)
    return array


def _alone(context: Context, kernels: list[Kernel]) -> Program:
    """A program that consists of these kernels only."""
    kernels = [expand_math(k) for k in kernels]
    offsets, arena, bound = plan_arena(kernels)
    used = dict.fromkeys(b for k in kernels for b in (*k.writes, *k.reads))
    slots = tuple(b for b in used if b.space == "external")
    literals = {buffer: data for (data, _), buffer in context.literals.items() if buffer in used}
    return Program("candidate", (), (), slots, tuple(kernels), frozenset(), offsets, arena, bound, literals, ())
