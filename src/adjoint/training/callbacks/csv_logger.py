"""`CSVLogger`: a table with a row for every so many steps and one for every epoch."""

import csv
import io
import os
from typing import Any

from adjoint.training.callbacks.base import Run
from adjoint.training.callbacks.reading import numbers
from adjoint.training.callbacks.row_file import FileLogger

__all__ = ["CSVLogger"]

_COLUMNS = ("step", "epoch", "learning_rate", "seconds", "loss", "train_loss")


class CSVLogger(FileLogger):
    """Writes a table of comma-separated values: a row for every so many steps and one for every epoch.

    The columns are ``step``, ``epoch``, ``learning_rate``, ``seconds``, ``loss`` of a step, ``train_loss``, the mean of
    an epoch, and metrics as ``valid_accuracy``; cells that a row does not have are empty. ``seconds`` are those of
    training, over all processes of a resumed run. Metrics that are arrays are left out. `FileLogger` says what happens
    when a run is killed or resumed.

    Parameters
    ----------
    path : str or path
        The file, such as ``run.csv``; its folder is made if needed.
    every : int or None, default 100
        The number of steps between rows; None for epochs only.

    Raises
    ------
    InvalidValueError
        If `every` is out of range; or, when training begins, if the file cannot be written, or is continued and has
        something else in it.
    """

    def __init__(self, path: str | os.PathLike[str], every: int | None = 100) -> None:
        super().__init__(path, every)
        self._columns: list[str] = []

    def on_train_begin(self, run: Run) -> None:
        """Open the file, and write the names of the columns into a new one."""
        self._columns = []
        super().on_train_begin(run)
        if not self._columns:
            self._columns = list(_COLUMNS)
            self._refusing(lambda: self._replace([_joined(self._columns)]))

    def append(self, row: dict[str, Any]) -> None:
        """Write a row, and the whole file again if it has columns of its own, as the first evaluation has."""
        row = {**numbers(row), "step": row["step"], "epoch": row["epoch"]}
        new = [name for name in row if name not in self._columns]
        if new:
            columns = self._columns + new
            rows = self._rows(self.path.read_text("utf-8"))[1:]
            self._replace([_joined(cells + [""] * (len(columns) - len(cells))) for cells in [columns, *rows]])
            self._columns = columns
        super().append(row)

    def line(self, row: dict[str, Any]) -> str:
        """The line of a row, without its end."""
        return _joined([row.get(name, "") for name in self._columns])

    def parse(self, text: str) -> tuple[list[str], list[dict[str, Any]]]:
        """The lines of the file and the row that is in each; that of the heading is empty."""
        table = self._rows(text)
        if not table:
            return [], []
        columns = table[0]
        if columns[: len(_COLUMNS)] != list(_COLUMNS):
            raise ValueError(f"its columns are {', '.join(columns)}")
        self._columns = columns
        rows = [{name: float(cell) for name, cell in zip(columns, cells, strict=True) if cell} for cells in table[1:]]
        return [_joined(cells) for cells in table], [{}, *rows]

    @staticmethod
    def _rows(text: str) -> list[list[str]]:
        return list(csv.reader(io.StringIO(text)))


def _joined(cells: list[Any]) -> str:
    """A line of a table."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
