"""Optimizers, as ``torch.optim``."""

from adjoint.compat.torch.optim import lr_scheduler, swa_utils
from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD
from adjoint.optim import (
    ASGD,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Muon,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Rprop,
)

__all__ = [
    "ASGD",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]

__getattr__ = uncovered(__name__, INSTEAD["adjoint.optim"], "adjoint.optim")
