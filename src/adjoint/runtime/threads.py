"""Threads that run steps: one pool a process, parked in native code between steps.

A worker is a Python thread that calls `work` once and stays there, without the interpreter's lock, until the pool
ends. Between steps it spins for a while, then sleeps in the kernel until the next step. Layout of the shared
block, a cache line each so that waiting disturbs nobody::

      0  turn: number of the step to run          64  sync of the barrier (two lines)
    192  function, slots, arena, threads         256  workers that are done
    320  stop flag; 324 lock; 328 workers        384  workers asleep
"""

import atexit
import ctypes
import platform
import sys
import threading

from adjoint.kernel.target import PAUSE
from adjoint.runtime.library import Library

__all__ = ["Pool", "pool_text"]

_BLOCK_BYTES = 448

#: Places in the block that Python writes.
_STOP, _LOCK, _WORKERS = 320, 324, 328

#: System call number of futex, by machine, where the platform is Linux.
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}

_TEXT = """
{declarations}

define internal void @sleep_until_changed(ptr %word, i32 %value) {
  {sleep}
  ret void
}

define internal void @wake_all(ptr %word) {
  {wake}
  ret void
}

; A worker's life: wait for a turn, run its share, say so.
define void @work(ptr %block, i64 %thread) {
entry:
  %stop.at = getelementptr i8, ptr %block, i64 320
  %asleep = getelementptr i8, ptr %block, i64 384
  %done = getelementptr i8, ptr %block, i64 256
  %sync = getelementptr i8, ptr %block, i64 64
  %function.at = getelementptr i8, ptr %block, i64 192
  %slots.at = getelementptr i8, ptr %block, i64 200
  %arena.at = getelementptr i8, ptr %block, i64 208
  %threads.at = getelementptr i8, ptr %block, i64 216
  br label %ready
ready:
  %seen = phi i32 [ 0, %entry ], [ %turn, %finished ]
  br label %wait
wait:
  %tries = phi i32 [ 0, %ready ], [ %tried, %again ]
  %turn = load atomic i32, ptr %block acquire, align 4
  %same = icmp eq i32 %turn, %seen
  br i1 %same, label %patience, label %go
patience:
  %tried = add i32 %tries, 1
  %patient = icmp ult i32 %tried, {spins}
  br i1 %patient, label %spin, label %doze
spin:
  {pause}
  br label %again
doze:
  %n1 = atomicrmw add ptr %asleep, i32 1 seq_cst, align 4
  call void @sleep_until_changed(ptr %block, i32 %seen)
  %n2 = atomicrmw sub ptr %asleep, i32 1 seq_cst, align 4
  br label %again
again:
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
  %n3 = atomicrmw add ptr %done, i32 1 release, align 4
  br label %ready
end:
  ret void
}

; Wait until no step runs and none can start.
define void @hold(ptr %block) {
entry:
  %lock = getelementptr i8, ptr %block, i64 324
  br label %acquire
acquire:
  %held = atomicrmw xchg ptr %lock, i32 1 acquire, align 4
  %free = icmp eq i32 %held, 0
  br i1 %free, label %end, label %busy
busy:
  %ignored = call i32 @sched_yield()
  br label %acquire
end:
  ret void
}

; One step on `threads` threads, of which the caller is the first.
define i32 @run(ptr %block, ptr %function, ptr %slots, ptr %arena, i64 %threads) {
entry:
  %alone = icmp ult i64 %threads, 2
  br i1 %alone, label %single, label %many
single:
  %status1 = call i32 %function(ptr %slots, ptr %arena, i64 0, i64 1, ptr null)
  ret i32 %status1
many:
  call void @hold(ptr %block)
  %lock = getelementptr i8, ptr %block, i64 324
  %workers.at = getelementptr i8, ptr %block, i64 328
  %workers = load i64, ptr %workers.at
  %asleep = getelementptr i8, ptr %block, i64 384
  %done = getelementptr i8, ptr %block, i64 256
  %sync = getelementptr i8, ptr %block, i64 64
  %function.at = getelementptr i8, ptr %block, i64 192
  %slots.at = getelementptr i8, ptr %block, i64 200
  %arena.at = getelementptr i8, ptr %block, i64 208
  %threads.at = getelementptr i8, ptr %block, i64 216
  store ptr %function, ptr %function.at
  store ptr %slots, ptr %slots.at
  store ptr %arena, ptr %arena.at
  store i64 %threads, ptr %threads.at
  store atomic i32 0, ptr %done monotonic, align 4
  %turn = atomicrmw add ptr %block, i32 1 seq_cst, align 4
  %sleepers = load atomic i32, ptr %asleep seq_cst, align 4
  %any = icmp ne i32 %sleepers, 0
  br i1 %any, label %wake, label %own
wake:
  call void @wake_all(ptr %block)
  br label %own
own:
  %status = call i32 %function(ptr %slots, ptr %arena, i64 0, i64 %threads, ptr %sync)
  %all = trunc i64 %workers to i32
  br label %wait
wait:
  %tries = phi i32 [ 0, %own ], [ %tried, %again ]
  %finished = load atomic i32, ptr %done acquire, align 4
  %over = icmp eq i32 %finished, %all
  br i1 %over, label %end, label %patience
patience:
  %tried = add i32 %tries, 1
  %patient = icmp ult i32 %tried, 2000
  br i1 %patient, label %spin, label %yield
spin:
  {pause}
  br label %again
yield:
  %ignored = call i32 @sched_yield()
  br label %again
again:
  br label %wait
end:
  store atomic i32 0, ptr %lock release, align 4
  ret i32 %status
}

declare i32 @sched_yield()
"""

#: Turns of the waiting loop before a worker goes to sleep: about a quarter of a millisecond.
_SPINS = 8000


def pool_text(machine: str = platform.machine(), system: str = sys.platform) -> str:
    """LLVM text of the pool's functions, for a machine and system."""
    pause, declare = PAUSE.get({"arm64": "aarch64"}.get(machine, machine), ("", ""))
    number = _FUTEX.get(machine) if system.startswith("linux") else None
    if number is None:
        sleep, wake = "%1 = call i32 @usleep(i32 50)", ""
        declarations = f"{declare}\ndeclare i32 @usleep(i32)"
    else:
        # FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129
        call = f"call i64 (i64, ...) @syscall(i64 {number}, ptr %word"
        sleep = f"%1 = {call}, i64 128, i32 %value, ptr null, ptr null, i64 0)"
        wake = f"%1 = {call}, i64 129, i32 2147483647, ptr null, ptr null, i64 0)"
        declarations = f"{declare}\ndeclare i64 @syscall(i64, ...)"
    text = _TEXT
    for key, value in (
        ("{declarations}", declarations),
        ("{sleep}", sleep),
        ("{wake}", wake),
        ("{pause}", pause),
        ("{spins}", str(_SPINS)),
    ):
        text = text.replace(key, value)
    return text


class Pool:
    """Worker threads for compiled steps.

    Parameters
    ----------
    library : Library
        Holding the functions of `pool_text`.

    Notes
    -----
    Steps of one process run one after the other: a second Python thread that calls a step waits for its turn.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._memory = ctypes.create_string_buffer(_BLOCK_BYTES + 64)
        start = ctypes.addressof(self._memory)
        self.block = start + (-start) % 64
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        self._work = work(self._library["work"])
        self._hold = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._library["hold"])
        atexit.register(self.stop)

    @property
    def run_address(self) -> int:
        """Address of ``i32 run(block, function, slots, arena, threads)``."""
        return self._library["run"]

    def grow(self, threads: int) -> None:
        """Make sure that steps on that many threads can run."""
        with self._lock:
            if len(self._threads) >= threads - 1:
                return
            # Another Python thread may be in a step, which counts on the workers that it started with.
            self._hold(self.block)
            try:
                self._restart(threads - 1)
            finally:
                ctypes.c_int64.from_address(self.block + _WORKERS).value = len(self._threads)
                ctypes.c_int32.from_address(self.block + _LOCK).value = 0

    def _restart(self, workers: int) -> None:
        """Make the pool anew at a larger size: turn 0 must be current when a worker starts."""
        self._halt()
        ctypes.memset(self.block, 0, _LOCK)
        for number in range(1, workers + 1):
            thread = threading.Thread(
                target=self._work, args=(self.block, number), name=f"adjoint-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End the workers."""
        with self._lock:
            self._halt()

    def _halt(self) -> None:
        if not self._threads:
            return
        ctypes.c_int32.from_address(self.block + _STOP).value = 1
        turn = ctypes.c_int32.from_address(self.block)
        turn.value += 1
        # The turn is new, so nobody falls asleep any more; whoever sleeps already is woken.
        self._wake()
        for thread in self._threads:
            thread.join(timeout=5)
        self._threads = []

    def _wake(self) -> None:
        """Let sleeping workers look at the turn."""
        libc = ctypes.CDLL(None)
        number = _FUTEX.get(platform.machine())
        if sys.platform.startswith("linux") and number is not None:
            libc.syscall(ctypes.c_long(number), ctypes.c_void_p(self.block), 129, 2**31 - 1, None, None, 0)
