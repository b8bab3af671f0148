"""Native code that does not depend on steps: each part is compiled when it is first needed."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

from adjoint.codegen.native import compile_native
from adjoint.compiler import host
from adjoint.runtime.library import Library
from adjoint.runtime.process import Runtime

#: An entry point whose threads each store the number of threads in an element of their own.
STEP = """
define i32 @step(ptr %slots, ptr %arena, i64 %thread, i64 %threads, ptr %sync) {
  %at = getelementptr i64, ptr %arena, i64 %thread
  store i64 %threads, ptr %at
  ret i32 0
}
"""


def recorded():
    """A runtime, and the names of the parts that it has compiled so far."""
    parts = []

    def compiled(make_text):
        parts.append(make_text.__name__)
        return compile_native((make_text(host().triple),), host())

    return Runtime(compiled), parts


def test_only_steps_on_several_threads_need_the_pool():
    runtime, parts = recorded()
    step = Library(compile_native((STEP,), host()), ("step",))
    arena = np.zeros(4, np.int64)
    runtime.pool.grow(1)
    runtime.pool.run(step["step"], 0, arena.ctypes.data, 1)
    assert parts == ["fastcall_text"]
    assert arena.tolist() == [1, 0, 0, 0]
    for threads in (3, 2, 4):
        arena[:] = 0
        runtime.pool.run(step["step"], 0, arena.ctypes.data, threads)
        assert parts == ["fastcall_text", "pool_text"]
        assert arena.tolist() == [threads] * threads + [0] * (4 - threads)
    runtime.pool.stop()


def test_a_part_is_compiled_once():
    runtime, parts = recorded()

    def answer_text(_triple):
        return "define i32 @answer() {\n  ret i32 42\n}\n"

    address = runtime.library(answer_text, "answer")["answer"]
    assert runtime.library(answer_text, "answer")["answer"] == address
    assert ctypes.CFUNCTYPE(ctypes.c_int)(address)() == 42
    assert parts == ["fastcall_text", "answer_text"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_holds_no_lock_of_threads_that_it_does_not_have():
    """In a process without other threads, in which newer versions of Python warn of forks."""
    code = (
        "import os, sys\n"
        "import adjoint\n"
        "from adjoint import Function, compile, ops, param\n"
        "from adjoint.runtime.process import Runtime\n"
        "x = param('x', (3,))\n"
        "compile(Function('double', (x,), (ops.add(x, x),)), threads=1)\n"
        "with Runtime._sharing, Runtime._shared._loading:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        free = not Runtime._sharing.locked() and not Runtime._shared._loading.locked()\n"
        "        os._exit(0 if free else 1)\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert not subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode
