"""Callbacks that are written for MindSpore, called by a run of adjoint."""

from types import SimpleNamespace
from typing import Any

from adjoint.training import callbacks as native

__all__ = ["Callback", "RunContext", "as_native"]

#: The methods of a callback, with those of the first releases.
_STEPS = ("on_train_step_end", "step_end")


class RunContext:
    """What a callback is told about a run.

    Parameters
    ----------
    run : Run
        The run.
    """

    def __init__(self, run: Any) -> None:
        self._run = run

    def original_args(self) -> Any:
        """The facts: ``cur_epoch_num``, ``cur_step_num``, ``net_outputs`` and so on."""
        run = self._run
        return SimpleNamespace(
            cur_epoch_num=run.epoch,
            epoch_num=run.epochs,
            cur_step_num=run.step,
            batch_num=run.steps_per_epoch,
            net_outputs=run.loss,
            network=run.network,
            train_network=run.model.train_step,
            loss_fn=run.model.loss_fn,
            optimizer=run.optimizer,
            train_dataset=run.dataset,
            valid_dataset=run.valid_dataset,
            list_callback=run.callbacks,
            metrics=run.metrics,
            eval_results=run.metrics,
        )

    def request_stop(self) -> None:
        """End the run after this step."""
        self._run.stop("a callback asked for it")

    def get_stop_requested(self) -> bool:
        """Whether the run is to end."""
        return bool(self._run.stopped)


class Callback:
    """Base class of callbacks whose methods take a `RunContext`; a subclass defines those that it needs.

    ``on_train_begin``, ``on_train_epoch_begin``, ``on_train_step_end``, ``on_train_epoch_end``, ``on_train_end``,
    ``on_eval_begin``, ``on_eval_end``, or ``begin``, ``epoch_begin``, ``step_end``, ``epoch_end``, ``end``.
    """

    def __enter__(self) -> "Callback":
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing."""


class _Adapted(native.Callback):
    """A callback of adjoint that calls one of MindSpore."""

    def __init__(self, theirs: Callback) -> None:
        super().__init__()
        self.theirs = theirs
        if any(hasattr(theirs, name) for name in _STEPS):
            self.every = 1

    def _tell(self, run: Any, *names: str) -> None:
        for name in names:
            method = getattr(self.theirs, name, None)
            if method is not None:
                method(RunContext(run))

    def on_train_begin(self, run: Any) -> None:
        """Tell it."""
        self._tell(run, "begin", "on_train_begin")

    def on_train_epoch_begin(self, run: Any) -> None:
        """Tell it."""
        self._tell(run, "epoch_begin", "on_train_epoch_begin")

    def on_train_step_end(self, run: Any) -> None:
        """Tell it."""
        self._tell(run, *_STEPS)

    def on_train_epoch_end(self, run: Any) -> None:
        """Tell it."""
        self._tell(run, "epoch_end", "on_train_epoch_end")

    def on_train_end(self, run: Any) -> None:
        """Tell it."""
        self._tell(run, "end", "on_train_end")

    def on_eval_begin(self, run: Any) -> None:
        """Tell it."""
        self._tell(run, "on_eval_begin")

    def on_eval_end(self, run: Any) -> None:
        """Tell it."""
        self._tell(run, "on_eval_end")


def as_native(given: Any) -> list[Any]:
    """Callbacks as those of adjoint."""
    several = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    return [_Adapted(one) if isinstance(one, Callback) else one for one in several]
