"""``oneflow.distributions``."""

from adjoint.compat.torch import distributions as native
from adjoint.compat.torch.distributions import *  # noqa: F403
from adjoint.compat.uncovered import uncovered

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, {}, "adjoint.distributions")
