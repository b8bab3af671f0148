"""Functions of networks, as ``torch.nn.functional``."""

from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD
from adjoint.nn import functional as native
from adjoint.nn.functional import *  # noqa: F403

#: What PyTorch does not have.
_OURS = frozenset({"dice_loss", "sigmoid_focal_loss", "swiglu"})

__all__ = [name for name in native.__all__ if name not in _OURS]

__getattr__ = uncovered(__name__, INSTEAD.get("adjoint.nn.functional", {}), "adjoint.nn.functional")
