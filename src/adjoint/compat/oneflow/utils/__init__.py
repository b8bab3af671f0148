"""``oneflow.utils``."""

from adjoint.compat.oneflow.utils import data
from adjoint.compat.uncovered import uncovered

__all__ = ["data"]

__getattr__ = uncovered(__name__, {"vision": "use the transforms of adjoint.data"}, "adjoint.utils")
