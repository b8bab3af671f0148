"""``oneflow.autograd``."""

from adjoint.compat.torch import autograd as native
from adjoint.compat.torch.autograd import *  # noqa: F403
from adjoint.compat.uncovered import uncovered

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, {}, "adjoint.autograd")
