"""The thread pool that runs steps: one per process, parked in native code between steps.

A worker is a Python thread that calls `work` once and stays there, without the interpreter's lock, until the pool
stops. A waiting thread spins for a while and then sleeps; with more threads than cores it sleeps at once.
Layout of the shared block, with a separate cache line for each group to avoid false sharing::

      0  generation: number of the step           64  function, slots, arena, threads
    128  number of finished workers, and whether the caller sleeps
    192  stop flag; 196 lock; 200 workers; 208 address of `run`
    256  number of sleeping workers
    320  sync of the barrier (six lines), with the number of cores

The lock is 0 if free, 1 while a step runs, and 2 if a thread may be sleeping until it is free.

A forked process has none of the threads: its pool is empty until a step needs one. A process whose steps all run on one
thread never compiles this code.
"""

import atexit
import ctypes
import os
import threading
from collections.abc import Callable

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.kernel.target import available_cores
from adjoint.nativelib.float_mode import enter_mode, float_mode_text
from adjoint.nativelib.waiting import SYNC_BYTES, SYNC_CORES, patient, waiting_text
from adjoint.runtime.library import Library

__all__ = ["MAX_THREADS", "RUN", "WORKERS", "Pool", "check_threads", "make_sync", "pool_text"]

#: Maximum number of threads of a step: more than any machine has cores. Each is a system thread.
MAX_THREADS = 1024

#: Functions of `pool_text` that are called from outside.
_FUNCTIONS = ("run", "work", "hold", "let_go", "dismiss")

_BLOCK_BYTES = 320 + SYNC_BYTES

#: Offsets in the block: the barrier's sync block, the stop flag, the number of workers (i32), the address of `run`.
_SYNC, _STOP, WORKERS, RUN = 320, 192, 200, 208

_TEXT = """
; The loop of a worker: wait for the next generation, run its share of the step, report completion.
define void @work(ptr %block, i64 %thread) {
entry:
  ; Set the mode once, so that the steps find it already set.
  %mode = {enter}
  %stop.at = getelementptr i8, ptr %block, i64 192
  %asleep = getelementptr i8, ptr %block, i64 256
  %done = getelementptr i8, ptr %block, i64 128
  %sync = getelementptr i8, ptr %block, i64 320
  %function.at = getelementptr i8, ptr %block, i64 64
  %slots.at = getelementptr i8, ptr %block, i64 72
  %arena.at = getelementptr i8, ptr %block, i64 80
  %threads.at = getelementptr i8, ptr %block, i64 88
  %workers.at = getelementptr i8, ptr %block, i64 200
  %workers = load i32, ptr %workers.at
  %threads.all = add i32 %workers, 1
  br label %ready
ready:
  %seen = phi i32 [ 0, %entry ], [ %generation, %finished ], [ %generation, %rouse ]
  %limit = call i32 @spins(ptr %sync, i32 %threads.all, i32 {spins})
  br label %wait
wait:
  %tries = phi i32 [ 0, %ready ], [ %tried, %spin ], [ %tried, %doze ]
  %generation = load atomic i32, ptr %block acquire, align 4
  %same = icmp eq i32 %generation, %seen
  br i1 %same, label %patience, label %go
patience:
  %tried = add i32 %tries, 1
  %patient = icmp ule i32 %tried, %limit
  br i1 %patient, label %spin, label %doze
spin:
  {pause}
  br label %wait
doze:
  %n1 = atomicrmw add ptr %asleep, i32 1 seq_cst, align 4
  %n0 = call i1 @sleep_in_place(ptr %sync, i32 %threads.all, ptr %block, i32 %seen)
  %n2 = atomicrmw sub ptr %asleep, i32 1 seq_cst, align 4
  br label %wait
go:
  %stop = load atomic i32, ptr %stop.at acquire, align 4
  %stopping = icmp ne i32 %stop, 0
  br i1 %stopping, label %end, label %share
share:
  %threads = load i64, ptr %threads.at
  %mine = icmp ult i64 %thread, %threads
  br i1 %mine, label %run, label %finished
run:
  %function = load ptr, ptr %function.at
  %slots = load ptr, ptr %slots.at
  %arena = load ptr, ptr %arena.at
  %status = call i32 %function(ptr %slots, ptr %arena, i64 %thread, i64 %threads, ptr %sync)
  br label %finished
finished:
  ; The last worker to finish wakes the caller if the caller has marked the word as asleep.
  %n3 = atomicrmw add ptr %done, i32 1 acq_rel, align 4
  %n4 = add i32 %n3, 1
  %marked = or i32 %workers, {asleep}
  %call = icmp eq i32 %n4, %marked
  br i1 %call, label %rouse, label %ready
rouse:
  call void @say_where(ptr %sync)
  call void @wake_all(ptr %done)
  br label %ready
end:
  ret void
}

; Wait until no step runs, and prevent others from starting.
define void @hold(ptr %block) {
entry:
  %lock = getelementptr i8, ptr %block, i64 196
  %pair = cmpxchg ptr %lock, i32 0, i32 1 acquire monotonic, align 4
  %free = extractvalue { i32, i1 } %pair, 1
  br i1 %free, label %end, label %claim
claim:
  %held = atomicrmw xchg ptr %lock, i32 2 acquire, align 4
  %mine = icmp eq i32 %held, 0
  br i1 %mine, label %end, label %busy
busy:
  call void @sleep_while(ptr %lock, i32 2)
  br label %claim
end:
  ret void
}

; Allow steps to start again.
define void @let_go(ptr %block) {
entry:
  %lock = getelementptr i8, ptr %block, i64 196
  %was = atomicrmw xchg ptr %lock, i32 0 release, align 4
  %awaited = icmp eq i32 %was, 2
  br i1 %awaited, label %wake, label %end
wake:
  call void @wake_all(ptr %lock)
  br label %end
end:
  ret void
}

; Stop the workers. The new generation keeps workers from falling asleep, and workers that see it also see the stop
; flag; sleeping ones are woken.
define void @dismiss(ptr %block) {
  %stop.at = getelementptr i8, ptr %block, i64 192
  store atomic i32 1, ptr %stop.at monotonic, align 4
  %generation = atomicrmw add ptr %block, i32 1 seq_cst, align 4
  call void @wake_all(ptr %block)
  ret void
}

; Run one step on `threads` threads, at least two, including the caller.
define i32 @run(ptr %block, ptr %function, ptr %slots, ptr %arena, i64 %threads) {
entry:
  call void @hold(ptr %block)
  %workers.at = getelementptr i8, ptr %block, i64 200
  %workers = load i32, ptr %workers.at
  %asleep = getelementptr i8, ptr %block, i64 256
  %done = getelementptr i8, ptr %block, i64 128
  %sync = getelementptr i8, ptr %block, i64 320
  %function.at = getelementptr i8, ptr %block, i64 64
  %slots.at = getelementptr i8, ptr %block, i64 72
  %arena.at = getelementptr i8, ptr %block, i64 80
  %threads.at = getelementptr i8, ptr %block, i64 88
  store ptr %function, ptr %function.at
  store ptr %slots, ptr %slots.at
  store ptr %arena, ptr %arena.at
  store i64 %threads, ptr %threads.at
  store atomic i32 0, ptr %done monotonic, align 4
  ; The barrier counts rounds of as many arrivals as this step has threads.
  store atomic i32 0, ptr %sync monotonic, align 4
  %generation = atomicrmw add ptr %block, i32 1 seq_cst, align 4
  %sleepers = load atomic i32, ptr %asleep seq_cst, align 4
  %any = icmp ne i32 %sleepers, 0
  br i1 %any, label %wake, label %own
wake:
  call void @say_where(ptr %sync)
  call void @wake_all(ptr %block)
  br label %own
own:
  %status = call i32 %function(ptr %slots, ptr %arena, i64 0, i64 %threads, ptr %sync)
  %threads.all = add i32 %workers, 1
  %limit = call i32 @spins(ptr %sync, i32 %threads.all, i32 {own.spins})
  br label %wait
wait:
  %tries = phi i32 [ 0, %own ], [ %tried, %spin ], [ %tried, %doze ], [ %tried, %sleep ]
  %now = load atomic i32, ptr %done acquire, align 4
  %finished = and i32 %now, {unmarked}
  %over = icmp eq i32 %finished, %workers
  br i1 %over, label %end, label %patience
patience:
  %tried = add i32 %tries, 1
  %patient = icmp ule i32 %tried, %limit
  br i1 %patient, label %spin, label %doze
spin:
  {pause}
  br label %wait
doze:
  %mark = or i32 %now, {asleep}
  %pair = cmpxchg ptr %done, i32 %now, i32 %mark acq_rel monotonic, align 4
  %marked = extractvalue { i32, i1 } %pair, 1
  br i1 %marked, label %sleep, label %wait
sleep:
  %shared = call i1 @sleep_in_place(ptr %sync, i32 %threads.all, ptr %done, i32 %mark)
  br label %wait
end:
  call void @let_go(ptr %block)
  ret i32 %status
}
"""

#: Number of times a worker polls the generation before it sleeps: about a quarter of a millisecond.
_SPINS = 8000

#: Number of times the caller polls the number of finished workers before it sleeps; as in the barrier.
_OWN_SPINS = 8000

#: The bit in the number of finished workers that is set while the caller sleeps.
_ASLEEP = 1 << 30


def pool_text(triple: str) -> str:
    """LLVM text of the pool's functions, a whole module."""
    text = float_mode_text(triple) + waiting_text(triple) + _TEXT
    for key, value in (
        ("{enter}", enter_mode(triple, flush_subnormals=True)[0]),
        ("{spins}", _SPINS),
        ("{own.spins}", _OWN_SPINS),
        ("{asleep}", _ASLEEP),
        ("{unmarked}", _ASLEEP - 1),
    ):
        text = text.replace(key, str(value))
    return patient(text, triple)


def make_sync() -> np.ndarray:
    """A sync block for a barrier of threads outside the pool."""
    block = np.zeros(SYNC_BYTES + 64, np.uint8)
    start = -block.ctypes.data % 64
    sync = block[start : start + SYNC_BYTES]
    sync[SYNC_CORES : SYNC_CORES + 4].view(np.int32)[0] = available_cores()
    return sync


def check_threads(threads: object) -> int:
    """Return the number of threads, if it is valid.

    Raises
    ------
    InvalidValueError
        If it is not an integer from 1 to `MAX_THREADS`.
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
        raise InvalidValueError(f"threads must be an integer from 1 to {MAX_THREADS}, got {threads!r}")
    return threads


#: An entry point: slots, working memory, number of the thread, number of threads, sync block.
_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


class _Functions:
    """The loaded functions of `pool_text`."""

    def __init__(self, library: Library) -> None:
        self._library = library
        on_block = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self.hold, self.let_go, self.dismiss = (on_block(library[n]) for n in ("hold", "let_go", "dismiss"))
        self.work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library["work"])
        self.run_address = library["run"]
        self.run = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_int64)(self.run_address)


class Pool:
    """Worker threads for compiled steps.

    Parameters
    ----------
    library : callable
        Loads functions of `pool_text`, given this function and their names, when a step first runs on several threads.

    Attributes
    ----------
    block : int
        Address of the shared block, which never moves.

    Notes
    -----
    The steps of a process are serialized: a second Python thread that calls a step waits for its turn.
    """

    def __init__(self, library: Callable[..., Library]) -> None:
        self._library = library
        self._functions: _Functions | None = None
        self._memory = ctypes.create_string_buffer(_BLOCK_BYTES + 64)
        start = ctypes.addressof(self._memory)
        self.block = start + (-start) % 64
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        atexit.register(self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Reset the pool in a forked process, which has no workers, and where the owner of any lock is gone."""
        self._lock = threading.Lock()
        self._threads = []
        ctypes.memset(self.block, 0, _BLOCK_BYTES)

    def load(self) -> "_Functions":
        """Compile and load what steps on several threads need, unless that has been done."""
        if self._functions is None:
            self._functions = _Functions(self._library(pool_text, *_FUNCTIONS))
        return self._functions

    def run(self, function: int, slots: int, arena: int, threads: int) -> None:
        """Run a step, given the addresses of its entry point, slots and working memory."""
        if threads == 1:
            _ENTRY(function)(slots, arena, 0, 1, None)
        else:
            self.grow(threads)
            self.load().run(self.block, function, slots, arena, threads)

    def grow(self, threads: int) -> None:
        """Ensure that steps on that many threads can run."""
        if len(self._threads) >= threads - 1:
            return
        functions = self.load()
        with self._lock:
            if len(self._threads) >= threads - 1:
                return
            # Another Python thread may be in a step, which relies on the workers that it started with.
            functions.hold(self.block)
            try:
                self._restart(functions, threads - 1)
            finally:
                functions.let_go(self.block)

    def _restart(self, functions: "_Functions", workers: int) -> None:
        """Recreate the pool with more workers, which start at generation 0."""
        self._halt()
        made = []
        ctypes.memset(self.block, 0, _STOP + 4)
        ctypes.memset(self.block + _SYNC, 0, SYNC_BYTES)
        # Workers read both when they start.
        ctypes.c_int32.from_address(self.block + _SYNC + SYNC_CORES).value = available_cores()
        ctypes.c_int32.from_address(self.block + WORKERS).value = workers
        ctypes.c_int64.from_address(self.block + RUN).value = functions.run_address
        for number in range(1, workers + 1):
            thread = threading.Thread(
                target=functions.work, args=(self.block, number), name=f"adjoint-{number}", daemon=True
            )
            thread.start()
            made.append(thread)
        self._threads = made

    def stop(self) -> None:
        """Stop the workers."""
        with self._lock:
            self._halt()

    def _halt(self) -> None:
        if not self._threads or self._functions is None:
            return
        self._functions.dismiss(self.block)
        for thread in self._threads:
            thread.join(timeout=5)
        self._threads = []
