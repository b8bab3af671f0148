"""The base class of callbacks, and what they find in a run of training."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from adjoint.modules import Module

__all__ = ["Callback", "Run"]


class Run(Protocol):
    """What a callback reads and asks for while a model trains or evaluates.

    It is an interface: what `Model` passes to callbacks has these attributes and methods.
    """

    @property
    def model(self) -> Any:
        """The `Model` that trains."""

    @property
    def network(self) -> Module:
        """Its network."""

    @property
    def optimizer(self) -> Any:
        """Its optimizer; may be None while evaluating."""

    @property
    def epoch(self) -> int:
        """The epoch in progress, counted from 1."""

    @property
    def epochs(self) -> int:
        """The number of epochs when the run will be complete, with those before a resume."""

    @property
    def step(self) -> int:
        """The number of steps since the first epoch, with those before a resume."""

    @property
    def step_in_epoch(self) -> int:
        """The number of steps done in this epoch."""

    @property
    def steps_per_epoch(self) -> int | None:
        """The number of steps of an epoch; None if the dataset does not know."""

    @property
    def batch_size(self) -> int | None:
        """The number of rows of a batch; None if the dataset does not know."""

    @property
    def loss(self) -> float:
        """The loss of the newest step for which it is known without waiting, perhaps one step late; NaN without one."""

    @property
    def losses(self) -> np.ndarray:
        """[steps] The losses of this epoch that are known, read-only; NaN for steps before a resume.

        Element i belongs to step i of the epoch, counted from 0. The newest step may be missing.
        """

    @property
    def metrics(self) -> dict[str, float]:
        """The newest results of evaluation by the name of the metric, with "loss" if it was evaluated."""

    @property
    def train_seconds(self) -> float:
        """The seconds of training in this process, without compilation, evaluation and callbacks."""

    @property
    def compile_seconds(self) -> float:
        """The seconds of compilation in this process."""

    @property
    def steps_per_second(self) -> float:
        """The rate of training at present; 0 if none is known."""

    @property
    def learning_rate(self) -> float | None:
        """The learning rate of the first group of parameters; None without an optimizer."""

    @property
    def stopped(self) -> bool:
        """Whether a stop was asked for."""

    @property
    def stop_reason(self) -> str:
        """What `stop` was given."""

    @property
    def resumed(self) -> bool:
        """Whether the run continues a checkpoint."""

    @property
    def callbacks(self) -> Sequence["Callback"]:
        """The callbacks of the run."""

    @property
    def dataset(self) -> Any:
        """The training dataset."""

    @property
    def valid_dataset(self) -> Any:
        """The dataset of evaluation; None without one."""

    @property
    def config(self) -> dict[str, Any]:
        """What the user calls the configuration, which can be written as JSON."""

    def stop(self, reason: str = "") -> None:
        """Ask for the end of the run after the step in progress."""

    def cursor(self) -> dict[str, Any]:
        """Where the run is, for a checkpoint: epoch, step and the state of the dataset; can be written as JSON."""


class Callback:
    """What a run of training calls at its events. A subclass defines the methods of those that it needs.

    ::

        class Announce(Callback):
            def on_train_epoch_end(self, run):
                print(f"epoch {run.epoch}: {run.metrics}")

    Evaluation inside a run of training takes place at the end of an epoch: `on_eval_begin`, `on_eval_step_end` and
    `on_eval_end` are called before `on_train_epoch_end`, which finds its results in `run.metrics`.

    An exception in a callback ends the run, after the others have been told in `on_exception`.

    Attributes
    ----------
    every : int or None, default None
        The number of steps between calls of `on_train_step_end`, counted over the whole run: it is called when
        ``run.step`` is a multiple.
    seconds : float or None, default None
        The number of seconds between its calls. It is called at the first pause after that time; native code pauses
        about every 50 ms. With neither, `on_train_step_end` is never called, and native code need not pause for it.
    """

    every: int | None = None
    seconds: float | None = None

    def on_train_begin(self, run: Run) -> None:
        """Training begins, or continues a checkpoint, whose state has been loaded."""

    def on_train_epoch_begin(self, run: Run) -> None:
        """An epoch begins, or continues in its middle."""

    def on_train_step_end(self, run: Run) -> None:
        """A step is done, and `every` or `seconds` asks for a call."""

    def on_train_epoch_end(self, run: Run) -> None:
        """An epoch is done, and evaluated if the run evaluates it."""

    def on_train_end(self, run: Run) -> None:
        """Training is done, also after `run.stop()`, but not after an exception."""

    def on_eval_begin(self, run: Run) -> None:
        """Evaluation begins."""

    def on_eval_step_end(self, run: Run) -> None:
        """A batch has been evaluated."""

    def on_eval_end(self, run: Run) -> None:
        """Evaluation is done; its results are in `run.metrics`."""

    def on_exception(self, run: Run, error: BaseException) -> None:
        """The run ends with an exception, which is raised again afterwards: an error or Ctrl-C."""

    def state_dict(self) -> dict[str, Any]:
        """What must survive a resume, which can be written as JSON. Checkpoints save it by class name and place."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned. It is called before `on_train_begin`."""

    def state_arrays(self) -> dict[str, np.ndarray]:
        """Arrays that must survive a resume, such as averages of weights; copies, or arrays that are not changed."""
        return {}

    def load_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from what `state_arrays` returned. It is called after `load_state_dict`."""
