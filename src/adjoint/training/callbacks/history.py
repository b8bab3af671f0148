"""`History`: the results of each epoch in lists."""

from typing import Any

from adjoint.training.callbacks.base import Callback, Run
from adjoint.training.callbacks.reading import numbers, train_loss

__all__ = ["History"]


class History(Callback):
    """Keeps the results of each epoch.

    Attributes
    ----------
    history : dict of str to list of float
        A list with one element for each epoch of `epoch`: ``"train_loss"``, the mean training loss, ``"learning_rate"``
        at its end, and metrics as ``"valid_accuracy"``. Of epochs without a number, the element is None.
    epoch : list of int
        The epochs, counted from 1.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[float | None]] = {}
        self.epoch: list[int] = []
        self._evaluated = False

    def on_train_begin(self, run: Run) -> None:
        """Begin anew, unless the run is resumed."""
        if not run.resumed and run.step == 0:
            self.history, self.epoch = {}, []

    def on_eval_end(self, run: Run) -> None:
        """Take note that there are new results."""
        self._evaluated = True

    def on_train_epoch_end(self, run: Run) -> None:
        """Add the epoch."""
        found = {"train_loss": train_loss(run)}
        if run.learning_rate is not None:
            found["learning_rate"] = run.learning_rate
        if self._evaluated:
            found |= {f"valid_{name}": value for name, value in numbers(run.metrics).items()}
        self._evaluated = False
        for name in found:
            self.history.setdefault(name, [None] * len(self.epoch))
        self.epoch.append(run.epoch)
        for name, values in self.history.items():
            values.append(found.get(name))

    def state_dict(self) -> dict[str, Any]:
        """The epochs and their results."""
        return {"epoch": list(self.epoch), "history": {name: list(values) for name, values in self.history.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.epoch = list(state["epoch"])
        self.history = {name: list(values) for name, values in state["history"].items()}
