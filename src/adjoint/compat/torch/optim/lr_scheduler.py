"""Schedules of learning rates, as ``torch.optim.lr_scheduler``."""

from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD
from adjoint.optim import lr_scheduler as native
from adjoint.optim.lr_scheduler import *  # noqa: F403

__all__ = [*native.__all__]

_LRScheduler = native.LRScheduler  # its name before PyTorch 2

__getattr__ = uncovered(__name__, INSTEAD.get("adjoint.optim.lr_scheduler", {}), "adjoint.optim.lr_scheduler")
