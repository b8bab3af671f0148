"""Clipping of gradients, as ``oneflow.nn.utils``."""

from adjoint.compat.uncovered import uncovered
from adjoint.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    parameters_to_vector,
    remove_weight_norm,
    rnn,
    vector_to_parameters,
    weight_norm,
)

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "parameters_to_vector",
    "remove_weight_norm",
    "rnn",
    "vector_to_parameters",
    "weight_norm",
]

__getattr__ = uncovered(__name__, {}, "adjoint.nn.utils")
