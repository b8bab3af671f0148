"""`ReduceLROnPlateau`: lowers the learning rate when a metric no longer improves."""

from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks.base import Run
from adjoint.training.callbacks.monitoring import Monitored

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(Monitored):
    """Multiplies the learning rates by a factor when a number has not improved for some epochs.

    The names and rules are those of Keras and MindSpore. Epochs that are not evaluated do not count. The rates are
    inputs of the compiled step: nothing is compiled again.

    Parameters
    ----------
    monitor : str, default "loss"
        The name of a metric in the results of evaluation, or "train_loss", the mean training loss of the epoch.
    factor : float, default 0.1
        The factor, above 0 and below 1.
    patience : int, default 10
        The number of epochs without an improvement after which the rates are lowered.
    mode : {"auto", "min", "max"}, default "auto"
        Whether smaller or greater is better; "auto" decides by the name.
    min_delta : float, default 1e-4
        The least change that counts as an improvement.
    cooldown : int, default 0
        The number of epochs after a reduction that do not count.
    min_lr : float, default 0.0
        The smallest rate.

    Attributes
    ----------
    best : float or None
        The best number since the beginning.
    wait, cooldown_counter : int
        The number of epochs without an improvement, and of those that still do not count.

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
        factor: float = 0.1,
        patience: int = 10,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        if not 0 < factor < 1:
            raise InvalidValueError(f"ReduceLROnPlateau: factor must be above 0 and below 1, got {factor!r}")
        for name, value in (("patience", patience), ("cooldown", cooldown)):
            if type(value) is not int or value < 0:
                raise InvalidValueError(f"ReduceLROnPlateau: {name} must be an int of at least 0, got {value!r}")
        if not min_lr >= 0:
            raise InvalidValueError(f"ReduceLROnPlateau: min_lr must be at least 0, got {min_lr!r}")
        self.factor = factor
        self.patience = patience
        self.cooldown = cooldown
        self.min_lr = min_lr
        self.wait = 0
        self.cooldown_counter = 0

    def on_train_epoch_end(self, run: Run) -> None:
        """Compare, and lower the rates if there has been no improvement for too long."""
        value = self.newest(run)
        if value is None:
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        if self.improves(value, self.best):
            self.best, self.wait = value, 0
        elif self.cooldown_counter == 0:
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(run)

    def _reduce(self, run: Run) -> None:
        for group in run.optimizer.param_groups:
            if group["lr"] > self.min_lr:
                group["lr"] = max(group["lr"] * self.factor, self.min_lr)
        self.cooldown_counter, self.wait = self.cooldown, 0

    def state_dict(self) -> dict[str, Any]:
        """The best number, how long ago it was, and the cooldown; the rates are part of the optimizer's state."""
        return {**super().state_dict(), "wait": self.wait, "cooldown_counter": self.cooldown_counter}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        super().load_state_dict(state)
        self.wait, self.cooldown_counter = state["wait"], state["cooldown_counter"]
