"""Mixed precision, as ``torch.amp``."""

from adjoint import amp as native
from adjoint.amp import *  # noqa: F403
from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, INSTEAD.get("adjoint.amp", {}), "adjoint.amp")
