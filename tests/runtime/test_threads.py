"""The pool of threads: steps that were bound before it grew, and while it grows."""

import subprocess
import sys
import textwrap

START = """
    import threading
    import numpy as np
    from adjoint.compiler import CompileOptions, compile
    from tests.runtime.test_executable import data, mlp_step
    step = compile(mlp_step(), options=CompileOptions(cache=False))["step"]
    x, y, kept = data()
    def bound(threads):
        return step.bind({k: v.copy() for k, v in kept.items()}, threads=threads)
    alone = bound(1)
    expected = [alone(x, y) for _ in range(300)]
    two = bound(2)
"""


def runs(code):
    """What the code prints; in a process of its own, because a pool that waits in vain waits forever."""
    whole = textwrap.dedent(START) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.split()


def test_a_step_that_was_bound_before_the_pool_grew_still_runs():
    assert runs("""
        assert [two(x, y) for _ in range(150)] == expected[:150]
        more = bound(4)
        assert [more(x, y) for _ in range(50)] == expected[:50]
        assert [two(x, y) for _ in range(150)] == expected[150:]
        print("done")
    """) == ["done"]


def test_the_pool_grows_while_a_step_of_another_thread_runs():
    assert runs("""
        got = []
        def train():
            got.extend(two(x, y) for _ in range(300))
        trainer = threading.Thread(target=train)
        trainer.start()
        for threads in (3, 4, 5):
            more = bound(threads)
            assert [more(x, y) for _ in range(20)] == expected[:20]
        trainer.join()
        assert got == expected
        print("done")
    """) == ["done"]
