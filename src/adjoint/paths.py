"""Where adjoint keeps files on this machine: one cache directory, and how a file gets into it whole."""

import contextlib
import errno
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from adjoint.errors import CacheError

__all__ = ["cache_dir", "check_writable", "write_whole"]


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Adjoint's cache directory; it need not exist yet.

    Parameters
    ----------
    environ : mapping, optional
        The environment, `os.environ` where None. ``ADJOINT_CACHE`` names the directory; else it is
        ``adjoint`` in the platform's own place: ``$XDG_CACHE_HOME`` or ``~/.cache``, ``~/Library/Caches`` on
        macOS, ``%LOCALAPPDATA%`` on Windows.
    """
    environ = os.environ if environ is None else environ
    if chosen := environ.get("ADJOINT_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "adjoint"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "adjoint"
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adjoint"


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in its place in one move: a reader sees all of it or none, and a failure leaves nothing behind.

    Raises
    ------
    CacheError
        Where the directory cannot be made or written, or the disk is full.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own for every writer: two that come at once each move a whole file into place.
        temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.part"
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise _refusal(path.parent, error, len(content)) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def check_writable(directory: Path) -> None:
    """Refuse a directory that cannot be made or written, before the work whose result belongs there is done.

    Raises
    ------
    CacheError
        With the reason and the fix.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _refusal(directory, error, 0) from error


def _refusal(directory: Path, error: OSError, size: int) -> CacheError:
    fix = "set ADJOINT_CACHE to a directory that can be written"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        needed = f" for {max(1, size >> 20)} MB" if size else ""
        return CacheError(f"the disk has no room{needed} in the cache directory {directory}; free some, or {fix}")
    reason = error.strerror or str(error)
    return CacheError(f"the cache directory {directory} cannot be written ({reason}); {fix}")
