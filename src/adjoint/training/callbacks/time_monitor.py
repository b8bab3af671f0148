"""`TimeMonitor`: prints how long epochs take."""

import time

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks.base import Callback, Run

__all__ = ["TimeMonitor"]


class TimeMonitor(Callback):
    """Prints the time of each epoch and of its steps: ``epoch time: 412.1 ms, per step time: 0.439 ms``.

    It is the time on the clock, from the beginning of the epoch to its end, with evaluation.

    Parameters
    ----------
    data_size : int, optional
        The number of steps to divide by; default: the number of steps of the epoch, since a resume.

    Raises
    ------
    InvalidValueError
        If it is not a positive int.
    """

    def __init__(self, data_size: int | None = None) -> None:
        if data_size is not None and (type(data_size) is not int or data_size < 1):
            raise InvalidValueError(f"TimeMonitor: data_size must be an int above 0, got {data_size!r}")
        self.data_size = data_size
        self._begin, self._first = 0.0, 0

    def on_train_epoch_begin(self, run: Run) -> None:
        """Start the clock."""
        self._begin, self._first = time.perf_counter(), run.step_in_epoch

    def on_train_epoch_end(self, run: Run) -> None:
        """Print the time."""
        milliseconds = 1e3 * (time.perf_counter() - self._begin)
        steps = self.data_size or max(run.step_in_epoch - self._first, 1)
        print(f"epoch time: {milliseconds:.1f} ms, per step time: {milliseconds / steps:.3f} ms", flush=True)
