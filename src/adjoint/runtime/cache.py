"""The compile cache on disk: one file an entry, whole or absent, checked when read."""

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from adjoint.errors import CacheError
from adjoint.paths import write_whole

__all__ = ["CacheWarning", "CompileCache"]

_MAGIC = b"adjoint2"


class CacheWarning(UserWarning):
    """The compile cache cannot be written; compiling goes on without it."""


@dataclass(frozen=True, slots=True)
class CompileCache:
    """Compiled code by key.

    Parameters
    ----------
    directory : Path
        Where the files are; made when first needed.
    """

    directory: Path

    def read(self, key: str) -> tuple[dict[str, Any], tuple[bytes, ...]] | None:
        """Summary and object files of a key, or None. A damaged file counts as none and will be replaced."""
        try:
            content = self._path(key).read_bytes()
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

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.bin"
