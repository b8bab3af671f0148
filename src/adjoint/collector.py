"""Python's cyclic garbage collector, paused while adjoint compiles and while its modules are imported.

Compilation creates a million small objects that live until its end. Each collection walks all of them and frees next to
nothing: without a pause, collections take an eighth of the time to compile a residual network. Definitions live as long
as the process, and collections would take a seventh of the time to import them.
"""

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused", "creating_definitions"]

#: Number of imported modules whose definitions take collections more than a millisecond.
_MANY_MODULES = 50

_lock = threading.Lock()
#: How many threads are inside `collector_paused`, and whether the collector ran before the first of them.
_pauses, _ran = 0, False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable the collector, in all threads, until the last of several pauses ends; one that was disabled stays so."""
    global _pauses, _ran
    with _lock:
        if _pauses == 0:
            _ran = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _ran:
                gc.enable()


@contextmanager
def creating_definitions() -> Iterator[None]:
    """Pause the collector while modules are imported, and spare their definitions the collections that follow.

    Each of the first two collections afterwards would walk all of them, for 15 ms, before they count as old objects.
    Freezing all objects and thawing them makes them old at no cost. Objects that were frozen before would thaw with
    them, and an outer pause has objects of its own; then everything stays as it is, as it does after few imports:
    frozen objects are counted one by one.
    """
    before = len(sys.modules)
    with collector_paused():
        yield
        if _pauses == 1 and len(sys.modules) - before >= _MANY_MODULES and gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()


def _resume() -> None:
    """End all pauses in a forked process, which has none of the threads that would end them."""
    global _lock, _pauses
    _lock = threading.Lock()
    if _pauses and _ran:
        gc.enable()
    _pauses = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_resume)
