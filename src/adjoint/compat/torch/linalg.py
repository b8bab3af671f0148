"""Linear algebra, as ``torch.linalg``."""

from adjoint import linalg as native
from adjoint.compat.uncovered import uncovered
from adjoint.linalg import *  # noqa: F403
from adjoint.missing import INSTEAD

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, INSTEAD.get("adjoint.linalg", {}), "adjoint.linalg")
