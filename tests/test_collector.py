"""The pause of Python's garbage collector: nested, in several threads, in forked processes, and around imports."""

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


OLD = """
import gc
import sys
from contextlib import nullcontext
from adjoint.collector import collector_paused, creating_definitions

def is_old(value):
    return any(each is value for each in gc.get_objects(generation=2))

def imported(modules):
    sys.modules.update({f"module_{number}": None for number in range(modules)})

"""


def passes(code):
    """Whether code ends without an error, in a process of its own: the tests themselves freeze objects."""
    return not subprocess.run([sys.executable, "-c", OLD + code], timeout=60, check=False).returncode


@pytest.mark.parametrize(
    ("outside", "modules", "old"),
    [("nullcontext", 60, True), ("nullcontext", 1, False), ("collector_paused", 60, False)],
)
def test_many_definitions_are_old_at_once_unless_an_outer_pause_has_objects_of_its_own(outside, modules, old):
    assert passes(
        f"with {outside}(), creating_definitions():\n"
        "    definition = [object]\n"
        f"    imported({modules})\n"
        "    assert not gc.isenabled()\n"
        f"assert is_old(definition) is {old}\n"
        "assert gc.isenabled()"
    )


def test_frozen_objects_stay_frozen():
    assert passes(
        "frozen = [object]; gc.freeze()\n"
        "with creating_definitions(): imported(60)\n"
        "assert gc.get_freeze_count() > 0 and not is_old(frozen)"
    )
