"""Clipping of gradients and parametrizations, as ``torch.nn.utils``."""

from adjoint.compat.torch.nn.utils import parametrizations, parametrize, rnn
from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD
from adjoint.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    get_total_norm,
    parameters_to_vector,
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    vector_to_parameters,
    weight_norm,
)

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]

__getattr__ = uncovered(__name__, INSTEAD["adjoint.nn.utils"], "adjoint.nn.utils")
