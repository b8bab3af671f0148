"""Targets: the CPU of this machine."""

from dataclasses import dataclass

from adjoint.compat.uncovered import uncovered

__all__ = ["Target"]
__getattr__ = uncovered(__name__, {}, "adjoint.codegen.targets")


@dataclass(frozen=True, slots=True)
class Target:
    """A target by its name: ``Target("llvm")``."""

    kind: str = "llvm"
