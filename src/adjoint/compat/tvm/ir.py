"""``tvm.ir``: modules and names of functions."""

from adjoint.compat.tvm.relax.module import GlobalVar, IRModule
from adjoint.compat.uncovered import uncovered

__all__ = ["GlobalVar", "IRModule"]
__getattr__ = uncovered(__name__, {}, "adjoint.ir")
