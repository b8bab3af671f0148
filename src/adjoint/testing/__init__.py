"""Test tools for graphs: a reference interpreter, gradient checks, random graphs, rounding error estimates.

`adjoint.testing.graphs` requires hypothesis (the ``test`` extra) and must be imported explicitly.
"""

from adjoint.testing.gradients import check_gradients, pullback
from adjoint.testing.interpreter import interpret

__all__ = ["check_gradients", "interpret", "pullback"]
