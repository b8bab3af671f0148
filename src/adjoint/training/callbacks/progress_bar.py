"""`ProgressBar`: the progress of training in a terminal."""

import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from adjoint.errors import InvalidValueError, plural
from adjoint.training.callbacks.base import Callback, Run
from adjoint.training.callbacks.reading import numbers, train_loss

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressBar"]


#: The width of the bar.
_BAR = 20


class ProgressBar(Callback):
    """Shows a bar while an epoch runs, and writes a line of text when it is done.

    The bar has the loss, the steps and rows per second, the time until the end of the last epoch, and the memory of the
    process, as far as there is room. The loss is that of the newest step for which it is known without waiting. Where
    the output is no terminal, such as a file, there are only the lines::

        epoch 1/3: loss 1.3200, valid accuracy 0.7540, 563 steps in 0.4 s, 1,814 steps/s, 116,110 rows/s

    Parameters
    ----------
    seconds : float, default 0.1
        The seconds between updates.
    file : text file, optional
        Where to write; default: the standard output.

    Raises
    ------
    InvalidValueError
        If `seconds` is not positive.
    """

    def __init__(self, seconds: float = 0.1, file: TextIO | None = None) -> None:
        if not seconds > 0:
            raise InvalidValueError(f"ProgressBar: seconds must be above 0, got {seconds!r}")
        self.seconds = seconds
        self._file = file
        self._bar: Progress | None = None
        self._task: Any = None
        self._begin, self._first = 0.0, 0
        self._shows_bars = False
        self._evaluated = False
        self._loss = ""

    def on_train_begin(self, run: Run) -> None:
        """Find out whether there is a terminal."""
        self._evaluated = False
        file = self._file or sys.stdout
        self._shows_bars = file.isatty() and os.environ.get("TERM") != "dumb"

    def on_train_epoch_begin(self, run: Run) -> None:
        """Begin a bar."""
        self._begin, self._first = time.perf_counter(), run.step_in_epoch
        self._loss = ""
        if self._shows_bars:
            self._bar = _bar(self._file or sys.stdout)
            name = f"epoch {run.epoch}/{run.epochs}"
            self._task = self._bar.add_task(name, total=run.steps_per_epoch, completed=run.step_in_epoch, state="")
            self._bar.start()

    def on_train_step_end(self, run: Run) -> None:
        """Move the bar."""
        if self._bar is not None:
            if not math.isnan(run.loss):
                self._loss = f"loss {run.loss:.4f}"
            steps, _, rows = _rates(run).partition(", ")
            self._show(run, self._loss, steps, _time_left(run), rows, _memory())

    def on_eval_begin(self, run: Run) -> None:
        """Say so."""
        self._show(run, self._loss, "evaluating")

    def on_eval_end(self, run: Run) -> None:
        """Take note that there are new results."""
        self._evaluated = True

    def on_train_epoch_end(self, run: Run) -> None:
        """Replace the bar by the line with the results of the epoch."""
        self._close()
        parts = [
            _results(run, self._evaluated),
            f"{plural(run.step_in_epoch - self._first, 'step')} in {time.perf_counter() - self._begin:.1f} s",
            _rates(run),
        ]
        self._evaluated = False
        line = f"epoch {run.epoch}/{run.epochs}: {', '.join(filter(None, parts))}"
        print(line, file=self._file or sys.stdout, flush=True)

    def on_train_end(self, run: Run) -> None:
        """Leave the terminal as it was."""
        self._close()

    def on_exception(self, run: Run, error: BaseException) -> None:
        """Leave the terminal as it was."""
        self._close()

    def _show(self, run: Run, *parts: str) -> None:
        """Update the bar with as many of these as there is room for."""
        if self._bar is None:
            return
        counted = 2 * len(str(run.steps_per_epoch or run.step_in_epoch)) + 1
        room = self._bar.console.width - len(f"epoch {run.epoch}/{run.epochs}") - _BAR - counted - 4
        shown = ""
        for part in filter(None, parts):
            longer = f"{shown}, {part}" if shown else part
            if len(longer) > room:
                break
            shown = longer
        self._bar.update(self._task, completed=run.step_in_epoch, state=shown, refresh=True)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = None


def _bar(file: TextIO) -> "Progress":
    """A bar that is drawn only when it is updated, so that no thread competes with the compiled step."""
    # Imported here because it is slow to load, and most runs do not show a bar.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=_BAR),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        console=Console(file=file, force_terminal=True),
        auto_refresh=False,
        transient=True,
    )


def _results(run: Run, evaluated: bool) -> str:
    """The training loss of an epoch, and its metrics."""
    found = {"loss": train_loss(run)}
    if evaluated:
        found |= {f"valid {name}": value for name, value in numbers(run.metrics).items()}
    return ", ".join(f"{name} {value:.4f}" for name, value in found.items())


def _rates(run: Run) -> str:
    """Steps and rows per second; "" if they are not known."""
    rate = run.steps_per_second
    if not rate > 0:
        return ""
    rows = "" if run.batch_size is None else f", {_amount(rate * run.batch_size)} rows/s"
    return f"{_amount(rate)} steps/s{rows}"


def _amount(number: float) -> str:
    """A number with three digits at least."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _time_left(run: Run) -> str:
    """The time until the end of the last epoch; "" if it is not known."""
    if run.steps_per_epoch is None or not run.steps_per_second > 0:
        return ""
    steps = (run.epochs - run.epoch + 1) * run.steps_per_epoch - run.step_in_epoch
    minutes, seconds = divmod(round(max(steps, 0) / run.steps_per_second), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02} left" if hours else f"{minutes}:{seconds:02} left"


def _memory() -> str:
    """The memory of this process; "" where the operating system does not say it."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return ""
    return f"{pages * os.sysconf('SC_PAGE_SIZE') / 1e6:,.0f} MB"
