"""``I``: modules."""

import inspect
from typing import Any

from adjoint.compat.tvm.relax.module import IRModule
from adjoint.compat.tvm.script.parser import parse_module
from adjoint.compat.uncovered import uncovered

__all__ = ["ir_module", "module_attrs", "names_around"]
__getattr__ = uncovered(__name__, {}, "adjoint.ir.IRModule")


def names_around(depth: int) -> dict[str, Any]:
    """What names mean where this function's caller was called, `depth` calls up."""
    frame = inspect.currentframe()
    for _ in range(depth + 1):
        assert frame is not None
        frame = frame.f_back
    return {**frame.f_globals, **frame.f_locals} if frame is not None else {}


def ir_module(mod: type) -> IRModule:
    """The module that a class describes; its methods are not executed."""
    return parse_module(mod, names_around(1))


def module_attrs(attrs: dict[str, Any]) -> None:
    """Attributes of the module, in its class."""
