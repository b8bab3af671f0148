"""``adjoint cache``: what adjoint keeps on disk."""

import shutil
from pathlib import Path

import click

from adjoint.errors import CacheError
from adjoint.paths import cache_dir

__all__ = ["command"]

#: What adjoint puts into its cache directory. Nothing else in there is ever touched.
_PARTS = {"compiled": "compiled code", "fashion-mnist": "Fashion-MNIST", "peaks": "the machine's peaks"}


@click.command("cache")
@click.option("--clear", is_flag=True, help="Remove what it holds.")
def command(clear: bool) -> None:
    """Say what the cache holds, or clear it."""
    directory = cache_dir()
    click.echo(str(directory))
    for name, what in _PARTS.items():
        files = [path for path in (directory / name).rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        done = "removed " if clear and files else ""
        if clear:
            _remove(directory / name)
        click.echo(f"  {name}: {done}{what}, {len(files)} files, {size / 1e6:.1f} MB")


def _remove(folder: Path) -> None:
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise CacheError(f"{folder} cannot be removed ({error.strerror}); check its permissions") from error
