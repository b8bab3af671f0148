"""Models from files: graph text, and Python files that make a module."""

import difflib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import Any

import click

from adjoint.cli.options import closest
from adjoint.errors import AdjointError
from adjoint.ir import IRModule
from adjoint.modules import Module
from adjoint.ops import parse

__all__ = ["load_file", "load_network", "split_name"]

#: The names that a Python file gives to its graph and its network, unless the command line says another.
_DEFAULT, _NETWORK = "module", "network"


def split_name(given: str) -> tuple[Path, str | None]:
    """The file of an argument such as ``train.txt``, ``train.py`` or ``train.py:name``, and the name if there is one.

    Only Python files have a name after a colon, and only if no file has the whole argument as its path.
    """
    path, colon, name = given.rpartition(":")
    if colon and path.endswith(".py") and not Path(given).is_file():
        return Path(path), name
    return Path(given), None


def load_file(given: str, builtin: Iterable[str]) -> IRModule:
    """The module in a file of graph text, or the one that a Python file makes.

    Parameters
    ----------
    given : str
        The path, with ``:NAME`` after that of a Python file for an object of another name than ``module``.
    builtin : iterable of str
        The names of built-in models, for the error if there is no such file.

    Raises
    ------
    click.UsageError
        If there is no such file, or it cannot be read, fails, or does not make a module.
    ParseError
        If the file is not graph text.
    """
    path, name = _found(given, builtin)
    if path.suffix == ".py":
        made: IRModule = _made_by(path, name or _DEFAULT, IRModule, "an IRModule")
        return made
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(
            f"{path} cannot be read as text ({error}); give a file of graph text or a Python file"
        ) from error
    return parse(text, str(path))


def load_network(given: str, builtin: Iterable[str]) -> Module:
    """The network that a Python file makes: an object or function ``network``, or of another name, ``FILE.py:NAME``.

    Raises
    ------
    click.UsageError
        If there is no such file, or it is no Python file, fails, or does not make a network.
    """
    path, name = _found(given, builtin)
    if path.suffix != ".py":
        raise click.UsageError(f"a network is made by a Python file, got {path}; give a .py file or a name")
    made: Module = _made_by(path, name or _NETWORK, Module, "an nn.Module")
    return made


def _found(given: str, builtin: Iterable[str]) -> tuple[Path, str | None]:
    """The file of an argument and the name after a colon; raises if there is no file."""
    path, name = split_name(given)
    if not path.is_file():
        files = [str(p) for p in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(str(path), files, n=1, cutoff=0.8)
        hint = f"did you mean {near[0]}?" if near else closest(given, builtin)
        raise click.UsageError(f"no model or file {str(path)!r}; {hint}")
    return path, name


def _made_by(path: Path, name: str, kind: type, kind_name: str) -> Any:
    """The object of that name in a Python file, or what the function of that name returns."""
    with _as_script(path), _failures_located(path):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise click.UsageError(f"{path} cannot be loaded as a Python file; rename it")
        loaded = importlib.util.module_from_spec(spec)
        before = sys.modules.get(path.stem)
        # Dataclasses and pickle look their module up by name.
        sys.modules[path.stem] = loaded
        try:
            spec.loader.exec_module(loaded)
            if not hasattr(loaded, name):
                objects = [n for n, v in vars(loaded).items() if isinstance(v, kind)]
                defined = f"it defines {', '.join(objects)}" if objects else f"it defines no {kind_name.split()[1]}"
                raise click.UsageError(
                    f"{path} must define {name!r}, {kind_name} or a function that returns one; {defined}, choose "
                    f"with {path}:NAME"
                )
            found = getattr(loaded, name)
            made: Any = found if isinstance(found, kind) or not callable(found) else found()
        finally:
            if before is None:
                del sys.modules[path.stem]
            else:
                sys.modules[path.stem] = before
    if not isinstance(made, kind):
        returned = "returned" if made is not found else "is"
        raise click.UsageError(
            f"{name!r} of {path} must be {kind_name} or a function that returns one, but it {returned} "
            f"{type(made).__name__}; choose another name with {path}:NAME"
        )
    return made


@contextmanager
def _as_script(path: Path) -> Iterator[None]:
    """While a file runs: its folder is searched for imports, and it has no arguments, as when it is run alone."""
    arguments, folders = sys.argv, sys.path
    sys.argv, sys.path = [str(path)], [str(path.resolve().parent), *folders]
    try:
        yield
    finally:
        sys.argv, sys.path = arguments, folders


@contextmanager
def _failures_located(path: Path) -> Iterator[None]:
    """Turn whatever a file raises into one sentence that says which of its lines raised it."""
    try:
        yield
    except click.UsageError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SyntaxError) and error.filename == str(path):
            line: int | None = error.lineno
        else:
            lines = [f.lineno for f in extract_tb(error.__traceback__) if _same(f.filename, path)]
            line = lines[-1] if lines else None
        where = f"{path}:{line}" if line is not None else str(path)
        if isinstance(error, AdjointError):
            raise click.UsageError(f"{where}: {error.message}") from error
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        said = f"{type(error).__name__}: {message}" if message else type(error).__name__
        raise click.UsageError(f"{where}: the file failed with {' '.join(said.split())}; correct this line") from error


def _same(filename: str, path: Path) -> bool:
    return os.path.realpath(filename) == os.path.realpath(path)
