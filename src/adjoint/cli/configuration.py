"""The configuration of a run: defaults, a TOML file, ``--set`` and options, in this order of precedence.

::

    [data]
    name = "fashion-mnist"
    batch_size = 64

    [model]
    name = "mlp"
    hidden = [256, 128]         # what the network takes

    [optimizer]
    name = "adam"
    lr = 0.002                  # what the optimizer takes
    schedule = "linear"

    [train]
    epochs = 5
"""

import tomllib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import click

from adjoint.cli.options import closest

__all__ = ["DEFAULTS", "configured"]

#: The sections with their keys. A model and an optimizer also take what their classes take.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "data": {"name": "fashion-mnist", "batch_size": 64},
    "model": {"name": None},
    "optimizer": {"name": "adam", "lr": None, "schedule": "linear", "clip": None},
    "train": {"epochs": 5, "seed": 0, "threads": None, "limit": None, "amp": "O0", "accumulate": 1},
}

#: Sections with further keys, which are checked where they are used.
_OPEN = ("model", "optimizer")

#: The types of the values that are checked here.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "data.name": (str,), "data.batch_size": (int,), "model.name": (str,), "optimizer.name": (str,),
    "optimizer.lr": (int, float), "optimizer.schedule": (str,), "optimizer.clip": (int, float), "train.epochs": (int,),
    "train.seed": (int,), "train.threads": (int,), "train.limit": (int,), "train.amp": (str,),
    "train.accumulate": (int,),
}  # fmt: skip

#: The least value of numbers.
_LEAST = {
    "data.batch_size": 1, "optimizer.lr": 0, "optimizer.clip": 0, "train.epochs": 1, "train.seed": 0,
    "train.threads": 1, "train.limit": 1, "train.accumulate": 1,
}  # fmt: skip


def configured(file: Path | None, settings: Iterable[str], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The configuration by section.

    Parameters
    ----------
    file : Path or None
        A TOML file.
    settings : iterable of str
        ``section.key=value``, with values as in TOML; text needs no quotes.
    options : mapping
        Values by ``section.key``; None for those that are not given.

    Raises
    ------
    click.UsageError
        If the file cannot be read, or a section, key or value is not one of a configuration.
    """
    found = {section: dict(deepcopy(keys)) for section, keys in DEFAULTS.items()}
    if file is not None:
        for section, keys in _read(file).items():
            if not isinstance(keys, dict):
                raise click.UsageError(f"{file}: keys belong to sections, got {section!r} outside of one; move it")
            for key, value in keys.items():
                _store(found, f"{section}.{key}", value, str(file))
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set takes section.key=value, got {setting!r}; write such as optimizer.lr=0.01")
        _store(found, name.strip(), _value(text.strip()), "--set")
    for name, value in options.items():
        if value is not None:
            _store(found, name, value, "the options")
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.UsageError(f"--config {file} cannot be read ({error.strerror}); name a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--config {file} must be a TOML file, got one that is not: {error}") from error


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _store(found: dict[str, dict[str, Any]], name: str, value: Any, where: str) -> None:
    section, dot, key = name.partition(".")
    if not dot or section not in found:
        raise click.UsageError(f"{where}: no section {section!r}; {closest(section, found)}")
    if key not in DEFAULTS[section] and section not in _OPEN:
        raise click.UsageError(f"{where}: no key {name!r}; {closest(key, DEFAULTS[section])}")
    types = _TYPES.get(name)
    if types is not None and (not isinstance(value, types) or isinstance(value, bool)):
        wanted = {int: "an integer", float: "a number", str: "a text"}[types[-1]]
        raise click.UsageError(f"{where}: {name} must be {wanted}, got {value!r}")
    if name in _LEAST and value < _LEAST[name]:
        raise click.UsageError(f"{where}: {name} must be at least {_LEAST[name]}, got {value!r}")
    found[section][key] = value
