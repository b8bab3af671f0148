"""What several callbacks read of a run."""

import math
from typing import Any

import numpy as np

from adjoint.training.callbacks.base import Run

__all__ = ["known_loss", "numbers", "train_loss"]


def known_loss(run: Run, step_in_epoch: int) -> float | None:
    """The loss of a step of this epoch, counted from 1; None if it is not known yet.

    Parameters
    ----------
    run : Run
        The run.
    step_in_epoch : int
        The step.
    """
    losses = run.losses
    return float(losses[step_in_epoch - 1]) if 0 < step_in_epoch <= len(losses) else None


def train_loss(run: Run) -> float:
    """The mean loss of the steps of this epoch that are known, computed in f64; NaN without any.

    Losses of steps before a resume, which are NaN, do not count.
    """
    losses = np.asarray(run.losses, np.float64)
    known = np.flatnonzero(~np.isnan(losses))
    return float(losses[known[0] :].mean()) if len(known) else math.nan


def numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """The metrics that are single numbers, without those that are arrays, such as a confusion matrix."""
    return {name: float(value) for name, value in metrics.items() if np.ndim(value) == 0}
