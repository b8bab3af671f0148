"""The compile cache on disk: one file per entry, written atomically, verified when read, with LRU eviction.

Several processes may share a directory: files are created and replaced atomically.
"""

import contextlib
import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from adjoint.errors import CacheError
from adjoint.lazy_dataclass import dataclass
from adjoint.paths import cache_limit, check_private, private_bytes, write_whole

__all__ = ["CacheWarning", "CompileCache"]

_MAGIC = b"adjoint2"
#: Age in seconds after which a temporary file is considered abandoned by a dead process.
_ABANDONED = 3600


class CacheWarning(UserWarning):
    """The compile cache cannot be written; compilation continues without it."""


@dataclass(frozen=True, slots=True)
class CompileCache:
    """A persistent map from keys to compiled code.

    Parameters
    ----------
    directory : Path
        The directory of the files, created on first use.
    limit : int, optional
        Maximum total size in bytes; default: `adjoint.paths.cache_limit`.
    """

    directory: Path
    limit: int = field(default_factory=cache_limit)

    def read(self, key: str) -> tuple[dict[str, Any], tuple[bytes, ...]] | None:
        """The summary and object files of a key, or None. A damaged file counts as missing and will be replaced.

        Raises
        ------
        CacheError
            If other users can write to the directory or the file, because its contents are executed.
        """
        path = self._path(key)
        check_private(self.directory)
        try:
            content = private_bytes(path)
            with contextlib.suppress(OSError):
                os.utime(path)  # record the time of use; the file system's own access time is often disabled
        except CacheError:
            raise
        except OSError:
            return None
        digest, rest = content[8:40], content[40:]
        if content[:8] != _MAGIC or hashlib.sha256(rest).digest() != digest:
            return None
        length = int.from_bytes(rest[:8], "little")
        summary, sizes = json.loads(rest[8 : 8 + length])
        ends = list(accumulate(sizes, initial=8 + length))
        return summary, tuple(rest[start:end] for start, end in pairwise(ends))

    def write(self, key: str, summary: Mapping[str, Any], objects: Sequence[bytes]) -> None:
        """Store object files under a key. If that is impossible, warn and continue."""
        header = json.dumps([summary, [len(code) for code in objects]]).encode()
        rest = b"".join((len(header).to_bytes(8, "little"), header, *objects))
        try:
            write_whole(self._path(key), _MAGIC + hashlib.sha256(rest).digest() + rest)
        except CacheError as error:
            warnings.warn(f"compiled code is not kept: {error.message}", CacheWarning, stacklevel=2)
        else:
            self._make_room(self._path(key))

    def _make_room(self, kept: Path) -> None:
        """Remove the least recently used entries until the rest is within the limit, and abandoned temporary files."""
        entries = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as found:
            for entry in found:
                # Another process may have removed it in the meantime.
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(".bin"):
                        entries.append((status.st_mtime_ns, entry.name, status.st_size))
                    elif entry.name.endswith(".part") and status.st_mtime < time.time() - _ABANDONED:
                        os.unlink(entry.path)
        total = sum(size for _, _, size in entries)
        for _, name, size in sorted(entries):
            if total <= self.limit:
                return
            if name != kept.name:
                with contextlib.suppress(OSError):
                    (self.directory / name).unlink(missing_ok=True)
                total -= size

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.bin"
