"""Modules, losses, parameters and static graphs, as ``oneflow.nn``."""

from importlib import import_module
from typing import Any

from adjoint.compat.oneflow.nn._graph import Graph
from adjoint.compat.torch import nn as native
from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD

_MODULES = ("functional", "init", "utils")

#: What OneFlow has of PyTorch's names.
_SHARED = [name for name in native.__all__ if name not in (*_MODULES, "parameter")]

__all__ = ["Graph", *_MODULES, *_SHARED]

_missing = uncovered(__name__, INSTEAD["adjoint.nn"], "adjoint.nn")


def __getattr__(name: str) -> Any:
    """Load a name, or a module, on first access."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    found = getattr(native, name) if name in _SHARED else _missing(name)
    globals()[name] = found
    return found
