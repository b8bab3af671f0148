"""Distributions, as ``torch.distributions``."""

from adjoint import distributions as native
from adjoint.compat.uncovered import uncovered
from adjoint.distributions import *  # noqa: F403
from adjoint.missing import INSTEAD

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, INSTEAD.get("adjoint.distributions", {}), "adjoint.distributions")
