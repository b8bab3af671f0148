"""`EarlyStopping`: ends training when a metric no longer improves."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, warn
from adjoint.training.callbacks.base import Run
from adjoint.training.callbacks.monitoring import Monitored
from adjoint.training.callbacks.weights import copied, put_back

__all__ = ["EarlyStopping"]


class EarlyStopping(Monitored):
    """Ends training when a number has not improved for some epochs. The names and rules are those of Keras.

    Epochs that are not evaluated do not count.

    Parameters
    ----------
    monitor : str, default "loss"
        The name of a metric in the results of evaluation, or "train_loss", the mean training loss of the epoch.
    min_delta : float, default 0.0
        The least change that counts as an improvement.
    patience : int, default 0
        The number of epochs without an improvement after which training ends. 0 ends it at the first.
    mode : {"auto", "min", "max"}, default "auto"
        Whether smaller or greater is better; "auto" decides by the name.
    baseline : float, optional
        Epochs count as improvements only if they are also better than this.
    restore_best_weights : bool, default False
        Whether the network has the parameters and buffers of the best epoch when training ends. They are kept in memory
        and in checkpoints.

    Attributes
    ----------
    best, best_epoch : float or None, and int
        The best number so far, and its epoch.
    wait : int
        The number of epochs since.
    stopped_epoch : int
        The epoch after which training ended; 0 if it was not ended by this.

    Raises
    ------
    InvalidValueError
        If a setting is out of range, or the run never evaluates.
    NameLookupError
        At the end of an epoch, if there is no such metric.
    """

    def __init__(
        self,
        monitor: str = "loss",
        min_delta: float = 0.0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        if type(patience) is not int or patience < 0:
            raise InvalidValueError(f"EarlyStopping: patience must be an int of at least 0, got {patience!r}")
        self.patience = patience
        self.baseline = baseline
        self.restore_best_weights = restore_best_weights
        self.best_epoch = 0
        self.wait = 0
        self.stopped_epoch = 0
        self._weights: dict[str, np.ndarray] = {}

    def on_train_epoch_end(self, run: Run) -> None:
        """Compare, and stop if there has been no improvement for too long."""
        value = self.newest(run)
        if value is None:
            return
        if self.improves(value, self.best):
            self.best, self.best_epoch = value, run.epoch
            if self.restore_best_weights:
                self._weights = copied(run.network)
            if self.baseline is None or self.improves(value, self.baseline):
                self.wait = 0
                return
        self.wait += 1
        # A patience of 0 tolerates nothing, as a patience of 1 does; the first epoch has nothing to be compared with.
        if self.wait >= self.patience and run.epoch > 1:
            self.stopped_epoch = run.epoch
            run.stop(f"{self.monitor} has not improved since epoch {self.best_epoch}")

    def on_train_end(self, run: Run) -> None:
        """Put back the best weights."""
        if not self.restore_best_weights or self.best is None:
            return
        if not self._weights:
            warn(
                f"EarlyStopping: the weights of the best epoch, {self.best_epoch}, are not in the checkpoint that the "
                "run was resumed from; the network keeps those of the last epoch"
            )
            return
        put_back(run.network, self._weights)

    def state_dict(self) -> dict[str, Any]:
        """The best number and its epoch, and how long ago it was."""
        return {**super().state_dict(), "best_epoch": self.best_epoch, "wait": self.wait}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        super().load_state_dict(state)
        self.best_epoch, self.wait = state["best_epoch"], state["wait"]

    def state_arrays(self) -> dict[str, np.ndarray]:
        """The weights of the best epoch."""
        return dict(self._weights)

    def load_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from what `state_arrays` returned."""
        self._weights = dict(arrays)
