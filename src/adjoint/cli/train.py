"""``adjoint train``: a progress bar, a table, and optionally a JSON file and a plot."""

import json
import time
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from adjoint.cli.fit import LEARNING_RATES, Epoch, Report, Run, Settings, fit, make_trainer
from adjoint.cli.options import INTERRUPTED, Name, WritablePath, write_text
from adjoint.cli.plotting import check_plotting, plot_training
from adjoint.data import fashion_mnist

__all__ = ["command"]

#: Seconds between updates of the progress bar, because drawing slows down training.
_REDRAW = 0.1

#: Number of steps over which the displayed loss is averaged.
_WINDOW = 50

_RATES = ", ".join(f"{rate} for {name}" for name, rate in LEARNING_RATES.items())


@click.command("train")
@click.argument("dataset", metavar="DATASET", type=Name("dataset", ["fashion-mnist"]))
@click.option("--model", type=Name("model", ["mlp"]), default="mlp", show_default=True, help="Model to train.")
@click.option("--epochs", type=click.IntRange(1), default=5, show_default=True, help="Passes over the data.")
@click.option("--batch-size", type=click.IntRange(1, 60000), default=64, show_default=True, help="Batch size.")
@click.option("--optimizer", type=Name("optimizer", LEARNING_RATES), default="adam", show_default=True)
@click.option("--lr", type=click.FloatRange(0), help=f"Learning rate.  [default: {_RATES}]")
@click.option("--momentum", type=click.FloatRange(0), help="Momentum of sgd.  [default: 0.9]")
@click.option(
    "--schedule", type=Name("schedule", ["linear", "constant"]), default="linear", show_default=True,
    help="Whether the learning rate decays to 0 over the run.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of parameters and data order.")
@click.option("--threads", type=click.IntRange(1), help="Number of threads.  [default: one per core]")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N steps.")
@click.option("--check-finite", is_flag=True, help="Stop at NaN or infinity in the data or the loss.")
@click.option("--save", type=WritablePath(), help="Save the trainer after each epoch and at the end of the run.")
@click.option(
    "--resume", type=click.Path(path_type=Path), metavar="FILE",
    help="Continue the run with the same options that FILE was saved from.",
)  # fmt: skip
@click.option("--json", "json_file", type=WritablePath(), help="Write the results as JSON.")
@click.option("--plot", "plot_file", type=WritablePath(), help="Draw loss and accuracy (extra: plot).")
def command(dataset: str, json_file: Path | None, plot_file: Path | None, **options: object) -> int:
    """Train a model on DATASET, which is fashion-mnist, and print its test accuracy.

    After Ctrl-C, the results so far are still evaluated and written, and the trainer is saved.
    """
    settings = Settings(dataset=dataset, **options)  # type: ignore[arg-type]
    settings.make_optimizer()
    if plot_file is not None:
        check_plotting(plot_file)
    screen = Console(stderr=True)
    data = fashion_mnist()
    run = Run()
    with screen.status("compiling"):
        trainer = make_trainer(settings, run)
    with _Bar(screen, settings.epochs) as bar:
        report = fit(settings, data, trainer, run, bar.watch)
    Console().print(_table(report))
    if json_file is not None:
        write_text(json_file, json.dumps(report.as_dict(), indent=2) + "\n")
    if plot_file is not None:
        plot_training(plot_file, run.losses, [(e.steps - run.before, e.test_accuracy) for e in run.epochs])
    return INTERRUPTED if report.interrupted else 0


class _Bar:
    """A progress bar on a terminal, and a line after each epoch on any output.

    Parameters
    ----------
    console : rich.console.Console
        The console to draw on.
    epochs : int
        Total number of epochs.
    """

    def __init__(self, console: Console, epochs: int) -> None:
        self._console = console
        self._epochs = epochs
        self._told = 0
        self._drawn = 0.0
        # Refresh it explicitly, because rich's own refresh thread would compete with the threads of the step.
        self._progress = Progress(
            TextColumn("epoch {task.fields[epoch]}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}  accuracy {task.fields[accuracy]}  {task.fields[speed]} steps/s"),
            TimeRemainingColumn(), console=console, auto_refresh=False, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=None, epoch=f"1/{epochs}", loss="-", accuracy="-", speed="-")

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._progress.stop()

    def watch(self, run: Run, total: int) -> None:
        """Update the progress bar if the last update is old enough; print a line if an epoch has ended."""
        if len(run.epochs) > self._told:
            self._told = len(run.epochs)
            self._console.print(_line(run.epochs[-1], self._epochs), highlight=False)
        elif (now := time.perf_counter()) - self._drawn < _REDRAW:
            return
        else:
            self._drawn = now
        window = run.losses[-_WINDOW:]
        self._progress.update(
            self._task, completed=run.steps, total=total, loss=f"{sum(window) / len(window):.4f}",
            epoch=f"{run.epoch}/{self._epochs}", speed=f"{run.steps_per_second:.0f}",
            accuracy=f"{run.epochs[-1].test_accuracy:.2%}" if run.epochs else "-",
        )  # fmt: skip
        self._progress.refresh()


def _line(epoch: Epoch, epochs: int) -> str:
    return f"epoch {epoch.epoch}/{epochs}  loss {epoch.loss:.4f}  test accuracy {epoch.test_accuracy:.2%}"


def _table(report: Report) -> Table:
    """The final table: accuracy and speed."""
    table = Table(show_header=False, title="interrupted" if report.interrupted else None)
    table.add_column()
    table.add_column(justify="right")
    rows = {
        "test accuracy": f"[bold]{report.test_accuracy:.2%}",
        "final loss": repr(report.final_loss),
        "steps": f"{report.steps}",
        "training": f"{report.train_seconds:.2f} s",
        "compilation": f"{report.compile_seconds:.2f} s",
        "speed": f"{report.steps_per_second:.0f} steps/s, {report.steps_per_second * report.batch_size:.0f} images/s",
        "threads": f"{report.threads}",
        "seed": f"{report.seed}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
