"""A schedule that follows a metric."""

from collections.abc import Mapping
from math import inf
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.optim.base import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau:
    """Multiplies the rate by a factor when a metric has stopped improving.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    mode : {"min", "max"}, default "min"
        Whether smaller or larger metrics are better.
    factor : float, default 0.1
        The factor, below 1.
    patience : int, default 10
        The number of epochs without an improvement that are tolerated.
    threshold : float, default 1e-4
        The least improvement that counts.
    threshold_mode : {"rel", "abs"}, default "rel"
        Whether it is relative to the best metric.
    cooldown : int, default 0
        The number of epochs after a reduction that are not counted.
    min_lr : float or list of float, default 0.0
        The smallest rate, of all groups or of each.
    eps : float, default 1e-8
        The least change of a rate; smaller ones are not made.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise InvalidValueError(f"ReduceLROnPlateau: factor must be below 1, got {factor}")
        for name, value, known in (("mode", mode, ("min", "max")), ("threshold_mode", threshold_mode, ("rel", "abs"))):
            if value not in known:
                raise InvalidValueError(
                    f"ReduceLROnPlateau: {name} must be {known[0]!r} or {known[1]!r}, got {value!r}"
                )
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        self.min_lrs = list(min_lr) if isinstance(min_lr, list | tuple) else [min_lr] * count
        if len(self.min_lrs) != count:
            raise InvalidValueError(
                f"ReduceLROnPlateau: min_lr must be a number, or a list with one for each of the {count} groups, got "
                f"{min_lr!r}"
            )
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.eps = eps
        self.best = inf if mode == "min" else -inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self.last_epoch = 0
        self._last_lr: list[float] = [group["lr"] for group in optimizer.param_groups]

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted because of a reduction."""
        return self.cooldown_counter > 0

    def is_better(self, metric: float, best: float) -> bool:
        """Whether a metric improves on the best one by more than the threshold."""
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "abs":
            return metric * sign > (best + sign * self.threshold) * sign
        return metric * sign > best * (1.0 + sign * self.threshold) * sign

    def step(self, metrics: Any) -> None:
        """Take note of a metric, and reduce the rates if none has been better for too long.

        Parameters
        ----------
        metrics : float or Tensor
            The metric; reading a tensor's value runs what is pending.
        """
        metric = float(metrics)
        self.last_epoch += 1
        if self.is_better(metric, self.best):
            self.best = metric
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                reduced = max(group["lr"] * self.factor, least)
                if group["lr"] - reduced > self.eps:
                    group["lr"] = reduced
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule depends on, except the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.__dict__.update(state_dict)
