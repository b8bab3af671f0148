"""Datasets, samplers and data loaders, as ``torch.utils.data``."""

from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD
from adjoint.utils import data as native
from adjoint.utils.data import *  # noqa: F403

#: What PyTorch does not have.
_OURS = frozenset({"WorkerInfo"})

__all__ = [name for name in native.__all__ if name not in _OURS]

__getattr__ = uncovered(__name__, INSTEAD.get("adjoint.utils.data", {}), "adjoint.utils.data")
