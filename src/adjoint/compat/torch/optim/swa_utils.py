"""Averages of weights, as ``torch.optim.swa_utils``."""

from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD
from adjoint.optim import swa_utils as native
from adjoint.optim.swa_utils import *  # noqa: F403

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, INSTEAD.get("adjoint.optim.swa_utils", {}), "adjoint.optim.swa_utils")
