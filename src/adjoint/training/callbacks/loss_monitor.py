"""`LossMonitor`: prints losses."""

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks.base import Callback, Run
from adjoint.training.callbacks.reading import known_loss

__all__ = ["LossMonitor"]


class LossMonitor(Callback):
    """Prints the loss of every so many steps, as MindSpore's does: ``epoch: 1 step: 2, loss is 0.6931472``.

    Steps are counted in the epoch. A loss that is not known yet is printed at the next occasion.

    Parameters
    ----------
    per_print_times : int, default 1
        The number of steps, counted over the whole run, between lines; 0 prints only the last loss of each epoch.

    Raises
    ------
    InvalidValueError
        If it is negative or no int.
    """

    def __init__(self, per_print_times: int = 1) -> None:
        if type(per_print_times) is not int or per_print_times < 0:
            raise InvalidValueError(
                f"LossMonitor: per_print_times must be an int of at least 0, got {per_print_times!r}"
            )
        self.every = per_print_times or None
        self._due: list[int] = []

    def on_train_epoch_begin(self, run: Run) -> None:
        """Forget steps of the last epoch."""
        self._due = []

    def on_train_step_end(self, run: Run) -> None:
        """Print the losses that are known by now."""
        self._due.append(run.step_in_epoch)
        self._print(run)

    def on_train_epoch_end(self, run: Run) -> None:
        """Print what is left."""
        if self.every is None:
            self._due.append(run.step_in_epoch)
        self._print(run)

    def on_train_end(self, run: Run) -> None:
        """Print what is left of an epoch that was stopped."""
        self._print(run)

    def _print(self, run: Run) -> None:
        while self._due and (loss := known_loss(run, self._due[0])) is not None:
            print(f"epoch: {run.epoch} step: {self._due.pop(0)}, loss is {loss:.7g}", flush=True)
