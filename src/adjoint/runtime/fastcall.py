"""The fast call path from Python into a step, well below a microsecond: a builtin function written in LLVM.

One call through `ctypes` takes longer than a small step. Here the step is a method with CPython's fast calling
convention (``METH_FASTCALL``). It examines each argument through the documented layout of NumPy's array objects
(``PyArrayObject_fields``); if one is not exactly what the step takes, it passes the whole call to a Python function
that converts the arguments or raises. A call takes its turn (`adjoint.runtime.turn`) before it writes anything.
``self`` is the address of a block of 64-bit words::

     0 number of arguments      1 fallback (object)       2 slots            3 arena
     4 step                     5 check, or 0             6 threads          7 runs so far
     8 pool's block             9 kind of result         10 its address     11 finish (object)
    12 type of arrays          13 size of object header  14 flags an array must have
    15 turn                    16 whether it is brief
    24 + 16*i: for argument i: slot, dtype (object), number of axes, sizes...

Kind of result: 0 none, 1 float32, 2 float64, 3 the result of calling `finish`. A brief step keeps the interpreter's
lock, because releasing and reacquiring it would take as long as the step. A step on several threads uses the fallback
as long as the pool has too few, for example in a process that has just forked; one on a single thread needs no pool.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.kernel.program import Argument
from adjoint.nativelib.waiting import waiting_text
from adjoint.runtime.threads import RUN, WORKERS
from adjoint.runtime.turn import TURN_TEXT, Turn

__all__ = ["MAX_RANK", "FastCall", "fastcall_text"]

#: Maximum number of axes of an array; others go through the fallback.
MAX_RANK = 12

_TEXT = """
define ptr @fastcall(ptr %self, ptr %args, i64 %count) {
entry:
  %block = call ptr @PyLong_AsVoidPtr(ptr %self)
  %expected = load i64, ptr %block
  %fallback.at = getelementptr i64, ptr %block, i64 1
  %fallback = load ptr, ptr %fallback.at
  %slots.at = getelementptr i64, ptr %block, i64 2
  %slots = load ptr, ptr %slots.at
  %kind.array.at = getelementptr i64, ptr %block, i64 12
  %kind.array = load i64, ptr %kind.array.at
  %header.at = getelementptr i64, ptr %block, i64 13
  %header = load i64, ptr %header.at
  %flags.at = getelementptr i64, ptr %block, i64 14
  %flags64 = load i64, ptr %flags.at
  %flags.want = trunc i64 %flags64 to i32
  %type.offset = sub i64 %header, 8
  %turn.at = getelementptr i64, ptr %block, i64 15
  %turn = load ptr, ptr %turn.at
  %state = load atomic i32, ptr %turn monotonic, align 8
  %free = icmp eq i32 %state, 0
  %right.count = icmp eq i64 %count, %expected
  %ready = and i1 %free, %right.count
  br i1 %ready, label %next, label %slow
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %accept ]
  %more = icmp ult i64 %i, %expected
  br i1 %more, label %look, label %check
look:
  %arg.at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.at
  %spec.words = mul i64 %i, 16
  %spec.start = add i64 %spec.words, 24
  %spec = getelementptr i64, ptr %block, i64 %spec.start
  %type.at = getelementptr i8, ptr %arg, i64 %type.offset
  %type = load i64, ptr %type.at
  %is.array = icmp eq i64 %type, %kind.array
  br i1 %is.array, label %array, label %slow
array:
  %fields = getelementptr i8, ptr %arg, i64 %header
  %data = load ptr, ptr %fields
  %rank.at = getelementptr i8, ptr %fields, i64 8
  %rank32 = load i32, ptr %rank.at
  %rank = sext i32 %rank32 to i64
  %dims.at = getelementptr i8, ptr %fields, i64 16
  %dims = load ptr, ptr %dims.at
  %dtype.at = getelementptr i8, ptr %fields, i64 40
  %dtype = load i64, ptr %dtype.at
  %have.at = getelementptr i8, ptr %fields, i64 48
  %have = load i32, ptr %have.at
  %dtype.want.at = getelementptr i64, ptr %spec, i64 1
  %dtype.want = load i64, ptr %dtype.want.at
  %rank.want.at = getelementptr i64, ptr %spec, i64 2
  %rank.want = load i64, ptr %rank.want.at
  %flags.have = and i32 %have, %flags.want
  %flags.ok = icmp eq i32 %flags.have, %flags.want
  %dtype.ok = icmp eq i64 %dtype, %dtype.want
  %rank.ok = icmp eq i64 %rank, %rank.want
  %ok1 = and i1 %flags.ok, %dtype.ok
  %ok2 = and i1 %ok1, %rank.ok
  br i1 %ok2, label %sizes, label %slow
sizes:
  %axis = phi i64 [ 0, %array ], [ %axis.next, %size ]
  %size.more = icmp ult i64 %axis, %rank
  br i1 %size.more, label %size, label %accept
size:
  %dim.at = getelementptr i64, ptr %dims, i64 %axis
  %dim = load i64, ptr %dim.at
  %dim.word = add i64 %axis, 3
  %dim.want.at = getelementptr i64, ptr %spec, i64 %dim.word
  %dim.want = load i64, ptr %dim.want.at
  %axis.next = add i64 %axis, 1
  %dim.ok = icmp eq i64 %dim, %dim.want
  br i1 %dim.ok, label %sizes, label %slow
accept:
  %slot = load i64, ptr %spec
  %slot.at = getelementptr ptr, ptr %slots, i64 %slot
  store ptr %data, ptr %slot.at
  %i.next = add i64 %i, 1
  br label %next
check:
  %check.at = getelementptr i64, ptr %block, i64 5
  %check.function = load ptr, ptr %check.at
  %no.check = icmp eq ptr %check.function, null
  br i1 %no.check, label %run, label %checking
checking:
  %failed = call i64 %check.function(ptr %slots)
  %passed = icmp eq i64 %failed, 0
  br i1 %passed, label %run, label %slow
run:
  %arena.at = getelementptr i64, ptr %block, i64 3
  %arena = load ptr, ptr %arena.at
  %step.at = getelementptr i64, ptr %block, i64 4
  %step = load ptr, ptr %step.at
  %runs.at = getelementptr i64, ptr %block, i64 7
  %kind.at = getelementptr i64, ptr %block, i64 9
  %kind = load i64, ptr %kind.at
  %result.at = getelementptr i64, ptr %block, i64 10
  %result = load ptr, ptr %result.at
  %brief.at = getelementptr i64, ptr %block, i64 16
  %brief = load i64, ptr %brief.at
  %is.brief = icmp ne i64 %brief, 0
  br i1 %is.brief, label %at.once, label %free.lock
at.once:
  store atomic i32 1, ptr %turn monotonic, align 8
  %status1 = call i32 %step(ptr %slots, ptr %arena, i64 0, i64 1, ptr null)
  br label %ran
free.lock:
  %threads.at = getelementptr i64, ptr %block, i64 6
  %threads = load i64, ptr %threads.at
  %several = icmp ugt i64 %threads, 1
  br i1 %several, label %gather, label %alone
alone:
  store atomic i32 1, ptr %turn monotonic, align 8
  %python1 = call ptr @PyEval_SaveThread()
  %status2 = call i32 %step(ptr %slots, ptr %arena, i64 0, i64 1, ptr null)
  call void @PyEval_RestoreThread(ptr %python1)
  br label %ran
gather:
  %pool.at = getelementptr i64, ptr %block, i64 8
  %pool = load ptr, ptr %pool.at
  %workers.at = getelementptr i8, ptr %pool, i64 {workers}
  %workers32 = load i32, ptr %workers.at
  %workers = zext i32 %workers32 to i64
  %all = add i64 %workers, 1
  %lacks = icmp ugt i64 %threads, %all
  br i1 %lacks, label %slow, label %freely
freely:
  store atomic i32 1, ptr %turn monotonic, align 8
  %pool.run.at = getelementptr i8, ptr %pool, i64 {run}
  %pool.run = load ptr, ptr %pool.run.at
  %python2 = call ptr @PyEval_SaveThread()
  %status3 = call i32 %pool.run(ptr %pool, ptr %step, ptr %slots, ptr %arena, i64 %threads)
  call void @PyEval_RestoreThread(ptr %python2)
  br label %ran
ran:
  %runs = load i64, ptr %runs.at
  %runs.new = add i64 %runs, 1
  store i64 %runs.new, ptr %runs.at
  switch i64 %kind, label %finish [
    i64 1, label %single
    i64 2, label %double
  ]
single:
  %f32 = load float, ptr %result
  call void @give_turn(ptr %turn)
  %wide = fpext float %f32 to double
  %object1 = call ptr @PyFloat_FromDouble(double %wide)
  ret ptr %object1
double:
  %f64 = load double, ptr %result
  call void @give_turn(ptr %turn)
  %object2 = call ptr @PyFloat_FromDouble(double %f64)
  ret ptr %object2
finish:
  call void @own_turn(ptr %turn)
  %finish.at = getelementptr i64, ptr %block, i64 11
  %finish.function = load ptr, ptr %finish.at
  %object3 = call ptr @PyObject_Vectorcall(ptr %finish.function, ptr %args, i64 0, ptr null)
  call void @give_turn(ptr %turn)
  ret ptr %object3
slow:
  %object4 = call ptr @in_turn(ptr %turn, ptr %fallback, ptr %args, i64 %count)
  ret ptr %object4
}

; Call a Python function (the first argument) with the remaining arguments, in the turn of a block.
define ptr @exclusively(ptr %self, ptr %args, i64 %count) {
  %block = call ptr @PyLong_AsVoidPtr(ptr %self)
  %turn.at = getelementptr i64, ptr %block, i64 15
  %turn = load ptr, ptr %turn.at
  %function = load ptr, ptr %args
  %others = getelementptr ptr, ptr %args, i64 1
  %rest = sub i64 %count, 1
  %object = call ptr @in_turn(ptr %turn, ptr %function, ptr %others, i64 %rest)
  ret ptr %object
}

define internal ptr @in_turn(ptr %turn, ptr %function, ptr %args, i64 %count) {
entry:
  %mine = call i1 @take_turn(ptr %turn)
  br i1 %mine, label %go, label %refused
go:
  call void @own_turn(ptr %turn)
  %object = call ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 %count, ptr null)
  call void @give_turn(ptr %turn)
  ret ptr %object
refused:
  ret ptr null
}

declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
"""


def fastcall_text(triple: str) -> str:
    """LLVM text of ``fastcall`` and ``exclusively``, a whole module."""
    return waiting_text(triple) + TURN_TEXT + _TEXT.replace("{workers}", str(WORKERS)).replace("{run}", str(RUN))


_METH_FASTCALL = 0x80
_C_CONTIGUOUS, _ALIGNED = 0x1, 0x100


class _MethodDef(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


#: Number of words of a block before those of its arguments, and per argument.
_HEAD, _PER_ARGUMENT = 24, 16


class FastCall:
    """A builtin function that runs a step on NumPy arrays.

    Parameters
    ----------
    addresses : tuple of int
        Addresses of ``fastcall`` and ``exclusively`` in a loaded library.
    arguments : sequence of Argument
        The arguments of the builtin, in order.
    words : dict
        The block's words by number; see the module docstring.
    turn : Turn
        Serializes the calls of this builtin and of others that share its memory.
    fallback : callable
        Receives the arguments if they are not exactly what the step takes.
    finish : callable
        Computes the result of kind 3.

    Attributes
    ----------
    call : builtin function
        The builtin. It keeps everything it needs alive.
    exclusively : builtin function
        ``exclusively(function, *args)`` calls ``function(*args)`` while no other call runs.
    block : array of int
        The block.
    """

    def __init__(
        self,
        addresses: tuple[int, int],
        arguments: Sequence[Argument],
        words: dict[int, int],
        turn: Turn,
        fallback: Callable[..., Any],
        finish: Callable[[], Any],
    ) -> None:
        dtypes = [np.dtype(a.dtype) for a in arguments]
        self._alive = (turn, fallback, finish, dtypes)
        block = (ctypes.c_int64 * (_HEAD + _PER_ARGUMENT * len(arguments)))()
        for number, word in words.items():
            block[number] = word
        block[0], block[1], block[11], block[15] = len(arguments), id(fallback), id(finish), turn.address
        block[12], block[13], block[14] = id(np.ndarray), object.__basicsize__, _C_CONTIGUOUS | _ALIGNED
        for number, (argument, dtype) in enumerate(zip(arguments, dtypes, strict=True)):
            known = len(argument.shape) <= MAX_RANK
            spec = [argument.slot, id(dtype), len(argument.shape) if known else -1]
            for word, value in enumerate([*spec, *(argument.shape if known else ())]):
                block[_HEAD + _PER_ARGUMENT * number + word] = value
        self.block = block
        call, exclusively = addresses
        self.call = self._builtin(b"step", call, b"One compiled call.")
        self.exclusively = self._builtin(b"exclusively", exclusively, b"Call a function while no compiled call runs.")

    def _builtin(self, name: bytes, address: int, doc: bytes) -> Callable[..., Any]:
        definition = _MethodDef(name, address, _METH_FASTCALL, doc)
        # A builtin reads its definition even while being freed, and the garbage collector frees cycles in any order. So
        # the definition, 32 bytes, is never freed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        # The last argument, the builtin's module, is the object that it keeps alive: self, and thereby the arrays.
        made: Callable[..., Any] = make(ctypes.addressof(definition), ctypes.addressof(self.block), self)
        return made
