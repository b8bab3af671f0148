"""`Report`: the callback that collects what a report shows, and writes it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from adjoint.errors import InvalidValueError, warn
from adjoint.training.callbacks.base import Callback, Run
from adjoint.training.callbacks.reading import numbers, train_loss
from adjoint.training.model.batches import as_tuple, batches_of
from adjoint.training.report.page import report_text
from adjoint.training.report.predictions import confusion_of, predictions_of
from adjoint.training.report.record import Epoch, Record, machine

__all__ = ["Report"]

T = TypeVar("T")

#: The most learning rates that are kept; of more, every second one is dropped.
_RATES = 2000


class Report(Callback):
    """Writes a page about the run when it ends, also if it ends with an error or Ctrl-C.

    It is a single HTML file without scripts: curves of the loss, the metrics and the learning rate, a table of the
    epochs, of a classifier a confusion matrix and pictures of validation rows with their predictions, the kernels of
    the compiled step, the configuration, the machine and the
    network.

    Training itself only keeps numbers. Predictions and the profile are made at the end, in some seconds, and not after
    an exception.

    Parameters
    ----------
    path : str or path
        The file, such as ``report.html``; its folder is made if needed.
    title : str, optional
        The title of the page; default: the class of the network.
    class_names : sequence of str, optional
        The names of the classes; default: ``classes`` of the validation dataset if it has them, else numbers.
    rows : int, default 2000
        The most validation rows that are predicted; 0 leaves predictions out.
    samples : int, default 24
        The number of pictures.
    profile : bool, default True
        Whether to measure the kernels of the step.

    Raises
    ------
    InvalidValueError
        When training begins, if the file cannot be written.
    """

    seconds = 0.25  # between looks at the learning rate

    def __init__(
        self,
        path: str | os.PathLike[str],
        title: str | None = None,
        class_names: Sequence[str] | None = None,
        rows: int = 2000,
        samples: int = 24,
        profile: bool = True,
    ) -> None:
        self.path = Path(path)
        self.title = title
        self.class_names = class_names
        self.rows = rows
        self.samples = samples
        self.profile = profile
        self._run: Run | None = None
        self._losses = np.zeros(0, np.float32)
        self._epochs: list[Epoch] = []
        self._rates: list[tuple[int, float]] = []
        self._earlier = 0.0
        self._evaluated = False

    def on_train_begin(self, run: Run) -> None:
        """Begin anew, unless the run is resumed, and make sure that the file can be written."""
        self._run = None  # until the file is known to be writable
        self._evaluated = False
        if not run.resumed and run.step == 0:
            self._losses, self._epochs, self._rates, self._earlier = np.zeros(0, np.float32), [], [], 0.0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._new().open("w", encoding="utf-8"):
                pass
            self._new().unlink()
        except OSError as error:
            raise InvalidValueError(
                f"Report: {self.path} cannot be written ({error.strerror}); choose another file"
            ) from error
        self._run = run

    def on_train_step_end(self, run: Run) -> None:
        """Take note of the learning rate."""
        rate, rates = run.learning_rate, self._rates
        if rate is None or (rates and rates[-1][0] == run.step):
            return
        if len(rates) > 1 and rates[-1][1] == rates[-2][1] == rate:
            rates.pop()  # two points are enough of a constant rate
        rates.append((run.step, rate))
        if len(rates) > _RATES:
            del rates[1::2]

    def on_eval_end(self, run: Run) -> None:
        """Take note that there are new results."""
        self._evaluated = True

    def on_train_epoch_end(self, run: Run) -> None:
        """Take note of the losses and the results."""
        self._losses = self._with_losses(run)
        self.on_train_step_end(run)
        metrics = numbers(run.metrics) if self._evaluated else {}
        self._evaluated = False
        seconds = self._earlier + run.train_seconds
        self._epochs.append(Epoch(run.epoch, run.step, train_loss(run), metrics, run.learning_rate, seconds))

    def on_train_end(self, run: Run) -> None:
        """Write the page."""
        reason = run.stop_reason
        ended = f"stopped in epoch {run.epoch} of {run.epochs}" if run.stopped else f"finished {run.epochs} epochs"
        record = self._record(run, f"{ended}{reason and f': {reason}'}")
        self._predict(run, record)
        self._write(record)

    def on_exception(self, run: Run, error: BaseException) -> None:
        """Write the page, without what would take long."""
        if self._run is None:
            return
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        where = f"step {run.step_in_epoch} of epoch {run.epoch}"
        try:
            self._write(self._record(run, f"ended after {where} with {words}"))
        except Exception as failure:  # which must not hide the error
            warn(f"Report: the page could not be made ({type(failure).__name__}: {failure})")

    def _record(self, run: Run, outcome: str) -> Record:
        network = run.network
        return Record(
            title=self.title or ("Training" if network is None else type(network).__name__),
            outcome=outcome,
            losses=self._with_losses(run),
            epochs=self._epochs,
            rates=self._rates,
            steps=run.step,
            seconds=self._earlier + run.train_seconds,
            compile_seconds=run.compile_seconds,
            batch_size=run.batch_size,
            parameters=0 if network is None else sum(p.numel() for p in network.parameters() if p.requires_grad),
            config=run.config,
            machine=machine(),
            network="" if network is None else str(network),
            notes=[],
        )

    def _predict(self, run: Run, record: Record) -> None:
        """Add what the trained network and its step are like."""
        names = self.class_names or getattr(run.valid_dataset, "classes", None)
        for metric in run.metrics.values():
            record.confusion = record.confusion or confusion_of(metric, names)
        predict = getattr(run.model, "predict", None)
        if predict is not None and run.valid_dataset is not None and self.rows > 0:
            record.predictions = _noted(
                record,
                "Predictions",
                lambda: predictions_of(predict, run.valid_dataset, names, self.rows, self.samples),
            )
        measure = getattr(run.model, "profile", None)
        if self.profile and measure is not None:
            record.profile = _noted(
                record, "The profile", lambda: measure(*as_tuple(next(batches_of(run.dataset, 0, 0))))
            )

    def _write(self, record: Record) -> None:
        """Write the page; if there is no room, the run is not to be lost for that."""
        text, new = report_text(record), self._new()
        try:
            new.write_text(text, "utf-8")
            os.replace(new, self.path)
        except OSError as error:
            warn(f"Report: {self.path} cannot be written ({error.strerror}); make room")

    def _new(self) -> Path:
        """The name under which the page is written before it is renamed."""
        return self.path.with_name(f"{self.path.name}.new")

    def _with_losses(self, run: Run) -> np.ndarray:
        """The losses of all steps, with those of this epoch that are known."""
        known, first = np.asarray(run.losses, np.float32), run.step - run.step_in_epoch
        losses = np.full(max(len(self._losses), first + len(known)), np.nan, np.float32)
        losses[: len(self._losses)] = self._losses
        here = losses[first : first + len(known)]
        here[~np.isnan(known)] = known[~np.isnan(known)]
        return losses

    def state_dict(self) -> dict[str, Any]:
        """The epochs and the learning rates."""
        seconds = self._earlier + (0.0 if self._run is None else self._run.train_seconds)
        return {
            "epochs": [asdict(each) for each in self._epochs],
            "rates": [list(each) for each in self._rates],
            "seconds": seconds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self._epochs = [Epoch(**each) for each in state["epochs"]]
        self._rates = [(int(step), float(rate)) for step, rate in state["rates"]]
        self._earlier = float(state["seconds"])

    def state_arrays(self) -> dict[str, np.ndarray]:
        """The losses of all steps."""
        return {"losses": self._losses if self._run is None else self._with_losses(self._run)}

    def load_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from what `state_arrays` returned."""
        self._losses = np.asarray(arrays["losses"], np.float32)


def _noted(record: Record, what: str, make: Callable[[], T]) -> T | None:
    """What a part of the page is made of; if it cannot be made, a note says why, and the page does without it."""
    try:
        return make()
    except Exception as error:  # a network can do anything with rows, and a page with less is better than none
        record.notes.append(f"{what} could not be made: {type(error).__name__}: {error}")
        return None
