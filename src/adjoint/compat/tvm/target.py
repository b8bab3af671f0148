"""Targets: the CPU of this machine."""

from adjoint.compat.uncovered import uncovered
from adjoint.lazy_dataclass import dataclass

__all__ = ["Target"]
__getattr__ = uncovered(__name__, {}, "adjoint.codegen.targets")


@dataclass(frozen=True, slots=True)
class Target:
    """A target by its name: ``Target("llvm")``."""

    kind: str = "llvm"
