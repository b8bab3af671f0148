"""Losses: functions that build graphs, and classes that hold their settings.

`base` defines reductions and what a loss may be given; every other module is one family.
"""

from adjoint.losses.base import Loss
from adjoint.losses.cross_entropy import CrossEntropyLoss, cross_entropy
from adjoint.losses.functions import as_loss
from adjoint.losses.regression import L1Loss, MSELoss, l1, mse

__all__ = ["CrossEntropyLoss", "L1Loss", "Loss", "MSELoss", "as_loss", "cross_entropy", "l1", "mse"]
