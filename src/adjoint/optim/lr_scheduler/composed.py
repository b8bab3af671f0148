"""Schedules of schedules: one after the other, or all at once."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from adjoint.errors import InvalidValueError, plural
from adjoint.optim.base import Optimizer
from adjoint.optim.lr_scheduler.base import LRScheduler

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Composed:
    """What has several schedules of one optimizer."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
        owner = type(self).__name__
        if not schedulers:
            raise InvalidValueError(f"{owner}: at least one schedule is required, got none; pass such as StepLR(...)")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        for i, each in enumerate(schedulers):
            if each.optimizer is not self.optimizer:
                raise InvalidValueError(
                    f"{owner}: all schedules must be of the same optimizer, got another one in schedule {i}; create "
                    "them with the same"
                )
        self._schedulers = list(schedulers)
        self._last_lr: list[float] = []

    def _read(self) -> None:
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """All that the schedules depend on, except the optimizer and functions."""
        hidden = ("optimizer", "_schedulers")
        own = {key: value for key, value in self.__dict__.items() if key not in hidden}
        return {**own, "_schedulers": [each.state_dict() for each in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for each, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            each.load_state_dict(state)


class SequentialLR(_Composed):
    """Schedules one after the other; each counts its steps from 0.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    schedulers : sequence of LRScheduler
        The schedules in order.
    milestones : sequence of int
        The steps at which the next one begins, one fewer than schedules.

    Raises
    ------
    InvalidValueError
        If the schedules are of other optimizers, or there are not as many milestones.
    """

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]) -> None:
        super().__init__(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise InvalidValueError(
                f"SequentialLR: there must be one milestone for each schedule but the first, got "
                f"{plural(len(milestones), 'milestone')} for {plural(len(schedulers), 'schedule')}; pass the steps at "
                "which they begin"
            )
        self.milestones = list(milestones)
        self.last_epoch = 0
        # Every schedule has set its own first rates; only the first one's count.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for each in self._schedulers:
            each.last_epoch -= 1
        self._schedulers[0].step()
        self._read()

    def step(self) -> None:
        """Set the rates of the next epoch."""
        self.last_epoch += 1
        index = bisect_right(self.milestones, self.last_epoch)
        if index and self.milestones[index - 1] == self.last_epoch:
            self._schedulers[index].step(0)
        else:
            self._schedulers[index].step()
        self._read()


class ChainedScheduler(_Composed):
    """Several schedules at once: at a step, each changes the rates that the others have set.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
        The schedules in order.
    optimizer : Optimizer, optional
        The optimizer; default: that of the schedules.

    Raises
    ------
    InvalidValueError
        If there are no schedules, or they are of several optimizers.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        super().__init__(schedulers, optimizer)
        self._read()

    def step(self) -> None:
        """Set the rates of the next epoch."""
        for each in self._schedulers:
            each.step()
        self._read()
