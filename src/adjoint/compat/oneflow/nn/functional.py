"""``oneflow.nn.functional``."""

from adjoint.compat.torch.nn import functional as native
from adjoint.compat.torch.nn.functional import *  # noqa: F403
from adjoint.compat.uncovered import uncovered

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, {}, "adjoint.nn.functional")
