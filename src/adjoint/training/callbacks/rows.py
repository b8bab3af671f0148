"""What loggers share: rows of numbers, one for every so many steps and one for every epoch."""

from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks.base import Callback, Run
from adjoint.training.callbacks.reading import known_loss, train_loss

__all__ = ["RowLogger"]


class RowLogger(Callback):
    """Makes rows and passes them to `write`, which a subclass defines.

    A row of a step has ``step``, ``epoch``, ``loss``, ``learning_rate`` and ``seconds``, the seconds of training so
    far; the loss is that of the step, and the row is written as soon as it is known. A row of an epoch has ``step``,
    ``epoch``, ``train_loss``, the mean training loss, ``learning_rate``, ``seconds``, and if the epoch was evaluated
    the metrics as ``valid_accuracy``.

    Parameters
    ----------
    every : int or None
        The number of steps between rows; None for epochs only.

    Raises
    ------
    InvalidValueError
        If it is not a positive int.
    """

    def __init__(self, every: int | None) -> None:
        if every is not None and (type(every) is not int or every < 1):
            raise InvalidValueError(f"{type(self).__name__}: every must be an int above 0, or None, got {every!r}")
        self.every = every
        #: Rows whose loss is not known yet, with their steps in the epoch.
        self._due: list[tuple[int, dict[str, Any]]] = []
        self._evaluated = False
        #: Seconds of training in earlier processes.
        self._seconds = 0.0

    def write(self, row: dict[str, Any]) -> None:
        """Write a row."""
        raise NotImplementedError

    def on_train_begin(self, run: Run) -> None:
        """Forget what an interrupted run has left."""
        self._due, self._evaluated = [], False

    def on_train_step_end(self, run: Run) -> None:
        """Write the rows whose loss is known by now."""
        self._due.append((run.step_in_epoch, self._row(run)))
        self._write_known(run)

    def on_eval_end(self, run: Run) -> None:
        """Take note that there are new results."""
        self._evaluated = True

    def on_train_epoch_end(self, run: Run) -> None:
        """Write what is left, and the row of the epoch."""
        self._write_known(run)
        self._due = []
        row = self._row(run)
        row["train_loss"] = train_loss(run)
        if self._evaluated:
            row |= {f"valid_{name}": value for name, value in run.metrics.items()}
        self._evaluated = False
        self.write(row)

    def on_train_end(self, run: Run) -> None:
        """Write what is left of an epoch that was stopped."""
        self._write_known(run)

    def on_exception(self, run: Run, error: BaseException) -> None:
        """Write what is known."""
        self._write_known(run)

    def _row(self, run: Run) -> dict[str, Any]:
        row: dict[str, Any] = {"step": run.step, "epoch": run.epoch}
        if run.learning_rate is not None:
            row["learning_rate"] = run.learning_rate
        row["seconds"] = round(self._seconds + run.train_seconds, 6)
        return row

    def _write_known(self, run: Run) -> None:
        while self._due and (loss := known_loss(run, self._due[0][0])) is not None:
            row = self._due.pop(0)[1]
            self.write({**row, "loss": loss})
