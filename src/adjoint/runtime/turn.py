"""Turns: calls of entry points that share memory are serialized, from any Python thread.

A turn is held from before the arguments are stored until the results are taken. Its words are only accessed by threads
that hold the interpreter's lock, so taking a free turn costs one load and one store. A thread that finds it taken
sleeps without the interpreter's lock, and Ctrl-C interrupts the wait. The words, 8 bytes each::

     0 state: 0 free, 1 taken, 2 taken with waiters       8 thread that runs Python code in its turn, or 0
    16 refusal (object): raises if a thread would wait for itself
"""

import ctypes
import os
import weakref
from collections.abc import Callable
from typing import ClassVar, NoReturn

from adjoint.errors import ReentryError

__all__ = ["TURN_TEXT", "Turn"]

TURN_TEXT = """
; Take the turn, waiting for its holder. Returns false, with an exception set, on a signal or if waiting is forbidden.
define internal i1 @take_turn(ptr %turn) {
entry:
  %owner.at = getelementptr i8, ptr %turn, i64 8
  br label %look
look:
  %state = load atomic i32, ptr %turn monotonic, align 8
  %free = icmp eq i32 %state, 0
  br i1 %free, label %take, label %taken
take:
  store atomic i32 1, ptr %turn monotonic, align 8
  ret i1 true
taken:
  %owner = load i64, ptr %owner.at
  %me = call i64 @PyThread_get_thread_ident()
  %own = icmp eq i64 %owner, %me
  br i1 %own, label %refuse, label %wait
refuse:
  %refusal.at = getelementptr i8, ptr %turn, i64 16
  %refusal = load ptr, ptr %refusal.at
  %raised = call ptr @PyObject_Vectorcall(ptr %refusal, ptr %refusal.at, i64 0, ptr null)
  ret i1 false
wait:
  store atomic i32 2, ptr %turn monotonic, align 8
  %python = call ptr @PyEval_SaveThread()
  call void @sleep_while(ptr %turn, i32 2)
  call void @PyEval_RestoreThread(ptr %python)
  %signal = call i32 @PyErr_CheckSignals()
  %quiet = icmp eq i32 %signal, 0
  br i1 %quiet, label %look, label %stop
stop:
  ret i1 false
}

; Record that this thread runs Python code in its turn.
define internal void @own_turn(ptr %turn) {
  %owner.at = getelementptr i8, ptr %turn, i64 8
  %me = call i64 @PyThread_get_thread_ident()
  store i64 %me, ptr %owner.at
  ret void
}

; Release the turn, and wake a waiting thread.
define internal void @give_turn(ptr %turn) {
entry:
  %owner.at = getelementptr i8, ptr %turn, i64 8
  store i64 0, ptr %owner.at
  %state = load atomic i32, ptr %turn monotonic, align 8
  store atomic i32 0, ptr %turn release, align 8
  %awaited = icmp eq i32 %state, 2
  br i1 %awaited, label %wake, label %end
wake:
  call void @wake_all(ptr %turn)
  br label %end
end:
  ret void
}

declare i64 @PyThread_get_thread_ident()
declare i32 @PyErr_CheckSignals()
"""


class Turn:
    """A lock that serializes the calls of entry points that share memory.

    Attributes
    ----------
    address : int
        Address of its words.
    """

    _alive: ClassVar["weakref.WeakSet[Turn]"] = weakref.WeakSet()

    def __init__(self) -> None:
        self._words = (ctypes.c_int64 * 3)()
        self._refusal: Callable[[], NoReturn] = _refuse_reentry
        self._words[2] = id(self._refusal)
        self.address = ctypes.addressof(self._words)
        Turn._alive.add(self)

    @classmethod
    def free_all(cls) -> None:
        """Release all turns in a forked process, where the threads that held them do not exist."""
        for turn in list(cls._alive):
            turn._words[0] = turn._words[1] = 0


def _refuse_reentry() -> NoReturn:
    raise ReentryError(
        "an entry point must not be called during its own call, got a nested call in the same thread "
        "(from a signal handler or the conversion of an argument); call it afterwards, or bind another entry point"
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Turn.free_all)
