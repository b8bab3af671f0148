"""``oneflow.nn.init``."""

from adjoint.compat.torch.nn import init as native
from adjoint.compat.torch.nn.init import *  # noqa: F403
from adjoint.compat.uncovered import uncovered

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, {}, "adjoint.nn.init")
