"""The barrier by itself, awake and asleep, and that one thread alone never comes near it."""

import ctypes
import os
import re
import sys
import threading
import time

import numpy as np
import pytest

from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import compile_native
from adjoint.compiler import host
from adjoint.nativelib.barrier import barrier_text
from adjoint.nativelib.waiting import BACKOFF_LIMIT, SYNC_BACKOFF, SYNC_CORES, SYNC_SLEEPERS, SYNC_WAKER, waiting_text
from adjoint.pipeline import finish_program, lower_function
from adjoint.runtime.fastcall import fastcall_text
from adjoint.runtime.library import Library
from adjoint.runtime.threads import make_sync, pool_text
from tests.runtime.networks import module_of

#: Each round, a thread writes the round's number to its line, meets the others, and counts lines that are not there
#: yet; then all meet again, so that nobody is a round ahead.
ROUNDS = """
define i64 @rounds(ptr %sync, i64 %thread, i64 %threads, ptr %lines, i64 %rounds) {
entry:
  %word = mul i64 %thread, 8
  %mine = getelementptr i64, ptr %lines, i64 %word
  br label %round
round:
  %r = phi i64 [ 1, %entry ], [ %r.next, %over ]
  %errors = phi i64 [ 0, %entry ], [ %found, %over ]
  store i64 %r, ptr %mine
  call void @barrier(ptr %sync, i64 %threads)
  br label %look
look:
  %t = phi i64 [ 0, %round ], [ %t.next, %look ]
  %count = phi i64 [ %errors, %round ], [ %found, %look ]
  %t.word = mul i64 %t, 8
  %theirs = getelementptr i64, ptr %lines, i64 %t.word
  %there = load i64, ptr %theirs
  %wrong = icmp ne i64 %there, %r
  %one = zext i1 %wrong to i64
  %found = add i64 %count, %one
  %t.next = add i64 %t, 1
  %t.more = icmp ult i64 %t.next, %threads
  br i1 %t.more, label %look, label %over
over:
  call void @barrier(ptr %sync, i64 %threads)
  %r.next = add i64 %r, 1
  %more = icmp ule i64 %r.next, %rounds
  br i1 %more, label %round, label %out
out:
  ret i64 %found
}
"""


@pytest.fixture(scope="module")
def rounds():
    triple = host().triple
    library = Library(compile_native((waiting_text(triple) + barrier_text(triple) + ROUNDS,), host()), ("rounds",))
    kinds = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
    yield ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(library["rounds"])
    del library


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("cores", [0, 64], ids=["asleep at once", "spinning first"])
def test_everybody_sees_what_everybody_wrote(rounds, threads, cores):
    sync, lines = make_sync(), np.zeros(8 * threads, np.int64)
    sync[SYNC_CORES : SYNC_CORES + 4].view(np.int32)[0] = cores
    errors = {}

    def part(thread):
        errors[thread] = rounds(sync.ctypes.data, thread, threads, lines.ctypes.data, 500)

    others = [threading.Thread(target=part, args=(t,), daemon=True) for t in range(threads)]
    for other in others:
        other.start()
    for other in others:
        other.join(30)
    assert errors == dict.fromkeys(range(threads), 0)


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="there is one core to sleep on"
)
def test_a_thread_wakes_up_on_the_core_where_it_fell_asleep_and_may_then_use_all_again(rounds):
    sync, lines = make_sync(), np.zeros(16, np.int64)
    sync[SYNC_CORES : SYNC_CORES + 4].view(np.int32)[0] = 64
    number, before, after = [], os.sched_getaffinity(0), []

    def part(thread):
        number.append(threading.get_native_id())
        rounds(sync.ctypes.data, thread, 2, lines.ctypes.data, 1)
        after.append(os.sched_getaffinity(0))

    sleeper = threading.Thread(target=part, args=(0,), daemon=True)
    sleeper.start()
    deadline = time.monotonic() + 30
    while not number or len(os.sched_getaffinity(number[0])) > 1:
        assert time.monotonic() < deadline, "it never kept to a core"
        time.sleep(0.001)
    assert os.sched_getaffinity(number[0]) < before
    other = threading.Thread(target=part, args=(1,), daemon=True)
    other.start()
    for thread in (sleeper, other):
        thread.join(30)
    assert after == [before, before]


WAKE = """
define void @wake(ptr %sync) {
  call void @say_where(ptr %sync)
  ret void
}
"""


@pytest.fixture(scope="module")
def wake():
    library = Library(compile_native((waiting_text(host().triple) + WAKE,), host()), ("wake",))
    yield ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library["wake"])
    del library


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="there is one core to sleep on"
)
@pytest.mark.parametrize("backoff", [0, BACKOFF_LIMIT], ids=["none", "limit"])
def test_who_sleeps_where_the_waker_is_will_wake_up_elsewhere(wake, backoff):
    sync, number, over = make_sync(), [], threading.Event()
    places = sync[SYNC_SLEEPERS : SYNC_SLEEPERS + 256].view(np.int32)

    def part():
        number.append(threading.get_native_id())
        over.wait(30)

    sleeper = threading.Thread(target=part, daemon=True)
    sleeper.start()
    while not number:
        time.sleep(0.001)
    before = os.sched_getaffinity(number[0])
    places[:] = number[0]  # wherever the waker is
    sync[SYNC_BACKOFF : SYNC_BACKOFF + 4].view(np.int32)[0] = backoff
    wake(sync.ctypes.data)
    core = int(sync[SYNC_WAKER : SYNC_WAKER + 4].view(np.int32)[0])
    after = os.sched_getaffinity(number[0])
    over.set()
    sleeper.join(30)
    sent = backoff == 0
    assert after == (before - {core} if sent else before)
    assert np.flatnonzero(places == 0).tolist() == ([core % 64] if sent else [])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody says how long a thread slept")
def test_after_a_few_long_waits_nobody_spins_for_long(rounds):
    sync, lines = make_sync(), np.zeros(16, np.int64)
    sync[SYNC_CORES : SYNC_CORES + 4].view(np.int32)[0] = 64
    backoff, seen = sync[SYNC_BACKOFF : SYNC_BACKOFF + 4].view(np.int32), []
    for _ in range(8):
        both = [
            threading.Thread(target=rounds, args=(sync.ctypes.data, t, 2, lines.ctypes.data, 1), daemon=True)
            for t in range(2)
        ]
        both[0].start()
        time.sleep(0.03)
        both[1].start()
        for thread in both:
            thread.join(30)
        sync[:4] = 0  # a new step
        seen.append(int(backoff[0]))
    # 16 worse for a long wait, one better for each that is not; bad for as long as nobody waits for long again.
    assert 0 < seen[0] < BACKOFF_LIMIT < seen[-1]


def blocks(text, name):
    """Blocks of a function by label: their lines."""
    body = re.search(rf"^define [^\n]*@{name}\(.*?^}}", text, re.M | re.S)[0].split("\n")[1:-1]
    found, label = {"entry": []}, "entry"
    for line in body:
        start = re.fullmatch(r"([\w.]+):", line)
        label = start[1] if start else label
        found.setdefault(label, []).extend([] if start else [line])
    return found


def reached(function, unless):
    """Lines that run where the branch on `unless` goes the other way than it says."""
    lines, todo, seen = [], ["entry"], set()
    while todo:
        label = todo.pop()
        if label not in seen:
            seen.add(label)
            lines += function[label]
            targets = re.findall(r"label %([\w.]+)", function[label][-1])
            todo += targets[1:] if unless in function[label][-1] else targets
    return "\n".join(lines)


ATOMIC = re.compile(r"atomic|cmpxchg|fence|@barrier|@hold|@let_go|@sleep_while|@wake_all|volatile")


def test_one_thread_runs_no_atomic_instruction():
    """By the text: what the call path and the step do where there is one thread, and that several do otherwise.

    The words of a turn are read and written by threads that hold the interpreter's lock, like any others.
    """
    *_, step = emit_modules(finish_program(lower_function(module_of("mlp")["step"], host())), host())
    whole = blocks(step, "adjoint.step")
    assert any(ATOMIC.search(line) for lines in whole.values() for line in lines)
    alone = reached(whole, "br i1 %many,")
    assert alone.count("call void @adjoint.step.kernel.") > 8
    assert not ATOMIC.search(alone)
    call = blocks(fastcall_text(host().triple), "fastcall")
    assert re.search(r"br i1 %several, label %gather, label %alone", call["free.lock"][-1])
    assert "call i32 %step(" in "\n".join(call["alone"])
    one = reached(call, "br i1 %several,")
    assert "%pool.run" not in one
    assert not ATOMIC.search(re.sub(r".* atomic .* monotonic, align 8", "", one))


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-darwin"])
def test_waiting_is_written_for_each_system(triple):
    text = barrier_text(triple) + pool_text(triple)
    assert ("@syscall" in text) == ("linux" in triple)
    assert ("@usleep" in text) == ("darwin" in triple)
    hint = "@llvm.x86.sse2.pause" if triple.startswith("x86") else "@llvm.aarch64.hint"
    assert f"declare void {hint}(" in text
    assert text.count(f"call void {hint}(") == 3
    assert "{" not in re.sub(r"\{ i32, i1 \}|[ )] ?(nounwind |noinline |cold )*\{\n", "", text)
