"""Derivatives, as ``torch.autograd``."""

from adjoint import autograd as native
from adjoint.autograd import *  # noqa: F403
from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD

#: What PyTorch does not have.
_OURS = frozenset({"is_grad_enabled"})

__all__ = [name for name in native.__all__ if name not in _OURS]

__getattr__ = uncovered(__name__, INSTEAD.get("adjoint.autograd", {}), "adjoint.autograd")
