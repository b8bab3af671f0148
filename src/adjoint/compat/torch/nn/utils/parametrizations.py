"""Normalized weights, as ``torch.nn.utils.parametrizations``."""

from adjoint.compat.uncovered import uncovered
from adjoint.nn.utils.parametrizations import spectral_norm, weight_norm

__all__ = ["spectral_norm", "weight_norm"]

__getattr__ = uncovered(__name__, {}, "adjoint.nn.utils.parametrizations")
