"""``adjoint doctor``: information about this machine."""

import json
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import llvmlite.binding
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from adjoint.cli.options import REFUSED
from adjoint.codegen.extensions import extensions_of
from adjoint.codegen.host import host_memory, host_model
from adjoint.codegen.targets import host_target
from adjoint.errors import CacheError
from adjoint.kernel.target import Cache, Target, available_cores
from adjoint.lazy_dataclass import dataclass
from adjoint.paths import cache_dir, check_private, check_writable
from adjoint.profiling.machine import machine_peaks, stored_peaks
from adjoint.version import __version__

__all__ = ["command"]

_PACKAGES = ("numpy", "llvmlite", "ml_dtypes", "safetensors", "matplotlib")
#: What is said in place of peaks that nobody has measured.
_UNMEASURED = "not measured yet; --measure does it, as does adjoint profile"


@dataclass(frozen=True, slots=True)
class Fact:
    """A row: its name, its value as plain data, and as text if that is not the value itself."""

    name: str
    value: Any
    text: str = ""


@click.command("doctor")
@click.option("--measure", is_flag=True, help="Measure the machine's peak performance again.")
@click.option("--json", "as_json", is_flag=True, help="Print the sections and their rows as JSON.")
def command(measure: bool, as_json: bool) -> int:
    """Print versions, CPU, threads, and whether the cache is usable; exit status 2 if it is not."""
    target, directory = host_target(), cache_dir()
    trouble = _trouble(directory)
    sections = {
        "versions": list(_versions()),
        "CPU": list(_cpu(target)),
        "instructions": list(_instructions(target)),
        "memory": list(_memory(target.caches)),
        "cache of compiled code": [
            Fact("directory", str(directory)),
            Fact("usable", trouble is None, "yes" if trouble is None else f"no: {trouble}"),
        ],
    }
    for threads in sorted({1, available_cores()}):
        name = f"peaks, {threads} thread{'s' if threads > 1 else ''}"
        sections[name] = list(_peaks(target, threads, measure and not trouble))
    if as_json:
        plain = {name: {fact.name: fact.value for fact in facts} for name, facts in sections.items()}
        click.echo(json.dumps(plain, indent=2))
    else:
        _print(sections)
    return 0 if trouble is None else REFUSED


def _print(sections: dict[str, list[Fact]]) -> None:
    table = Table(show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, facts in sections.items():
        table.add_section()
        table.add_row(f"[bold]{name}[/bold]", "")
        for fact in facts:
            table.add_row(fact.name, escape(fact.text or str(fact.value)))
    Console().print(table)


def _versions() -> Iterator[Fact]:
    yield Fact("adjoint", __version__)
    python = f"{platform.python_version()} ({platform.python_implementation()}, {platform.platform()})"
    yield Fact("Python", python)
    for package in _PACKAGES:
        yield Fact(package, _version(package))
    yield Fact("LLVM", ".".join(map(str, llvmlite.binding.llvm_version_info)))


def _cpu(target: Target) -> Iterator[Fact]:
    yield Fact("name", host_model() or None, host_model() or "unknown")
    yield Fact("recognized as", target.cpu)
    if (name := llvmlite.binding.get_host_cpu_name()) != target.cpu:
        yield Fact("named by LLVM", name)
    yield Fact("target", target.triple)
    yield Fact("cores of a step", target.cores)
    yield Fact("vector bits", 8 * target.vector_bytes)
    yield Fact("vector registers", target.vector_registers)
    yield Fact("multiply-adds per cycle", target.fma_units, f"{target.fma_units} of whole vectors")
    width = 8 * min(target.datapath_bytes, target.vector_bytes)
    yield Fact("bits of a unit", width, f"{width}: a wider vector takes several units, or one for several cycles")
    yield Fact("multiply-add latency", target.fma_latency, f"{target.fma_latency} cycles")
    yield Fact("loads per cycle", target.load_units, f"{target.load_units} of whole vectors")


def _instructions(target: Target) -> Iterator[Fact]:
    """The extensions that matter for training: present or not, and used or not."""
    for one, present in extensions_of(target).items():
        use = f"used: {one.use}" if one.use else "present, not used by the compiler"
        yield Fact(one.name, {"present": present, "used": present and bool(one.use)}, use if present else "absent")


def _memory(caches: Iterable[Cache]) -> Iterator[Fact]:
    for cache in caches:
        value = {"bytes": cache.nbytes, "ways": cache.ways, "shared": cache.shared}
        owner = "shared by several cores" if cache.shared else "of one core"
        yield Fact(f"L{cache.level}", value, f"{_binary(cache.nbytes)}, {cache.ways} ways, {owner}")
    nbytes = host_memory()
    yield Fact("main memory", nbytes, "unknown" if nbytes is None else _binary(nbytes))


def _binary(nbytes: int) -> str:
    """A size in the largest unit in which it is at least 1."""
    for unit, shift in (("GiB", 30), ("MiB", 20)):
        if nbytes >> shift:
            return f"{nbytes / (1 << shift):.4g} {unit}"
    return f"{nbytes / 1024:.4g} KiB"


def _peaks(target: Target, threads: int, measure: bool) -> Iterator[Fact]:
    """The peaks for that many threads, with which `adjoint profile` compares kernels: stored, or measured now."""
    peaks = machine_peaks(target, threads, again=True) if measure else stored_peaks(target, threads)
    if peaks is None:
        yield Fact("measured", None, _UNMEASURED)
        return
    yield Fact("multiply-adds in registers", peaks.gflops, f"{peaks.gflops:.0f} GFLOP/s (f32)")
    if peaks.tile_gflops:
        yield Fact("matrix product in L1", peaks.tile_gflops, f"{peaks.tile_gflops:.0f} GFLOP/s (f32)")
    for level in peaks.levels:
        yield Fact(f"bandwidth of {level.name}", level.gbytes, f"{level.gbytes:.0f} GB/s")
    if peaks.date:
        yield Fact("measured", {"machine": peaks.machine, "date": peaks.date}, f"on {peaks.machine}, {peaks.date}")


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
