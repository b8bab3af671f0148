"""Clipping of gradients, parameters as one vector, and sequences of different lengths: `torch.nn.utils`."""

from typing import TYPE_CHECKING

from adjoint.missing import missing_name
from adjoint.nn.utils import rnn
from adjoint.nn.utils.gradients import (
    clip_grad_norm_,
    clip_grad_value_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]

if not TYPE_CHECKING:  # so that type checkers report names that do not exist

    def __getattr__(name):
        """Say what to use instead of a name of PyTorch that is not here."""
        raise missing_name(__name__, name, __all__)
