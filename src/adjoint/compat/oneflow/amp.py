"""``oneflow.amp``."""

from adjoint.compat.torch import amp as native
from adjoint.compat.torch.amp import *  # noqa: F403
from adjoint.compat.uncovered import uncovered

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, {}, "adjoint.amp")
