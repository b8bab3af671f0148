"""``adjoint eval``: the metrics of a trained model."""

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from adjoint.cli.experiment import trained_experiment
from adjoint.cli.options import WritablePath, write_text

__all__ = ["command"]


@click.command("eval")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("dataset", required=False)
@click.option("--json", "json_file", type=WritablePath(), help="Write the metrics as JSON.")
def command(checkpoint: Path, dataset: str | None, json_file: Path | None) -> int:
    """Evaluate CHECKPOINT, a file of ``adjoint train`` or a folder of them, on the test data of DATASET.

    Without DATASET, it is the one that the model was trained on.
    """
    experiment = trained_experiment(checkpoint, dataset)
    metrics = {name: float(value) for name, value in experiment.model.evaluate(experiment.data.test).items()}
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in metrics.items():
        table.add_row(f"test {name}", f"{value:.2%}" if name == "accuracy" else f"{value:.4f}")
    Console().print(table)
    if json_file is not None:
        write_text(json_file, json.dumps(metrics, indent=2) + "\n")
    return 0
