"""``tvm.relax``: expressions, operators, passes, training and the virtual machine."""

from adjoint.compat.tvm.relax import expr, op, training, transform, vm
from adjoint.compat.tvm.relax.block_builder import BlockBuilder
from adjoint.compat.tvm.relax.expr import (
    Call,
    Constant,
    Expr,
    TensorStructInfo,
    Tuple,
    TupleStructInfo,
    Var,
    const,
)
from adjoint.compat.tvm.relax.expr import TensorStructInfo as TensorType
from adjoint.compat.tvm.relax.expr import TupleStructInfo as TupleType
from adjoint.compat.tvm.relax.function import Function
from adjoint.compat.tvm.relax.training import loss, optimizer
from adjoint.compat.tvm.relax.vm import VirtualMachine, VMExecutable, build
from adjoint.compat.uncovered import uncovered

__all__ = [
    "BlockBuilder", "Call", "Constant", "Expr", "Function", "TensorStructInfo", "TensorType", "Tuple",
    "TupleStructInfo", "TupleType", "VMExecutable", "Var", "VirtualMachine", "build", "const", "expr", "loss", "op",
    "optimizer", "training", "transform", "vm",
]  # fmt: skip
__getattr__ = uncovered(__name__, {}, "adjoint")
