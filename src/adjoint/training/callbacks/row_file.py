"""A text file that grows by lines, and loses none when the process is killed."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from adjoint.errors import InvalidValueError, warn
from adjoint.training.callbacks.base import Run
from adjoint.training.callbacks.rows import RowLogger

__all__ = ["FileLogger"]

T = TypeVar("T")


class FileLogger(RowLogger):
    """Writes rows as lines of a file.

    Each line is handed to the operating system in one call before training goes on, so that it survives the process;
    nothing waits for the disk. If the disk is full, a warning says so once, and training goes on without the rows.

    A run that is not resumed begins the file anew. A resumed one removes the rows of steps after the one that it goes
    on from, which it will do again, and a line that was not finished.

    Parameters
    ----------
    path : str or path
        The file; its folder is made if needed.
    every : int or None
        See `RowLogger`.
    """

    def __init__(self, path: str | os.PathLike[str], every: int | None) -> None:
        super().__init__(every)
        self.path = Path(path)
        self._file: Any = None
        #: The bytes of the lines that have been written as a whole.
        self._size = 0
        self._warned = False
        #: Kinds of the rows of the step that the run is resumed from: they are not written twice.
        self._written: tuple[int, set[bool]] = (-1, set())

    def parse(self, text: str) -> tuple[list[str], list[dict[str, Any]]]:
        """The lines of the file and the row that is in each; raises ValueError or KeyError at the first that is none.

        The heading of a table is a line with an empty row.
        """
        raise NotImplementedError

    def line(self, row: dict[str, Any]) -> str:
        """The line of a row, without its end."""
        raise NotImplementedError

    def on_train_begin(self, run: Run) -> None:
        """Open the file."""
        super().on_train_begin(run)
        self._written, self._warned = (-1, set()), False
        self._refusing(lambda: self.path.parent.mkdir(parents=True, exist_ok=True))
        kept = self._kept(run) if run.resumed and self.path.is_file() else []
        self._refusing(lambda: self._replace(kept))

    def _kept(self, run: Run) -> list[str]:
        """The lines of a file that stay when a run is resumed."""
        text = self._refusing(lambda: self.path.read_text("utf-8", "replace"))
        whole = text[: text.rfind("\n") + 1]
        try:
            lines, rows = self.parse(whole)
            kept = [(line, row) for line, row in zip(lines, rows, strict=True) if row.get("step", 0) <= run.step]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidValueError(
                f"{type(self).__name__}: a resumed run continues its file, got {self.path}, which this logger has not "
                f"written ({error}); pass another path"
            ) from error
        self._seconds = max((row["seconds"] for _, row in kept if row.get("seconds")), default=0.0)
        newest = {"train_loss" in row for _, row in kept if row.get("step") == run.step}
        self._written = (run.step, newest)
        return [line for line, _ in kept]

    def _replace(self, lines: list[str]) -> None:
        """Write the whole file under another name, rename it, and go on at its end."""
        new = self.path.with_name(f"{self.path.name}.new")
        data = "".join(f"{line}\n" for line in lines).encode()
        new.write_bytes(data)
        os.replace(new, self.path)
        self.close()
        self._file = FileIO(self.path, "ab")
        self._size = len(data)

    def write(self, row: dict[str, Any]) -> None:
        """Write a row, unless it is in the file already. Where it cannot be written, training goes on without it."""
        step, kinds = self._written
        if row["step"] == step and ("train_loss" in row) in kinds:
            return
        try:
            self.append(row)
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(self._size)  # part of a line can have been written
            if not self._warned:
                warn(
                    f"{type(self).__name__}: rows are lost, because {self.path} cannot be written ({error.strerror}); "
                    "make room"
                )
            self._warned = True

    def append(self, row: dict[str, Any]) -> None:
        """Write a row at the end of the file; raises OSError if that is not possible."""
        data = f"{self.line(row)}\n".encode()
        if self._file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(data)

    def on_train_end(self, run: Run) -> None:
        """Write what is left of an epoch that was stopped, and close the file."""
        super().on_train_end(run)
        self.close()

    def on_exception(self, run: Run, error: BaseException) -> None:
        """Write what is known, and close the file."""
        if self._file is not None:
            super().on_exception(run, error)
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _refusing(self, action: Callable[[], T]) -> T:
        """Do something with the file; an error of the file system becomes a sentence."""
        try:
            return action()
        except OSError as error:
            raise InvalidValueError(
                f"{type(self).__name__}: {self.path} cannot be read and written ({error.strerror}); pass "
                "another path, or make room"
            ) from error
