"""Placement of sleeping threads, as LLVM text: a thread wakes up on the core on which it went to sleep.

The operating system runs a thread that wakes up on its previous core if that core is idle. In a virtual machine, an
idle core may not be recognized as such (docs/design/threads.md). Then the thread is placed on its waker's core, and
both may share that core for long, at half the speed. So the affinity of a thread is restricted to its own core while it
sleeps, and restored when it wakes up. If the waker has moved to that core in the meantime, it first changes the
sleeping thread's affinity to all cores except that one.
"""

from collections.abc import Mapping

from adjoint.kernel.target import architecture

__all__ = ["placement_text"]

#: Duration of a sleep in nanoseconds from which the waker's core is assumed to have been busy with something else: most
#: of a scheduler tick.
_LONG = 3_000_000

#: Numbers of the Linux system calls getcpu, sched_getaffinity, sched_setaffinity, clock_gettime and gettid.
_CALLS = {
    "x86_64": (309, 204, 203, 228, 186),
    "aarch64": (168, 123, 122, 113, 178),
    "riscv64": (168, 123, 122, 113, 178),
}

_NOWHERE = """
define internal void @say_where(ptr %sync) nounwind {
  ret void
}

; Sleep while the word has that value, on any core.
define internal i1 @sleep_in_place(ptr %sync, i32 %threads, ptr %word, i32 %value) nounwind noinline cold {
  call void @sleep_while(ptr %word, i32 %value)
  ret i1 true
}
"""

_TEXT = """
; The core that this thread runs on.
define internal i32 @here() nounwind noinline cold {
  %at = alloca i32
  store i32 -1, ptr %at
  %1 = call i64 (i64, ...) @syscall(i64 {getcpu}, ptr %at, ptr null, ptr null)
  %core = load i32, ptr %at
  ret i32 %core
}

; The slot of the thread that sleeps on a core; cores with the same number modulo 64 share a slot.
define internal ptr @slot_of(ptr %sync, i64 %core) nounwind {
  %sleepers = getelementptr i8, ptr %sync, i64 {sleepers}
  %number = and i64 %core, 63
  %slot = getelementptr i32, ptr %sleepers, i64 %number
  ret ptr %slot
}

; Before waking others, record the own core and, if the backoff is below the limit, move away the thread that sleeps on
; it. A slot is 0, a thread, or -1 while the thread is being moved.
define internal void @say_where(ptr %sync) nounwind noinline cold {
entry:
  %mask = alloca [16 x i64]
  %waker.at = getelementptr i8, ptr %sync, i64 {waker}
  %core = call i32 @here()
  store atomic i32 %core, ptr %waker.at monotonic, align 4
  %small = icmp ult i32 %core, 1024
  %backoff.at = getelementptr i8, ptr %sync, i64 {backoff}
  %backoff = load atomic i32, ptr %backoff.at monotonic, align 4
  %eager = icmp ult i32 %backoff, {limit}
  %may = and i1 %small, %eager
  br i1 %may, label %look, label %done
look:
  %number = zext i32 %core to i64
  %slot = call ptr @slot_of(ptr %sync, i64 %number)
  %there = load atomic i32, ptr %slot monotonic, align 4
  %any = icmp sgt i32 %there, 0
  br i1 %any, label %claim, label %done
claim:
  %pair = cmpxchg ptr %slot, i32 %there, i32 -1 acq_rel monotonic, align 4
  %mine = extractvalue { i32, i1 } %pair, 1
  br i1 %mine, label %send, label %done
send:
  %size = call i64 (i64, ...) @syscall(i64 {getaffinity}, i64 0, i64 128, ptr %mask)
  %known = icmp sgt i64 %size, 0
  br i1 %known, label %away, label %leave
away:
  %word = lshr i64 %number, 6
  %word.at = getelementptr i64, ptr %mask, i64 %word
  %cores = load i64, ptr %word.at
  %place = and i64 %number, 63
  %bit = shl i64 1, %place
  %other = xor i64 %bit, -1
  %others = and i64 %cores, %other
  store i64 %others, ptr %word.at
  %thread = zext i32 %there to i64
  %1 = call i64 (i64, ...) @syscall(i64 {setaffinity}, i64 %thread, i64 %size, ptr %mask)
  br label %leave
leave:
  store atomic i32 0, ptr %slot release, align 4
  br label %done
done:
  ret void
}

; The monotonic clock, in nanoseconds.
define internal i64 @now() nounwind noinline cold {
  %at = alloca [2 x i64]
  store [2 x i64] zeroinitializer, ptr %at
  %1 = call i64 (i64, ...) @syscall(i64 {clock_gettime}, i64 1, ptr %at)
  %part.at = getelementptr i64, ptr %at, i64 1
  %seconds = load i64, ptr %at
  %part = load i64, ptr %part.at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %part
  ret i64 %sum
}

; Sleep while the word has that value, and wake up on the same core; with fewer cores than threads, on any core. Returns
; whether spinning would have been in vain: the waker needed this core, or its own was busy for long.
define internal i1 @sleep_in_place(ptr %sync, i32 %threads, ptr %word, i32 %value) nounwind noinline cold {
entry:
  %all = alloca [16 x i64]
  %own = alloca [16 x i64]
  %cores.at = getelementptr i8, ptr %sync, i64 {cores}
  %cores = load i32, ptr %cores.at
  %fits = icmp ule i32 %threads, %cores
  br i1 %fits, label %look, label %anywhere
look:
  %core = call i32 @here()
  %small = icmp ult i32 %core, 1024
  %size = call i64 (i64, ...) @syscall(i64 {getaffinity}, i64 0, i64 128, ptr %all)
  %known = icmp sgt i64 %size, 0
  %both = and i1 %small, %known
  br i1 %both, label %here, label %anywhere
here:
  store [16 x i64] zeroinitializer, ptr %own
  %number = zext i32 %core to i64
  %word.number = lshr i64 %number, 6
  %bit = and i64 %number, 63
  %one = shl i64 1, %bit
  %at = getelementptr i64, ptr %own, i64 %word.number
  store i64 %one, ptr %at
  %1 = call i64 (i64, ...) @syscall(i64 {setaffinity}, i64 0, i64 %size, ptr %own)
  %slot = call ptr @slot_of(ptr %sync, i64 %number)
  %me.long = call i64 (i64, ...) @syscall(i64 {gettid})
  %me = trunc i64 %me.long to i32
  %free = cmpxchg ptr %slot, i32 0, i32 %me acq_rel monotonic, align 4
  %start = call i64 @now()
  call void @sleep_while(ptr %word, i32 %value)
  %end = call i64 @now()
  br label %clear
clear:
  ; Wait for a waker that is about to move this thread; otherwise its affinity would remain restricted.
  %gone = cmpxchg ptr %slot, i32 %me, i32 0 acq_rel acquire, align 4
  %left = extractvalue { i32, i1 } %gone, 0
  %sending = icmp eq i32 %left, -1
  br i1 %sending, label %clear, label %back
back:
  %2 = call i64 (i64, ...) @syscall(i64 {setaffinity}, i64 0, i64 %size, ptr %all)
  %waker.at = getelementptr i8, ptr %sync, i64 {waker}
  %waker = load atomic i32, ptr %waker.at monotonic, align 4
  %shared = icmp eq i32 %core, %waker
  %slept = sub i64 %end, %start
  %long = icmp ugt i64 %slept, {long}
  %vain = or i1 %shared, %long
  ret i1 %vain
anywhere:
  call void @sleep_while(ptr %word, i32 %value)
  ret i1 true
}
"""


def placement_text(triple: str, places: Mapping[str, int], limit: int) -> str:
    """LLVM text of ``@say_where`` and ``@sleep_in_place`` for a target; they use ``@sleep_while``.

    Parameters
    ----------
    triple : str
        The target triple.
    places : mapping
        Offsets in the sync block: of the number of ``cores``, the ``backoff``, the core of the last ``waker``, and the
        64 ``sleepers``.
    limit : int
        Backoff from which threads no longer spin for long.
    """
    calls = _CALLS.get(architecture(triple)) if "linux" in triple else None
    if calls is None:
        return _NOWHERE
    text = _TEXT
    for key, value in (
        *zip(("{getcpu}", "{getaffinity}", "{setaffinity}", "{clock_gettime}", "{gettid}"), calls, strict=True),
        *((f"{{{name}}}", place) for name, place in places.items()),
        ("{limit}", limit),
        ("{long}", _LONG),
    ):
        text = text.replace(key, str(value))
    return text
