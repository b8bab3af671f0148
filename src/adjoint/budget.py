"""Programs within a memory budget: kernels in a leaner order, and values of the forward pass computed again.

Both leave the bits of all results unchanged. The order costs nothing but locality, so it is tried first; recomputation
costs time, so as little of it as suffices is chosen.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from adjoint.errors import CompileError
from adjoint.ir import Function, free_number, numbered
from adjoint.kernel.program import Program
from adjoint.kernel.races import verify_barriers
from adjoint.lower.schedule.lifetimes import live_bytes, shorten_lifetimes
from adjoint.lower.schedule.memory import plan_arena
from adjoint.lower.schedule.order import barriers, claimed_kernels
from adjoint.transforms.rematerialize import rematerializations

__all__ = ["lean", "within_budget"]

#: Largest ratio of estimated memory peaks from one choice of recomputed values to the next. Each choice has to be
#: lowered to determine its actual memory, which takes time.
_LEAST_STEP = 0.95

#: Most choices that are lowered between no recomputation and the most of it.
_TRIES = 4


def within_budget(
    function: Function, program: Program, lowered: Callable[[Function], Program], budget: int, threads: int
) -> tuple[Function, Program]:
    """The program of a function whose working memory is within a budget, and the graph that it computes.

    Parameters
    ----------
    function : Function
        The function after graph passes.
    program : Program
        Its program, whose working memory exceeds the budget.
    lowered : callable
        Makes the program of a function.
    budget : int
        Maximum working memory in bytes.
    threads : int
        Number of threads.

    Raises
    ------
    CompileError
        If it cannot be met. At most two programs have been planned then: `program`, and the one that recomputes the
        most. So no budget below that of the leaner one is ever met, and the message states it.
    """

    def fitting(one: Program) -> Program:
        """The program, or if it is too large the same in a leaner order."""
        return one if one.working_bytes(threads) <= budget else lean(one)

    def planned(recomputing: Function) -> tuple[Function, Program]:
        """A recomputing function, in which values that it adds get numbers of their own, and its program."""
        made = numbered(recomputing, free)
        return made, fitting(lowered(made))

    free = free_number(function)
    found = fitting(program)
    if found.working_bytes(threads) <= budget:
        return function, found
    steps = list(_distinct(rematerializations(function)))
    last, most = planned(steps[-1][1]) if len(steps) > 1 else (function, found)
    if most.working_bytes(threads) > budget:
        raise _refusal(function.name, min(found, most, key=lambda one: one.working_bytes(threads)), budget, threads)
    high, low = (steps[0][0], found.working_bytes(threads)), (steps[-1][0], most.working_bytes(threads))
    between = steps[1:-1]
    for _ in range(_TRIES):
        # What recomputation saves is an estimate until kernels are fused and ordered, hence the measured points.
        aim = low[0] + (high[0] - low[0]) * (budget - low[1]) / max(high[1] - low[1], 1)
        between = [step for step in between if step[0] <= aim]
        if not between:
            break
        peak, recomputing = between.pop(0)
        graph, made = planned(recomputing)
        if made.working_bytes(threads) <= budget:
            return graph, made
        high = (peak, made.working_bytes(threads))
    return last, most


def lean(program: Program) -> Program:
    """The program with its kernels in an order that needs less memory, if there is one; its results are the same.

    The order in programs with loops or branches stays as it is.
    """
    if program.regions:
        return program
    kernels = shorten_lifetimes(program.kernels)
    plans = [(order, *plan_arena(order, thorough=True)) for order in (list(program.kernels), kernels)]
    order, offsets, arena, bound = min(plans, key=lambda plan: plan[2])
    if arena >= program.arena_bytes:
        return program
    waits = barriers(order, offsets)
    made = replace(
        program,
        kernels=tuple(order),
        barriers=waits,
        claimed=claimed_kernels(order, waits),
        offsets=offsets,
        arena_bytes=arena,
        arena_bound=bound,
    )
    verify_barriers(made)
    return made


def _refusal(name: str, program: Program, budget: int, threads: int) -> CompileError:
    """The error for a budget below the memory of the leanest program: what needs it at the peak."""
    if program.regions:
        return CompileError(
            f"@{name} needs {program.working_bytes(threads)} bytes of working memory, and a program with loops or "
            f"branches is not recomputed for a budget; got memory_budget={budget}; increase it, reduce the batch size, "
            "or use checkpoint in the body of a loop"
        )
    live = live_bytes(program.kernels)
    peak = live.index(max(live, default=0)) if live else 0
    text = f"@{name} needs at least {program.working_bytes(threads)} bytes of working memory even with recomputation"
    if live:
        kernel = program.kernels[peak]
        own = sum(b.nbytes for b in {*kernel.reads, *kernel.writes} if b.space == "arena")
        text += f": at the peak, the kernel {kernel.name} reads and writes {own} bytes at once, beside "
        text += f"{live[peak] - own} bytes of other values of which recomputation can free no more, "
        text += f"and {program.scratch_bytes} bytes of scratch memory per thread"
    return CompileError(f"{text}; got memory_budget={budget}; increase it, or reduce the batch size")


def _distinct(steps: Iterator[tuple[int, Function]]) -> Iterator[tuple[int, Function]]:
    """The first step, those whose peaks are well apart, and the last one if it differs from the first."""
    peak, step = next(steps)
    yield peak, step
    last = None
    for low, made in steps:
        last = low, made
        if low <= _LEAST_STEP * peak:
            peak, last = low, None
            yield low, made
    if last is not None:
        yield last
