"""Executables: the entry points of loaded code."""

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError, listed, plural
from adjoint.kernel.program import Argument, RangeCheck, Result
from adjoint.runtime.arguments import accept, miscounted
from adjoint.runtime.bound import Bound, Signature, aligned_together
from adjoint.runtime.invocation import Invocation
from adjoint.runtime.partial_batch import PartialBatch
from adjoint.runtime.process import Runtime
from adjoint.runtime.report import WARM_UP_RUNS, Clocks, KernelInfo, KernelTime, Memory
from adjoint.runtime.turn import Turn

__all__ = ["Entry", "Executable"]

#: Maximum number of floating-point operations plus bytes of a brief call. A core performs about ten of either per
#: nanosecond, so such a call takes one or two microseconds.
_BRIEF = 16384


class Entry:
    """One compiled function.

    Calling it takes all arguments in order and returns its results as new arrays, several as a tuple; `bind` makes some
    of the arguments resident instead.

    Parameters
    ----------
    summary : mapping
        The `Program.summary` of the compiled program.
    objects : tuple of bytes
        Its object files, which are linked together.
    runtime : Runtime
        The process's runtime.
    threads : int
        Default number of threads.
    texts : callable
        Returns the text of a stage, for `text`.
    profiled : callable
        Returns object files of code that also reads the clock, for `profile`.
    origins : callable
        Returns the operator and the line of code of each value that kernels compute, by name. They come from the graph
        at hand and not from the summary, because equal graphs share compiled code, and may be written in other places.
    """

    def __init__(
        self,
        summary: Mapping[str, Any],
        objects: tuple[bytes, ...],
        runtime: Runtime,
        threads: int,
        texts: Callable[[str], str],
        profiled: Callable[[], tuple[bytes, ...]],
        origins: Callable[[], Mapping[str, tuple[str, str]]],
    ) -> None:
        self.name: str = summary["name"]
        arguments = tuple(Argument(n, tuple(s), np.dtype(d), i, k, t) for n, s, d, i, k, t in summary["arguments"])
        results = tuple(Result(tuple(s), np.dtype(d), i, k) for s, d, i, k in summary["results"])
        checks = tuple(
            RangeCheck(slot, low, high, allow, start, tuple((n, stride) for n, stride in axes))
            for slot, low, high, allow, start, axes in summary["checks"]
        )
        self._kernels = summary["kernels"]
        self._origins = origins
        shared = any(k["parallel"] for k in self._kernels)
        brief = sum(k["flops"] + k["bytes"] for k in self._kernels) <= _BRIEF
        arena, scratch = summary["arena_bytes"], summary["scratch_bytes"]
        self.signature = Signature(self.name, arguments, results, checks, arena, scratch, shared, brief)
        donated = sum(_nbytes(a) for a in arguments if a.donated)
        self.memory = Memory(
            donated,
            sum(_nbytes(a) for a in arguments) - donated,
            sum(_nbytes(r) for r in results if not r.donated),
            arena,
            summary["arena_bound"],
            scratch * (threads if shared else 1),
        )
        self.objects = objects
        self.threads = threads
        self._runtime = runtime
        self._texts = texts
        self._profiled = profiled
        self._library = self.signature.loaded(objects)
        self._lock = threading.Lock()
        self._whole: Bound | None = None

    def __reduce__(self) -> NoReturn:
        raise _not_pickled("an Entry")

    @cached_property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """The kernels, in execution order."""
        origins = self._origins()
        made = []
        for k in self._kernels:
            found = [origins[name] for name in k["values"]]
            operators, lines = tuple(operator for operator, _ in found), tuple(line for _, line in found)
            cost = k["flops"], k["bytes"], k["units"], k["parallel"]
            made.append(KernelInfo(k["name"], tuple(k["values"]), *cost, operators, lines))
        return tuple(made)

    def __call__(self, *arrays: Any) -> Any:
        """Run on all arguments, in order. Donated ones are copied first, so the caller's arrays do not change."""
        whole = self._bound_whole()
        if len(arrays) != len(self.arguments):
            raise miscounted(self.name, self.arguments, arrays)
        if not whole.resident:
            return self._shaped(whole, whole(*arrays))
        return whole.exclusively(self._updated, whole, arrays)

    def __repr__(self) -> str:
        arguments = listed([_typed(a) for a in self.arguments])
        results = listed([f"{r.dtype}{list(r.shape)}" for r in self.results])
        return f"<Entry {self.name}({arguments}) -> ({results}): {plural(len(self.kernels), 'kernel')}>"

    def _bound_whole(self) -> Bound:
        """The entry point bound to internal arrays for its donated arguments."""
        with self._lock:
            if self._whole is None:
                self._whole = self.bind(aligned_together({a.name: a for a in self.arguments if a.donated}))
            return self._whole

    def _updated(self, whole: Bound, arrays: tuple[Any, ...]) -> Any:
        """Run on copies of the donated arguments, in its turn."""
        rest = []
        for argument, array in zip(self.arguments, arrays, strict=True):
            if argument.donated:
                whole.resident[argument.name][...] = accept(self.name, argument, array)
            else:
                rest.append(array)
        return self._shaped(whole, whole.run_in_turn(*rest))

    def _shaped(self, whole: Bound, plain: Any) -> Any:
        """All results as arrays, including donated ones."""
        apart = iter(plain if isinstance(plain, tuple) else (plain,))
        slots = {a.slot: a.name for a in self.arguments}
        made = [
            whole.resident[slots[r.slot]].copy() if r.donated else np.asarray(next(apart), r.dtype)
            for r in self.results
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def bind(
        self,
        resident: Mapping[str, np.ndarray],
        threads: int | None = None,
        turn: Turn | None = None,
        batch: PartialBatch | None = None,
        name: str | None = None,
    ) -> Bound:
        """Bind some arguments to resident arrays; donated ones are updated in place.

        Parameters
        ----------
        resident : mapping
            C-contiguous arrays by parameter name, of exact shape and dtype. They must include every donated parameter.
        threads : int, optional
            Number of threads.
        turn : Turn, optional
            Shared with other entry points that are bound to the same arrays, to serialize their calls.
        batch : PartialBatch, optional
            How batches of fewer rows are passed; default: they are refused.
        name : str, optional
            What errors of its arguments begin with; default: the name of the function.
        """
        threads = self.threads if threads is None else threads
        return Bound(self.signature, self._runtime, self._library, resident, threads, turn, batch, name)

    def invocation(self, threads: int | None = None) -> Invocation:
        """The function for calls on buffers by address, with working memory of its own."""
        return Invocation(self.signature, self._runtime, self._library, self.threads if threads is None else threads)

    @property
    def used_threads(self) -> int:
        """Number of threads that a call uses: one if no kernel is shared."""
        return self.threads if self.signature.shared else 1

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments, in order."""
        return self.signature.arguments

    @property
    def results(self) -> tuple[Result, ...]:
        """The results, in order."""
        return self.signature.results

    def text(self, stage: str) -> str:
        """The program at a stage: ``kernels``, ``llvm`` or ``asm``."""
        return self._texts(stage)

    def profile(
        self, *arrays: Any, resident: Mapping[str, np.ndarray] | None = None, runs: int = 50
    ) -> list[KernelTime]:
        """Time each kernel on one thread.

        Parameters
        ----------
        arrays : array_like
            The arguments that are not in `resident`, in order.
        resident : mapping, optional
            As in `bind`. Donated arguments are copied, so profiling does not train.
        runs : int, default 50
            Number of runs, after three warm-up runs; the result for each kernel is the interquartile mean.
        """
        times = self.clocks(*arrays, resident=resident, runs=runs).typical()
        return [KernelTime(k, float(t)) for k, t in zip(self.kernels, times, strict=True)]

    def clocks(
        self, *arrays: Any, resident: Mapping[str, np.ndarray] | None = None, runs: int = 50, threads: int = 1
    ) -> Clocks:
        """Record when each thread started and finished its part of each kernel.

        Parameters
        ----------
        arrays, resident
            As in `profile`.
        runs : int, default 50
            Number of runs, after three warm-up runs.
        threads : int, default 1
            Number of threads.
        """
        if runs < 1:
            raise InvalidValueError(f"clocks: runs must be at least 1, got {runs}")
        library = self.signature.loaded(self._profiled())
        kept = {name: array.copy() for name, array in (resident or {}).items()}
        kept |= aligned_together({a.name: a for a in self.arguments if a.donated and a.name not in kept})
        bound = Bound(self.signature, self._runtime, library, kept, threads)
        read = np.zeros((runs + WARM_UP_RUNS, threads, len(self._kernels), 2, 2), np.int64)
        bound.timed(arrays, read)
        return Clocks(read[WARM_UP_RUNS:, ..., 0] * 1_000_000_000 + read[WARM_UP_RUNS:, ..., 1])


def _not_pickled(what: str) -> TypeRuleError:
    """The error for an attempt to pickle or copy loaded code."""
    return TypeRuleError(
        f"{what} is not pickled or copied, because it is code loaded in this process; pickle the module or function, "
        "and compile it again, which the compile cache makes fast"
    )


def _typed(argument: Argument) -> str:
    return f"{argument.name}: {argument.dtype}{list(argument.shape)}"


def _nbytes(of: Argument | Result) -> int:
    return math.prod(of.shape) * of.dtype.itemsize


class Executable(Mapping[str, Entry]):
    """Compiled functions by name.

    Attributes
    ----------
    seconds : float
        Time spent compiling.
    cached : bool
        Whether all code came from the compile cache.
    """

    def __init__(self, entries: Mapping[str, Entry], seconds: float, cached: bool) -> None:
        self._entries = dict(entries)
        self.seconds = seconds
        self.cached = cached

    def __reduce__(self) -> NoReturn:
        raise _not_pickled("an Executable")

    def __repr__(self) -> str:
        entries = [f"{name} ({plural(len(entry.kernels), 'kernel')})" for name, entry in self._entries.items()]
        return (
            f"<Executable: {listed(entries, most=8)}; {'cached' if self.cached else 'compiled'}, {self.seconds:.2g} s>"
        )

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise NameLookupError(f"there is no compiled function {name!r}; choose one of {', '.join(self._entries)}")
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __call__(self, *arrays: Any) -> Any:
        """Call the only entry point."""
        if len(self._entries) != 1:
            raise NameLookupError(f"several functions were compiled; choose one by name: {', '.join(self._entries)}")
        return next(iter(self._entries.values()))(*arrays)

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Kernels of all entry points."""
        return tuple(k for e in self._entries.values() for k in e.kernels)

    @property
    def memory(self) -> dict[str, Memory]:
        """Bytes that each entry point needs."""
        return {name: e.memory for name, e in self._entries.items()}
