"""`Logger`: passes rows to an object of a tracking service."""

from typing import Any

from adjoint.errors import TypeRuleError, kind_of
from adjoint.training.callbacks.base import Run
from adjoint.training.callbacks.reading import numbers
from adjoint.training.callbacks.rows import RowLogger

__all__ = ["Logger"]


class Logger(RowLogger):
    """Passes numbers to any object with ``log(dict, step)`` and ``finish()``, such as a run of wandb or trackio.

    ::

        Logger(wandb.init(project="digits"))

    A row of a step has ``epoch``, ``loss``, ``learning_rate`` and ``seconds``; a row of an epoch has ``train_loss``
    instead of ``loss``, and the metrics that are numbers as ``valid_accuracy``. ``finish()`` is called when training
    ends, however it ends. What such an object does in ``log`` is done while training waits.

    Parameters
    ----------
    tracker : object
        The object. Its configuration is up to you: `Model` passes it nothing.
    every : int or None, default 100
        The number of steps between rows; None for epochs only.

    Raises
    ------
    TypeRuleError
        If the object lacks a method.
    InvalidValueError
        If `every` is out of range.
    """

    def __init__(self, tracker: Any, every: int | None = 100) -> None:
        super().__init__(every)
        for name in ("log", "finish"):
            if not callable(getattr(tracker, name, None)):
                raise TypeRuleError(
                    f"Logger takes an object with log(dict, step) and finish(), got {kind_of(tracker)} without {name}; "
                    "pass such as wandb.init()"
                )
        self.tracker = tracker

    def write(self, row: dict[str, Any]) -> None:
        """Pass on a row."""
        step = row.pop("step")
        self.tracker.log({**numbers(row), "epoch": row["epoch"]}, step)

    def on_train_end(self, run: Run) -> None:
        """Write what is left of an epoch that was stopped, and finish."""
        super().on_train_end(run)
        self.tracker.finish()

    def on_exception(self, run: Run, error: BaseException) -> None:
        """Write what is known, and finish."""
        super().on_exception(run, error)
        self.tracker.finish()
