"""Executables: entry points over loaded code, and entry points bound to arrays that stay."""

import ctypes
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError
from adjoint.kernel.program import Argument, RangeCheck, Result
from adjoint.runtime.fastcall import FastCall
from adjoint.runtime.library import Library
from adjoint.runtime.threads import Pool

__all__ = ["Bound", "Entry", "Executable", "KernelInfo", "KernelTime", "Memory", "Runtime", "aligned"]


def aligned(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """A zeroed array whose first element is at the start of a cache line."""
    nbytes = math.prod(shape) * dtype.itemsize
    block = np.zeros(nbytes + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + nbytes].view(dtype).reshape(shape)


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What a kernel is.

    Parameters
    ----------
    name : str
        Its name.
    values : tuple of str
        Names of the graph values that it computes.
    flops, bytes : int
        Floating-point operations and bytes moved, each element counted once.
    units : int
        Pieces of work that threads share.
    parallel : bool
        Whether they do.
    """

    name: str
    values: tuple[str, ...]
    flops: int
    bytes: int
    units: int
    parallel: bool


@dataclass(frozen=True, slots=True)
class KernelTime:
    """How long a kernel took: median nanoseconds of a run."""

    kernel: KernelInfo
    nanoseconds: float

    @property
    def gflops(self) -> float:
        """Floating-point operations a second, in billions."""
        return self.kernel.flops / self.nanoseconds if self.nanoseconds else 0.0

    @property
    def gbytes(self) -> float:
        """Bytes a second, in billions."""
        return self.kernel.bytes / self.nanoseconds if self.nanoseconds else 0.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that an entry point needs.

    Parameters
    ----------
    donated : int
        Arguments that are updated in place: parameters and states.
    arguments : int
        All other arguments.
    results : int
        Results that are not written over an argument.
    arena : int
        Everything between.
    arena_bound : int
        The most bytes of that live at once: no plan needs less.
    """

    donated: int
    arguments: int
    results: int
    arena: int
    arena_bound: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.donated + self.arguments + self.results + self.arena


class Runtime:
    """What all entry points of a process share: the thread pool and the way in from Python."""

    _shared: "ClassVar[Runtime | None]" = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, code: bytes) -> None:
        library = Library(code, ("run", "work", "fastcall"))
        self.fastcall = library["fastcall"]
        self.pool = Pool(library)

    @classmethod
    def of_process(cls, code: Callable[[], bytes]) -> "Runtime":
        """The one of this process; `code` gives its object code the first time."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls(code())
            return cls._shared


class Entry:
    """One compiled function.

    Calling it takes every argument in order and returns its results as fresh arrays (a tuple where there are
    several); `bind` keeps some of the arguments in place instead.

    Parameters
    ----------
    summary : mapping
        `Program.summary` of what was compiled.
    code : bytes
        Its object code.
    runtime : Runtime
        Shared by the process.
    threads : int
        Threads to run on unless `bind` says otherwise.
    texts : callable
        Gives the text of a stage, for `text`.
    profiled : callable
        Gives object code that also reads the clock, for `profile`.
    """

    def __init__(
        self,
        summary: Mapping[str, Any],
        code: bytes,
        runtime: Runtime,
        threads: int,
        texts: Callable[[str], str],
        profiled: Callable[[], bytes],
    ) -> None:
        self.name: str = summary["name"]
        self.arguments = tuple(Argument(n, tuple(s), np.dtype(d), i, k) for n, s, d, i, k in summary["arguments"])
        self.results = tuple(Result(tuple(s), np.dtype(d), i, k) for s, d, i, k in summary["results"])
        self.checks = tuple(RangeCheck(*c) for c in summary["checks"])
        self.kernels = tuple(
            KernelInfo(k["name"], tuple(k["values"]), k["flops"], k["bytes"], k["units"], k["parallel"])
            for k in summary["kernels"]
        )
        donated = sum(_nbytes(a) for a in self.arguments if a.donated)
        self.memory = Memory(
            donated,
            sum(_nbytes(a) for a in self.arguments) - donated,
            sum(_nbytes(r) for r in self.results if not r.donated),
            summary["arena_bytes"],
            summary["arena_bound"],
        )
        self.code = code
        self.threads = threads
        self._runtime = runtime
        self._texts = texts
        self._profiled = profiled
        self._library = Library(code, (self.name, f"{self.name}_check"))
        self._whole: Bound | None = None

    def __call__(self, *arrays: Any) -> Any:
        """Run on all arguments, in order. Donated ones are copied first, so nothing of the caller's changes."""
        if self._whole is None:
            donated = {a.name: aligned(a.shape, a.dtype) for a in self.arguments if a.donated}
            self._whole = self.bind(donated)
        whole = self._whole
        if len(arrays) != len(self.arguments):
            names = ", ".join(a.name for a in self.arguments)
            raise TypeRuleError(
                f"{self.name} takes {len(self.arguments)} arguments ({names}), got {len(arrays)}; give it all of them"
            )
        rest = []
        for argument, array in zip(self.arguments, arrays, strict=True):
            if argument.donated:
                whole.resident[argument.name][...] = _accept(self.name, argument, array)
            else:
                rest.append(array)
        plain = whole(*rest)
        apart = iter(plain if isinstance(plain, tuple) else (plain,))
        slots = {a.slot: a.name for a in self.arguments}
        made = [
            whole.resident[slots[r.slot]].copy() if r.donated else np.asarray(next(apart), r.dtype)
            for r in self.results
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def bind(self, resident: Mapping[str, np.ndarray], threads: int | None = None) -> "Bound":
        """Fix some arguments to arrays that stay where they are; donated ones are updated there.

        Parameters
        ----------
        resident : mapping
            Arrays by parameter name, C-contiguous, of exact shape and dtype. Every donated parameter is among
            them.
        threads : int, optional
            Threads to run on.
        """
        return Bound(self, self._runtime, self._library, resident, threads or self.threads)

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
            As in `bind`. Donated arguments are copied, so that profiling trains nothing.
        runs : int, default 50
            Runs of which the median is taken, after three that are not counted.
        """
        library = Library(self._profiled(), (self.name, f"{self.name}_check"))
        kept = {name: array.copy() for name, array in (resident or {}).items()}
        for argument in self.arguments:
            if argument.donated and argument.name not in kept:
                kept[argument.name] = aligned(argument.shape, argument.dtype)
        bound = Bound(self, self._runtime, library, kept, 1)
        clock = np.zeros((len(self.kernels) + 1, 2), np.int64)
        samples = [bound.timed(arrays, clock) for _ in range(runs + 3)][3:]
        medians = np.median(np.array(samples), axis=0) if self.kernels else []
        return [KernelTime(k, float(t)) for k, t in zip(self.kernels, medians, strict=True)]


class Bound:
    """An entry point with some arguments fixed to arrays that stay.

    Attributes
    ----------
    call : builtin function
        Takes the remaining arguments in order and runs. One 0-d result comes as a Python number, others as fresh
        arrays, several as a tuple, none as None. Not to be called from two threads at once.
    resident : dict
        The arrays that stay, by name.
    """

    def __init__(
        self, entry: Entry, runtime: Runtime, library: Library, resident: Mapping[str, np.ndarray], threads: int
    ) -> None:
        if threads < 1:
            raise InvalidValueError(f"threads must be at least 1, got {threads}")
        if threads > 1:
            runtime.pool.grow(threads)
        self.entry = entry
        self.threads = threads
        self.resident = _residents(entry, resident)
        self.arguments = tuple(a for a in entry.arguments if a.name not in self.resident)
        self._apart = [r for r in entry.results if not r.donated]
        self._outputs = [aligned(r.shape, r.dtype) for r in self._apart]
        self._arena = aligned((max(entry.memory.arena, 1),), np.dtype(np.uint8))
        self._slots = (ctypes.c_void_p * (len(entry.arguments) + len(self._apart) + 1))()
        for argument in entry.arguments:
            if argument.name in self.resident:
                self._slots[argument.slot] = self.resident[argument.name].ctypes.data
        for result, output in zip(self._apart, self._outputs, strict=True):
            self._slots[result.slot] = output.ctypes.data
        self._runtime = runtime
        self._library = library
        kinds = {"float32": 1, "float64": 2}
        scalar = len(self._apart) == 1 and self._apart[0].shape == ()
        words = {
            2: ctypes.addressof(self._slots),
            3: self._arena.ctypes.data,
            4: library[entry.name],
            5: library[f"{entry.name}_check"] if entry.checks else 0,
            6: threads,
            7: runtime.pool.workers,
            8: runtime.pool.block,
            9: kinds.get(self._apart[0].dtype.name, 3) if scalar else 3,
            10: self._outputs[0].ctypes.data if self._outputs else 0,
        }
        self._fast = FastCall(runtime.fastcall, self.arguments, words, self._convert_and_call, self._collect)
        self.call: Callable[..., Any] = self._fast.call

    def __call__(self, *arrays: Any) -> Any:
        """Run on the remaining arguments."""
        return self.call(*arrays)

    def timed(self, arrays: Sequence[Any], clock: np.ndarray) -> np.ndarray:
        """Run code that reads the clock; nanoseconds of each kernel."""
        self._place(arrays)
        step = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2)
        step(self._library[self.entry.name])(
            ctypes.addressof(self._slots), self._arena.ctypes.data, 0, 1, None, clock.ctypes.data
        )
        return np.diff(clock[:, 0] * 1_000_000_000 + clock[:, 1])

    def _convert_and_call(self, *arrays: Any) -> Any:
        """The slow way in: accept what can be taken as it is or copied, refuse the rest."""
        kept = self._place(arrays)
        run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64)(
            self._runtime.pool.run_address
        )
        run(
            self._runtime.pool.block,
            self._runtime.pool.workers,
            self._library[self.entry.name],
            ctypes.addressof(self._slots),
            self._arena.ctypes.data,
            self.threads,
        )
        del kept
        return self._collect()

    def _place(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Put the addresses of arguments in the table, and check what they must satisfy."""
        if len(arrays) != len(self.arguments):
            names = ", ".join(a.name for a in self.arguments) or "none"
            raise TypeRuleError(
                f"{self.entry.name} takes {len(self.arguments)} arguments ({names}), got {len(arrays)}; "
                "give it all of them"
            )
        kept = [_accept(self.entry.name, a, x) for a, x in zip(self.arguments, arrays, strict=True)]
        for argument, array in zip(self.arguments, kept, strict=True):
            self._slots[argument.slot] = array.ctypes.data
        self._refuse_out_of_range({a.slot: (a.name, x) for a, x in zip(self.arguments, kept, strict=True)})
        return kept

    def _refuse_out_of_range(self, placed: Mapping[int, tuple[str, np.ndarray]]) -> None:
        for check in self.entry.checks:
            name, array = placed.get(check.slot) or self._resident_at(check.slot)
            bad = (array < check.low) | (array >= check.high)
            if check.allow is not None:
                bad &= array != check.allow
            if bad.any():
                place = tuple(int(i) for i in np.argwhere(bad)[0])
                where = f" at {place if len(place) > 1 else place[0]}" if place else ""
                also = f" or {check.allow}" if check.allow is not None else ""
                raise InvalidValueError(
                    f"{self.entry.name}: {name} must be in [{check.low}, {check.high}){also}, "
                    f"got {array[place]}{where}; nothing was updated"
                )

    def _resident_at(self, slot: int) -> tuple[str, np.ndarray]:
        name = next(a.name for a in self.entry.arguments if a.slot == slot)
        return name, self.resident[name]

    def _collect(self) -> Any:
        made = [o.item() if o.ndim == 0 else o.copy() for o in self._outputs]
        if not made:
            return None
        return made[0] if len(made) == 1 else tuple(made)


def _nbytes(of: Argument | Result) -> int:
    return math.prod(of.shape) * of.dtype.itemsize


def _residents(entry: Entry, resident: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    known = {a.name: a for a in entry.arguments}
    for name, array in resident.items():
        if name not in known:
            raise NameLookupError(f"{entry.name} has no parameter {name!r}; it has {', '.join(known)}")
        argument = known[name]
        whole = isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable
        if not whole or array.shape != argument.shape or array.dtype != argument.dtype:
            got = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            raise TypeRuleError(
                f"{entry.name}: a resident array is C-contiguous, writeable and exactly of its parameter's type; "
                f"{name} is {argument.dtype}{list(argument.shape)}, got {got}"
            )
    missing = [a.name for a in entry.arguments if a.donated and a.name not in resident]
    if missing:
        raise TypeRuleError(f"{entry.name} updates {', '.join(missing)} in place; bind an array to each of them")
    return dict(resident)


def _accept(entry: str, argument: Argument, given: Any) -> np.ndarray:
    """The argument as an array that the step can read: copied only where its layout needs it."""
    array = np.asarray(given)
    if array.shape != argument.shape:
        raise TypeRuleError(
            f"{entry}: {argument.name} must have shape {argument.shape}, got {array.shape}; "
            "reshape it, or build the model for this shape"
        )
    if array.dtype != argument.dtype:
        if isinstance(given, np.ndarray | np.generic) or not np.can_cast(array.dtype, argument.dtype, "same_kind"):
            raise TypeRuleError(
                f"{entry}: {argument.name} must be {argument.dtype}, got {array.dtype}; "
                f"convert it with .astype({argument.dtype.name!r})"
            )
        array = array.astype(argument.dtype)
    return np.require(array, requirements=("C", "A"))


class Executable(Mapping[str, Entry]):
    """Compiled functions by name.

    Attributes
    ----------
    seconds : float
        What compiling took.
    cached : bool
        Whether all of it came from the compile cache.
    """

    def __init__(self, entries: Mapping[str, Entry], seconds: float, cached: bool) -> None:
        self._entries = dict(entries)
        self.seconds = seconds
        self.cached = cached

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise NameLookupError(f"nothing compiled is called {name!r}; there is {', '.join(self._entries)}")
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
            raise NameLookupError(f"there are several functions, choose one by name: {', '.join(self._entries)}")
        return next(iter(self._entries.values()))(*arrays)

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Kernels of all entry points."""
        return tuple(k for e in self._entries.values() for k in e.kernels)

    @property
    def memory(self) -> dict[str, Memory]:
        """Bytes that each entry point needs."""
        return {name: e.memory for name, e in self._entries.items()}
