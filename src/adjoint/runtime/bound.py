"""An entry point bound to resident arrays, as called by a training loop."""

import ctypes
import itertools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from adjoint.errors import IndexRangeError, NameLookupError, TypeRuleError
from adjoint.kernel.program import Argument, RangeCheck, Result, arena_size, check_symbol, entry_symbol
from adjoint.lazy_dataclass import dataclass
from adjoint.runtime.arguments import accept, miscounted, refuse_swapped
from adjoint.runtime.fastcall import FastCall
from adjoint.runtime.library import Library
from adjoint.runtime.partial_batch import PartialBatch, filled_up
from adjoint.runtime.process import Runtime
from adjoint.runtime.threads import check_threads, make_sync
from adjoint.runtime.turn import Turn

__all__ = ["Bound", "Signature", "aligned", "aligned_together", "allowed", "first_outside", "rows_present"]


#: Sizes in bytes: a cache line, a page, a huge page, the offset between the starts of large arrays, and the least size
#: of these.
_LINE, _PAGE, _HUGE_PAGE, _APART, _LARGE = 64, 4096, 2 << 20, 5 * 64, 1 << 16

#: Counts large arrays, so that they start at different lines of a page.
_large = itertools.count()


class _Typed(Protocol):
    """What has a shape and a dtype: a type or an argument."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...


def aligned(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """A zeroed array whose first element is at the start of a cache line.

    Large arrays start at different lines of a page. If they all started at the same one, the same rows of a weight and
    its two moments would map to the same set of the L1 cache, which cannot hold a few rows of each.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    unit, skipped = _placement(nbytes)
    block = np.zeros(nbytes + unit + skipped, np.uint8)
    start = -block.ctypes.data % unit + skipped
    return block[start : start + nbytes].view(dtype).reshape(shape)


def aligned_together(types: Mapping[str, _Typed]) -> dict[str, np.ndarray]:
    """Arrays as of `aligned` that live equally long, in one block of memory.

    From 4 MiB on, NumPy asks the system to map a block by huge pages. The weights of a model then need a few entries of
    the TLB, instead of one for every 4 KiB.
    """
    places, end = {}, 0
    for name, type_ in types.items():
        nbytes = math.prod(type_.shape) * type_.dtype.itemsize
        unit, skipped = _placement(nbytes)
        start = -(-end // unit) * unit + skipped
        end = start + nbytes
        places[name] = slice(start, end)
    page = _HUGE_PAGE if end >= 2 * _HUGE_PAGE else _PAGE
    block = np.zeros(end + page, np.uint8)
    block = block[-block.ctypes.data % page :]
    return {name: block[places[name]].view(t.dtype).reshape(t.shape) for name, t in types.items()}


def _placement(nbytes: int) -> tuple[int, int]:
    """What the place of an array is a multiple of, and how many bytes after that it starts."""
    return (_PAGE, next(_large) * _APART % _PAGE) if nbytes >= _LARGE else (_LINE, 0)


def rows_present(batch: PartialBatch) -> np.ndarray:
    """The resident scalar that holds the number of rows that are present: at first, all."""
    rows = aligned((), np.dtype(np.int32))
    rows[()] = batch.most
    return rows


@dataclass(frozen=True, slots=True)
class Signature:
    """The interface of a compiled function.

    Parameters
    ----------
    name : str
        Name of the function.
    arguments, results : tuple
        In order.
    checks : tuple of RangeCheck
        Conditions that the arguments must satisfy.
    arena, scratch : int
        Bytes of working memory: shared by all threads, and for each thread.
    shared : bool
        Whether any kernel is large enough to run on several threads.
    brief : bool
        Whether a call takes at most about a microsecond.
    """

    name: str
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    checks: tuple[RangeCheck, ...]
    arena: int
    scratch: int
    shared: bool
    brief: bool

    def loaded(self, objects: tuple[bytes, ...]) -> Library:
        """Load the object files of the function."""
        return Library(objects, (entry_symbol(self.name), check_symbol(self.name)))


class Bound:
    """An entry point with some arguments fixed to resident arrays.

    Attributes
    ----------
    call : builtin function
        Takes the remaining arguments in order and runs. A single 0-d result is returned as a Python number, other
        results as new arrays, several as a tuple, no results as None. Calls from several Python threads are serialized.
    exclusively : builtin function
        ``exclusively(function, *args)`` calls ``function(*args)`` while no other call runs.
    runtime : Runtime
        The process's runtime.
    resident : dict
        The resident arrays by name.
    batch : PartialBatch or None
        How it takes fewer rows.
    name : str
        What errors of its arguments begin with.
    arguments : tuple of Argument
        The remaining arguments.
    outputs : list of numpy.ndarray
        The arrays that receive the results that are not donated.
    slots : array of addresses
        The table of addresses that the compiled code uses.
    arena : numpy.ndarray
        Working memory.
    function, check : int
        Addresses of the entry point and of its check, or 0 if it has none.
    """

    def __init__(
        self,
        entry: Signature,
        runtime: Runtime,
        library: Library,
        resident: Mapping[str, np.ndarray],
        threads: int,
        turn: Turn | None = None,
        batch: PartialBatch | None = None,
        name: str | None = None,
    ) -> None:
        self.entry = entry
        self.name = entry.name if name is None else name
        self.batch = batch
        self.threads = check_threads(threads) if entry.shared else 1
        self.resident = _residents(entry, resident)
        self.arguments = tuple(a for a in entry.arguments if a.name not in self.resident)
        self._apart = [r for r in entry.results if not r.donated]
        self.outputs = [aligned(r.shape, r.dtype) for r in self._apart]
        working = arena_size(entry.arena, entry.scratch, self.threads)
        self.arena = aligned((max(working, 1),), np.dtype(np.uint8))
        self.slots = (ctypes.c_void_p * (len(entry.arguments) + len(self._apart) + 1))()
        for argument in entry.arguments:
            if argument.name in self.resident:
                self.slots[argument.slot] = self.resident[argument.name].ctypes.data
        for result, output in zip(self._apart, self.outputs, strict=True):
            self.slots[result.slot] = output.ctypes.data
        self.runtime = runtime
        self._library = library
        self.function = library[entry_symbol(entry.name)]
        self.check = library[check_symbol(entry.name)] if entry.checks else 0
        kinds = {"float32": 1, "float64": 2}
        scalar = len(self._apart) == 1 and self._apart[0].shape == ()
        words = {
            2: ctypes.addressof(self.slots),
            3: self.arena.ctypes.data,
            4: self.function,
            5: self.check,
            6: self.threads,
            8: runtime.pool.block,
            9: kinds.get(self._apart[0].dtype.name, 3) if scalar else 3,
            10: self.outputs[0].ctypes.data if self.outputs else 0,
            16: entry.brief and self.threads == 1,
        }
        self._fast = FastCall(runtime.fastcall, self.arguments, words, turn or Turn(), self.run_in_turn, self._collect)
        self.call: Callable[..., Any] = self._fast.call
        self.exclusively: Callable[..., Any] = self._fast.exclusively

    def __call__(self, *arrays: Any) -> Any:
        """Run on the remaining arguments."""
        return self.call(*arrays)

    @property
    def runs(self) -> int:
        """Number of calls, counted in native code so that an exception raised by a signal handler does not lose one."""
        return self._fast.block[7]

    def timed(self, arrays: Sequence[Any], clock: np.ndarray) -> None:
        """Run code that reads the clock, once per row of `clock`: i64[runs, threads, kernels, 2, 2].

        The last two axes are start and end, and seconds and nanoseconds. The threads are created for this call and
        synchronize before each run.
        """
        kept = self.place(arrays)
        threads = clock.shape[1]
        sync = make_sync()
        step = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2)(
            self.function
        )
        fixed = (ctypes.addressof(self.slots), self.arena.ctypes.data)

        def part(thread: int) -> None:
            for run in clock:
                step(*fixed, thread, threads, sync.ctypes.data, run[thread].ctypes.data)

        others = [threading.Thread(target=part, args=(t,)) for t in range(1, threads)]
        for other in others:
            other.start()
        part(0)
        for other in others:
            other.join()
        del kept

    def run_in_turn(self, *arrays: Any) -> Any:
        """The slow call path, in its turn: convert the arguments if possible, and raise otherwise."""
        slots, arena = ctypes.addressof(self.slots), self.arena.ctypes.data
        try:
            kept = self.place(arrays)
            self.runtime.pool.grow(self.threads)
            # Count before the run, because signals are delivered as soon as the call returns.
            self._fast.block[7] += 1
            self.runtime.pool.run(self.function, slots, arena, self.threads)
        finally:
            self.expect_all_rows()
        del kept
        return self._collect()

    def place(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Store the addresses of the arguments in the table, and check the arguments."""
        if len(arrays) != len(self.arguments):
            raise miscounted(self.name, self.arguments, arrays)
        try:
            kept = self._accepted(arrays)
        except TypeRuleError:
            refuse_swapped(self.name, self.arguments, arrays)
            raise
        for argument, array in zip(self.arguments, kept, strict=True):
            self.slots[argument.slot] = array.ctypes.data
        self._refuse_out_of_range({a.slot: (a.name, x) for a, x in zip(self.arguments, kept, strict=True)})
        return kept

    def _accepted(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """The arguments as arrays that the step can read. If they have fewer rows, the step is told how many."""
        if self.batch is None:
            return [accept(self.name, a, x) for a, x in zip(self.arguments, arrays, strict=True)]
        present = self.batch.present(self.name, self.arguments, arrays)
        shorter = self.batch.shortened(self.arguments, present)
        kept = [accept(self.name, a, x) for a, x in zip(shorter, arrays, strict=True)]
        if present < self.batch.most:
            self.resident[self.batch.rows][()] = present
        each = self.batch.each
        return [filled_up(a, x, each.get(a.name, 1)) for a, x in zip(self.arguments, kept, strict=True)]

    def expect_all_rows(self) -> None:
        """Let the next call take a batch of all rows again."""
        if self.batch is not None and self.batch.rows:
            self.resident[self.batch.rows][()] = self.batch.most

    def _refuse_out_of_range(self, placed: Mapping[int, tuple[str, np.ndarray]]) -> None:
        for check in self.entry.checks:
            name, array = placed.get(check.slot) or self.resident_at(check.slot)
            place = first_outside(check, array)
            if place is not None:
                where = f" at {place if len(place) > 1 else place[0]}" if place else ""
                raise IndexRangeError(
                    f"{self.name}: {name} must be {allowed(check)}, got {array[place]}{where}; nothing was updated"
                )

    def resident_at(self, slot: int) -> tuple[str, np.ndarray]:
        """Name and array of the resident argument at a slot."""
        name = next(a.name for a in self.entry.arguments if a.slot == slot)
        return name, self.resident[name]

    def _collect(self) -> Any:
        made = [o.item() if o.ndim == 0 else o.copy() for o in self.outputs]
        if not made:
            return None
        return made[0] if len(made) == 1 else tuple(made)


def first_outside(check: RangeCheck, array: np.ndarray) -> tuple[int, ...] | None:
    """Index of the first element that violates a check, or None."""
    places = np.array(check.start)
    for count, stride in check.axes:
        places = places[..., None] + np.arange(count) * stride
    given = array.reshape(-1)[places.reshape(-1)]
    if given.dtype.kind == "f":
        given = np.where(np.isnan(given), 0.0, np.trunc(given))
    bad = (given < check.low) | (given >= check.high)
    if check.allow is not None:
        bad &= given != check.allow
    if not bad.any():
        return None
    return tuple(int(i) for i in np.unravel_index(places.reshape(-1)[bad.argmax()], array.shape))


def allowed(check: RangeCheck) -> str:
    """The condition of a check, in words."""
    also = f" or {check.allow}" if check.allow is not None else ""
    return f"in [{check.low}, {check.high}){also}"


def _residents(entry: Signature, resident: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    known = {a.name: a for a in entry.arguments}
    for name, array in resident.items():
        if name not in known:
            raise NameLookupError(f"{entry.name} has no parameter {name!r}; known parameters: {', '.join(known)}")
        argument = known[name]
        whole = isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable
        if not whole or array.shape != argument.shape or array.dtype != argument.dtype:
            got = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            raise TypeRuleError(
                f"{entry.name}: a resident array must be C-contiguous, writeable and of exactly its parameter's type; "
                f"{name} is {argument.dtype}{list(argument.shape)}, got {got}"
            )
    missing = [a.name for a in entry.arguments if a.donated and a.name not in resident]
    if missing:
        raise TypeRuleError(f"{entry.name} updates {', '.join(missing)} in place; bind an array to each of them")
    return dict(resident)
