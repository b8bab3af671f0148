"""A test that hangs in native code ends the run: pytest-timeout needs Python to run, which a hang there need not let.

Where Python runs, pytest-timeout fails the one test and the run goes on. A compiled step holds Python's lock: only a
thread that needs no lock, which faulthandler has, can end what hangs in it.
"""

import faulthandler
import os

import pytest

__all__ = ["pytest_configure", "pytest_runtest_protocol"]

#: How many times the time that a test has, before the process is ended.
_TIMES = 1.5
_STDERR = pytest.StashKey[int]()


def pytest_configure(config):
    """Keep the real standard error: while tests run it is captured."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        config.stash[_STDERR] = os.dup(2)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """End the process, with the stacks of its threads, where a test takes far too long."""
    limit = item.config.getoption("timeout")
    seconds = float(item.config.getini("timeout") or 0) if limit is None else limit
    if seconds > 0:
        file = item.config.stash[_STDERR]
        faulthandler.dump_traceback_later(_TIMES * seconds, exit=True, file=file)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
