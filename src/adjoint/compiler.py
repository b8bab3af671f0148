"""Compilation of functions to native code: options, the compile cache, and `compile` itself."""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import llvmlite

from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import NativeCode, compile_native
from adjoint.codegen.targets import target_for
from adjoint.collector import collector_paused
from adjoint.errors import CompileError, InvalidValueError, TypeRuleError, kind_of, own_bugs_reported
from adjoint.ir import Function, IRModule
from adjoint.kernel.printer import describe_region, print_kernel
from adjoint.kernel.program import Program
from adjoint.kernel.target import Target, available_cores
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.control import values_inside
from adjoint.paths import cache_dir
from adjoint.pipeline import finish_program, lower_function, lowered_graph
from adjoint.runtime.cache import CompileCache
from adjoint.runtime.executable import Entry, Executable
from adjoint.runtime.process import MakeText, Runtime
from adjoint.runtime.threads import check_threads
from adjoint.tuning import SECONDS, Tuning
from adjoint.version import __version__

__all__ = [
    "CompileOptions",
    "Executable",
    "compile",
    "compiled_graph",
    "host",
    "program_text",
]


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
    cache_directory : str or Path, optional
        Location of the cache; default: ``compiled`` in adjoint's cache directory (``adjoint doctor`` prints it).
    memory_budget : int, optional
        Maximum working memory of a compiled function in bytes, ``executable.memory[name].working``, on its threads,
        excluding parameters, states and results. If a function needs more, its kernels run in a leaner order
        (`adjoint.lower.schedule.lifetimes`), and values kept for the backward pass are recomputed
        (`adjoint.transforms.rematerialize`); if that is not sufficient, compilation fails. Default: no limit.
    flush_subnormals : bool, default True
        Whether float32 and float64 arithmetic replaces subnormal operands and results (below 1.2e-38 and 2.2e-308) by
        zero, on every thread for the duration of a call. Optimizer state decays into subnormal numbers where a
        gradient stays 0, and most CPUs then take ten to a hundred times as long. False keeps them, as do CPUs without
        such a mode (RISC-V).
    tune : bool, float or Path, default False
        Whether to measure the schedules of each contraction that runs as a GEMM and has not been measured yet, on one
        thread and with the caches as the step leaves them, and use the fastest. A number is how many seconds at most,
        True 60; the contractions with most of the operations come first, and what is left runs as without `tune`.
        Measurements are stored as JSON by shape and CPU, in ``tuning`` in adjoint's cache directory or in the given
        directory. Results are the same bits as without `tune`.
    jitter : bool, default False
        Whether to delay threads randomly, differently in every step. Steps are far slower, and results bitwise
        identical unless a barrier is missing. For testing adjoint itself.
    """

    threads: int | None = None
    cache: bool = True
    cache_directory: str | Path | None = None
    memory_budget: int | None = None
    flush_subnormals: bool = True
    tune: bool | float | Path = False
    jitter: bool = False

    def __post_init__(self) -> None:
        if self.threads is not None:
            check_threads(self.threads)
        directory = self.cache_directory
        if directory == "" or not isinstance(directory, str | Path | None):
            raise InvalidValueError(
                f"cache_directory must be the path of a directory, a str or Path, got {directory!r}"
            )
        if isinstance(directory, str):
            object.__setattr__(self, "cache_directory", Path(directory))
        if not isinstance(self.flush_subnormals, bool):
            raise InvalidValueError(f"flush_subnormals must be True or False, got {self.flush_subnormals!r}")
        budget = self.memory_budget
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 0):
            raise InvalidValueError(
                f"memory_budget must be a number of bytes, an integer of at least 0, got {budget!r}"
            )
        if not isinstance(self.tune, bool | Path) and not (isinstance(self.tune, int | float) and self.tune > 0):
            raise InvalidValueError(
                f"tune must be True, False, a number of seconds above 0, or the Path of a directory, got {self.tune!r}"
            )


def compile(
    module: IRModule | Function,
    target: str | Target = "host",
    options: CompileOptions | None = None,
    entries: Sequence[str] | None = None,
    *,
    threads: int | None = None,
    tune: bool | float | Path | None = None,
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
    threads : int, optional
        Overrides ``options.threads``.
    tune : bool, float or Path, optional
        Overrides ``options.tune``.

    Returns
    -------
    Executable
        Entry points by name: ``executable["step"](...)``. With one entry point, call the executable itself.

    Raises
    ------
    TypeRuleError
        If `module` or `entries` is of another kind.
    NameLookupError
        If the module has no function of a name in `entries`.
    InvalidValueError
        If an option is out of its range.
    CompileError
        If the target is unknown or not of this machine, or a memory budget is too small.

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
    if threads is not None:
        options = replace(options, threads=threads)
    if tune is not None:
        options = replace(options, tune=tune)
    chosen = _chosen(module, entries)
    if not isinstance(target, str | Target):
        raise TypeRuleError(
            f"compile: the target must be a name or a Target, got {kind_of(target)}; pass others by name, as in "
            "compile(function, options=CompileOptions(...))"
        )
    found = target if isinstance(target, Target) else _named_target(target)
    if found.triple != host().triple:
        raise CompileError(f"the target must match this machine, {host().triple}, got {found.triple}; use host")
    store = _store(options)
    _sources()  # once, before two threads need it
    with collector_paused(), ThreadPoolExecutor(1) as background:
        several = (options.threads or available_cores()) > 1
        runtime = background.submit(_runtime, store, several)
        made = [_entry(function, found, options, store, runtime) for function in chosen]
    entries_by_name = {entry.name: entry for entry, _ in made}
    return Executable(entries_by_name, time.perf_counter() - start, all(cached for _, cached in made))


def _chosen(module: IRModule | Function, entries: Sequence[str] | None) -> tuple[Function, ...]:
    """The functions to compile."""
    given: object = module
    if isinstance(given, Function):
        return (given,)
    if not isinstance(given, IRModule):
        fix = "pass a Function, or IRModule((function, ...))"
        if isinstance(getattr(given, "module", None), IRModule):
            fix = "pass its module, trainer.module"
        raise TypeRuleError(f"compile takes an IRModule or a Function, got {kind_of(given)}; {fix}")
    if isinstance(entries, str):
        raise TypeRuleError(
            f"compile: entries must be a tuple of names, got the string {entries!r}; write ({entries!r},)"
        )
    return given.functions if entries is None else tuple(given[name] for name in entries)


def _entry(
    function: Function, target: Target, options: CompileOptions, store: CompileCache | None, runtime: Future[Runtime]
) -> tuple[Entry, bool]:
    tuning, flush = _tuning(options, target), options.flush_subnormals
    threads = options.threads or available_cores()
    # The program depends on the number of threads only if there is a memory budget.
    budget = (options.memory_budget, threads) if options.memory_budget is not None else None

    written = str(function)

    def key_now() -> str:
        # Tuned code is never mistaken for untuned code, not even before there is a file of measurements.
        # A longer bound measures what a shorter one has left.
        tuned = f"tuned {tuning.seconds} {tuning.digest()}" if tuning is not None else ""
        return _key("entry", written, target.key, budget, flush, options.jitter, tuned)

    def program_now(tuning: Tuning | None) -> Program:
        return lower_function(function, target, options.memory_budget, tuning, threads)

    # What was compiled is explained without measuring what the bound has left.
    measured = replace(tuning, seconds=0.0) if tuning is not None else None

    key = key_now()
    found = store.read(key) if store is not None else None
    if found is None:
        program = program_now(tuning)
        with own_bugs_reported(function.name, partial(str, function)):
            modules = emit_modules(finish_program(program), target, jitter=options.jitter, flush_subnormals=flush)
            objects = compile_native(modules, target)
        summary = program.summary()
        if store is not None:
            store.write(key_now(), summary, objects)
    else:
        summary, objects = found

    def text(stage: str) -> str:
        program = program_now(measured)
        with own_bugs_reported(function.name, partial(str, function)):
            return program_text(program, target, stage, flush)

    def profiled() -> tuple[bytes, ...]:
        program = program_now(measured)
        with own_bugs_reported(function.name, partial(str, function)):
            modules = emit_modules(finish_program(program), target, profile=True, flush_subnormals=flush)
            return compile_native(modules, target)

    def origins() -> dict[str, tuple[str, str]]:
        graph = compiled_graph(function, target, options)
        return {name: (value.op.name, value.line) for name, value in values_inside(graph).items()}

    return Entry(summary, objects, runtime.result(), threads, text, profiled, origins), found is not None


def compiled_graph(function: Function, target: Target, options: CompileOptions) -> Function:
    """The graph whose values the kernels of a function compute when it is compiled with these options."""
    threads = options.threads or available_cores()
    tuning = _tuning(options, target)
    measured = replace(tuning, seconds=0.0) if tuning is not None else None
    return lowered_graph(function, target, options.memory_budget, measured, threads)


def program_text(program: Program, target: Target, stage: str, flush_subnormals: bool = True) -> str:
    """The text of a program at a stage of compilation, for any target.

    Parameters
    ----------
    program : Program
        A program, as `adjoint.pipeline.lower_function` returns it.
    target : Target
        The CPU that it was lowered for, of any architecture.
    stage : str
        ``"kernels"``, ``"llvm"`` or ``"asm"``.
    flush_subnormals : bool, default True
        As in `CompileOptions`.

    Raises
    ------
    InvalidValueError
        For any other stage.
    """
    if stage == "kernels":
        return "\n\n".join(
            "".join(f"# {describe_region(r)}\n" for r in program.regions if r.start == n) + print_kernel(k)
            for n, k in enumerate(program.kernels)
        )
    stages: dict[str, Callable[[NativeCode], str]] = {"llvm": NativeCode.llvm, "asm": NativeCode.assembly}
    if stage not in stages:
        raise InvalidValueError(f"stage must be one of kernels, {', '.join(stages)}, got {stage!r}")
    modules = emit_modules(finish_program(program), target, flush_subnormals=flush_subnormals)
    return "\n".join(stages[stage](NativeCode(text, target)) for text in modules)


def _store(options: CompileOptions) -> CompileCache | None:
    if not options.cache:
        return None
    given = options.cache_directory
    return CompileCache(Path(given) if given is not None else cache_dir() / "compiled")


def _tuning(options: CompileOptions, target: Target) -> Tuning | None:
    tune = options.tune
    if tune is False:
        return None
    seconds = SECONDS if isinstance(tune, bool | Path) else float(tune)
    return Tuning.of(target, tune if isinstance(tune, Path) else cache_dir() / "tuning", seconds)


def _key(*parts: Any) -> str:
    """A cache key for code: a digest of everything that it depends on."""
    whole = "\0".join(map(str, (__version__, llvmlite.__version__, _sources(), *parts)))
    return hashlib.sha256(whole.encode()).hexdigest()


@cache
def _sources() -> str:
    """A digest of adjoint's own source files, so that code generated by another version is never used."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(Path(__file__).parent):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                digest.update(f"{name}{status.st_size}{status.st_mtime_ns}".encode())
    return digest.hexdigest()


@cache
def _named_target(name: str) -> Target:
    return target_for(name)


def host() -> Target:
    """The machine that this process runs on."""
    return _named_target("host")


def _runtime(store: CompileCache | None, several: bool) -> Runtime:
    """The runtime of this process, with what steps on several threads need if there will be any."""
    runtime = Runtime.of_process(partial(_runtime_code, store))
    if several:
        runtime.pool.load()
    return runtime


def _runtime_code(store: CompileCache | None, make_text: MakeText) -> tuple[bytes, ...]:
    """Object files of a part of the runtime."""
    here = host()
    text = make_text(here.triple)
    key = _key("runtime", text, here.key)
    found = store.read(key) if store is not None else None
    if found is not None:
        return found[1]
    objects = compile_native((text,), here)
    if store is not None:
        store.write(key, {}, objects)
    return objects
