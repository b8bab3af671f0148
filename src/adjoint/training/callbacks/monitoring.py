"""What callbacks share that watch one number of each epoch, such as the accuracy of evaluation."""

import math
import re
from typing import Any

from adjoint.errors import InvalidValueError, NameLookupError, listed
from adjoint.training.callbacks.base import Callback, Run
from adjoint.training.callbacks.reading import train_loss

__all__ = ["Monitored"]

#: The number that is known without evaluation.
TRAIN_LOSS = "train_loss"

#: Parts of the names of metrics, by which of their values are better.
_SMALLER = {"loss", "error", "mae", "mse", "rmse", "perplexity", "wer", "cer", "nll"}
_GREATER = {"accuracy", "acc", "precision", "recall", "f1", "auc", "top", "iou", "dice", "bleu", "score", "r2"}


class Monitored(Callback):
    """Watches one number of each epoch.

    Parameters
    ----------
    monitor : str
        The name of a metric in the results of evaluation, or "train_loss", the mean training loss of the epoch.
    mode : {"auto", "min", "max"}
        Whether smaller or greater is better; "auto" decides by the name.
    min_delta : float
        The least change that counts as an improvement, at least 0.

    Attributes
    ----------
    best : float or None
        The best number so far; None before the first.

    Raises
    ------
    InvalidValueError
        If a setting is out of range, or the mode cannot be decided by the name.
    """

    def __init__(self, monitor: str, mode: str, min_delta: float) -> None:
        owner = type(self).__name__
        if mode not in ("auto", "min", "max"):
            raise InvalidValueError(f"{owner}: mode must be 'auto', 'min' or 'max', got {mode!r}")
        if not 0 <= min_delta < math.inf:
            raise InvalidValueError(f"{owner}: min_delta must be at least 0 and finite, got {min_delta!r}")
        self.monitor = monitor
        self.mode = _mode_of(owner, monitor) if mode == "auto" else mode
        self.min_delta = min_delta
        self.best: float | None = None
        self._evaluated = False

    def on_eval_end(self, run: Run) -> None:
        """Take note that there are new results."""
        self._evaluated = True

    def newest(self, run: Run) -> float | None:
        """The number of the epoch that ends; None if it was not evaluated.

        Raises
        ------
        InvalidValueError
            If the run never evaluates.
        NameLookupError
            If there is no such metric.
        """
        owner = type(self).__name__
        if self.monitor == TRAIN_LOSS:
            return train_loss(run)
        if not self._evaluated:
            if run.valid_dataset is None:
                raise InvalidValueError(
                    f"{owner}: monitor={self.monitor!r} needs evaluation, got a run without validation data; "
                    f"pass it, or monitor={TRAIN_LOSS!r}"
                )
            return None
        self._evaluated = False
        if self.monitor not in run.metrics:
            raise NameLookupError(
                f"{owner}: monitor must be a metric of the model or {TRAIN_LOSS!r}, got {self.monitor!r}; known are "
                f"{listed(sorted(run.metrics), 12) or 'none'}"
            )
        return float(run.metrics[self.monitor])

    def improves(self, value: float, best: float | None) -> bool:
        """Whether a number is better than another one by more than `min_delta`; NaN never is."""
        if best is None:
            return not math.isnan(value)
        return value + self.min_delta < best if self.mode == "min" else value - self.min_delta > best

    def state_dict(self) -> dict[str, Any]:
        """The best number so far."""
        return {"best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.best = state["best"]


def _mode_of(owner: str, monitor: str) -> str:
    """The mode that the name of a metric says."""
    words = set(re.findall(r"[a-z]+\d*|\d+", monitor.lower())) | set(re.findall(r"[a-z]+", monitor.lower()))
    smaller, greater = bool(words & _SMALLER), bool(words & _GREATER)
    if smaller == greater:
        raise InvalidValueError(
            f"{owner}: mode='auto' decides by the name of a metric, got monitor={monitor!r}; pass mode='min' "
            "or mode='max'"
        )
    return "min" if smaller else "max"
