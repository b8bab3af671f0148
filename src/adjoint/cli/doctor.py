"""``adjoint doctor``: information about this machine."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
import llvmlite.binding
from rich.console import Console
from rich.table import Table

from adjoint.cli.options import REFUSED
from adjoint.codegen.targets import host_target
from adjoint.errors import CacheError
from adjoint.kernel.target import Target, available_cores
from adjoint.paths import cache_dir, check_private, check_writable
from adjoint.profiling.machine import machine_peaks, stored_peaks
from adjoint.version import __version__

__all__ = ["command"]

_PACKAGES = ("numpy", "llvmlite", "ml_dtypes", "safetensors", "matplotlib")


@click.command("doctor")
@click.option("--measure", is_flag=True, help="Measure the machine's peak performance again.")
def command(measure: bool) -> int:
    """Print versions, CPU, threads, and whether the cache is usable; exit status 2 if it is not."""
    target = host_target()
    directory = cache_dir()
    trouble = _trouble(directory)
    table = Table(show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    rows = {
        "adjoint": __version__,
        "Python": f"{platform.python_version()} ({platform.python_implementation()}, {platform.platform()})",
        **{name: _version(name) for name in _PACKAGES},
        "LLVM": ".".join(map(str, llvmlite.binding.llvm_version_info)),
        "CPU": f"{target.cpu} ({target.triple})",
        "vectors": f"{8 * target.vector_bytes} bits, {target.vector_registers} registers",
        "threads": str(available_cores()),
        "cache": str(directory),
        "cache works": "yes" if trouble is None else f"[red]no:[/red] {trouble}",
    }
    for threads in sorted({1, available_cores()}):
        rows[f"peak, {threads} thread{'s' if threads > 1 else ''}"] = _peaks(target, threads, measure and not trouble)
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)
    return 0 if trouble is None else REFUSED


def _peaks(target: Target, threads: int, measure: bool) -> str:
    """The peaks for that many threads, with which `adjoint profile` compares kernels: stored, or measured now."""
    peaks = machine_peaks(target, threads, again=True) if measure else stored_peaks(target, threads)
    if peaks is None:
        return "not measured yet; --measure does it, as does adjoint profile"
    levels = ", ".join(f"{level.name} {level.gbytes:.0f} GB/s" for level in peaks.levels)
    where = f"; measured on {peaks.machine}, {peaks.date}" if peaks.date else ""
    return f"{peaks.gflops:.0f} GFLOP/s (f32); {levels}{where}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _trouble(directory: Path) -> str | None:
    """Why the cache directory cannot be used, or None."""
    try:
        check_writable(directory)
        check_private(directory)
    except CacheError as error:
        return error.message
    return None
