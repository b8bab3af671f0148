"""`TerminateOnBudget`: ends training after some time or number of steps."""

import time
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks.base import Callback, Run

__all__ = ["TerminateOnBudget"]

#: The most seconds between two looks at the clock.
_LOOK = 1.0


class TerminateOnBudget(Callback):
    """Ends training after some time or number of steps, whichever is first.

    Parameters
    ----------
    seconds : float, optional
        The time on the clock since training began, with that before a resume.
    steps : int, optional
        The number of steps since the first epoch.

    Raises
    ------
    InvalidValueError
        If neither is given, or one is not positive.
    """

    def __init__(self, seconds: float | None = None, steps: int | None = None) -> None:
        if seconds is None and steps is None:
            raise InvalidValueError("TerminateOnBudget takes a budget, got none; pass seconds= or steps=")
        if seconds is not None and not seconds > 0:
            raise InvalidValueError(f"TerminateOnBudget: seconds must be above 0, got {seconds!r}")
        if steps is not None and (type(steps) is not int or steps < 1):
            raise InvalidValueError(f"TerminateOnBudget: steps must be an int above 0, got {steps!r}")
        self.budget = seconds
        self.steps = steps
        self.every = steps  # the first multiple is the last step
        self.seconds = None if seconds is None else min(_LOOK, seconds)
        self._spent = 0.0
        self._begin: float | None = None

    def on_train_begin(self, run: Run) -> None:
        """Start the clock."""
        self._begin = time.monotonic()
        self.on_train_step_end(run)

    def on_train_step_end(self, run: Run) -> None:
        """Stop if the budget is spent."""
        if self.steps is not None and run.step >= self.steps:
            run.stop(f"the budget of {self.steps} steps is spent")
        elif self.budget is not None and self._total() >= self.budget:
            run.stop(f"the budget of {self.budget:g} seconds is spent")

    def on_train_epoch_end(self, run: Run) -> None:
        """Stop if the budget is spent."""
        self.on_train_step_end(run)

    def on_train_end(self, run: Run) -> None:
        """Stop the clock."""
        self._spent, self._begin = self._total(), None

    def _total(self) -> float:
        return self._spent + (0.0 if self._begin is None else time.monotonic() - self._begin)

    def state_dict(self) -> dict[str, Any]:
        """The seconds spent."""
        return {"seconds": self._total()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self._spent = float(state["seconds"])
