"""What all entry points of a process share: the fast call path from Python, the thread pool, the epoch loop."""

import os
import threading
from collections.abc import Callable
from typing import ClassVar

from adjoint.runtime.fastcall import fastcall_text
from adjoint.runtime.library import Library
from adjoint.runtime.threads import Pool

__all__ = ["MakeText", "Runtime"]

#: Returns the LLVM text of a module for a target triple.
MakeText = Callable[[str], str]


class Runtime:
    """The native code of a process that does not depend on its steps. Each part is compiled when it is first needed.

    A first step on one thread needs neither the thread pool nor the epoch loop, which take twice as long to compile as
    the call path.

    Parameters
    ----------
    compiled : callable
        Compiles a part, given by the function that makes its text: its object files for this machine.

    Attributes
    ----------
    fastcall : tuple of int
        Addresses of ``fastcall`` and ``exclusively``.
    pool : Pool
        The thread pool.
    """

    _shared: "ClassVar[Runtime | None]" = None
    _sharing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, compiled: Callable[[MakeText], tuple[bytes, ...]]) -> None:
        self._compiled = compiled
        self._libraries: dict[MakeText, Library] = {}
        self._loading = threading.Lock()
        call_path = self.library(fastcall_text, "fastcall", "exclusively")
        self.fastcall = call_path["fastcall"], call_path["exclusively"]
        self.pool = Pool(self.library)

    def library(self, make_text: MakeText, *names: str) -> Library:
        """The loaded functions of a part; every call for the same part has the same names."""
        with self._loading:
            found = self._libraries.get(make_text)
            if found is None:
                found = self._libraries[make_text] = Library(self._compiled(make_text), names)
            return found

    @classmethod
    def of_process(cls, compiled: Callable[[MakeText], tuple[bytes, ...]]) -> "Runtime":
        """The instance of this process, which compiles with `compiled` if it must be created."""
        with cls._sharing:
            if cls._shared is None:
                cls._shared = cls(compiled)
            return cls._shared

    @classmethod
    def renew_locks(cls) -> None:
        """Free the locks in a forked process, which does not have the threads that may hold them."""
        cls._sharing = threading.Lock()
        if cls._shared is not None:
            cls._shared._loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Runtime.renew_locks)
