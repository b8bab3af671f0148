"""Count instructions with valgrind's tool callgrind, which emulates a CPU for the whole process.

The emulated CPU has AVX2 but not AVX-512, and adjoint compiles for it. It takes about a second per forty million
floating-point operations, so it is suitable for small workloads and for validating other counters. Unlike `blocks` it
includes the instructions that Python executes to call the step, about 3,500.

The process communicates with callgrind by "client requests", instruction sequences without effect outside valgrind; see
valgrind's manual, section "The Client Request mechanism", and valgrind.h and callgrind.h for the numbers.
"""

import ctypes
import mmap
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.counters.base import Count, NoCounterError

__all__ = ["ValgrindCounter", "command"]

#: ``mov rax, rdi; mov rdx, rsi``, the four rotations and ``xchg rbx, rbx`` that valgrind recognizes, ``mov rax, rdx;
#: ret``: a function whose parameters are a pointer to six words and the default result, without valgrind.
_REQUEST = bytes.fromhex("4889f8 4889f2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")

_RUNNING = 0x1001
_CALLGRIND = ord("C") << 24 | ord("T") << 16
_DUMP, _ZERO, _START, _STOP = _CALLGRIND, _CALLGRIND + 1, _CALLGRIND + 4, _CALLGRIND + 5

#: Environment variable with the path of callgrind's output.
_FILE = "ADJOINT_CALLGRIND"


def command(command: Sequence[str], folder: Path) -> tuple[list[str], dict[str, str]]:
    """A command that runs under callgrind, with output in a folder, and the environment variables that it needs.

    Raises
    ------
    NoCounterError
        If valgrind is not installed or does not support this machine.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        raise NoCounterError(f"--counter valgrind knows x86-64, this machine is {platform.machine()}; take perf")
    program = shutil.which("valgrind")
    if program is None:
        raise NoCounterError("valgrind is not here: apt-get install valgrind, or take --counter blocks")
    file = folder / "callgrind"
    options = ["-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={file}"]
    return [program, *options, *command], {_FILE: str(file)}


class ValgrindCounter:
    """Counts the instructions of this process, which must have been started with `command`."""

    def __init__(self) -> None:
        self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._code.write(_REQUEST)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        self._call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)(address)
        if not self._request(_RUNNING):
            raise NoCounterError("this process does not run under valgrind; start it as `command` says")
        self._file = Path(os.environ[_FILE])
        self._dumps = 0

    def count(self, run: Callable[[], object]) -> Count:
        """Call the function and return the instructions executed by this process."""
        self._request(_START)
        self._request(_ZERO)
        run()
        self._request(_DUMP)
        self._request(_STOP)
        self._dumps += 1
        text = self._file.with_name(f"{self._file.name}.{self._dumps}").read_text()
        (total,) = (line for line in text.splitlines() if line.startswith("totals:"))
        return Count(int(total.split()[1]))

    def _request(self, number: int) -> int:
        words = (ctypes.c_uint64 * 6)(number)
        answer: int = self._call(ctypes.addressof(words), 0)
        return answer
