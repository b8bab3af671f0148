"""``adjoint profile``: where the time of a training step goes, kernel by kernel."""

from typing import cast

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from adjoint.cli.builtin import OPTIMIZERS, load_model, training_module
from adjoint.cli.options import Name
from adjoint.compiler import compile
from adjoint.ir import TensorType, Value
from adjoint.runtime.executable import Entry
from adjoint.runtime.report import KernelTime

__all__ = ["command"]


@click.command("profile")
@click.argument("model")
@click.option("--batch-size", type=click.IntRange(1), help="Rows of a built-in model's batch.")
@click.option("--optimizer", type=Name("optimizer", OPTIMIZERS), default="sgd", show_default=True)
@click.option("--runs", type=click.IntRange(1), default=50, show_default=True, help="Runs to take the median of.")
def command(model: str, batch_size: int | None, optimizer: str, runs: int) -> None:
    """Time each kernel of MODEL's training step, on one thread and random data.

    MODEL is mlp, linreg, or a file of graph text. GFLOP/s and GB/s count each operation and each byte once.
    """
    module = training_module(model, load_model(model, batch_size), OPTIMIZERS[optimizer])
    entry = compile(module, entries=("step",))["step"]
    rng = np.random.default_rng(0)
    arrays = {value.label: _random(value, rng) for value in module["step"].params}
    donate = cast("tuple[tuple[str, int], ...]", module["step"].attrs.get("donate", ()))
    resident = {name: arrays.pop(name) for name, _ in donate}
    rows = entry.profile(*arrays.values(), resident=resident, runs=runs)
    Console().print(_table(entry, rows))


def _random(value: Value, rng: np.random.Generator) -> np.ndarray:
    """Data for a parameter: small floats, and 0 for integers, which is a class or an index everywhere."""
    type_: TensorType = value.type
    if type_.dtype.kind in "iub":
        return np.zeros(type_.shape, type_.dtype)
    return np.asarray(rng.uniform(0.0, 0.1, type_.shape)).astype(type_.dtype)


def _table(entry: Entry, rows: list[KernelTime]) -> Table:
    total = sum(row.nanoseconds for row in rows)
    flops, moved = (sum(getattr(row.kernel, field) for row in rows) for field in ("flops", "bytes"))
    table = Table(show_footer=True)
    table.add_column("kernel", "all", overflow="fold")
    table.add_column("µs", f"{total / 1e3:.1f}", justify="right")
    table.add_column("share", justify="right")
    table.add_column("GFLOP/s", f"{flops / total:.1f}" if total else "-", justify="right")
    table.add_column("GB/s", f"{moved / total:.1f}" if total else "-", justify="right")
    table.add_column("computes", f"arena {entry.memory.arena / 1024:.0f} KB", overflow="fold")
    for row in sorted(rows, key=lambda row: -row.nanoseconds):
        table.add_row(
            row.kernel.name,
            f"{row.nanoseconds / 1e3:.1f}",
            f"{row.nanoseconds / total:.1%}" if total else "-",
            f"{row.gflops:.1f}",
            f"{row.gbytes:.1f}",
            ", ".join(value.removeprefix("%") for value in row.kernel.values),
        )
    return table
