"""``tvm.transform``: passes one after the other."""

from adjoint.compat.tvm.relax.transform import Pass, Sequential
from adjoint.compat.uncovered import uncovered

__all__ = ["Pass", "Sequential"]
__getattr__ = uncovered(__name__, {}, "adjoint.transforms")
