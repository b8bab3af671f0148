"""Option types shared by the commands: names with suggestions, and writable files."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

__all__ = ["INTERRUPTED", "REFUSED", "Name", "WritablePath", "closest", "write_text"]

#: Exit status after Ctrl-C, by the convention of shells.
INTERRUPTED = 130

#: Exit status after an error, as in click.
REFUSED = 2


def closest(given: str, known: Iterable[str]) -> str:
    """The hint for an unknown name: the known names, preceded by a similar one if there is any."""
    known = list(known)
    listed = f"there are {', '.join(known)}" if len(known) > 1 else f"there is {known[0]}"
    near = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}? ({listed})" if near else listed


class Name(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4
    """One of a set of names.

    Parameters
    ----------
    what : str
        What the names denote, for messages.
    known : iterable of str
        The names.
    """

    name = "name"

    def __init__(self, what: str, known: Iterable[str]) -> None:
        self.what = what
        self.known = tuple(known)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """``[one|two|...]``, like click's own choices."""
        del param, ctx
        return f"[{'|'.join(self.known)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """`value`, if it is one of the names."""
        del param, ctx
        if value not in self.known:
            raise click.UsageError(f"no {self.what} {value!r}; {closest(str(value), self.known)}")
        return str(value)


class WritablePath(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4
    """A file to write at the end, rejected at the start if it is a folder or its folder does not exist."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path, if a file can be created there."""
        del ctx
        path = Path(value)
        option = param.opts[-1] if param is not None else "the file"
        if path.is_dir():
            raise click.UsageError(f"{option} {path} is a directory; choose a file")
        if not path.parent.is_dir():
            raise click.UsageError(f"{option} {path}: the folder {path.parent} does not exist; create it first")
        return path


def write_text(path: Path, text: str) -> None:
    """Write the file given by an option, or raise an error."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written ({error.strerror}); choose another file") from error
