"""Graph passes: graph in, graph out, one pass per file.

Each docstring shows a graph before and after the pass, which the tests execute; `adjoint.pipeline` lists those that the
compiler runs.
"""

from adjoint.transforms.append_loss import append_loss
from adjoint.transforms.cse import cse
from adjoint.transforms.differentiate import gradient, vjp
from adjoint.transforms.inline_calls import inline_calls
from adjoint.transforms.jvp import jvp
from adjoint.transforms.mixed_precision import MixedPrecision, mixed_precision
from adjoint.transforms.prune import prune_params
from adjoint.transforms.simplify import simplify
from adjoint.transforms.vectorize import vectorize

__all__ = [
    "MixedPrecision",
    "append_loss",
    "cse",
    "gradient",
    "inline_calls",
    "jvp",
    "mixed_precision",
    "prune_params",
    "simplify",
    "vectorize",
    "vjp",
]
