"""Files that sources read: their paths, and errors that say what is wrong with one."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from adjoint.errors import DataError, TypeRuleError

__all__ = ["Paths", "paths_of", "readable"]

#: One path, or several.
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def paths_of(name: str, given: Paths) -> list[Path]:
    """The files that a source reads, all of which exist; `name` is the source, for errors."""
    parts = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not parts or not all(isinstance(part, str | os.PathLike) for part in parts):
        raise TypeRuleError(f"{name} takes the path of a file or a list of paths, got {given!r}; pass one")
    paths = [Path(part) for part in parts]
    for path in paths:
        if not path.is_file():
            raise DataError(f"{name}: there is no file {str(path)!r}; correct the path")
    return paths


@contextmanager
def readable(name: str, path: Path, *malformed: type[Exception]) -> Iterator[None]:
    """Turn failures to read a file, and exceptions that say that it is malformed, into errors that name it."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{name}: {str(path)!r} cannot be read ({error.strerror or error}); check the file") from error
    except malformed as error:
        said = str(error).partition("\n")[0]
        raise DataError(f"{name}: {str(path)!r} is malformed ({said}); correct it or fetch it again") from error
