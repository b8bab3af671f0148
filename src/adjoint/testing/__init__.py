"""Tools to test graphs with: a reference interpreter, gradient checks, random graphs, estimates of rounding.

`adjoint.testing.graphs` needs hypothesis (the ``test`` extra) and is imported by its own name.
"""

from adjoint.testing.gradients import check_gradients, pullback
from adjoint.testing.interpreter import interpret

__all__ = ["check_gradients", "interpret", "pullback"]
