"""`TensorBoardLogger`: files of events for TensorBoard, through tensorboardX."""

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks.base import Run
from adjoint.training.callbacks.reading import numbers
from adjoint.training.callbacks.rows import RowLogger

__all__ = ["TensorBoardLogger"]


class TensorBoardLogger(RowLogger):
    """Writes scalars for TensorBoard. Requires tensorboardX, which the extra ``tensorboard`` installs.

    The tags are the names of the columns of `CSVLogger`: ``loss``, ``learning_rate``, ``train_loss``,
    ``valid_accuracy``. After a resume, TensorBoard ignores what was written of later steps.

    Parameters
    ----------
    directory : str or path
        The folder of the files of events.
    every : int or None, default 100
        The number of steps between numbers; None for epochs only.

    Raises
    ------
    InvalidValueError
        If tensorboardX is not installed, or `every` is out of range.
    """

    def __init__(self, directory: str | os.PathLike[str], every: int | None = 100) -> None:
        super().__init__(every)
        if find_spec("tensorboardX") is None:
            raise InvalidValueError(
                "TensorBoardLogger requires tensorboardX, which is not installed; run pip install "
                "'adjoint[tensorboard]'"
            )
        self.directory = os.fspath(directory)
        self._writer: Any = None

    def on_train_begin(self, run: Run) -> None:
        """Begin a file."""
        super().on_train_begin(run)
        writer = import_module("tensorboardX").SummaryWriter  # optional
        self._writer = writer(self.directory, purge_step=run.step + 1 if run.resumed else None)

    def write(self, row: dict[str, Any]) -> None:
        """Write the numbers of a row, except its keys."""
        for name, value in numbers(row).items():
            if name not in ("step", "epoch", "seconds"):
                self._writer.add_scalar(name, value, row["step"])
        if "train_loss" in row:
            self._writer.flush()

    def on_train_end(self, run: Run) -> None:
        """Write what is left of an epoch that was stopped, and close the file."""
        super().on_train_end(run)
        self._writer.close()

    def on_exception(self, run: Run, error: BaseException) -> None:
        """Write what is known, and close the file."""
        if self._writer is not None:
            super().on_exception(run, error)
            self._writer.close()
