"""Initialization, as ``torch.nn.init``."""

from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD
from adjoint.nn import init as native
from adjoint.nn.init import *  # noqa: F403

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, INSTEAD.get("adjoint.nn.init", {}), "adjoint.nn.init")
