"""The pause of Python's garbage collector: nested, in several threads, and in forked processes."""

import gc
import os
import subprocess
import sys
import threading

import pytest

from adjoint.collector import collector_paused


def test_the_collector_runs_again_after_the_last_pause():
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_runs_again_after_an_error():
    with pytest.raises(ValueError, match="wrong"), collector_paused():
        raise ValueError("wrong")
    assert gc.isenabled()


def test_a_collector_that_was_disabled_stays_so():
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_pause_lasts_until_the_last_thread_ends_it():
    inside, end = threading.Event(), threading.Event()

    def pause():
        with collector_paused():
            inside.set()
            end.wait(30)

    thread = threading.Thread(target=pause)
    thread.start()
    assert inside.wait(30)
    with collector_paused():
        pass
    assert not gc.isenabled()
    end.set()
    thread.join(30)
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_collects():
    """In a process without other threads, in which newer versions of Python warn of forks."""
    code = (
        "import gc, os, sys; from adjoint.collector import collector_paused\n"
        "with collector_paused():\n"
        "    child = os.fork()\n"
        "    if not child: os._exit(0 if gc.isenabled() else 1)\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert not subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode
