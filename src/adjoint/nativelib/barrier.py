"""The barrier at which the threads of a step wait for each other."""

from adjoint.nativelib.waiting import BACKOFF_LIMIT, SYNC_BACKOFF, patient

__all__ = ["barrier_text"]

#: Number of times a thread polls the word before it sleeps: a quarter of a millisecond, about the time to wake up a
#: halted core.
_SPINS = 8000

_BARRIER = """
; %sync: at 0, twice the number of arrivals since it was 0, with the lowest bit set if a thread sleeps; for the rest,
; see
; adjoint.nativelib.waiting.
; The others wait for the arrival that completes the round, so nothing else has to be written.
define {linkage} void @barrier(ptr %sync, i64 %threads) nounwind noinline {
entry:
  %all = trunc i64 %threads to i32
  %old = atomicrmw add ptr %sync, i32 2 acq_rel, align 4
  %before = lshr i32 %old, 1
  %arrived = add i32 %before, 1
  %late = urem i32 %before, %all
  %missing = sub i32 %all, %late
  %target = add i32 %before, %missing
  %last = icmp eq i32 %arrived, %target
  br i1 %last, label %open, label %queue
open:
  %asleep = trunc i32 %old to i1
  br i1 %asleep, label %wake, label %done
wake:
  ; Threads that already sleep for the next round wake up too, look, and mark the word again.
  call void @say_where(ptr %sync)
  %unmarked = atomicrmw and ptr %sync, i32 -2 monotonic, align 4
  call void @wake_all(ptr %sync)
  br label %done
queue:
  %backoff.at = getelementptr i8, ptr %sync, i64 {backoff}
  %backoff = load atomic i32, ptr %backoff.at monotonic, align 4
  %limit = call i32 @spins(ptr %sync, i32 %all, i32 {spins})
  br label %wait
wait:
  %tries = phi i32 [ 0, %queue ], [ %tried, %spin ], [ %tried, %doze ], [ %tried, %place ], [ %tried, %anywhere ]
  %vain = phi i1 [ false, %queue ], [ %vain, %spin ], [ %vain, %doze ], [ %shared, %place ], [ false, %anywhere ]
  %now = load atomic i32, ptr %sync acquire, align 4
  %arrivals = lshr i32 %now, 1
  %over = icmp uge i32 %arrivals, %target
  br i1 %over, label %learn, label %patience
patience:
  %tried = add i32 %tries, 1
  %patient = icmp ule i32 %tried, %limit
  br i1 %patient, label %spin, label %doze
spin:
  {pause}
  br label %wait
doze:
  %mark = or i32 %now, 1
  %pair = cmpxchg ptr %sync, i32 %now, i32 %mark acq_rel monotonic, align 4
  %marked = extractvalue { i32, i1 } %pair, 1
  br i1 %marked, label %sleep, label %wait
sleep:
  %eager = icmp ult i32 %backoff, {limit}
  br i1 %eager, label %place, label %anywhere
place:
  %shared = call i1 @sleep_in_place(ptr %sync, i32 %all, ptr %sync, i32 %mark)
  br label %wait
anywhere:
  call void @sleep_while(ptr %sync, i32 %mark)
  br label %wait
learn:
  ; Adaptive backoff: after spinning in vain, 16 more, or 320 if that reaches the limit; otherwise one less.
  ; Other threads may have changed it concurrently.
  %backoff.now = load atomic i32, ptr %backoff.at monotonic, align 4
  %raised = add i32 %backoff.now, 16
  %reached = icmp uge i32 %raised, {limit}
  %after.vain = select i1 %reached, i32 320, i32 %raised
  %any = icmp ne i32 %backoff.now, 0
  %one = zext i1 %any to i32
  %after.use = sub i32 %backoff.now, %one
  %new = select i1 %vain, i32 %after.vain, i32 %after.use
  %same = icmp eq i32 %new, %backoff.now
  br i1 %same, label %done, label %change
change:
  store atomic i32 %new, ptr %backoff.at monotonic, align 4
  br label %done
done:
  ret void
}
"""


def barrier_text(triple: str, linkage: str = "internal") -> str:
    """LLVM text of ``void @barrier(ptr sync, i64 threads)``; it needs `waiting_text` in the same module."""
    text = _BARRIER.replace("{linkage}", linkage)
    for key, value in (("{backoff}", SYNC_BACKOFF), ("{limit}", BACKOFF_LIMIT), ("{spins}", _SPINS)):
        text = text.replace(key, str(value))
    return patient(text, triple)
