"""TVMScript: ``from adjoint.compat.tvm.script import ir as I, relax as R``."""

from typing import Any

from adjoint.compat.tvm.script import ir, relax
from adjoint.compat.tvm.script.ir import ir_module
from adjoint.compat.tvm.script.parser import parse_text
from adjoint.compat.uncovered import uncovered

__all__ = ["from_source", "ir", "ir_module", "relax"]
__getattr__ = uncovered(__name__, {"tir": "kernels are adjoint's; print them with Executable.show"}, "adjoint")


def from_source(text: str, extra_vars: dict[str, Any] | None = None) -> Any:
    """The module or function in a text of TVMScript."""
    return parse_text(text, {"I": ir, "R": relax, **(extra_vars or {})})
