"""Datasets, samplers and data loaders, as ``oneflow.utils.data``."""

from adjoint.compat.torch.utils import data as native
from adjoint.compat.torch.utils.data import *  # noqa: F403
from adjoint.compat.uncovered import uncovered

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, {}, "adjoint.utils.data")
