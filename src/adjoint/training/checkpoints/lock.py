"""A lock that one process holds as long as it lives, so that nothing has to be removed after it was killed."""

import os
import socket
import sys
import threading
from pathlib import Path

from adjoint.errors import CheckpointError

__all__ = ["DirectoryLock"]

#: The name of the file in the directory. It stays there, with the process that has held the lock last.
_NAME = ".lock"

#: The most bytes of it that a message shows.
_SHOWN = 100

#: Directories that this process has locked, which it would be allowed to lock again. POSIX locks belong to processes.
_held: set[Path] = set()
_guard = threading.Lock()


class DirectoryLock:
    """Exclusive use of a directory.

    The operating system releases it when the process ends, in whichever way. Worker processes that it has started do
    not hold it, so a run can be resumed while those of a killed one are still ending.

    Parameters
    ----------
    directory : Path
        A directory that exists.

    Raises
    ------
    CheckpointError
        If another run has the lock, or the directory cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self._key = Path(os.path.realpath(directory))
        self._released = False
        with _guard:
            if self._key in _held:
                raise _taken(directory, f"process {os.getpid()}, which is this one")
            _held.add(self._key)
        try:
            self._file = os.open(directory / _NAME, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _lock(self._file)
            except OSError as error:
                holder = os.read(self._file, _SHOWN).decode(errors="replace").strip()
                os.close(self._file)
                raise _taken(directory, holder or "another process") from error
            os.ftruncate(self._file, 0)
            os.write(self._file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        except OSError as error:
            with _guard:
                _held.discard(self._key)
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(
                f"checkpoints: the directory {directory} must be writable, got {error.strerror}; choose another"
            ) from error

    def release(self) -> None:
        """Give it back; again without effect."""
        with _guard:
            if not self._released:
                self._released = True
                _held.discard(self._key)
                os.close(self._file)


def _taken(directory: Path, holder: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoints: a directory takes the checkpoints of one run at a time, and {directory} is in use by {holder}; "
        "wait for it, or give this run another directory"
    )


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        # Bytes far behind the content, so that others can read who holds the lock.
        os.lseek(file, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(file, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(file: int) -> None:
        # Of the process, not of the open file, as with flock, which children that it forks would hold as well.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
