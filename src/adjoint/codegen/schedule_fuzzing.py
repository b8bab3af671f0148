"""Schedule fuzzing: random delays in a compiled step, for tests of its barriers (`CompileOptions(jitter=True)`)."""

__all__ = ["SCHEDULE_FUZZING_TEXT"]

#: Number of random number generators; threads beyond this number share them.
_STREAMS = 64

#: LLVM text of ``void @jitter(i64 thread, i64 position)``. Each thread has a linear congruential generator of its own
#: (multiplier and increment of Knuth's MMIX), which continues from call to call and mixes in the kernel's position. Of
#: 64 calls, 40 return at once, 23 spin for up to 1023 iterations, one sleeps for up to 131 microseconds. Nothing here
#: is atomic: a fence would hide the effect of a missing barrier.
SCHEDULE_FUZZING_TEXT = f"""
@jitter.state = internal global [{8 * _STREAMS} x i64] zeroinitializer, align 64

define internal void @jitter(i64 %thread, i64 %position) nounwind noinline {{
entry:
  %time = alloca [2 x i64]
  %stream = urem i64 %thread, {_STREAMS}
  %line = mul i64 %stream, 8
  %state.at = getelementptr i64, ptr @jitter.state, i64 %line
  %state = load i64, ptr %state.at
  %salt = mul i64 %thread, 1000003
  %salted = add i64 %state, %salt
  %placed = xor i64 %salted, %position
  %scaled = mul i64 %placed, 6364136223846793005
  %new = add i64 %scaled, 1442695040888963407
  store i64 %new, ptr %state.at
  %kind = lshr i64 %new, 58
  %amount = lshr i64 %new, 33
  %slow = icmp eq i64 %kind, 63
  br i1 %slow, label %sleep, label %fast
sleep:
  %while = and i64 %amount, 131071
  store i64 0, ptr %time
  %nanos.at = getelementptr i64, ptr %time, i64 1
  store i64 %while, ptr %nanos.at
  %ignored = call i32 @nanosleep(ptr %time, ptr null)
  ret void
fast:
  %held = icmp uge i64 %kind, 40
  %turns = and i64 %amount, 1023
  %some = icmp ne i64 %turns, 0
  %spins = and i1 %held, %some
  br i1 %spins, label %spin, label %out
spin:
  %turn = phi i64 [ 0, %fast ], [ %turn.next, %spin ]
  ; Volatile, because LLVM would remove a loop without side effects.
  store volatile i64 %new, ptr %state.at
  %turn.next = add i64 %turn, 1
  %more = icmp ult i64 %turn.next, %turns
  br i1 %more, label %spin, label %out
out:
  ret void
}}

declare i32 @nanosleep(ptr, ptr)
"""
