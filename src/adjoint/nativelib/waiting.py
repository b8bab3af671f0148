"""How threads wait for each other, as LLVM text: spin with a pause hint, then sleep (spin-then-park).

Compiled programs and the thread pool wait in the same way, and share the sync block of a barrier: six cache lines
(`SYNC_BYTES`). The first is the barrier's own. The second is almost read-only and determines how long to spin: the
number of cores, set on creation, and the adaptive backoff, initially 0. It also contains the core of the last waker.
The last four lines record the threads that sleep on each core (`adjoint.nativelib.placement`).
"""

from adjoint.kernel.target import architecture
from adjoint.nativelib.placement import placement_text

__all__ = ["BACKOFF_LIMIT", "SYNC_BACKOFF", "SYNC_BYTES", "SYNC_CORES", "SYNC_WAKER", "patient", "waiting_text"]

#: Size of the sync block in bytes.
SYNC_BYTES = 384

#: Offset of the number of cores (i32) available to the process. With more threads than cores, threads do not spin.
SYNC_CORES = 64

#: Offset of the adaptive backoff (i32). It grows when threads spin in vain, as they do if the thread that they wait for
#: needs their core, and otherwise decreases by one each time. From `BACKOFF_LIMIT` on, threads sleep almost at once.
SYNC_BACKOFF = 68

#: Offset of the core of the last waker (i32).
SYNC_WAKER = 72

#: Offset of the sleeping threads (64 times i32), indexed by the number of their core modulo 64.
SYNC_SLEEPERS = 128

#: Backoff from which threads hardly spin; see `SYNC_BACKOFF`.
BACKOFF_LIMIT = 64

#: Number of spins from `BACKOFF_LIMIT` on: half a microsecond.
_FEW = 20

#: LLVM's spin hint by architecture, with its declaration.
_PAUSE = {
    "x86_64": ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}

#: The number of Linux's system call futex, by architecture.
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}

_WAITING = """
{declarations}

; Sleep while the word has that value. May return early, so callers must check the word again.
define internal void @sleep_while(ptr %word, i32 %value) nounwind noinline cold {
  {sleep}
  ret void
}

; Wake all threads that sleep on the word. On systems without such a call, they wake up by themselves.
define internal void @wake_all(ptr %word) nounwind noinline cold {
  {wake}
  ret void
}

; How often to poll before sleeping, if `threads` take part: `most`, unless the backoff or the number of cores forbids.
define internal i32 @spins(ptr %sync, i32 %threads, i32 %most) nounwind {
  %cores.at = getelementptr i8, ptr %sync, i64 {cores}
  %cores = load i32, ptr %cores.at
  %fits = icmp ule i32 %threads, %cores
  %backoff.at = getelementptr i8, ptr %sync, i64 {backoff}
  %backoff = load atomic i32, ptr %backoff.at monotonic, align 4
  %eager = icmp ult i32 %backoff, {limit}
  %hope = select i1 %eager, i32 %most, i32 {few}
  %spins = select i1 %fits, i32 %hope, i32 0
  ret i32 %spins
}
"""


def patient(text: str, triple: str) -> str:
    """LLVM text with the target's hint in place of ``{pause}``."""
    return text.replace("{pause}", _PAUSE.get(architecture(triple), ("", ""))[0])


def waiting_text(triple: str) -> str:
    """LLVM text of ``@sleep_while``, ``@wake_all``, ``@spins`` and what `placement_text` has, for a target."""
    name = architecture(triple)
    hint = _PAUSE.get(name, ("", ""))[1]
    number = _FUTEX.get(name) if "linux" in triple else None
    if number is None:
        declared, sleep, wake = "declare i32 @usleep(i32)", "%1 = call i32 @usleep(i32 50)", ""
    else:
        # FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129
        call = f"%1 = call i64 (i64, ...) @syscall(i64 {number}, ptr %word"
        declared = "declare i64 @syscall(i64, ...)"
        sleep = f"{call}, i64 128, i32 %value, ptr null, ptr null, i64 0)"
        wake = f"{call}, i64 129, i32 2147483647, ptr null, ptr null, i64 0)"
    text = _WAITING
    for key, value in (
        ("{declarations}", f"{hint}\n{declared}"),
        ("{sleep}", sleep),
        ("{wake}", wake),
        ("{cores}", str(SYNC_CORES)),
        ("{backoff}", str(SYNC_BACKOFF)),
        ("{limit}", str(BACKOFF_LIMIT)),
        ("{few}", str(_FEW)),
    ):
        text = text.replace(key, value)
    places = {"cores": SYNC_CORES, "backoff": SYNC_BACKOFF, "waker": SYNC_WAKER, "sleepers": SYNC_SLEEPERS}
    return text + placement_text(triple, places, BACKOFF_LIMIT)
