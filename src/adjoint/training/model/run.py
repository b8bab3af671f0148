"""`Run`: what callbacks see of a training run, and how they end it."""

import time
from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from adjoint.training.model.model import Model

__all__ = ["Run"]


class Run:
    """A training run in progress, as its callbacks see it.

    Attributes
    ----------
    model, network, optimizer
        The model and its parts.
    dataset, valid_dataset
        What it trains on and is evaluated on.
    callbacks : list
        The callbacks of the run.
    epoch, epochs : int
        The epoch in progress, counted from 1, and how many there will be.
    step, step_in_epoch : int
        Completed steps since the first epoch, and of this epoch.
    steps_per_epoch, batch_size : int or None
        None if the dataset does not say.
    metrics : dict of str to float
        The newest results of an evaluation.
    train_seconds : float
        Time in steps so far in this process, without compilation, evaluation and callbacks.
    compile_seconds : float
        Time to trace and compile programs, or to load them from the cache.
    resumed : bool
        Whether the run continues a checkpoint.
    stopped : bool
        Whether the end has been asked for.
    stop_reason : str
        What `stop` was given.
    config : dict
        What the user calls the configuration, for checkpoints and reports.
    """

    def __init__(
        self,
        model: "Model",
        dataset: Any,
        valid_dataset: Any,
        callbacks: Sequence[Any],
        epochs: int,
        config: dict[str, Any],
    ) -> None:
        self.model, self.network, self.optimizer = model, model.network, model.optimizer
        self.dataset, self.valid_dataset = dataset, valid_dataset
        self.callbacks = list(callbacks)
        self.epoch, self.epochs = 1, epochs
        self.step = self.step_in_epoch = 0
        self.steps_per_epoch: int | None = None
        self.batch_size: int | None = None
        self.metrics: dict[str, float] = {}
        self.train_seconds = self.compile_seconds = 0.0
        self.resumed = self.stopped = False
        self.stop_reason = ""
        self.config = config
        self._history = np.zeros(0, np.float32)
        self._known = 0
        self._finished = False
        self._steps_here = 0
        self._samples_here = 0
        self._started = time.perf_counter()

    @property
    def loss(self) -> float:
        """The loss of the newest step; nan before the first."""
        return float(self._history[self._known - 1]) if self._known else nan

    @property
    def losses(self) -> np.ndarray:
        """The losses of the steps of this epoch, read-only, [step_in_epoch]; of a resumed epoch, nan before."""
        losses = self._history[: self._known]
        losses.flags.writeable = False
        return losses

    @property
    def steps_per_second(self) -> float:
        """Steps per second of training time in this process; 0 before the first."""
        return self._steps_here / self.train_seconds if self.train_seconds else 0.0

    @property
    def samples_per_second(self) -> float:
        """Rows per second of training time in this process; 0 if their number is not known."""
        return self._samples_here / self.train_seconds if self.train_seconds else 0.0

    @property
    def seconds(self) -> float:
        """Time since the run began in this process."""
        return time.perf_counter() - self._started

    @property
    def learning_rate(self) -> float | None:
        """The learning rate of the next update of the optimizer's first group, as schedules within the step make it."""
        found: float | None = self.optimizer.current_lr if self.optimizer is not None else None
        return found

    def stop(self, reason: str = "") -> None:
        """Ask for the end of the run after the step in progress."""
        self.stopped, self.stop_reason = True, reason

    def cursor(self) -> dict[str, Any]:
        """Where the run is, as plain data for a checkpoint."""
        state = getattr(self.dataset, "state_dict", None)
        return {
            "epoch": self.epoch + self._finished,
            "step": self.step,
            "step_in_epoch": 0 if self._finished else self.step_in_epoch,
            "dataset": state() if callable(state) else None,
        }

    # Used by the loop.

    def resume(self, cursor: dict[str, Any]) -> None:
        """The run continues one that was there."""
        self.resumed = True
        self.epoch, self.step = cursor["epoch"], cursor["step"]

    def begin_epoch(self, epoch: int, done: int, steps: int | None) -> None:
        """An epoch begins, or goes on after some steps."""
        self.epoch, self.step_in_epoch, self.steps_per_epoch = epoch, done, steps
        self._history = np.full(max(steps or 1024, done), nan, np.float32)
        self._known = done
        self._finished = False

    def finish_epoch(self) -> None:
        """All steps of the epoch are done: what is saved now goes on with the next one."""
        self._finished = True

    def room(self, steps: int, dtype: np.dtype) -> np.ndarray:
        """The array that takes the losses of an epoch of so many steps."""
        if self._history.dtype != dtype or len(self._history) < steps:
            history = np.full(max(steps, 2 * len(self._history)), nan, dtype)
            history[: self._known] = self._history[: self._known]
            self._history = history
        return self._history

    def advance(self, steps: int, rows: int, seconds: float) -> None:
        """Steps have been done, whose losses are in the array."""
        self.step += steps
        self.step_in_epoch += steps
        self._known = self.step_in_epoch
        self._steps_here += steps
        self._samples_here += rows
        self.train_seconds += seconds
