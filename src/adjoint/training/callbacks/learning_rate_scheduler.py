"""`LearningRateScheduler`: sets the learning rate by a function, or steps a schedule."""

from collections.abc import Callable
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, described
from adjoint.optim.lr_scheduler import LRScheduler
from adjoint.optim.lr_scheduler import ReduceLROnPlateau as PlateauSchedule
from adjoint.training.callbacks.base import Callback, Run

__all__ = ["LearningRateScheduler"]


class LearningRateScheduler(Callback):
    """Sets the learning rates after steps: by a function, or by a schedule of `adjoint.optim.lr_scheduler`.

    ::

        LearningRateScheduler(lambda lr, step: lr * 0.1 if step % 1000 == 0 else lr)
        LearningRateScheduler(CosineAnnealingLR(optimizer, T_max=10), per="epoch")

    A rate is an input of the compiled step: nothing is compiled again. With ``every=1``, native code returns to Python
    after every step; of steps that take microseconds, schedules of `adjoint.optim.schedules`, which are part of the
    optimizer, cost nothing.

    Parameters
    ----------
    schedule : callable or LRScheduler
        The new rate of a group from its present one and the number of steps done; or a schedule.
    per : {"step", "epoch"}, default "step"
        When to set the rates: after every `every` steps or after every epoch.
    every : int, default 1
        The number of steps.

    Raises
    ------
    TypeRuleError
        If `schedule` is neither; or, while training, if the function returns no number.
    InvalidValueError
        If another setting is out of range.
    """

    def __init__(
        self, schedule: Callable[[float, int], float] | LRScheduler, per: str = "step", every: int = 1
    ) -> None:
        if isinstance(schedule, PlateauSchedule):
            raise TypeRuleError(
                "LearningRateScheduler takes schedules that depend on steps alone, got a ReduceLROnPlateau; use "
                "adjoint.training.callbacks.ReduceLROnPlateau"
            )
        if not isinstance(schedule, LRScheduler) and not callable(schedule):
            raise TypeRuleError(
                "LearningRateScheduler takes a function of the rate and the step, or an LRScheduler, got "
                f"{described(schedule)}; pass such as lambda lr, step: lr * 0.999"
            )
        if per not in ("step", "epoch"):
            raise InvalidValueError(f"LearningRateScheduler: per must be 'step' or 'epoch', got {per!r}")
        if type(every) is not int or every < 1:
            raise InvalidValueError(f"LearningRateScheduler: every must be an int above 0, got {every!r}")
        self.schedule = schedule
        self.per = per
        self.every = every if per == "step" else None

    def on_train_step_end(self, run: Run) -> None:
        """Set the rates of the next step."""
        self._set(run)

    def on_train_epoch_end(self, run: Run) -> None:
        """Set the rates of the next epoch."""
        if self.per == "epoch":
            self._set(run)

    def _set(self, run: Run) -> None:
        if isinstance(self.schedule, LRScheduler):
            self.schedule.step()
            return
        for group in run.optimizer.param_groups:
            before = float(group["lr"])
            rate = self.schedule(before, run.step)
            if isinstance(rate, bool) or not isinstance(rate, int | float):
                raise TypeRuleError(
                    f"LearningRateScheduler: the function must return a rate, got {described(rate)}; return a float"
                )
            if rate != before:
                group["lr"] = float(rate)

    def state_dict(self) -> dict[str, Any]:
        """The state of the schedule; the rates are part of the optimizer's state."""
        return self.schedule.state_dict() if isinstance(self.schedule, LRScheduler) else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        if isinstance(self.schedule, LRScheduler):
            self.schedule.load_state_dict(state)
