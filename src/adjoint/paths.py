"""Adjoint's files on this machine: the cache directory, its permissions, and atomic writes."""

import contextlib
import errno
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from platformdirs import PlatformDirs

from adjoint.errors import AdjointError, CacheError, CheckpointError, InvalidValueError, MissingFileError

__all__ = [
    "Content",
    "FilePath",
    "cache_dir",
    "cache_limit",
    "check_private",
    "check_writable",
    "private_bytes",
    "reading",
    "replace_file",
    "write_user_file",
    "write_whole",
]

#: The path of a file.
FilePath = str | os.PathLike[str]

#: What a file contains: bytes, or pieces of it one after the other, so that large arrays need not be copied.
Content = bytes | Sequence[bytes | memoryview]

#: Default limit of the compile cache in bytes.
_LIMIT = 1 << 30
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The path of adjoint's cache directory, which need not exist yet.

    Parameters
    ----------
    environ : mapping, optional
        The environment; default: `os.environ`. The directory is ``ADJOINT_CACHE`` if set, otherwise ``adjoint`` in the
        platform's usual place: ``$XDG_CACHE_HOME`` or ``~/.cache``, ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%``
        on Windows.
    """
    if chosen := (os.environ if environ is None else environ).get("ADJOINT_CACHE"):
        return Path(chosen).expanduser()
    # Without the author's directory around it and the directory Cache in it, which are Windows conventions.
    return PlatformDirs("adjoint", appauthor=False, opinion=False).user_cache_path


def cache_limit(environ: Mapping[str, str] | None = None) -> int:
    """Maximum size of the compile cache in bytes: ``ADJOINT_CACHE_LIMIT``, or 1 GiB.

    Parameters
    ----------
    environ : mapping, optional
        The environment; default: `os.environ`. The limit is in bytes, or like ``500MB`` or ``2GiB``.

    Raises
    ------
    InvalidValueError
        If the limit is malformed or 0.
    """
    given = (os.environ if environ is None else environ).get("ADJOINT_CACHE_LIMIT")
    if not given:
        return _LIMIT
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?|)B?\s*", given, re.ASCII | re.IGNORECASE)
    limit = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if limit < 1:
        raise InvalidValueError(
            f"ADJOINT_CACHE_LIMIT is a number of bytes above 0 or a size like 500MB, got {given!r}; correct or unset it"
        )
    return limit


def check_private(directory: Path) -> None:
    """Reject a directory of code to be executed if other users could modify it; it need not exist yet.

    On POSIX, it must belong to the effective user or root, and nobody else may have write permission; the same applies
    to adjoint's cache directory that contains it. No directory above may be world-writable unless it is sticky, like
    ``/tmp``, because whoever can rename entries there can replace this directory. On other systems nothing is checked.

    Raises
    ------
    CacheError
        With the problem and the fix.
    """
    if os.name != "posix":
        return
    place = directory.absolute()
    for path in (place, *place.parents):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = path.stat()
            if path in (place, cache_dir().absolute()) and stat.S_ISDIR(status.st_mode):
                _check_own(path, status)
            elif status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
                raise CacheError(
                    f"compiled code is kept where others cannot replace it, and {path} around the cache {directory} "
                    f"has mode {stat.S_IMODE(status.st_mode):04o}; chmod o-w it, or set ADJOINT_CACHE to another"
                )


def private_bytes(path: Path) -> bytes:
    """The content of a file whose permissions satisfy the rules of `check_private`.

    Raises
    ------
    CacheError
        If other users can write to the file, or it belongs to another user.
    OSError
        If it cannot be read.
    """
    with path.open("rb") as file:
        if os.name == "posix":
            _check_own(path, os.fstat(file.fileno()))
        return file.read()


def _check_own(path: Path, status: os.stat_result) -> None:
    """Raise if a file belongs to another user or is writable by others."""
    if status.st_uid not in (0, os.geteuid()):
        raise CacheError(
            f"compiled code is read only from what belongs to user {os.geteuid()} or root, and {path} belongs to user "
            f"{status.st_uid}; set ADJOINT_CACHE to a directory of your own"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(
            f"compiled code is read only from what nobody else may write to, and {path} has mode "
            f"{stat.S_IMODE(status.st_mode):04o}; chmod go-w it, or set ADJOINT_CACHE to another directory"
        )


def _make(directory: Path) -> None:
    """Create a directory and its missing parents, accessible to this user only."""
    if not directory.exists():
        _make(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
    elif not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: readers see all of it or none, and a failure leaves nothing behind.

    Raises
    ------
    CacheError
        If the directory cannot be created or written, or the disk is full.
    """
    temporary: Path | None = None
    try:
        _make(path.parent)
        # A unique name per writer, so that concurrent writers each move a complete file into place.
        temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.part"
        temporary.touch(0o600, exist_ok=False)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise _refusal(path.parent, error, len(content)) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def replace_file(path: Path, content: Content) -> None:
    """Write a user's file atomically and durably: after a crash at any moment it has its old or its new content.

    The content is written beside it, flushed to the disk and renamed. A symbolic link stays, and so does the mode of an
    existing file. A failure leaves nothing behind; neither does a killed process on Linux, except within the instant
    between naming the new file and renaming it.

    Raises
    ------
    OSError
        If the directory does not exist or cannot be written, or the disk is full.
    """
    path = Path(os.path.realpath(path))
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.part"
    try:
        if not _write_unnamed(temporary, content):
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
            _write_flushed(file, content)
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    # The new name is durable once the directory is; not every system allows to open one.
    with contextlib.suppress(OSError):
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


@contextlib.contextmanager
def reading(path: FilePath, what: str) -> Iterator[None]:
    """A context that reads a user's file; `what` is the name of the caller in messages.

    Raises
    ------
    CheckpointError
        If the file cannot be read.
    """
    try:
        yield
    except AdjointError:
        raise
    except FileNotFoundError as error:
        raise MissingFileError(f"{what}: there is no file {path}; check the path") from error
    except IsADirectoryError as error:
        raise CheckpointError(f"{what}: {path} is a directory; give the path of a file in it") from error
    except OSError as error:
        raise CheckpointError(f"{what}: {path} cannot be read ({error.strerror}); check its permissions") from error


def write_user_file(path: FilePath, content: Content, what: str) -> None:
    """Write a user's file by `replace_file`; `what` is the name of the caller in messages.

    Raises
    ------
    CheckpointError
        If the file cannot be written; an old one is unchanged.
    """
    if Path(path).is_dir():
        raise CheckpointError(f"{what}: {path} is a directory; give the path of a file in it")
    if not Path(path).parent.is_dir():
        raise CheckpointError(f"{what}: the directory {Path(path).parent} does not exist; create it first")
    try:
        replace_file(Path(path), content)
    except OSError as error:
        raise CheckpointError(
            f"{what}: {path} cannot be written ({error.strerror}), and an older file is unchanged; free space or "
            "choose another place"
        ) from error


def _write_unnamed(path: Path, content: Content) -> bool:
    """Write a file that gets its name when it is complete; False if system or filesystem have no such files."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        file = os.open(path.parent, os.O_WRONLY | os.O_TMPFILE, 0o666)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return False
        raise
    kept = os.dup(file)
    try:
        _write_flushed(file, content)
        # With a directory, which an absolute path ignores, Python calls linkat, and that follows the symbolic link.
        os.link(f"/proc/self/fd/{kept}", path, src_dir_fd=kept, follow_symlinks=True)
    except FileNotFoundError:  # without /proc
        return False
    finally:
        os.close(kept)
    return True


def _write_flushed(file: int, content: Content) -> None:
    """Write to a file descriptor, flush to the disk and close."""
    with open(file, "wb") as stream:
        stream.writelines((content,) if isinstance(content, bytes) else content)
        stream.flush()
        os.fsync(stream.fileno())


def check_writable(directory: Path) -> None:
    """Reject a directory that cannot be created or written, before doing the work whose result belongs there.

    Raises
    ------
    CacheError
        With the reason and the fix.
    """
    try:
        _make(directory)
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
