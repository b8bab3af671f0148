"""`JSONLinesLogger`: a file with a JSON object in each line."""

import json
import math
import os
from typing import Any

import numpy as np

from adjoint.training.callbacks.row_file import FileLogger

__all__ = ["JSONLinesLogger"]


class JSONLinesLogger(FileLogger):
    """Writes a JSON object in each line of a file: one for every so many steps and one for every epoch.

    ::

        {"step": 100, "epoch": 1, "learning_rate": 0.001, "seconds": 0.52, "loss": 0.71}
        {"step": 938, "epoch": 1, "learning_rate": 0.001, "seconds": 4.9, "train_loss": 0.5, "valid_accuracy": 0.84}

    ``seconds`` are those of training, over all processes of a resumed run. Metrics that are arrays become lists, NaN
    and infinities null. `FileLogger` says what happens when a run is killed or resumed.

    Parameters
    ----------
    path : str or path
        The file, such as ``run.jsonl``; its folder is made if needed.
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

    def line(self, row: dict[str, Any]) -> str:
        """The line of a row, without its end."""
        return json.dumps({name: _plain(value) for name, value in row.items()}, allow_nan=False)

    def parse(self, text: str) -> tuple[list[str], list[dict[str, Any]]]:
        """The lines of the file and the row that is in each."""
        lines = text.splitlines()
        rows = [json.loads(line) for line in lines]
        if not all(isinstance(row["step"], int) for row in rows):
            raise ValueError("a row has no number of steps")
        return lines, rows


def _plain(value: Any) -> Any:
    """A value as JSON has them."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
