"""``adjoint cache``: the contents of adjoint's cache."""

import shutil
from pathlib import Path

import click

from adjoint.errors import CacheError, plural
from adjoint.paths import cache_dir, cache_limit

__all__ = ["command"]

#: The parts of adjoint's cache directory. Nothing else in it is touched.
_PARTS = {
    "cifar-10": "CIFAR-10",
    "compiled": "compiled code",
    "fashion-mnist": "Fashion-MNIST",
    "jargon": "the Jargon File",
    "mnist": "MNIST",
    "peaks": "the machine's peaks",
    "tuning": "measured contractions",
}


@click.command("cache")
@click.option("--clear", is_flag=True, help="Remove its contents.")
def command(clear: bool) -> None:
    """Print the contents of the cache, or clear it."""
    directory = cache_dir()
    click.echo(str(directory))
    for name, what in _PARTS.items():
        files = [path for path in (directory / name).rglob("*") if path.is_file()]
        size = sum(map(_size, files))
        done = "removed " if clear and files else ""
        if clear:
            _remove(directory / name)
        most = f" of at most {cache_limit() / 1e6:.1f} MB" if name == "compiled" else ""
        click.echo(f"  {name}: {done}{what}, {plural(len(files), 'file')}, {size / 1e6:.1f} MB{most}")


def _size(path: Path) -> int:
    """Size of a file in bytes; 0 if another process has removed it in the meantime."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _remove(folder: Path) -> None:
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise CacheError(f"{folder} cannot be removed ({error.strerror}); check its permissions") from error
