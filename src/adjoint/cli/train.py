"""``adjoint train``: a run as options and a configuration describe it, its table, and optionally files about it."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from adjoint.cli.configuration import configured
from adjoint.cli.experiment import LEARNING_RATES, NETWORKS, SCHEDULES, Experiment, made_experiment
from adjoint.cli.options import INTERRUPTED, Name, WritablePath, write_text
from adjoint.cli.plotting import check_plotting, plot_training
from adjoint.data import DATASETS
from adjoint.kernel.target import available_cores
from adjoint.lazy_dataclass import dataclass
from adjoint.training.callbacks import (
    Callback,
    CheckpointConfig,
    JSONLinesLogger,
    ModelCheckpoint,
    NaNGuard,
    ProgressBar,
    TerminateOnBudget,
)
from adjoint.training.model import Run
from adjoint.training.report import Report

__all__ = ["Results", "command", "results_of"]

_RATES = ", ".join(f"{rate} for {name}" for name, rate in LEARNING_RATES.items())


@dataclass(frozen=True, slots=True)
class Results:
    """What a run reached, as written by ``--json``.

    Parameters
    ----------
    metrics : dict of str to float
        Of the test data, at the end; for images ``"accuracy"`` and ``"loss"``, for texts ``"perplexity"`` and
        ``"loss"``.
    final_loss : float or None
        Exact loss of the last step; None if there was none since the run was resumed, or it is not finite.
    train_seconds : float
        Time spent in steps, with the gathering of their batches, without compilation and evaluation.
    compile_seconds : float
        Time to obtain machine code for the step.
    steps_per_second, samples_per_second : float
        Rates of training since the run was begun or resumed.
    steps : int
        Number of completed steps, including those before the run was resumed.
    threads : int
        Number of threads.
    interrupted : bool
        Whether the run was ended by Ctrl-C.
    history : list of dict
        For each epoch: its number, the steps so far, its mean training loss, and metrics.
    config : dict
        The configuration.
    """

    metrics: dict[str, float]
    final_loss: float | None
    train_seconds: float
    compile_seconds: float
    steps_per_second: float
    samples_per_second: float
    steps: int
    threads: int
    interrupted: bool
    history: list[dict[str, float]]
    config: dict[str, Any]


class _Keep(Callback):
    """Keeps the run, for the results of an interrupted one, and what each epoch reached."""

    def __init__(self) -> None:
        self.run: Any = None
        self.history: list[dict[str, float]] = []
        self.losses: list[float] = []

    def on_train_begin(self, run: Any) -> None:
        self.run = run

    def on_train_epoch_end(self, run: Any) -> None:
        known = run.losses[~np.isnan(run.losses)]
        self.losses += known.tolist()
        mean = float(known.mean(dtype=np.float64)) if len(known) else 0.0
        self.history.append({"epoch": run.epoch, "steps": run.step, "loss": mean, **_plain(run.metrics, "test_")})

    def state_dict(self) -> dict[str, Any]:
        return {"history": self.history}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.history = list(state["history"])


def _plain(metrics: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    return {f"{prefix}{name}": float(value) for name, value in metrics.items()}


@click.command("train")
@click.argument("dataset", metavar="DATASET", required=False)
@click.option("--model", metavar="NAME", help=f"Of {', '.join(NETWORKS)}, or FILE.py[:NAME].  [default: as it fits]")
@click.option("--config", "file", type=click.Path(path_type=Path), help="A TOML file with the configuration.")
@click.option("--set", "settings", multiple=True, metavar="A.B=C", help="Change a key of the configuration.")
@click.option("--epochs", type=click.IntRange(1), help="Passes over the data.  [default: 5]")
@click.option("--batch-size", type=click.IntRange(1), help="Rows per step.  [default: 64]")
@click.option("--optimizer", type=Name("optimizer", LEARNING_RATES), help="[default: adam]")
@click.option("--lr", type=click.FloatRange(0), help=f"Learning rate.  [default: {_RATES}]")
@click.option("--momentum", type=click.FloatRange(0), help="Momentum of sgd.  [default: 0.9]")
@click.option("--schedule", type=Name("schedule", SCHEDULES), help="Of the learning rate.  [default: linear, to 0]")
@click.option("--seed", type=click.IntRange(0), help="Seed of parameters and data order.  [default: 0]")
@click.option("--threads", type=click.IntRange(1), help="Number of threads.  [default: one per core]")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N steps.")
@click.option("--check-finite", is_flag=True, help="Stop at a loss that is not finite, and say where it arose.")
@click.option("--checkpoint", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Write checkpoints there.")  # fmt: skip
@click.option("--checkpoint-every", type=click.IntRange(1), metavar="STEPS", help="[default: each epoch]")
@click.option("--resume", is_flag=True, help="Continue from the newest whole checkpoint in DIR, or begin.")
@click.option("--metrics", "metrics_file", type=WritablePath(), help="Write losses and metrics as JSON lines.")
@click.option("--report", "report_file", type=WritablePath(), help="Write a report as an HTML page.")
@click.option("--json", "json_file", type=WritablePath(), help="Write the results as JSON.")
@click.option("--plot", "plot_file", type=WritablePath(), help="Draw loss and accuracy (extra: plot).")
def command(
    dataset: str | None,
    file: Path | None,
    settings: tuple[str, ...],
    check_finite: bool,
    folder: Path | None,
    checkpoint_every: int | None,
    resume: bool,
    metrics_file: Path | None,
    report_file: Path | None,
    json_file: Path | None,
    plot_file: Path | None,
    **options: Any,
) -> int:
    """Train a model on DATASET, and print what it reaches on the test data.

    DATASET is a built-in one, an .npz file or a folder of idx files with images, or a .txt file.

    After Ctrl-C, the results so far are still evaluated and written.
    """
    if dataset is None and file is None:
        raise click.UsageError(f"train takes a dataset, {', '.join(DATASETS)} or a file; name one, or pass --config")
    if folder is None and (resume or checkpoint_every is not None):
        given = "--resume" if resume else "--checkpoint-every"
        raise click.UsageError(f"{given} is about the checkpoints of a folder; pass --checkpoint DIR as well")
    if plot_file is not None:
        check_plotting(plot_file)
    config = configured(file, settings, _options(dataset, options))
    screen = Console(stderr=True)
    with screen.status("preparing"):
        experiment = made_experiment(config)
    callbacks: list[Callback] = [ProgressBar(file=sys.stderr), keep := _Keep()]
    if config["train"]["limit"] is not None:
        callbacks.append(TerminateOnBudget(steps=config["train"]["limit"]))
    if check_finite:
        callbacks.append(NaNGuard())
    if metrics_file is not None:
        callbacks.append(JSONLinesLogger(metrics_file))
    if report_file is not None:
        callbacks.append(Report(report_file, class_names=experiment.data.classes or None))
    if folder is not None:
        steps = len(experiment.data.train) if checkpoint_every is None else checkpoint_every
        chosen = CheckpointConfig(save_checkpoint_steps=steps, exception_save=True)
        callbacks.append(ModelCheckpoint("model", folder, chosen, resume=resume))
    results = _trained(experiment, callbacks, keep)
    Console().print(_table(results))
    if json_file is not None:
        write_text(json_file, json.dumps(asdict(results), indent=2) + "\n")
    if plot_file is not None:
        reached = [(int(e["steps"]), e["test_accuracy"]) for e in keep.history if "test_accuracy" in e]
        plot_training(plot_file, keep.losses, reached)
    return INTERRUPTED if results.interrupted else 0


def _options(dataset: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as keys of the configuration."""
    return {
        "data.name": dataset,
        "data.batch_size": options["batch_size"],
        "model.name": options["model"],
        "optimizer.name": options["optimizer"],
        **{f"optimizer.{key}": options[key] for key in ("lr", "momentum", "schedule")},
        **{f"train.{key}": options[key] for key in ("epochs", "seed", "threads", "limit")},
    }


def _trained(experiment: Experiment, callbacks: list[Callback], keep: _Keep) -> Results:
    """Run it, also to Ctrl-C, and evaluate what it has reached."""
    interrupted = False
    data, train = experiment.data, experiment.config["train"]
    try:
        experiment.model.fit(train["epochs"], data.train, data.test, callbacks=callbacks, config=experiment.config)
    except KeyboardInterrupt:
        interrupted = True
    return results_of(experiment, keep.run, keep.history, interrupted)


def results_of(experiment: Experiment, run: Run, history: list[dict[str, float]], interrupted: bool) -> Results:
    """The results of a run that has ended."""
    evaluated = run.metrics and history and history[-1]["steps"] == run.step  # in this process
    metrics = run.metrics if evaluated else experiment.model.evaluate(experiment.data.test)
    return Results(
        metrics=_plain(metrics),
        final_loss=run.loss if isfinite(run.loss) else None,
        train_seconds=run.train_seconds,
        compile_seconds=run.compile_seconds,
        steps_per_second=run.steps_per_second,
        samples_per_second=run.samples_per_second,
        steps=run.step,
        threads=experiment.config["train"]["threads"] or available_cores(),
        interrupted=interrupted,
        history=history,
        config=experiment.config,
    )


def _table(results: Results) -> Table:
    """The final table: what was reached, and at what speed."""
    table = Table(show_header=False, title="interrupted" if results.interrupted else None)
    table.add_column()
    table.add_column(justify="right")
    for name, figure in results.metrics.items():
        table.add_row(f"test {name}", f"[bold]{figure:.2%}" if name == "accuracy" else f"{figure:.4f}")
    rows = {
        "final loss": repr(results.final_loss),
        "steps": f"{results.steps}",
        "training": f"{results.train_seconds:.2f} s",
        "compilation": f"{results.compile_seconds:.2f} s",
        "speed": f"{results.steps_per_second:.0f} steps/s, {results.samples_per_second:.0f} rows/s",
        "threads": f"{results.threads}",
        "seed": f"{results.config['train']['seed']}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
