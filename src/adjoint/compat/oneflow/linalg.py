"""``oneflow.linalg``."""

from adjoint.compat.torch import linalg as native
from adjoint.compat.torch.linalg import *  # noqa: F403
from adjoint.compat.uncovered import uncovered

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, {}, "adjoint.linalg")
