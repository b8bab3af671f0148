"""Compilation of functions to native code: the list of passes, the compile cache, and `compile` itself."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import llvmlite

from adjoint.codegen.barrier import barrier_text
from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import NativeCode, compile_native, target_for
from adjoint.errors import CompileError, InvalidValueError, own_bugs_reported
from adjoint.ir import Function, IRModule
from adjoint.ir.printer import value_names
from adjoint.ir.verifier import verify
from adjoint.kernel.float_mode import float_mode_text
from adjoint.kernel.ir import Kernel
from adjoint.kernel.printer import print_kernel
from adjoint.kernel.program import Program
from adjoint.kernel.races import verify_barriers
from adjoint.kernel.target import Target, available_cores
from adjoint.kernel.verifier import verify_kernel
from adjoint.kernel.waiting import waiting_text
from adjoint.lower.checks import range_checks
from adjoint.lower.expand import expand_math
from adjoint.lower.program import contractions_of, lower
from adjoint.paths import cache_dir
from adjoint.runtime.bound import Runtime
from adjoint.runtime.cache import CompileCache
from adjoint.runtime.epoch import epoch_text
from adjoint.runtime.executable import Entry, Executable
from adjoint.runtime.fastcall import FASTCALL_TEXT
from adjoint.runtime.threads import check_threads, pool_text
from adjoint.runtime.turn import TURN_TEXT
from adjoint.transforms.cse import cse
from adjoint.transforms.inline_calls import inline_calls
from adjoint.transforms.keep_padded import keep_padded
from adjoint.transforms.rematerialize import rematerializations
from adjoint.transforms.separate_results import separate_results
from adjoint.transforms.simplify import simplify
from adjoint.tuning import Tuning, measure_contractions
from adjoint.version import __version__

__all__ = [
    "GRAPH_PASSES",
    "KERNEL_PASSES",
    "CompileOptions",
    "Executable",
    "compile",
    "finish_program",
    "host",
    "lower_function",
]

#: Graph passes in order, each from Function to Function.
GRAPH_PASSES: tuple[Callable[[Function], Function], ...] = (
    inline_calls,
    simplify,
    cse,
    keep_padded,
    separate_results,
)

#: Kernel passes in order, after lowering and before code generation.
KERNEL_PASSES: tuple[Callable[[Kernel], Kernel], ...] = (expand_math,)


#: Largest ratio of estimated memory peaks from one choice of recomputed values to the next. Each choice has to be
#: lowered to determine its actual memory, which takes time.
_LEAST_STEP = 0.95


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options for compiling and running functions.

    Parameters
    ----------
    threads : int, optional
        Number of threads of a step; default: the number of cores available to this process. Results are bitwise
        identical for any number.
    cache : bool, default True
        Whether to cache compiled code on disk.
    cache_directory : Path, optional
        Location of the cache; default: ``compiled`` in adjoint's cache directory (``adjoint doctor`` prints it).
    memory_budget : int, optional
        Maximum working memory of a compiled function in bytes, ``executable.memory[name].working``, on its threads,
        excluding parameters, states and results. If a function needs more, values kept for the backward pass are
        recomputed instead (`adjoint.transforms.rematerialize`); if that is not sufficient, compilation fails.
        Default: no limit.
    flush_subnormals : bool, default True
        Whether float32 and float64 arithmetic replaces subnormal operands and results (below 1.2e-38 and 2.2e-308) by
        zero, on every thread for the duration of a call. Optimizer state decays into subnormal numbers where a
        gradient stays 0, and most CPUs then take ten to a hundred times as long. False keeps them, as do CPUs without
        such a mode (RISC-V).
    tune : bool or Path, default False
        Whether to measure several implementations of each contraction on one thread and use the fastest. This takes
        seconds for a small model and a minute for a large one, once: measurements are stored as JSON by shape and CPU,
        in ``tuning`` in adjoint's cache directory or in the given directory. Implementations add in different orders,
        so results may differ in their last bits from those without `tune`.
    jitter : bool, default False
        Whether to delay threads randomly, differently in every step. Steps are far slower, and results bitwise
        identical unless a barrier is missing. For testing adjoint itself.
    """

    threads: int | None = None
    cache: bool = True
    cache_directory: Path | None = None
    memory_budget: int | None = None
    flush_subnormals: bool = True
    tune: bool | Path = False
    jitter: bool = False

    def __post_init__(self) -> None:
        if self.threads is not None:
            check_threads(self.threads)
        if not isinstance(self.flush_subnormals, bool):
            raise InvalidValueError(f"flush_subnormals must be True or False, got {self.flush_subnormals!r}")
        budget = self.memory_budget
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 0):
            raise InvalidValueError(
                f"memory_budget must be a number of bytes, an integer of at least 0, got {budget!r}"
            )
        if not isinstance(self.tune, bool | Path):
            raise InvalidValueError(f"tune must be True, False, or the Path of a directory, got {self.tune!r}")


def compile(
    module: IRModule | Function,
    target: str | Target = "host",
    options: CompileOptions | None = None,
    entries: Sequence[str] | None = None,
    *,
    tune: bool | Path | None = None,
) -> Executable:
    """Compile functions to native code.

    Parameters
    ----------
    module : IRModule or Function
        The functions to compile.
    target : str or Target, default "host"
        The CPU: ``host``, or another one of this machine's architecture, by a name known to `target_for` (``avx512``,
        ``avx2``, ``sse2``).
    options : CompileOptions, optional
        Compile options.
    entries : sequence of str, optional
        Functions of the module to compile; default: all.
    tune : bool or Path, optional
        Overrides ``options.tune``.

    Returns
    -------
    Executable
        Entry points by name: ``executable["step"](...)``. With one entry point, call the executable itself.

    Examples
    --------
    >>> from adjoint import ops, compile, param, Function
    >>> x = param("x", (3,))
    >>> double = compile(Function("double", (x,), (ops.add(x, x),)))
    >>> double([1.0, 2.0, 3.0]).tolist()
    [2.0, 4.0, 6.0]
    """
    start = time.perf_counter()
    options = options or CompileOptions()
    if tune is not None:
        options = replace(options, tune=tune)
    found = target if isinstance(target, Target) else _named_target(target)
    if found.triple != host().triple:
        raise CompileError(f"the target must match this machine, {host().triple}, got {found.triple}; use host")
    functions = (module,) if isinstance(module, Function) else tuple(module)
    if entries is not None and isinstance(module, IRModule):
        functions = tuple(module[name] for name in entries)
    store = _store(options)
    runtime = Runtime.of_process(lambda: _runtime_code(store))
    made = [_entry(function, found, options, store, runtime) for function in functions]
    entries_by_name = {entry.name: entry for entry, _ in made}
    return Executable(entries_by_name, time.perf_counter() - start, all(cached for _, cached in made))


def lower_function(
    function: Function,
    target: Target,
    memory_budget: int | None = None,
    tuning: Tuning | None = None,
    threads: int = 1,
) -> Program:
    """The program of a function: graph passes, then lowering; both IRs are verified on the way.

    With `tuning`, contractions that it does not know yet are measured first, and all take their best form.

    Raises
    ------
    CompileError
        Where the working memory on that many `threads` cannot be brought within `memory_budget` bytes, with the least
        that it can be.
    InternalError
        Where a pass fails, or what it makes breaks a rule: a bug in adjoint, with the graph.
    """
    verify(function)
    with own_bugs_reported(function.name, partial(str, function)):
        return _program_of(function, target, memory_budget, tuning, threads)


def _program_of(
    function: Function, target: Target, memory_budget: int | None, tuning: Tuning | None, threads: int
) -> Program:
    """The program of a verified function."""
    for graph_pass in GRAPH_PASSES:
        function = graph_pass(function)
    choices = _choices(function, target, tuning) if tuning is not None else {}
    program = _lowered(function, target, choices)
    if memory_budget is None or program.working_bytes(threads) <= memory_budget:
        return program
    return _within(function, target, choices, memory_budget, threads, program.working_bytes(threads))


def _choices(function: Function, target: Target, tuning: Tuning) -> dict[str, str]:
    """The best forms of contractions, after measuring those of the function that are not known."""
    known = tuning.read()
    found = measure_contractions(contractions_of(function, target, value_names(function)), known)
    if found:
        tuning.write(found)
    return {name: measured.form for name, measured in {**known, **found}.items()}


def _lowered(function: Function, target: Target, choices: Mapping[str, str]) -> Program:
    program = lower(function, target, value_names(function), range_checks(function), choices)
    for kernel in program.kernels:
        verify_kernel(kernel)
    verify_barriers(program)
    return program


def _within(
    function: Function, target: Target, choices: Mapping[str, str], budget: int, threads: int, working: int
) -> Program:
    """The program with as much recomputed as brings its working memory, `working` bytes without, within the budget.

    What recomputation saves is an estimate until kernels are fused and ordered. So choices that promise too
    little are passed over, and come last, in case one of them does better than it promised.
    """
    steps = _distinct(rematerializations(function))
    peak, _ = next(steps)
    least, aim = working, peak * budget / working
    passed = []
    for peak, recomputing in steps:
        if peak > aim:
            passed.append(recomputing)
            continue
        program = _lowered(recomputing, target, choices)
        working = program.working_bytes(threads)
        if working <= budget:
            return program
        least, aim = min(least, working), peak * budget / working
    for recomputing in reversed(passed):
        program = _lowered(recomputing, target, choices)
        if program.working_bytes(threads) <= budget:
            return program
        least = min(least, program.working_bytes(threads))
    raise CompileError(
        f"@{function.name} needs at least {least} bytes of working memory even with recomputation, got "
        f"memory_budget={budget}; increase it, or reduce the batch size"
    )


def _distinct(steps: Iterator[tuple[int, Function]]) -> Iterator[tuple[int, Function]]:
    """Those steps whose peaks are well apart, and the last one."""
    last = None
    peak, step = next(steps)
    yield peak, step
    for low, made in steps:
        last = low, made
        if low <= _LEAST_STEP * peak:
            peak, last = low, None
            yield low, made
    if last is not None:
        yield last


def finish_program(program: Program) -> Program:
    """The program as code generation takes it."""
    kernels = program.kernels
    for kernel_pass in KERNEL_PASSES:
        kernels = tuple(kernel_pass(kernel) for kernel in kernels)
    return replace(program, kernels=kernels)


def _entry(
    function: Function, target: Target, options: CompileOptions, store: CompileCache | None, runtime: Runtime
) -> tuple[Entry, bool]:
    tuning, flush = _tuning(options, target), options.flush_subnormals
    threads = options.threads or available_cores()
    # The program follows the number of threads only where memory for all of them is bounded.
    budget = (options.memory_budget, threads) if options.memory_budget is not None else None

    def key_now() -> str:
        tuned = tuning.digest() if tuning is not None else ""
        return _key("entry", str(function), target.key, budget, flush, options.jitter, tuned)

    def program_now() -> Program:
        return lower_function(function, target, options.memory_budget, tuning, threads)

    key = key_now()
    found = store.read(key) if store is not None else None
    if found is None:
        program = program_now()
        with own_bugs_reported(function.name, partial(str, function)):
            modules = emit_modules(finish_program(program), target, jitter=options.jitter, flush_subnormals=flush)
            objects = compile_native(modules, target)
        summary = program.summary()
        if store is not None:
            store.write(key_now(), summary, objects)
    else:
        summary, objects = found

    def text(stage: str) -> str:
        program = program_now()
        with own_bugs_reported(function.name, partial(str, function)):
            return _text(program, target, stage, flush)

    def profiled() -> tuple[bytes, ...]:
        program = program_now()
        with own_bugs_reported(function.name, partial(str, function)):
            modules = emit_modules(finish_program(program), target, profile=True, flush_subnormals=flush)
            return compile_native(modules, target)

    return Entry(summary, objects, runtime, threads, text, profiled), found is not None


def _text(program: Program, target: Target, stage: str, flush_subnormals: bool) -> str:
    """A program at a stage of compilation."""
    if stage == "kernels":
        return "\n\n".join(print_kernel(k) for k in program.kernels)
    stages: dict[str, Callable[[NativeCode], str]] = {"llvm": NativeCode.llvm, "asm": NativeCode.assembly}
    if stage not in stages:
        raise InvalidValueError(f"stage must be one of kernels, {', '.join(stages)}, got {stage!r}")
    modules = emit_modules(finish_program(program), target, flush_subnormals=flush_subnormals)
    return "\n".join(stages[stage](NativeCode(text, target)) for text in modules)


def _store(options: CompileOptions) -> CompileCache | None:
    if not options.cache:
        return None
    return CompileCache(options.cache_directory or cache_dir() / "compiled")


def _tuning(options: CompileOptions, target: Target) -> Tuning | None:
    if not options.tune:
        return None
    return Tuning.of(target, cache_dir() / "tuning" if options.tune is True else options.tune)


def _key(*parts: Any) -> str:
    """A name for code: what it is made from, and all that has a say in how."""
    whole = "\0".join(map(str, (__version__, llvmlite.__version__, _sources(), *parts)))
    return hashlib.sha256(whole.encode()).hexdigest()


@cache
def _sources() -> str:
    """A digest of adjoint's own files, so that code made by another state of them is never used."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path.name}{status.st_size}{status.st_mtime_ns}".encode())
    return digest.hexdigest()


@cache
def _named_target(name: str) -> Target:
    return target_for(name)


def host() -> Target:
    """The machine that this process runs on."""
    return _named_target("host")


def _runtime_code(store: CompileCache | None) -> tuple[bytes, ...]:
    """Object files of what every process needs: the thread pool, the way in from Python, the loop of an epoch."""
    here = host()
    of_target = (float_mode_text, waiting_text, barrier_text, pool_text, epoch_text)
    text = "".join([*(make(here.triple) for make in of_target), TURN_TEXT, FASTCALL_TEXT])
    key = _key("runtime", text, here.key)
    found = store.read(key) if store is not None else None
    if found is not None:
        return found[1]
    objects = compile_native((text,), here)
    if store is not None:
        store.write(key, {}, objects)
    return objects
