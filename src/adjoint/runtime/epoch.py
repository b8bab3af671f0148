"""Many steps in one native call: gather rows by index, check the arguments, run the step, record its loss.

`epoch` receives the address of a block of 64-bit words and runs the steps from `first` up to, not including, `end`. It
returns the number of steps of the epoch that are done, which is less than `end` if the arguments of the next step
failed their check; that step has then changed nothing. Words of the block::

     0 pool's block       1 threads            2 steps done         3 rows per step
     4 gather             5 its slots          6 its arena
     7 step               8 its slots          9 its arena         10 its check, or 0
    11 order             12 its bytes per step 13 the slot it goes to
    14 loss              15 history           16 bytes of a loss
    17 tables            18 their number      19 schedules         20 their number

A table has three words: address, bytes per row, bytes per row to prefetch. A schedule has four: values, bytes per
value, the slot from which the step reads its value, and the array that keeps the last value.

Each thread executes `epoch_step`: it gathers its share of the rows, waits once at a barrier, and continues with its
share of the step.
"""

import ctypes
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from adjoint.errors import InvalidValueError, plural
from adjoint.nativelib.barrier import barrier_text
from adjoint.nativelib.float_mode import enter_mode, float_mode_text
from adjoint.nativelib.waiting import waiting_text
from adjoint.runtime.bound import Bound, allowed, first_outside
from adjoint.runtime.threads import RUN

__all__ = ["EpochLoop", "epoch_text"]

_WORDS = (
    "pool", "threads", "done", "rows",
    "gather", "gather.slots", "gather.arena",
    "step", "slots", "arena", "check",
    "order", "order.bytes", "order.slot",
    "loss", "history", "loss.bytes",
    "tables", "tables.count", "schedules", "schedules.count",
)  # fmt: skip

_NUMBERS = {"threads", "done", "rows", "order.bytes", "loss.bytes", "tables.count", "schedules.count"}

#: The type of `epoch`: the block, the first step, the end.
_LOOP = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

#: Maximum number of bytes per row that are prefetched by software; the hardware prefetcher handles the rest.
_FETCHED = 1024


def _loads(*names: str) -> str:
    """LLVM text that loads words of the block into variables of the same names."""
    lines = []
    for name in names:
        lines.append(f"  %{name}.at = getelementptr i64, ptr %block, i64 {_WORDS.index(name)}")
        lines.append(f"  %{name} = load {'i64' if name in _NUMBERS else 'ptr'}, ptr %{name}.at")
    return "\n".join(lines)


#: LLVM text that loads the words of schedule %i.
_SCHEDULE = """  %i.word = mul i64 %i, 4
  %values.at = getelementptr i64, ptr %schedules, i64 %i.word
  %values = load ptr, ptr %values.at
  %bytes.at = getelementptr i64, ptr %values.at, i64 1
  %bytes = load i64, ptr %bytes.at
  %slot.at = getelementptr i64, ptr %values.at, i64 2
  %slot = load ptr, ptr %slot.at
  %home.at = getelementptr i64, ptr %values.at, i64 3
  %home = load ptr, ptr %home.at"""

_TEXT = f"""
define i64 @epoch(ptr %block, i64 %first, i64 %end) {{
entry:
  ; Set the mode once, so that the steps find it already set.
  %mode = {{enter}}
{_loads("pool", "threads", "done", "order", "order.bytes", "order.slot", "loss", "history", "loss.bytes")}
  %pool.run.at = getelementptr i8, ptr %pool, i64 {RUN}
  %several = icmp ugt i64 %threads, 1
  br label %next
next:
  %now = phi i64 [ %first, %entry ], [ %following, %keep ]
  store i64 %now, ptr %done.at
  %more = icmp ult i64 %now, %end
  br i1 %more, label %run, label %out
run:
  %order.offset = mul i64 %now, %order.bytes
  %order.now = getelementptr i8, ptr %order, i64 %order.offset
  store ptr %order.now, ptr %order.slot
  call void @schedule(ptr %block, i64 %now)
  br i1 %several, label %together, label %alone
alone:
  %status1 = call i32 @epoch_step(ptr %block, ptr null, i64 0, i64 1, ptr null)
  br label %ran
together:
  %pool.run = load ptr, ptr %pool.run.at
  %status2 = call i32 %pool.run(ptr %pool, ptr @epoch_step, ptr %block, ptr null, i64 %threads)
  br label %ran
ran:
  %status = phi i32 [ %status1, %alone ], [ %status2, %together ]
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %out, label %keep
keep:
  %history.offset = mul i64 %now, %loss.bytes
  %kept = getelementptr i8, ptr %history, i64 %history.offset
  call void @llvm.memcpy.p0.p0.i64(ptr %kept, ptr %loss, i64 %loss.bytes, i1 false)
  %following = add i64 %now, 1
  br label %next
out:
  call void @settle(ptr %block, i64 %first, i64 %now)
  %left = {{leave}}
  ret i64 %now
}}

; One thread's part of a step. Every thread checks the arguments, so that all take the same branch.
define internal i32 @epoch_step(ptr %block, ptr %unused, i64 %thread, i64 %threads, ptr %sync) {{
entry:
{_loads("gather", "gather.slots", "gather.arena", "step", "slots", "arena", "check")}
  call void @fetch(ptr %block, i64 %thread, i64 %threads)
  %status1 = call i32 %gather(ptr %gather.slots, ptr %gather.arena, i64 %thread, i64 %threads, ptr %sync)
  %many = icmp ugt i64 %threads, 1
  br i1 %many, label %meet, label %gathered
meet:
  call void @barrier(ptr %sync, i64 %threads)
  br label %gathered
gathered:
  %unchecked = icmp eq ptr %check, null
  br i1 %unchecked, label %accepted, label %checking
checking:
  %failed = call i64 %check(ptr %slots)
  %passed = icmp eq i64 %failed, 0
  br i1 %passed, label %accepted, label %refused
accepted:
  %status2 = call i32 %step(ptr %slots, ptr %arena, i64 %thread, i64 %threads, ptr %sync)
  ret i32 0
refused:
  ret i32 1
}}

; Prefetch all rows of a thread's share at once: they are in random order, so each would miss the cache separately.
define internal void @fetch(ptr %block, i64 %thread, i64 %threads) {{
entry:
{_loads("rows", "order.slot", "tables", "tables.count")}
  %order = load ptr, ptr %order.slot
  %from = mul i64 %thread, %rows
  %low = udiv i64 %from, %threads
  %to = add i64 %from, %rows
  %high = udiv i64 %to, %threads
  br label %table
table:
  %t = phi i64 [ 0, %entry ], [ %t.next, %done ]
  %t.more = icmp ult i64 %t, %tables.count
  br i1 %t.more, label %start, label %out
start:
  %t.word = mul i64 %t, 3
  %base.at = getelementptr i64, ptr %tables, i64 %t.word
  %base = load ptr, ptr %base.at
  %bytes.at = getelementptr i64, ptr %base.at, i64 1
  %bytes = load i64, ptr %bytes.at
  %span.at = getelementptr i64, ptr %base.at, i64 2
  %span = load i64, ptr %span.at
  br label %row
row:
  %r = phi i64 [ %low, %start ], [ %r.next, %asked ]
  %r.more = icmp ult i64 %r, %high
  br i1 %r.more, label %find, label %done
find:
  %number.at = getelementptr i64, ptr %order, i64 %r
  %number = load i64, ptr %number.at
  %offset = mul i64 %number, %bytes
  %first = getelementptr i8, ptr %base, i64 %offset
  br label %ask
ask:
  %at = phi i64 [ 0, %find ], [ %at.next, %ask ]
  %line = getelementptr i8, ptr %first, i64 %at
  call void @llvm.prefetch.p0(ptr %line, i32 0, i32 2, i32 1)
  %at.next = add i64 %at, 64
  %ask.more = icmp ult i64 %at.next, %span
  br i1 %ask.more, label %ask, label %asked
asked:
  %r.next = add i64 %r, 1
  br label %row
done:
  %t.next = add i64 %t, 1
  br label %table
out:
  ret void
}}

; Point the slots of a step to its scheduled values.
define internal void @schedule(ptr %block, i64 %now) {{
entry:
{_loads("schedules", "schedules.count")}
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %set ]
  %more = icmp ult i64 %i, %schedules.count
  br i1 %more, label %set, label %out
set:
{_SCHEDULE}
  %offset = mul i64 %now, %bytes
  %value = getelementptr i8, ptr %values, i64 %offset
  store ptr %value, ptr %slot
  %i.next = add i64 %i, 1
  br label %next
out:
  ret void
}}

; Copy the values of the last completed step to their own arrays, and point the slots there again.
define internal void @settle(ptr %block, i64 %first, i64 %done) {{
entry:
{_loads("schedules", "schedules.count")}
  %last = sub i64 %done, 1
  %any = icmp ugt i64 %done, %first
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %set ]
  %more = icmp ult i64 %i, %schedules.count
  br i1 %more, label %look, label %out
look:
{_SCHEDULE}
  store ptr %home, ptr %slot
  br i1 %any, label %copy, label %set
copy:
  %offset = mul i64 %last, %bytes
  %value = getelementptr i8, ptr %values, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %home, ptr %value, i64 %bytes, i1 false)
  br label %set
set:
  %i.next = add i64 %i, 1
  br label %next
out:
  ret void
}}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
"""


def epoch_text(triple: str) -> str:
    """LLVM text of ``i64 epoch(ptr block, i64 first, i64 end)``, a whole module."""
    enter, leave = enter_mode(triple, flush_subnormals=True)
    own = _TEXT.replace("{enter}", enter).replace("{leave}", leave)
    return float_mode_text(triple) + waiting_text(triple) + barrier_text(triple) + own


class EpochLoop:
    """The steps of one epoch, over rows of resident arrays.

    Parameters
    ----------
    gather : Bound
        Takes the tables, then the row indices of one step, i64[B]; its results are the arguments of `step`, in order.
        It runs on the threads of `step`, and must be bound for them too.
    step : Bound
        Takes the results of `gather`; its only result that is not donated is the loss.
    tables : sequence of numpy.ndarray
        The arrays from which `gather` takes rows.
    order : numpy.ndarray
        i64 [steps * B], C-contiguous: the row indices of all steps, concatenated.
    history : numpy.ndarray
        [steps] of the loss's dtype, filled in as the steps complete.
    schedules : mapping of str to numpy.ndarray
        Values [steps] for resident scalars by name, of the same dtype, one per step. The last one is kept.
    first : int, default 0
        Number of steps that are already done.

    Notes
    -----
    Between two calls of `run` the step can be used in other ways, because every call sets its arguments again.
    """

    def __init__(
        self,
        gather: Bound,
        step: Bound,
        tables: Sequence[np.ndarray],
        order: np.ndarray,
        history: np.ndarray,
        schedules: Mapping[str, np.ndarray],
        first: int = 0,
    ) -> None:
        self._gather, self._step, self._order = gather, step, order
        rows = gather.arguments[-1]
        self._rows = rows.shape[0]
        self._tables = gather.place((*tables, order[: self._rows]))
        loss, runtime = step.outputs[0], step.runtime
        slot_of = {a.name: a.slot for a in step.entry.arguments}
        self._places = _words(
            (t.ctypes.data, width := t.nbytes // len(t), min(width, _FETCHED)) for t in self._tables[:-1]
        )
        self._values = _words(
            (v.ctypes.data, v.itemsize, _slot(step, slot_of[name]), step.resident[name].ctypes.data)
            for name, v in schedules.items()
        )
        self._alive = (runtime, history, dict(schedules))
        self._native = _LOOP(runtime.library(epoch_text, "epoch")["epoch"])
        # In the order of _WORDS.
        words = [runtime.pool.block, step.threads, first, self._rows]
        for bound in (gather, step):
            words += [bound.function, ctypes.addressof(bound.slots), bound.arena.ctypes.data]
        words += [step.check, order.ctypes.data, self._rows * order.itemsize, _slot(gather, rows.slot)]
        words += [loss.ctypes.data, history.ctypes.data, loss.itemsize]
        words += [ctypes.addressof(self._places), len(tables), ctypes.addressof(self._values), len(schedules)]
        self._block = _words([words])

    @property
    def done(self) -> int:
        """Number of steps done so far, even after an exception."""
        done: int = self._block[_WORDS.index("done")]
        return done

    def run(self, end: int) -> None:
        """Continue until `end` steps are done, without the interpreter's lock, in the turn of the step.

        Raises
        ------
        InvalidValueError
            If an argument of the next step is out of range. The steps before it are done; it has changed nothing.
        """
        self._gather.exclusively(self._step.exclusively, self._run, end)

    def _run(self, end: int) -> None:
        self._step.runtime.pool.grow(self._step.threads)
        for argument, table in zip(self._gather.arguments[:-1], self._tables, strict=False):
            self._gather.slots[argument.slot] = table.ctypes.data
        for argument, rows in zip(self._step.arguments, self._gather.outputs, strict=True):
            self._step.slots[argument.slot] = rows.ctypes.data
        done = self._native(ctypes.addressof(self._block), self.done, end)
        self._step.expect_all_rows()
        if done < end:
            raise self._refusal()

    def _refusal(self) -> InvalidValueError:
        """The error for the check that failed in the next step."""
        done = self.done
        given = {a.slot: (a.name, x) for a, x in zip(self._step.arguments, self._gather.outputs, strict=True)}
        for check in self._step.entry.checks:
            name, array = given.get(check.slot) or self._step.resident_at(check.slot)
            place = first_outside(check, array)
            if place is None:
                continue
            where = f" at {place}" if place else ""
            if check.slot in given:
                row = int(self._order[done * self._rows + place[0]])
                where = f" in row {row}" + (f" at {place[1:]}" if place[1:] else "")
            return InvalidValueError(
                f"run_epoch: {name} must be {allowed(check)}, got {array[place]}{where}; "
                f"{plural(done, 'step')} {'was' if done == 1 else 'were'} done before"
            )
        raise AssertionError("a check failed in native code but holds in Python, which is a bug in adjoint")


def _slot(bound: Bound, number: int) -> int:
    """Address of a slot."""
    return ctypes.addressof(bound.slots) + number * ctypes.sizeof(ctypes.c_void_p)


def _words(rows: Iterable[Iterable[int]]) -> "ctypes.Array[ctypes.c_int64]":
    """64-bit words, row after row."""
    words = list(itertools.chain(*rows))
    return (ctypes.c_int64 * len(words))(*words)
