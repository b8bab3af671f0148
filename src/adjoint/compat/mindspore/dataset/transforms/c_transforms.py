"""`mindspore.dataset.transforms`: operations on columns of any kind."""

from adjoint.compat.mindspore.dataset.transforms.transforms import Compose, OneHot, TypeCast
from adjoint.compat.uncovered import uncovered

__all__ = ["Compose", "OneHot", "TypeCast"]

__getattr__ = uncovered(__name__, {}, "adjoint.data.transforms")
