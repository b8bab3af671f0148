"""The pipeline from a Function to the Program that code is generated from: the one list of passes.

::

    graph to graph      inline_calls, polyphase, simplify, cse, fuse_cross_entropy, merge_loops, keep_padded,
                        separate_results
                        (and rematerialize, for a budget)
    graph to groups     fuse
    groups to kernels   build_kernels
    kernels to kernels  order_kernels, compute_at, fuse_horizontally, fuse_producers, unroll_and_jam,
                        serialize_small, coalesce_serial, name_kernels, bound_rows
                        (and shorten_lifetimes, for a budget)
    kernels to program  plan_memory
    kernel to kernel    expand_math, interleave

Graph passes also go through the functions that loops and branches hold, before the function around them. The graph is
verified after the graph passes, and kernels before code is generated from them; with the environment variable
``ADJOINT_VERIFY_EACH`` set to 1, after each pass, so that an error comes from the one to blame (compare LLVM's
``-verify-each``). ``adjoint show MODEL --print-after PASS`` prints the result of a pass.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from adjoint.budget import within_budget
from adjoint.errors import own_bugs_reported
from adjoint.ir import Function, numbered_from
from adjoint.ir.printer import value_names
from adjoint.ir.verifier import verify
from adjoint.kernel.ir import Kernel
from adjoint.kernel.printer import print_kernels, print_program
from adjoint.kernel.program import Program
from adjoint.kernel.races import verify_barriers
from adjoint.kernel.target import Target
from adjoint.kernel.verifier import verify_kernel
from adjoint.lower.checks import range_checks
from adjoint.lower.expand import expand_math
from adjoint.lower.fusion.groups import Fusion, print_groups
from adjoint.lower.interleave import interleave
from adjoint.lower.program import LOWERING, Observer, contractions_of, lower, unobserved
from adjoint.lower.schedule.rows import GraphBatch, RowLayout
from adjoint.ops.control import is_control, on_bodies
from adjoint.transforms.batch_axis import stated_batch
from adjoint.transforms.cse import cse
from adjoint.transforms.fuse_cross_entropy import fuse_cross_entropy
from adjoint.transforms.inline_calls import inline_calls
from adjoint.transforms.keep_padded import keep_padded
from adjoint.transforms.merge_loops import merge_loops
from adjoint.transforms.polyphase import polyphase
from adjoint.transforms.separate_results import separate_results
from adjoint.transforms.simplify import simplify
from adjoint.tuning import Tuning, choices, measure_contractions

__all__ = [
    "CODE_PASSES",
    "GRAPH_PASSES",
    "PASSES",
    "after_graph_passes",
    "finish_program",
    "lower_function",
    "lowered_graph",
    "print_passes",
]

#: Whether both IRs are verified after each pass, rather than after the last one. It takes about a sixth of the
#: time of lowering.
_VERIFY_EACH = os.environ.get("ADJOINT_VERIFY_EACH", "0") not in ("", "0")

#: Graph passes in order, each from Function to Function.
GRAPH_PASSES: tuple[Callable[[Function], Function], ...] = (
    inline_calls,
    polyphase,
    simplify,
    cse,
    fuse_cross_entropy,
    merge_loops,
    keep_padded,
    separate_results,
)

#: Passes on the single kernels of a finished program, in order, before code generation.
CODE_PASSES: tuple[Callable[[Kernel], Kernel], ...] = (expand_math, interleave)

#: The names of all passes from a Function to the Program that code is generated from, in order. A `memory_budget` that
#: is exceeded adds `shorten_lifetimes` before `plan_memory`; if that is not sufficient, `rematerialize` after the graph
#: passes, and what follows runs again.
PASSES = (
    *(graph_pass.__name__ for graph_pass in GRAPH_PASSES),
    *LOWERING,
    "plan_memory",
    *(code_pass.__name__ for code_pass in CODE_PASSES),
)


def lower_function(
    function: Function,
    target: Target,
    memory_budget: int | None = None,
    tuning: Tuning | None = None,
    threads: int = 1,
    after: Observer = unobserved,
) -> Program:
    """The program of a function: graph passes, then lowering; both IRs are verified on the way.

    With `tuning`, contractions that it does not know yet are measured first, as long as it says, and all that are known
    take their best form.

    Raises
    ------
    CompileError
        If the working memory on that many `threads` cannot be brought within `memory_budget` bytes; the message states
        the minimum.
    InternalError
        If a pass fails or its result violates a rule: a bug in adjoint. The error includes the graph.
    """
    verify(function)
    with own_bugs_reported(function.name, partial(str, function)):
        return _program_of(function, target, memory_budget, tuning, threads, after)[1]


def lowered_graph(
    function: Function,
    target: Target,
    memory_budget: int | None = None,
    tuning: Tuning | None = None,
    threads: int = 1,
) -> Function:
    """The graph whose values the kernels of `lower_function` compute, for the same arguments.

    It is the function after the graph passes, and with a `memory_budget` after recomputation. Only the latter requires
    the function to be lowered.
    """
    if memory_budget is None:
        return after_graph_passes(function)
    return _program_of(function, target, memory_budget, tuning, threads, unobserved)[0]


def _program_of(
    function: Function,
    target: Target,
    memory_budget: int | None,
    tuning: Tuning | None,
    threads: int,
    after: Observer,
) -> tuple[Function, Program]:
    """The graph of a verified function after all graph passes, and its program."""
    function = after_graph_passes(function, after)
    choices = _choices(function, target, tuning) if tuning is not None else {}
    program = _lowered(function, target, choices, after)
    if memory_budget is None or program.working_bytes(threads) <= memory_budget:
        return function, program
    return within_budget(function, program, lambda made: _lowered(made, target, choices), memory_budget, threads)


def after_graph_passes(function: Function, after: Observer = unobserved) -> Function:
    """The function after `GRAPH_PASSES`, as lowering receives it; verified.

    Values have the names that they print under, and keep them through all passes. Those that a pass adds get numbers
    that no value had before.
    """
    function, free = numbered_from(function, 0)
    for graph_pass in GRAPH_PASSES:
        inside = on_bodies(function, lambda body, change=graph_pass: numbered_from(change(body), 0)[0])  # type: ignore[misc]
        function, free = numbered_from(graph_pass(inside), free)
        if _VERIFY_EACH or graph_pass is GRAPH_PASSES[-1]:
            verify(function)
        after(graph_pass.__name__, function)
    return function


def _choices(function: Function, target: Target, tuning: Tuning) -> dict[str, str]:
    """The best forms of contractions, after measuring those of the function that are not known.

    Each measurement is stored at once, so that nothing is lost if compilation is interrupted.
    """
    known = {name: measured.form for name, measured in tuning.read().items()}
    if tuning.seconds > 0:
        context, planned = contractions_of(function, target, value_names(function))
        unknown = choices(context, {group: made for group, made in planned.items() if made.signature not in known})
        if unknown:
            step = _lowered(function, target, known)
            for name, measured in measure_contractions(context, unknown, step, tuning.seconds):
                tuning.write({name: measured})
                known[name] = measured.form
    return known


def _batch(function: Function) -> GraphBatch | None:
    """The rows of a function that takes batches of fewer rows."""
    stated = None if any(map(is_control, function.values())) else stated_batch(function)
    if stated is None:
        return None
    rows, axes = stated
    layouts = {}
    for value, axis in axes.of.items():
        outer, inner = prod(value.shape[: axis.position]), prod(value.shape[axis.position + 1 :]) * axis.each
        layouts[value] = RowLayout(inner, axes.rows if outer > 1 else 0)
    return GraphBatch(rows, axes.rows, layouts)


def _lowered(function: Function, target: Target, choices: Mapping[str, str], after: Observer = unobserved) -> Program:
    """The program of a function after graph passes, verified."""
    verified: set[Kernel] = set()

    def check(name: str, made: Any) -> None:
        several = made if isinstance(made, list) and _VERIFY_EACH else ()
        for kernel in made.kernels if isinstance(made, Program) else several:
            if kernel not in verified:
                verify_kernel(kernel)
                verified.add(kernel)
        after(name, made)

    names, checks = value_names(function), range_checks(function)
    program = lower(function, target, names, checks, choices, check, _batch(function))
    check("plan_memory", program)
    verify_barriers(program)
    return program


def finish_program(program: Program, after: Observer = unobserved) -> Program:
    """The program as code generation takes it."""
    for code_pass in CODE_PASSES:
        verified, changed = frozenset(program.kernels), tuple(map(code_pass, program.kernels))
        for kernel in changed:
            if kernel not in verified:
                verify_kernel(kernel)
        program = replace(program, kernels=changed)
        after(code_pass.__name__, list(program.kernels))
    return program


def print_passes(function: Function, target: Target) -> Iterator[tuple[str, str]]:
    """The name of each pass, in order, and the text of what it makes of a function."""
    found: list[tuple[str, str]] = []
    names: dict[Any, str] = {}

    def keep(name: str, made: Any) -> None:
        if isinstance(made, Function):
            names.update(value_names(made))
            text = str(made)
        elif isinstance(made, Fusion):
            text = print_groups(made, names)
        elif isinstance(made, Program):
            text = print_program(made)
        else:
            text = print_kernels(made)
        found.append((name, text))

    finish_program(lower_function(function, target, after=keep), keep)
    yield from found
