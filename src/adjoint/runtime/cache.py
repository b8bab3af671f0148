"""The compile cache on disk: one file an entry, whole or absent, checked when read, least recently used ones removed.

Several processes may use one directory: a file comes and goes whole, whatever others do.
"""

import contextlib
import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from adjoint.errors import CacheError
from adjoint.paths import cache_limit, check_private, private_bytes, write_whole

__all__ = ["CacheWarning", "CompileCache"]

_MAGIC = b"adjoint2"
#: Seconds after which a file that is being written is that of a process that died.
_ABANDONED = 3600


class CacheWarning(UserWarning):
    """The compile cache cannot be written; compiling goes on without it."""


@dataclass(frozen=True, slots=True)
class CompileCache:
    """Compiled code by key.

    Parameters
    ----------
    directory : Path
        Where the files are; made when first needed.
    limit : int, optional
        How many bytes they may take together: `adjoint.paths.cache_limit` where nothing is said.
    """

    directory: Path
    limit: int = field(default_factory=cache_limit)

    def read(self, key: str) -> tuple[dict[str, Any], tuple[bytes, ...]] | None:
        """Summary and object files of a key, or None. A damaged file counts as none and will be replaced.

        Raises
        ------
        CacheError
            If others may write to the directory or the file: what is in it is run.
        """
        path = self._path(key)
        check_private(self.directory)
        try:
            content = private_bytes(path)
            with contextlib.suppress(OSError):
                os.utime(path)  # now is when it was used; the file system's own time of access is often turned off
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
        """Keep object files under a key. Where that is impossible, say so once and go on."""
        header = json.dumps([summary, [len(code) for code in objects]]).encode()
        rest = b"".join((len(header).to_bytes(8, "little"), header, *objects))
        try:
            write_whole(self._path(key), _MAGIC + hashlib.sha256(rest).digest() + rest)
        except CacheError as error:
            warnings.warn(f"compiled code is not kept: {error.message}", CacheWarning, stacklevel=2)
        else:
            self._make_room(self._path(key))

    def _make_room(self, kept: Path) -> None:
        """Remove what was used longest ago until the rest is within the limit, and what dead writers left."""
        entries = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as found:
            for entry in found:
                # Another process may have removed it since.
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
