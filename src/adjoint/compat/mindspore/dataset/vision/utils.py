"""`mindspore.dataset.vision`: operations on images."""

from adjoint.compat.mindspore.dataset.vision.transforms import *  # noqa: F403
from adjoint.compat.mindspore.dataset.vision.transforms import __all__ as _names
from adjoint.compat.uncovered import uncovered

__all__ = [*_names]

__getattr__ = uncovered(__name__, {}, "adjoint.data.vision")
