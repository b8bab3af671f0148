"""TVM's training on Relax: ``import adjoint.compat.tvm as tvm``."""

from adjoint.compat.tvm import ir, nd, relax, runtime, script, target, transform
from adjoint.compat.tvm.ir import IRModule
from adjoint.compat.tvm.relax.vm import build as compile
from adjoint.compat.tvm.runtime import cpu, device
from adjoint.compat.uncovered import uncovered

__all__ = [
    "IRModule", "compile", "cpu", "device", "ir", "nd", "relax", "runtime", "script", "target", "transform",
]  # fmt: skip
__getattr__ = uncovered(
    __name__,
    {"build": "use tvm.compile", "cuda": "programs run on the CPU; use tvm.cpu()", "te": "use adjoint.ops"},
    "adjoint",
)
