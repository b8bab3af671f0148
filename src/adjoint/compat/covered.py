"""What is covered of another framework: every public name of its package here, with the object behind it."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.lazy_dataclass import dataclass

__all__ = ["FRAMEWORKS", "Covered", "covered_names"]

#: The frameworks, by the names of their packages.
FRAMEWORKS = tuple(one.name for one in pkgutil.iter_modules([str(Path(__file__).parent)]) if one.ispkg)


@dataclass(frozen=True, slots=True)
class Covered:
    """A covered name.

    Attributes
    ----------
    name : str
        As the framework spells it, with the module: ``torch.nn.Linear``.
    native : str
        Where the object behind it is defined: ``adjoint.nn.linear.Linear``; for dtypes and numbers, which one it is.
    item : object
        The object.
    """

    name: str
    native: str
    item: Any


def covered_names(framework: str) -> list[Covered]:
    """The names of a framework that are covered, sorted: those in ``__all__`` of the modules of its package.

    Parameters
    ----------
    framework : str
        One of `FRAMEWORKS`.
    """
    found = [
        Covered(f"{module.__name__.removeprefix('adjoint.compat.')}.{name}", _native(item), item)
        for module in _modules(f"adjoint.compat.{framework}")
        for name in getattr(module, "__all__", ())
        if (item := getattr(module, name)) is not None
    ]
    return sorted(found, key=lambda one: one.name)


def _modules(package: str) -> Iterator[Any]:
    """The package and its modules, without those whose names begin with an underscore."""
    module = import_module(package)
    yield module
    for one in pkgutil.walk_packages(module.__path__, f"{package}."):
        if not any(part.startswith("_") for part in one.name.split(".")):
            yield import_module(one.name)


def _native(item: Any) -> str:
    if getattr(item, "__module__", None) and getattr(item, "__qualname__", None):
        return f"{item.__module__}.{item.__qualname__}"
    if isinstance(item, np.dtype):
        return f"dtype {item.name}"
    if isinstance(item, bool):
        return "a setting"  # which the program may have changed
    if isinstance(item, int | float | str):
        return str(item)
    return str(getattr(item, "__name__", type(item).__name__))
