"""Optimizers, as ``oneflow.optim``."""

from adjoint import optim as native
from adjoint.compat.oneflow.optim import lr_scheduler
from adjoint.compat.uncovered import uncovered
from adjoint.lazy_dataclass import dataclass
from adjoint.optim import LAMB, SGD, Adadelta, Adagrad, Adam, Optimizer

__all__ = ["LAMB", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Optimizer", "lr_scheduler"]


@dataclass(frozen=True)
class AdamW(native.AdamW):
    """`adjoint.optim.AdamW` with OneFlow's default, no weight decay."""

    weight_decay: float = 0.0


__getattr__ = uncovered(
    __name__,
    {
        "RMSprop": "use adjoint.optim.RMSprop, which adds eps to the root, not within it",
        "LBFGS": "use Adam, because an optimizer is part of the compiled step and cannot evaluate the loss again",
    },
    "adjoint.optim",
)
