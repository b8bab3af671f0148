"""Processes that fork after the pool of threads has started."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

START = """
    import multiprocessing, os, signal, sys, threading
    import numpy as np
    from adjoint.compiler import compile
    from tests.runtime.test_executable import data, mlp_step
    step = compile(mlp_step())["step"]
    x, y, kept = data()
    def losses(count=20, threads=2):
        bound = step.bind({k: v.copy() for k, v in kept.items()}, threads=threads)
        return [bound(x, y) for _ in range(count)]
    expected = losses()
    two = step.bind({k: v.copy() for k, v in kept.items()}, threads=2)
    two(x, y)
    def forked(work):
        # The exit status of a forked process: 0 where what it does is true. One that hangs is killed.
        child = os.fork()
        if not child:
            signal.alarm(60)
            os._exit(0 if work() else 1)
        return os.waitpid(child, 0)[1]
"""


def runs(code):
    whole = textwrap.dedent(START) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=100, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.split()


def test_steps_run_in_a_process_that_has_forked_and_in_the_one_it_came_from():
    assert runs("""
        for _ in range(20):
            assert forked(lambda: losses() == expected) == 0
            assert losses() == expected
        # One that is bound already goes on in both.
        assert forked(lambda: [two(x, y) for _ in range(19)] == expected[1:]) == 0
        assert [two(x, y) for _ in range(19)] == expected[1:]
        print("done")
    """) == ["done"]


def test_a_pool_of_forked_processes():
    assert runs("""
        with multiprocessing.get_context("fork").Pool(3) as pool:
            made = [pool.apply_async(losses, (20, 1 + n % 3)) for n in range(12)]
            assert all(one.get(timeout=60) == expected for one in made)
        print("done")
    """) == ["done"]


def test_a_fork_while_other_threads_are_in_steps():
    assert runs("""
        going = True
        def train():
            bound = step.bind({k: v.copy() for k, v in kept.items()}, threads=2)
            while going:
                bound(x, y)
        others = [threading.Thread(target=train) for _ in range(2)]
        for other in others:
            other.start()
        try:
            for _ in range(30):
                # The pool's lock may be held by a thread that the new process does not have.
                assert forked(lambda: [two(x, y) for _ in range(3)] == expected[1:4]) == 0
        finally:
            going = False
        for other in others:
            other.join()
        assert losses() == expected
        print("done")
    """) == ["done"]


def test_a_fork_while_the_step_itself_runs_elsewhere():
    assert runs("""
        going = True
        def train():
            while going:
                two(x, y)
        other = threading.Thread(target=train)
        other.start()
        try:
            for _ in range(30):
                assert forked(lambda: np.isfinite(two(x, y))) == 0
        finally:
            going = False
        other.join()
        print("done")
    """) == ["done"]


def test_a_fork_while_another_thread_sets_up_llvm():
    assert runs("""
        from adjoint.codegen import native
        from adjoint.compiler import CompileOptions
        from tests.runtime.test_executable import mlp_step
        held, forked_already = threading.Event(), threading.Event()
        def hold():
            with native._setting_up:
                held.set()
                forked_already.wait()
        other = threading.Thread(target=hold)
        other.start()
        held.wait()
        try:
            assert forked(lambda: compile(mlp_step(), options=CompileOptions(cache=False))["step"].text("llvm")) == 0
        finally:
            forked_already.set()
        other.join()
        print("done")
    """) == ["done"]
