"""Helpers of training: a loss after a model."""

from adjoint.compat.tvm.relax.function import Function
from adjoint.compat.tvm.relax.transform import AppendLoss, with_loss
from adjoint.compat.uncovered import uncovered

__all__ = ["AppendLoss", "append_loss"]
__getattr__ = uncovered(__name__, {}, "adjoint.transforms")


def append_loss(orig_func: Function, loss_func: Function, num_backbone_outputs: int = 1) -> Function:
    """The function with a loss of its first outputs in their place."""
    return with_loss(orig_func, loss_func, num_backbone_outputs)
