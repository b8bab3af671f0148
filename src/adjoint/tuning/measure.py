"""Time the schedules of contractions, each with the caches as the step leaves them.

Before every run, the caches are brought into the state in which the step leaves them (`adjoint.tuning.step_state`), so
a run is timed by itself. Schedules are compared by successive halving: all of them run a few times in turns, the faster
half some more times, and so on, so that most of the time goes to those that may be the best. Code of all schedules is
made in parallel first; then one core measures.
"""

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from math import inf
from statistics import mean

from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import compile_native
from adjoint.kernel.program import Program
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.schedules import Plan, PlannedContraction, contraction_kernels, same_sums, schedules
from adjoint.lower.fusion.groups import Group
from adjoint.runtime.library import Library
from adjoint.tuning.step_state import StepMemory, candidate_programs, uses_before
from adjoint.tuning.store import Measured

__all__ = ["Choice", "Tried", "choices", "contractions_by_work", "measure_contractions", "try_schedules"]

#: Minimum number of floating-point operations of a contraction that is measured: shorter ones take about as long as the
#: call.
_WORTH_MEASURING = 200_000
#: Runs of each schedule in the rounds of successive halving.
_RUNS = (4, 6, 8)
#: Runs of each schedule in a round at least, and nanoseconds of a round after which there are no more.
_FEWEST_RUNS, _NANOSECONDS = 3, 500_000_000
#: Maximum ratio of times at which a schedule is preferred to the estimated one.
_SAVES = 0.985


@dataclass(frozen=True, slots=True)
class Tried:
    """A schedule and the time that it took on one thread."""

    name: str
    nanoseconds: float


def contractions_by_work(planned: Mapping[Group, PlannedContraction]) -> list[tuple[Group, PlannedContraction]]:
    """One contraction of each signature that is worth measuring, those with most of the step's operations first.

    Of several with the same signature, it is the one in the middle of the step. Layers of a network repeat each other,
    and only the first and the last have neighbours of another kind.
    """
    by_name: dict[str, list[tuple[Group, PlannedContraction]]] = {}
    for group, made in planned.items():
        if _flops(made.contraction) >= _WORTH_MEASURING:
            by_name.setdefault(made.signature, []).append((group, made))
    ordered = sorted(by_name.values(), key=lambda same: -len(same) * _flops(same[0][1].contraction))
    return [same[len(same) // 2] for same in ordered]


@dataclass(frozen=True, slots=True)
class Choice:
    """A contraction with several plans to choose from, the estimated one first.

    Parameters
    ----------
    signature : str
        Its signature.
    group : Group
        Its group.
    plans : tuple of Plan
        The plans, which give the same bits.
    """

    signature: str
    group: Group
    plans: tuple[Plan, ...]


def choices(context: Context, planned: Mapping[Group, PlannedContraction]) -> list[Choice]:
    """What there is to choose in a function, in the order of `contractions_by_work`.

    Parameters
    ----------
    context, planned
        What `adjoint.lower.program.contractions_of` returns, without what is known.
    """
    made = [
        Choice(one.signature, group, tuple(same_sums(schedules(context, group, one.contraction))))
        for group, one in contractions_by_work(planned)
    ]
    return [choice for choice in made if len(choice.plans) > 1]


def measure_contractions(
    context: Context, unknown: Sequence[Choice], step: Program, seconds: float
) -> Iterator[tuple[str, Measured]]:
    """Measure contractions of a step on one thread, and yield what is found by signature, as soon as it is.

    Parameters
    ----------
    context, unknown
        What `adjoint.lower.program.contractions_of` and `choices` return.
    step : Program
        The program of the step.
    seconds : float
        No contraction is begun later.
    """
    end = time.perf_counter() + seconds
    for choice in unknown:
        if time.perf_counter() >= end:
            return
        yield choice.signature, _best(try_schedules(context, choice.group, choice.plans, step, end))


def try_schedules(
    context: Context, group: Group, plans: Sequence[Plan], step: Program | None = None, end: float = inf
) -> tuple[Tried, ...]:
    """Time the schedules of a contraction, the estimated one first.

    Parameters
    ----------
    context, group
        What `adjoint.lower.program.contractions_of` returns of it.
    plans : sequence of Plan
        The schedules.
    step : Program, optional
        The step whose caches they find; default: the contraction alone, again and again.
    end : float, default inf
        What `time.perf_counter` returns when only the round that runs is finished.
    """
    target = context.target
    value = context.names[group.members[0]]
    programs = candidate_programs(step, value, context, [contraction_kernels(context, group, plan) for plan in plans])
    uses = uses_before(step, value, target) if step is not None else ()
    codes = _compiled(programs, target)
    candidates = [_Candidate(program, code) for program, code in zip(programs, codes, strict=True)]
    times, overhead = _halving(candidates, partial(StepMemory, step, uses, programs), end), _overhead(target)
    return tuple(Tried(str(plan), max(each - overhead, 1.0)) for plan, each in zip(plans, times, strict=True))


def _best(tried: Sequence[Tried]) -> Measured:
    estimated, best = tried[0], min(tried, key=lambda one: one.nanoseconds)
    if best.nanoseconds > _SAVES * estimated.nanoseconds:
        best = estimated
    microseconds = (round(one.nanoseconds / 1e3, 1) for one in (best, estimated))
    return Measured(best.name, next(microseconds), estimated.name, next(microseconds))


def _flops(c: Contraction) -> int:
    return 2 * c.batches * c.rows * c.columns * c.depth


def _halving(candidates: Sequence["_Candidate"], memory_now: Callable[[], StepMemory], end: float) -> list[float]:
    """The nanoseconds of a run of each candidate, by successive halving; the first one stays to the end.

    Each round has memory of its own, because the pages that it happens to get decide what conflicts in the caches. In a
    round, the lower quartile of runs counts: what other programs do disturbs some, and no state of the caches is better
    than the one that is restored. Rounds are compared by their ratios to the first candidate.
    """
    ratios: list[list[float]] = [[] for _ in candidates]
    first: list[float] = []
    alive = list(range(len(candidates)))
    memory = None
    for runs in _RUNS:
        memory = memory_now()  # while the memory before is still there, so that pages differ
        times = _round([candidates[number] for number in alive], memory, runs)
        first.append(times[0])
        for number, each in zip(alive, times, strict=True):
            ratios[number].append(each / times[0])
        ranked = sorted(alive, key=lambda number: mean(ratios[number]))
        alive = list(dict.fromkeys((0, *ranked[: -(-len(ranked) // 2)])))
        if len(alive) == 1 or time.perf_counter() >= end:
            break
    return [mean(first) * mean(found) for found in ratios]


def _round(candidates: Sequence["_Candidate"], memory: StepMemory, runs: int) -> list[float]:
    """The lower quartile of the nanoseconds of each candidate, in turns."""
    found: list[list[int]] = [[] for _ in candidates]
    for candidate in candidates:
        candidate.bind(memory)
    start = time.perf_counter_ns()
    for run in range(runs):
        if run >= _FEWEST_RUNS and time.perf_counter_ns() - start > _NANOSECONDS:
            break
        for candidate, times in zip(candidates, found, strict=True):
            memory.restore()
            times.append(candidate.nanoseconds())
    return [_quartile(times) for times in found]


def _quartile(times: Sequence[int]) -> float:
    return float(sorted(times)[len(times) // 4])


def _compiled(programs: Sequence[Program], target: Target) -> list[tuple[bytes, ...]]:
    """The object code of each program; all modules are compiled in parallel, while others are emitted."""
    counts = [0] * len(programs)

    def texts() -> Iterator[str]:
        for number, program in enumerate(programs):
            for text in emit_modules(program, target):
                counts[number] += 1
                yield text

    objects = iter(compile_native(texts(), target))
    return [tuple(islice(objects, count)) for count in counts]


class _Candidate:
    """A compiled program, to be run on one thread."""

    def __init__(self, program: Program, objects: tuple[bytes, ...]) -> None:
        self._program = program
        self._library = Library(objects, (program.symbol,))
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
        )
        self._function = kind(self._library[program.symbol])

    def bind(self, memory: StepMemory) -> None:
        """Run on this memory from now on, which must live as long as runs follow."""
        addresses = memory.slots(self._program)
        self._slots = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        self._arena = memory.arena.ctypes.data

    def nanoseconds(self) -> int:
        """The time of a run."""
        start = time.perf_counter_ns()
        self._function(self._slots, self._arena, 0, 1, None)
        return time.perf_counter_ns() - start


@cache
def _overhead(target: Target) -> float:
    """Nanoseconds of a run of no kernels."""
    nothing = Program("candidate", (), (), (), (), frozenset(), {}, 0, 0, {}, ())
    (objects,) = _compiled([nothing], target)
    candidate, memory = _Candidate(nothing, objects), StepMemory(None, (), [nothing])
    candidate.bind(memory)
    return _quartile([candidate.nanoseconds() for _ in range(50)])
