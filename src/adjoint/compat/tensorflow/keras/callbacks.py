"""Callbacks with Keras' methods."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.compat.uncovered import uncovered

__all__ = [
    "CSVLogger", "Callback", "EarlyStopping", "History", "LambdaCallback", "LearningRateScheduler", "ModelCheckpoint",
    "ReduceLROnPlateau", "TerminateOnNaN",
]  # fmt: skip
__getattr__ = uncovered(__name__, {"TensorBoard": "use adjoint.training.callbacks.TensorBoardLogger"}, "adjoint")

Logs = dict[str, float]


class Callback:
    """What is called at moments of a training run; a subclass defines some of the methods."""

    model: Any = None

    def set_model(self, model: Any) -> None:
        """The model that is trained."""
        self.model = model

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Before the first epoch."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """After the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Before an epoch, counted from 0."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """After an epoch."""

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """After a batch."""


class History(Callback):
    """What `fit` returns: the logs of all epochs, in ``history``."""

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Keep the logs."""
        self.epoch.append(epoch)
        for key, value in (logs or {}).items():
            self.history.setdefault(key, []).append(value)


class LambdaCallback(Callback):
    """Functions as a callback."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        for name, function in functions.items():
            setattr(self, name, function)


class LearningRateScheduler(Callback):
    """Sets the learning rate of each epoch: ``schedule(epoch, rate)``."""

    def __init__(self, schedule: Callable[[int, float], float], verbose: int = 0) -> None:
        del verbose
        self.schedule = schedule

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Set the rate."""
        del logs
        optimizer = self.model.optimizer
        optimizer.learning_rate = self.schedule(epoch, float(optimizer.learning_rate))


class _Watching(Callback):
    """What callbacks that watch a result have in common."""

    def __init__(self, monitor: str = "val_loss", mode: str = "auto", min_delta: float = 0.0) -> None:
        self.monitor, self.min_delta = monitor, abs(min_delta)
        self.sign = -1.0 if mode == "max" or (mode == "auto" and "acc" in monitor) else 1.0
        self.best = np.inf

    def improved(self, logs: Logs | None) -> bool | None:
        """Whether the result is the best so far; None if there is none."""
        value = (logs or {}).get(self.monitor)
        if value is None:
            return None
        if self.sign * value < self.best - self.min_delta:
            self.best = self.sign * value
            return True
        return False


class EarlyStopping(_Watching):
    """Ends the training when a result has not improved for some epochs."""

    def __init__(
        self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0, verbose: int = 0, mode: str = "auto",
        restore_best_weights: bool = False,
    ) -> None:  # fmt: skip
        del verbose
        super().__init__(monitor, mode, min_delta)
        self.patience, self.restore, self.waited = patience, restore_best_weights, 0
        self._weights: list[np.ndarray] | None = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Look at the result."""
        del epoch
        found = self.improved(logs)
        if found:
            self.waited = 0
            self._weights = self.model.get_weights() if self.restore else None
        elif found is False:
            self.waited += 1
            if self.waited >= max(self.patience, 1):
                self.model.stop_training = True
                if self._weights is not None:
                    self.model.set_weights(self._weights)


class ReduceLROnPlateau(_Watching):
    """Lowers the learning rate when a result has not improved for some epochs."""

    def __init__(
        self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0, mode: str = "auto",
        min_delta: float = 1e-4, cooldown: int = 0, min_lr: float = 0.0,
    ) -> None:  # fmt: skip
        del verbose, cooldown
        super().__init__(monitor, mode, min_delta)
        self.factor, self.patience, self.min_lr, self.waited = factor, patience, min_lr, 0

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Look at the result."""
        del epoch
        found = self.improved(logs)
        self.waited = 0 if found else self.waited + (found is False)
        if self.waited >= self.patience:
            optimizer = self.model.optimizer
            optimizer.learning_rate = max(float(optimizer.learning_rate) * self.factor, self.min_lr)
            self.waited = 0


class ModelCheckpoint(_Watching):
    """Saves the weights after epochs; ``{epoch}`` and results in the path are filled in."""

    def __init__(
        self, filepath: Any, monitor: str = "val_loss", verbose: int = 0, save_best_only: bool = False,
        save_weights_only: bool = False, mode: str = "auto", save_freq: str = "epoch",
    ) -> None:  # fmt: skip
        del verbose, save_weights_only, save_freq
        super().__init__(monitor, mode)
        self.filepath, self.best_only = str(filepath), save_best_only

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Save the weights."""
        if not self.best_only or self.improved(logs):
            self.model.save_weights(self.filepath.format(epoch=epoch + 1, **(logs or {})))


class CSVLogger(Callback):
    """Writes the logs of each epoch to a file, a line each."""

    def __init__(self, filename: Any, separator: str = ",", append: bool = False) -> None:
        self.path, self.separator, self.append = Path(filename), separator, append
        self._rows: list[Logs] = []

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Write the line."""
        self._rows.append({"epoch": epoch, **(logs or {})})
        with self.path.open("a" if self.append else "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(self._rows[0]), delimiter=self.separator)
            if not self.append:
                writer.writeheader()
            writer.writerows(self._rows[-1:] if self.append else self._rows)


class TerminateOnNaN(Callback):
    """Ends the training when the loss is not finite."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Look at the loss."""
        del epoch
        if not np.isfinite((logs or {}).get("loss", 0.0)):
            self.model.stop_training = True
