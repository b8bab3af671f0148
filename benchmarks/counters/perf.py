"""Count instructions with the CPU's performance counters, through Linux's ``perf_event_open``.

This is what ``perf stat -e instructions:u`` reads. The structure is defined in linux/perf_event.h; see the manual page
perf_event_open(2).
"""

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.counters.base import Count, NoCounterError

__all__ = ["HARDWARE_INSTRUCTIONS", "SOFTWARE_PAGE_FAULTS", "PerfCounter"]

#: Type and number of events.
HARDWARE_INSTRUCTIONS = (0, 1)
SOFTWARE_PAGE_FAULTS = (1, 2)

#: Number of the system call by architecture.
_CALLS = {"x86_64": 298, "aarch64": 241}

#: Size of the structure's first published version, and flags that exclude the kernel and the hypervisor.
_BYTES, _USER_ONLY = 64, 1 << 5 | 1 << 6

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class PerfCounter:
    """Counts events of this thread in user space.

    Parameters
    ----------
    event : (int, int), default `HARDWARE_INSTRUCTIONS`
        The event to count.
    """

    def __init__(self, event: tuple[int, int] = HARDWARE_INSTRUCTIONS) -> None:
        if sys.platform != "linux" or platform.machine() not in _CALLS:
            raise NoCounterError(f"--counter perf knows Linux on {' and '.join(_CALLS)}; take blocks")
        kind, number = event
        attributes = struct.pack("IIQQQQQ", kind, _BYTES, number, 0, 0, 0, _USER_ONLY).ljust(_BYTES, b"\0")
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.syscall(_CALLS[platform.machine()], attributes, 0, -1, -1, 0)
        if self._file < 0:
            level = _PARANOID.read_text().strip() if _PARANOID.exists() else "absent"
            raise NoCounterError(
                f"the kernel gives no instruction counter ({os.strerror(ctypes.get_errno())}; perf_event_paranoid is "
                f"{level}): set it to 2 or less, or, where a virtual machine has no counters, take --counter blocks"
            )

    def count(self, run: Callable[[], object]) -> Count:
        """Call the function and return the number of events in this thread."""
        before = self._read()
        run()
        return Count(self._read() - before)

    def _read(self) -> int:
        value: int = struct.unpack("Q", os.read(self._file, 8))[0]
        return value
