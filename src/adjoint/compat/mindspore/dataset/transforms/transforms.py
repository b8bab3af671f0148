"""`mindspore.dataset.transforms`: operations on columns of any kind."""

from adjoint.compat.uncovered import uncovered
from adjoint.data.transforms import Compose, OneHot, TypeCast

__all__ = ["Compose", "OneHot", "TypeCast"]

__getattr__ = uncovered(__name__, {}, "adjoint.data.transforms")
