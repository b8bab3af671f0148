"""``adjoint profile``: where the time of a training step goes, kernel by kernel."""

import json
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from adjoint.cli.builtin import BUILTIN, DEFAULT_OPTIMIZER, LOSSES, OPTIMIZERS, load_model, training_module
from adjoint.cli.files import split_name
from adjoint.cli.options import Name, WritablePath, write_text
from adjoint.compiler import CompileOptions
from adjoint.ir import IRModule
from adjoint.pages.figures import duration, micros, percent, rate, signed_micros
from adjoint.profiling.balance import StepBalance
from adjoint.profiling.balance import simulate_threads as simulate
from adjoint.profiling.page import page_text
from adjoint.profiling.step import StepProfile, profile_module
from adjoint.profiling.trace import trace_text

__all__ = ["command"]

#: Minimum width of a terminal, in columns, at which the table shows what kernels compute and the lines of its code.
_WIDE = 110


@click.command("profile")
@click.argument("model")
@click.option("--batch-size", type=click.IntRange(1), help="Batch size of a built-in model.")
@click.option("--loss", type=Name("loss", LOSSES), help="Loss of a file's backbone; a built-in model has its own.")
@click.option("--optimizer", type=Name("optimizer", OPTIMIZERS), help="Optimizer of the step; default: sgd.")
@click.option("--threads", type=click.IntRange(1), help="Number of threads; default: all cores, as in training.")
@click.option("--runs", type=click.IntRange(1), default=50, show_default=True, help="Runs to measure.")
@click.option("--after", type=click.IntRange(0), default=0, help="Training steps on the batch before measuring.")
@click.option(
    "--simulate-threads", type=click.IntRange(1), help="Estimate how so many threads would share the work; run nothing."
)
@click.option("--html", "html_file", type=WritablePath(), help="Write a page: table, roofline, graph, memory.")
@click.option("--trace", "trace_file", type=WritablePath(), help="Write a trace for ui.perfetto.dev.")
@click.option("--json", "json_file", type=WritablePath(), help="Write the results as JSON.")
def command(
    model: str, batch_size: int | None, loss: str | None, optimizer: str | None, threads: int | None, runs: int,
    after: int, simulate_threads: int | None, html_file: Path | None, trace_file: Path | None, json_file: Path | None,
) -> None:  # fmt: skip
    """Time each kernel of MODEL's training step, on random data, and compare it with the machine's peaks.

    MODEL is mlp, linreg, lenet, resnet20, gpt, or a file: graph text, or a Python file that defines an IRModule called
    module, or a function of that name that returns one; FILE.py:NAME takes another name. A step in it is used as it
    is; a backbone needs --loss.

    GFLOP/s and GB/s count each operation and each byte once; roofline is the fraction that is reached of the machine's
    limit for them. The limits are measured on first use and stored, and raised if a kernel exceeds them.

    The last table says why the sum of the kernels is not the time of a step.

    With --simulate-threads, the step is compiled for a machine with that many cores, but not run. The table shows how
    evenly threads would share each kernel, weighted by estimated times.
    """
    if simulate_threads is not None and (html_file or trace_file):
        raise click.UsageError("--html and --trace show measurements, --simulate-threads makes none; leave one out")
    loaded = load_model(model, batch_size)
    module = training_module(model, loaded, OPTIMIZERS.get(optimizer or ""), loss, "profile")
    if simulate_threads is not None:
        _simulate(module, simulate_threads, json_file)
        return
    title = _title(model, batch_size, None if module is loaded else (loss, optimizer))
    profile = profile_module(module, title, CompileOptions(threads=threads), runs, after=after)
    console = Console()
    console.print(_kernels(profile, console.width >= _WIDE))
    console.print(_parts(profile))
    console.print(_account(profile))
    for text in (_machine(profile), profile.state, *profile.notes):
        console.print(text, highlight=False, markup=False)
    if html_file is not None:
        write_text(html_file, page_text(profile))
    if trace_file is not None:
        write_text(trace_file, trace_text(profile))
    if json_file is not None:
        write_text(json_file, json.dumps(profile.as_dict(), indent=2) + "\n")


def _title(model: str, batch_size: int | None, built: tuple[str | None, str | None] | None) -> str:
    """What is profiled, with the loss and the optimizer if the step was `built` here."""
    parts = [model if model in BUILTIN else split_name(model)[0].stem]
    if batch_size is not None:
        parts.append(f"batch {batch_size}")
    if built is not None:
        loss, optimizer = built
        parts += [*([loss] if loss is not None else []), optimizer or DEFAULT_OPTIMIZER]
    return " · ".join(parts)


def _simulate(module: IRModule, threads: int, json_file: Path | None) -> None:
    """Print how evenly so many threads would share a step."""
    balance = simulate(module, threads)
    console = Console()
    console.print(_balance(balance))
    text = f"{threads} threads: {duration(balance.work)} of work in {duration(balance.span)}, "
    console.print(f"{text}a parallel efficiency of {percent(balance.efficiency)}, by estimated times.", highlight=False)
    if json_file is not None:
        write_text(json_file, json.dumps(balance.as_dict(), indent=2) + "\n")


def _balance(step: StepBalance) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("kernel", overflow="fold")
    for head in ("estimated µs", "units", "busiest", "balance"):
        table.add_column(head, justify="right", no_wrap=True)
    for kernel in sorted(step.kernels, key=lambda kernel: -kernel.nanoseconds):
        cells = [micros(kernel.nanoseconds), str(kernel.units), str(kernel.busiest), percent(kernel.balance)]
        table.add_row(kernel.name, *cells)
    return table


def _kernels(profile: StepProfile, wide: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, show_footer=True, pad_edge=False)
    moved = sum(row.kernel.bytes for row in profile.rows)
    table.add_column("kernel", "all", overflow="fold")
    table.add_column("part", no_wrap=True)
    for head, foot in (
        ("µs", micros(profile.nanoseconds)), ("share", ""), ("GFLOP/s", rate(profile.gflops)),
        ("GB/s", rate(moved / profile.nanoseconds) if profile.nanoseconds else "-"),
        ("roofline", percent(profile.attained)),
    ):  # fmt: skip
        table.add_column(head, foot, justify="right", no_wrap=True)
    if wide:
        table.add_column("computes", overflow="fold")
        table.add_column("line", overflow="fold")
    for row in sorted(profile.rows, key=lambda row: -row.nanoseconds):
        cells = [row.kernel.name, row.part, micros(row.nanoseconds), percent(row.share)]
        cells += [rate(row.gflops), rate(row.gbytes), percent(row.attained)]
        table.add_row(*cells, *([row.kernel.listed_operators(), row.kernel.listed_lines()] if wide else []))
    return table


def _parts(profile: StepProfile) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("part")
    for head in ("kernels", "µs", "share"):
        table.add_column(head, justify="right")
    for total in profile.totals:
        table.add_row(total.part, str(total.kernels), micros(total.nanoseconds), percent(total.share))
    return table


def _account(profile: StepProfile) -> Table:
    """The step's time and what it consists of."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("the step")
    table.add_column("µs", justify="right")
    for name, nanoseconds in profile.account.lines():
        table.add_row(name, signed_micros(nanoseconds))
    return table


def _machine(profile: StepProfile) -> str:
    """The peaks that the percentages refer to."""
    peaks = profile.peaks
    count = "one thread" if profile.threads == 1 else f"{profile.threads} threads"
    levels = ", ".join(f"{level.name} {rate(level.gbytes)}" for level in peaks.levels)
    text = f"{peaks.cpu}, {count}: at most {rate(peaks.gflops)} GFLOP/s and, in GB/s, {levels}; "
    text += f"the machine was at {percent(profile.pace)} of its peak meanwhile. Reading clocks around kernels took "
    text += f"another {duration(profile.account.clocks)}, which no time above contains."
    if profile.threads > 1:
        text += f" Each thread waited {duration(profile.waiting)} on average."
    return text
