"""Many steps in one native call: rows gathered by index, arguments checked, the step run, its loss kept.

`epoch` is given the address of a block of 64-bit words and runs the steps from `first` to before `end`. It returns
how many steps of the epoch are done: less than `end` where a check of the arguments has refused the next one, which
has then changed nothing. Words of the block::

     0 pool's block       1 steps done
     2 gather             3 its slots          4 its arena          5 its threads
     6 step               7 its slots          8 its arena          9 its threads
    10 check, or 0       11 order             12 bytes of it a step 13 the slot that it goes to
    14 loss              15 history           16 bytes of a loss    17 number of schedules
    18 + 3*i: for schedule i: values, where to write the one of a step, bytes of one

Both functions run through the thread pool, so a step's inputs are gathered by the threads that read them next.
"""

import ctypes
from collections.abc import Sequence

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.runtime.bound import Bound, allowed, first_outside

__all__ = ["EPOCH_TEXT", "EpochLoop"]

_WORDS = (
    "pool", "done",
    "gather", "gather.slots", "gather.arena", "gather.threads",
    "step", "slots", "arena", "threads",
    "check", "order", "order.bytes", "order.slot",
    "loss", "history", "loss.bytes", "schedules",
)  # fmt: skip

_POINTERS = {
    "pool", "gather", "gather.slots", "gather.arena", "step", "slots", "arena", "check", "order", "order.slot", "loss",
    "history",
}  # fmt: skip


def _load(number: int, name: str) -> str:
    """LLVM text that loads a word of the block under a name."""
    at = f"  %{name}.at = getelementptr i64, ptr %block, i64 {number}\n"
    return at + f"  %{name} = load {'ptr' if name in _POINTERS else 'i64'}, ptr %{name}.at"


_LOADS = "\n".join(_load(number, name) for number, name in enumerate(_WORDS))

EPOCH_TEXT = f"""
define i64 @epoch(ptr %block, i64 %first, i64 %end) {{
entry:
{_LOADS}
  %unchecked = icmp eq ptr %check, null
  br label %next
next:
  %now = phi i64 [ %first, %entry ], [ %following, %run ]
  store i64 %now, ptr %done.at
  %more = icmp ult i64 %now, %end
  br i1 %more, label %rows, label %out
rows:
  %order.offset = mul i64 %now, %order.bytes
  %order.now = getelementptr i8, ptr %order, i64 %order.offset
  store ptr %order.now, ptr %order.slot
  %status1 = call i32 @run(ptr %pool, ptr %gather, ptr %gather.slots, ptr %gather.arena, i64 %gather.threads)
  br i1 %unchecked, label %accepted, label %checking
checking:
  %failed = call i64 %check(ptr %slots)
  %passed = icmp eq i64 %failed, 0
  br i1 %passed, label %accepted, label %out
accepted:
  br label %schedule
schedule:
  %i = phi i64 [ 0, %accepted ], [ %i.next, %set ]
  %unset = icmp ult i64 %i, %schedules
  br i1 %unset, label %set, label %run
set:
  %i.words = mul i64 %i, 3
  %i.start = add i64 %i.words, {len(_WORDS)}
  %values.at = getelementptr i64, ptr %block, i64 %i.start
  %values = load ptr, ptr %values.at
  %goal.at = getelementptr i64, ptr %values.at, i64 1
  %goal = load ptr, ptr %goal.at
  %bytes.at = getelementptr i64, ptr %values.at, i64 2
  %bytes = load i64, ptr %bytes.at
  %values.offset = mul i64 %now, %bytes
  %value = getelementptr i8, ptr %values, i64 %values.offset
  call void @llvm.memcpy.p0.p0.i64(ptr %goal, ptr %value, i64 %bytes, i1 false)
  %i.next = add i64 %i, 1
  br label %schedule
run:
  %status2 = call i32 @run(ptr %pool, ptr %step, ptr %slots, ptr %arena, i64 %threads)
  %history.offset = mul i64 %now, %loss.bytes
  %kept = getelementptr i8, ptr %history, i64 %history.offset
  call void @llvm.memcpy.p0.p0.i64(ptr %kept, ptr %loss, i64 %loss.bytes, i1 false)
  %following = add i64 %now, 1
  br label %next
out:
  ret i64 %now
}}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


class EpochLoop:
    """The steps of one epoch, over rows of arrays that stay in memory.

    Parameters
    ----------
    gather : Bound
        Takes the tables and last the rows of one step, i64[B]; its results are the arguments of `step`, in order.
    step : Bound
        Takes what `gather` gives; its only result that is not donated is the loss.
    tables : sequence of numpy.ndarray
        What `gather` takes rows of.
    order : numpy.ndarray
        i64 [steps * B], C-contiguous: the rows of every step, one after the other.
    history : numpy.ndarray
        [steps] of the loss's dtype: written as the steps are done.
    schedules : sequence of pairs of numpy.ndarray
        Values [steps], and the resident scalar of the same dtype where each is written before its step.

    Notes
    -----
    Between two calls of `run` the step may be used in any other way: every call places its arguments anew.
    """

    def __init__(
        self,
        gather: Bound,
        step: Bound,
        tables: Sequence[np.ndarray],
        order: np.ndarray,
        history: np.ndarray,
        schedules: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> None:
        self._gather, self._step, self._order = gather, step, order
        rows = gather.arguments[-1]
        self._rows = rows.shape[0]
        self._tables = gather.place((*tables, order[: self._rows]))
        loss = step.outputs[0]
        runtime = step.runtime
        self._alive = (runtime, history, schedules)
        self._native = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(runtime.epoch)
        # In the order of _WORDS.
        words = [runtime.pool.block, 0]
        for bound in (gather, step):
            words += [bound.function, ctypes.addressof(bound.slots), bound.arena.ctypes.data, bound.threads]
        order_slot = ctypes.addressof(gather.slots) + rows.slot * ctypes.sizeof(ctypes.c_void_p)
        words += [step.check, order.ctypes.data, self._rows * order.itemsize, order_slot]
        words += [loss.ctypes.data, history.ctypes.data, loss.itemsize, len(schedules)]
        for values, goal in schedules:
            words += [values.ctypes.data, goal.ctypes.data, values.itemsize]
        self._block = (ctypes.c_int64 * len(words))(*words)

    @property
    def done(self) -> int:
        """Steps done so far, also where an exception has come between."""
        return self._block[1]

    def run(self, end: int) -> None:
        """Go on until `end` steps are done, without the interpreter's lock.

        Raises
        ------
        InvalidValueError
            Where the next step's arguments are out of range; the steps before it are done, it has changed nothing.
        """
        for argument, table in zip(self._gather.arguments[:-1], self._tables, strict=False):
            self._gather.slots[argument.slot] = table.ctypes.data
        for argument, rows in zip(self._step.arguments, self._gather.outputs, strict=True):
            self._step.slots[argument.slot] = rows.ctypes.data
        if self._native(ctypes.addressof(self._block), self.done, end) < end:
            raise self._refusal()

    def _refusal(self) -> InvalidValueError:
        """What the check of the next step has refused."""
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
                f"run_epoch: {name} must be {allowed(check)}, got {array[place]}{where}; {done} steps were done before"
            )
        raise AssertionError("a check failed natively that holds in Python, which is a bug in adjoint")
